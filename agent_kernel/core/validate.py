"""Validate: the Messages API's rules for a list of messages, V1 to V11 of the compaction design.

May not change, repair or send anything; it never raises on bad content, it names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_kernel.core.messages import Json, Message
from agent_kernel.core.model import ModelProfile, ToolSchema
from agent_kernel.core.parts import Part, content_of, parts_of, role_of, run_before, use_ids, word

Severity = Literal["api", "house"]
Repair = Literal[
    "answer_open_calls",
    "drop_duplicate_result",
    "drop_orphan_result",
    "merge_results",
    "strip_thinking",
]
_THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: `severity` "api" is answered 400, "house" is our stricter rule.

    `message` and `block` are 0-based, block None = the whole message; `ids` are tool-use ids;
    `repair` is the verb that mends it, or None.
    """

    rule: str
    severity: Severity
    message: int
    block: int | None
    ids: tuple[str, ...]
    text: str
    repair: Repair | None = None

    def wire(self) -> Json:
        """Return the violation as JSON."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "block": self.block,
            "ids": list(self.ids),
            "text": self.text,
            "repair": self.repair,
        }


def validate_messages(
    messages: Sequence[Message | Mapping[str, Any]],
    profile: ModelProfile,
    *,
    tools: Sequence[ToolSchema | Mapping[str, Any]] | None = None,
    context_edits: Iterable[Any] = (),
    sendable: bool = True,
    start: int = 0,
    known_ids: Collection[str] | None = None,
) -> list[Violation]:
    """Return the violations of V1-V11 in `messages` (wire objects or Messages), in list order.

    `tools=None` skips what needs the tool list in V10, V11; `sendable=False` allows a list that
    ends in an assistant message, its calls still open. With `start` the messages before it count as
    checked: only their tool-use ids are read, or not even those when the caller gives them, the ids
    used before `start`, as `known_ids`: then the cost is that of the new messages.
    """
    begin = run_before(messages, start)
    scan = _Scan(profile, tools, tuple(context_edits))
    if known_ids is not None:
        scan.known = known_ids
        scan.quiet_before = start
    else:
        scan.ids.update(use_ids(messages[:begin]))
    if begin:
        scan.spoken = scan.previous = role_of(messages[begin - 1])
    for at in range(begin, len(messages)):
        scan.message(at, messages[at])
    scan.end(len(messages), sendable)
    if profile.thinking == "manual":
        scan.found += _manual_thinking(messages)
    return sorted(scan.found, key=lambda v: (v.message, -1 if v.block is None else v.block))


class _Scan:
    """The state of one pass: the calls of the last assistant run and how far they are answered."""

    def __init__(
        self,
        profile: ModelProfile,
        tools: Sequence[ToolSchema | Mapping[str, Any]] | None,
        context_edits: tuple[Any, ...],
    ) -> None:
        self.profile = profile
        self.found: list[Violation] = []
        self.names = None if tools is None else {_tool_name(t) for t in tools}
        self.deferred = {_tool_name(t) for t in tools or () if _is_deferred(t)}
        self.compacts = any(_edit_name(e).startswith("compact_") for e in context_edits)
        self.marks = sum(isinstance(t, Mapping) and "cache_control" in t for t in tools or ())
        self.ids: set[str] = set()
        self.known: Collection[str] = ()
        self.quiet_before = 0
        self.toolless_said = False
        self.previous = ""  # role of the message before
        self.spoken = ""  # role of the last message that was not `system`
        self.at = 0
        self.role = ""
        self.open: dict[str, tuple[int, int]] = {}
        self.answered: dict[str, int] = {}
        self.server_open: set[str] = set()
        self.other_seen = False

    def say(
        self,
        rule: str,
        text: str,
        block: int | None = None,
        ids: tuple[str, ...] = (),
        repair: Repair | None = None,
        *,
        severity: Severity = "api",
        at: int | None = None,
    ) -> None:
        """Note one violation, of the present message unless `at` names another."""
        where = self.at if at is None else at
        self.found.append(Violation(rule, severity, where, block, ids, text, repair))

    def message(self, at: int, message: Any) -> None:
        """Check one message against what came before it."""
        self.at, self.role = at, role_of(message)
        parts = parts_of(content_of(message))
        if not self.role or parts is None:
            self.say("V10", "the message has no readable role or content")
            parts = parts or []
        elif not parts or (len(parts) == 1 and parts[0][:3] == ("text", "", "")):
            self.say("V10", "the message has no content")
            parts = []
        self._order(parts)
        for index, part in enumerate(parts):
            self._block(index, part)
        if self.role == "assistant" and parts and parts[-1][0] in _THINKING:
            text = "an assistant message may not end in thinking"
            self.say("V6", text, len(parts) - 1, repair="strip_thinking")
        self.previous = self.role
        if self.role != "system":
            self.spoken = self.role

    def _order(self, parts: list[Part]) -> None:
        """V4 and V7, and where a run of one role begins."""
        role = self.role
        if role == "system":
            self._system()
            return
        if role and role == self.previous:
            text = f"two neighbouring {role} messages; send them merged"
            self.say("V4", text, severity="house", repair="merge_results")
        if self.at == 0 and role == "assistant" and (not parts or parts[0][0] != "compaction"):
            self.say("V4", "the first message is not of the user", severity="house")
        if role == self.spoken:
            return
        if role == "assistant":
            self.close()
            self.open, self.server_open = {}, set()
        else:
            self.answered, self.other_seen = {}, False

    def _system(self) -> None:
        if not self.profile.mid_system:
            name = self.profile.name
            self.say("V7", f"model {name!r} takes no system message inside the conversation")
        elif self.at == 0:
            self.say("V7", "a system message may not be first; use the request's system")
        elif self.previous != "user":
            between = any(id not in self.answered for id in self.open)
            what = "stands between a call and its result" if between else "follows no user message"
            self.say("V7", f"the system message {what}", ids=tuple(self.open) if between else ())

    def _block(self, index: int, part: Part) -> None:
        kind, id, value, wire = part
        if wire is not None and "cache_control" in wire:
            self._mark(index, kind, value)
        if kind != "tool_result" and self.role == "user":
            self.other_seen = True
            if self.server_open:
                text = "only tool results may follow an unfinished server tool call"
                self.say("V3", text, index, tuple(sorted(self.server_open)))
        check = _CHECKS.get(kind)
        if check is not None:
            check(self, index, part)
        elif kind.endswith("_tool_result"):
            self.server_open.discard(id)

    def _mark(self, index: int, kind: str, value: Any) -> None:
        self.marks += 1
        limit = self.profile.breakpoints
        if self.marks == limit + 1:
            self.say("V8", f"more than {limit} cache_control marks", index)
        if kind in _THINKING or (kind == "text" and value == ""):
            what = "thinking" if kind in _THINKING else "empty text"
            self.say("V8", f"cache_control on {what}", index)

    def _text(self, index: int, part: Part) -> None:
        value = part[2]
        if not isinstance(value, str) or value == "":
            self.say("V10", "the text block is empty", index)

    def _use(self, index: int, part: Part) -> None:
        _, id, name, _ = part
        if self.role != "assistant":
            self.say("V1", f"a tool_use outside an assistant message: {id!r}", index, (id,))
            return
        twice = id in self.ids or (self.at >= self.quiet_before and id in self.known)
        if twice or not id:
            what = "is used twice" if id else "is missing"
            self.say("V10", f"the tool-use id {id!r} {what}", index, (id,))
        self.ids.add(id)
        self.open[id] = (self.at, index)
        self._toolless(index)
        if self.names and name not in self.names:
            self.say("V10", f"no tool {name!r} is offered", index, (id,), severity="house")

    def _toolless(self, index: int) -> None:
        if self.names is not None and not self.names and not self.toolless_said:
            self.toolless_said = True
            self.say("V10", "the history has tool blocks, but no tools are sent", index)

    def _result(self, index: int, part: Part) -> None:
        _, id, content, _ = part
        self._toolless(index)
        if self.role == "user" and self.other_seen:
            text = "a tool result stands after other content; results come first"
            self.say("V2", text, index, (id,), "merge_results")
        if self.role != "user" or id not in self.open:
            text = f"the result of {id!r} has no tool_use in the message before"
            self.say("V1", text, index, (id,), "drop_orphan_result")
        elif id in self.answered:
            text = f"a second result of {id!r}"
            self.say("V1", text, index, (id,), "drop_duplicate_result")
        else:
            if self.answered and self.at not in self.answered.values():
                text = "the results of one batch are split over messages"
                self.say("V2", text, index, (id,), "merge_results", severity="house")
            self.answered[id] = self.at
        if isinstance(content, (list, tuple)):
            self._inside(index, id, parts_of(content) or [])

    def _inside(self, index: int, id: str, parts: list[Part]) -> None:
        for part in parts:
            kind, _, value, wire = part
            if wire is not None and "cache_control" in wire:
                self._mark(index, kind, value)
            if kind == "text":
                self._text(index, part)
            elif kind == "tool_reference":
                self._reference(index, id, value)

    def _reference(self, index: int, id: str, name: Any) -> None:
        if self.names is not None and name not in self.deferred:
            text = f"the tool_reference {name!r} names no tool sent with defer_loading"
            self.say("V11", text, index, (id,))

    def _server_use(self, index: int, part: Part) -> None:
        self.server_open.add(part[1])

    def _unreadable(self, index: int, part: Part) -> None:
        self.say("V10", "the block has no readable type", index)

    def _thinking(self, index: int, part: Part) -> None:
        kind, _, signature, _ = part
        if self.role != "assistant":
            self.say("V6", "thinking outside an assistant message", index, repair="strip_thinking")
        if kind == "thinking" and not (isinstance(signature, str) and signature):
            self.say("V6", "a thinking block without its signature", index, repair="strip_thinking")
        if self.profile.thinking == "none":
            text = f"model {self.profile.name!r} has no thinking; strip what another model thought"
            self.say("V6", text, index, repair="strip_thinking", severity="house")

    def _compaction(self, index: int, part: Part) -> None:
        _, _, content, wire = part
        if content == "":
            self.say("V9", "the compaction block's content is empty; null is the no-op", index)
        if (
            content is None
            or wire is None
            or not ("signature" in wire or "encrypted_content" in wire)
        ):
            return
        if self.at or index:
            self.say("V9", "an on-demand compaction block is not the first content", index)
        if self.compacts:
            self.say("V9", "an on-demand compaction block beside a compact_ context edit", index)

    def close(self) -> None:
        """Report the calls of the run before that got no result."""
        for id, (message, block) in self.open.items():
            if id not in self.answered:
                text = f"the call {id!r} has no result in the next user message"
                self.say("V1", text, block, (id,), "answer_open_calls", at=message)

    def end(self, count: int, sendable: bool) -> None:
        """Check how the list ends: V5, and the calls that are still open."""
        ends_in_assistant = self.previous == "assistant"
        if not ends_in_assistant or sendable:
            self.close()
        if not sendable:
            return
        if count == 0:
            self.say("V5", "there is no message to send", at=0)
        elif ends_in_assistant and not self.profile.prefill and not self.server_open:
            name = self.profile.name
            self.say(
                "V5", f"the list ends in an assistant message; model {name!r} takes no prefill"
            )


_CHECKS: dict[str, Callable[[_Scan, int, Part], None]] = {
    "text": _Scan._text,
    "tool_use": _Scan._use,
    "tool_result": _Scan._result,
    "thinking": _Scan._thinking,
    "redacted_thinking": _Scan._thinking,
    "server_tool_use": _Scan._server_use,
    "compaction": _Scan._compaction,
    "": _Scan._unreadable,
}


def _tool_name(tool: Any) -> str:
    return word(tool.get("name") if isinstance(tool, Mapping) else getattr(tool, "name", None))


def _is_deferred(tool: Any) -> bool:
    if isinstance(tool, Mapping):
        return tool.get("defer_loading") is True
    return getattr(tool, "defer_loading", False) is True


def _edit_name(edit: Any) -> str:
    return word(edit.get("type") if isinstance(edit, Mapping) else edit)


def _manual_thinking(messages: Sequence[Any]) -> list[Violation]:
    """V6 in manual mode: inside the last tool loop every assistant turn begins with thinking."""
    begins: list[tuple[int, bool]] = []
    for at in range(len(messages) - 1, -1, -1):
        role, parts = role_of(messages[at]), parts_of(content_of(messages[at])) or []
        if role == "user" and all(kind != "tool_result" for kind, *_ in parts):
            break
        follows = at == 0 or role_of(messages[at - 1]) != "assistant"
        if role == "assistant" and follows:
            begins.append((at, bool(parts) and parts[0][0] in _THINKING))
    if not begins or role_of(messages[-1]) == "assistant":
        return []
    last, thinks = begins[0]
    if not thinks:
        text = "with manual thinking the last assistant turn of a tool loop begins with thinking"
        return [Violation("V6", "api", last, 0, (), text, "strip_thinking")]
    if not all(thought for _, thought in begins):
        at = next(at for at, thought in begins if not thought)
        return [Violation("V6", "api", at, 0, (), "thinking was switched inside a turn")]
    return []
