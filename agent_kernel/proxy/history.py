"""History: the events by which a log's surface comes to say what a request's messages say.

May not append them; what a surface cannot hold is a Loose, said with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    AttachmentKind,
    Replace,
    SurfaceEvent,
    ToolResultEvent,
    UserMessage,
)
from agent_kernel.core.messages import Block, Message, Raw, Text, ToolResult, ToolUse, Usage
from agent_kernel.core.surface import Surface

SENT_BACK = {"sent_back": True}  # an answer as the harness repeats it: no call of its own
# How harnesses mark what they write into a user's message themselves.
_MARKED: tuple[tuple[str, AttachmentKind], ...] = (
    ("<system-reminder", "reminder"),
    ("<task-notification", "notification"),
    ("<local-command", "context"),
    ("<command-", "context"),
)


class Loose(ValueError):
    """Messages no surface can hold: the API refuses them too."""


def changes(
    surface: Surface, messages: Sequence[Message], model: str, *, compacted: bool = False
) -> list[SurfaceEvent]:
    """Return the events after which `surface.messages()` equals `messages` (in normal form).

    New messages are appended; what differs from the log is replaced, span by span where only that
    was edited, else from the first difference on. `compacted` says that what takes the place of
    answers is their summary. Raises Loose.
    """
    now = surface.messages()
    groups = _groups(surface.nodes)
    if len(groups) != len(now):
        raise Loose("the log's own messages have no clear borders")
    writer = _Writer(surface, model, compacted)
    first = next((i for i, (a, b) in enumerate(zip(now, messages, strict=False)) if a != b), None)
    if first is None and len(now) <= len(messages):
        return writer.append(messages[len(now) :])
    at = min(len(now), len(messages)) if first is None else first
    for way in (writer.grown, writer.mended, writer.spliced):
        found = way(now, groups, messages, at)
        if found is not None:
            return found
    return writer.rewritten(now, groups, messages, at)


def _groups(nodes: Iterable[SurfaceEvent]) -> list[list[SurfaceEvent]]:
    """Return the nodes of each message; one that shows nothing belongs to what it follows."""
    out: list[list[SurfaceEvent]] = []
    for node in nodes:
        shown = any(not isinstance(b, Text) or b.text.strip() for b in node.blocks())
        if not out or (shown and out[-1][0].role != node.role):
            out.append([])
        out[-1].append(node)
    return out


Groups = list[list[SurfaceEvent]]
Now = Sequence[Message]


class _Writer:
    """Makes the events, keeping count of the calls that are open while they are appended."""

    def __init__(self, surface: Surface, model: str, compacted: bool) -> None:
        self._open = set(surface.open_calls)
        self._model = model
        self._compacted = compacted

    # ---- ways, the least change first ----------------------------------------------------------

    def append(self, messages: Iterable[Message]) -> list[SurfaceEvent]:
        """Return `messages` as new events."""
        return [event for message in messages for event in self._events(message)]

    def grown(self, now: Now, groups: Groups, messages: Now, at: int) -> list[SurfaceEvent] | None:
        """The last message only has more blocks than it had."""
        if at != len(now) - 1 or at >= len(messages) or now[at].role != messages[at].role:
            return None
        more = _more(now[at].content, messages[at].content)
        if more is None or (now[at].role == "assistant" and self._open):
            return None
        return self.append([Message(now[at].role, more), *messages[at + 1 :]])

    def mended(self, now: Now, groups: Groups, messages: Now, at: int) -> list[SurfaceEvent] | None:
        """Messages were edited in place: results cleared, answers shortened, texts changed."""
        if len(messages) < len(now):
            return None
        out: list[SurfaceEvent] = []
        for i in range(at, len(now)):
            if now[i] != messages[i]:
                made = self._mend(now[i], groups[i], messages[i])
                if made is None:
                    return None
                out += made
        return out + self.append(messages[len(now) :])

    def spliced(
        self, now: Now, groups: Groups, messages: Now, at: int
    ) -> list[SurfaceEvent] | None:
        """A span has become one message, and what followed it is still there."""
        if at >= len(messages) or _results(messages[at]):
            return None
        for start in range(at + 1, len(now)):
            kept = now[start:]
            if list(messages[at + 1 : at + 1 + len(kept)]) == list(kept):
                nodes = [node for group in groups[at:start] for node in group]
                self._compacted = True
                made = self._one(messages[at], nodes)
                self._open = _open_after(kept)
                return [made, *self.append(messages[at + 1 + len(kept) :])]
        return None

    def rewritten(self, now: Now, groups: Groups, messages: Now, at: int) -> list[SurfaceEvent]:
        """Everything from the first difference on is replaced; the rest follows anew."""
        if at + 1 < len(now) and at < len(messages) and now[at].role == messages[at].role:
            more = Message(now[at].role, _more(now[at].content, messages[at].content) or ())
            if more.content and not _results(more) and more.role != "assistant":
                return self._from(groups[at + 1 :], more, messages[at + 1 :])
        while at > 0 and (at >= len(messages) or not self._may_begin(messages[at])):
            at -= 1
        if at >= len(messages) or not groups[at:] or _results(messages[at]):
            raise Loose("there is nothing in the messages that could take the place of the log's")
        return self._from(groups[at:], messages[at], messages[at + 1 :])

    def _may_begin(self, message: Message) -> bool:
        """Results answer what stands before them; a summary is a prompt."""
        return not _results(message) and not (self._compacted and message.role == "assistant")

    def _from(self, groups: Groups, first: Message, rest: Now) -> list[SurfaceEvent]:
        made = self._one(first, [node for group in groups for node in group])
        self._open = _calls(first)
        return [made, *self.append(rest)]

    # ---- one message ---------------------------------------------------------------------------

    def _mend(
        self, was: Message, nodes: list[SurfaceEvent], message: Message
    ) -> list[SurfaceEvent] | None:
        if was.role != message.role or _calls(was) != _calls(message):
            return None
        results = {node.id: node for node in nodes if isinstance(node, ToolResultEvent)}
        wanted = {block.tool_use_id: block for block in _results(message)}
        if results.keys() != wanted.keys():
            return None
        out: list[SurfaceEvent] = [
            _result(block, results[id])
            for id, block in wanted.items()
            if results[id].blocks() != (block,)
        ]
        others = [node for node in nodes if node.seq not in {r.seq for r in results.values()}]
        rest = Message(message.role, [b for b in message.content if not isinstance(b, ToolResult)])
        if rest.content == tuple(block for node in others for block in node.blocks()):
            return out
        span = nodes[nodes.index(others[0]) : nodes.index(others[-1]) + 1] if others else []
        if not others or len(span) != len(others) or not rest.content:
            return None
        return [*out, self._one(rest, others)]

    def _one(self, message: Message, nodes: Sequence[SurfaceEvent]) -> SurfaceEvent:
        """Return a message as the one event that takes the place of `nodes`."""
        place = {
            "replaces": Replace(first=nodes[0].seq, last=nodes[-1].seq),
            "sources": tuple(node.seq for node in nodes),
        }
        if message.role == "assistant":
            return self._answer(message).model_copy(update=place)
        if message.role == "system":
            return _system(message).model_copy(update=place)
        if self._compacted and any(isinstance(node, AssistantMessage) for node in nodes):
            made = _attachment("summary", "history rewritten by the harness", message.content)
            return made.model_copy(update=place)
        return UserMessage(content=message.content).model_copy(update=place)

    def _answer(self, message: Message) -> AssistantMessage:
        return AssistantMessage(
            content=message.content, model=self._model, usage=Usage(), meta=dict(SENT_BACK)
        )

    def _events(self, message: Message) -> Iterator[SurfaceEvent]:
        if message.role == "assistant":
            if self._open:
                raise Loose(f"calls {sorted(self._open)} have no result in the messages")
            self._open = _calls(message)
            yield self._answer(message)
        elif message.role == "system":
            yield _system(message)
        else:
            yield from self._user(message)

    def _user(self, message: Message) -> Iterator[SurfaceEvent]:
        rest: list[Block] = []
        for block in message.content:
            if isinstance(block, ToolResult) and block.tool_use_id in self._open:
                self._open.discard(block.tool_use_id)
                yield _result(block)
            else:
                rest.append(block)
        for kind, blocks in groupby(rest, key=_kind):
            content = tuple(blocks)
            if kind is None:
                yield UserMessage(content=content)
            else:
                yield _attachment(kind, f"{kind} of the harness", content)


def _result(block: ToolResult, was: ToolResultEvent | None = None) -> ToolResultEvent:
    made = ToolResultEvent(id=block.tool_use_id, content=block.content, is_error=block.is_error)
    if was is None:
        return made
    place = Replace(first=was.seq, last=was.seq)
    return made.model_copy(update={"replaces": place, "sources": (was.seq,)})


def _system(message: Message) -> Attachment:
    made = _attachment("context", "system message of the harness", message.content)
    return made.model_copy(update={"meta": {"role": "system"}})


def _attachment(kind: AttachmentKind, label: str, content: tuple[Block, ...]) -> Attachment:
    return Attachment(kind=kind, label=label, content=content)


def _kind(block: Block) -> AttachmentKind | None:
    """The kind of a text a harness wrote itself, None for a person's words and pictures."""
    text = block.text if isinstance(block, Text) else ""
    if isinstance(block, Raw) and isinstance(block.data.get("text"), str):
        text = block.data["text"]
    head = text.lstrip()[:40]
    return next((kind for mark, kind in _MARKED if head.startswith(mark)), None)


def _results(message: Message) -> list[ToolResult]:
    return [block for block in message.content if isinstance(block, ToolResult)]


def _calls(message: Message) -> set[str]:
    return {block.id for block in message.content if isinstance(block, ToolUse)}


def _open_after(messages: Sequence[Message]) -> set[str]:
    """Return the calls the last of `messages` leave open."""
    last = messages[-1]
    return _calls(last) if last.role == "assistant" else set()


def _more(was: tuple[Block, ...], now: tuple[Block, ...]) -> list[Block] | None:
    """Return what `now` holds beyond `was`, None when that is not all it differs in.

    Results may come in any order; of all other blocks `was` must be the beginning.
    """
    results = [[b for b in blocks if isinstance(b, ToolResult)] for blocks in (was, now)]
    others = [[b for b in blocks if not isinstance(b, ToolResult)] for blocks in (was, now)]
    kept = len(others[0])
    if any(block not in results[1] for block in results[0]) or others[1][:kept] != others[0]:
        return None
    return [*(block for block in results[1] if block not in results[0]), *others[1][kept:]]
