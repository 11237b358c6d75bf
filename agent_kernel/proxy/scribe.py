"""Scribe: the events of one request and of one answer, in the order the log keeps them.

May not decide whose they are, and reads no bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Literal

from agent_kernel.core.bodies import header_fields
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionEnd,
    CompactionStart,
    Event,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    StreamRetry,
    SurfaceEvent,
    TaskCreated,
    TaskFinished,
    ToolCall,
    ToolResultEvent,
    TurnEnd,
    TurnReason,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Json, Message, Text, ToolUse, text_of
from agent_kernel.core.model import Done, Request
from agent_kernel.core.replay import fingerprint
from agent_kernel.core.session import Session
from agent_kernel.core.state import calls_of
from agent_kernel.core.surface import SurfaceError
from agent_kernel.proxy.conversations import MAIN, Conversation
from agent_kernel.proxy.history import Loose, changes
from agent_kernel.proxy.reading import Failure

PROVIDER = "proxy"
Source = Literal["notification", "api"]
_COMMAND = "<command-name>/compact"
_PROMPT = 8  # characters of a call's input that make a new conversation its child
_REASONS: dict[str, TurnReason] = {
    "refusal": "refused", "model_context_window_exceeded": "prompt_too_long",
}  # fmt: skip


@dataclass(frozen=True)
class Body:
    """Where a request's exact bytes are: fields of request/context.body."""

    blob: str
    bytes: int
    digest: str
    written: str | None

    def wire(self, loose: str = "") -> Json:
        """Return the fields that say something."""
        out = asdict(self)
        out.pop("digest")
        if self.written is None:
            out.pop("written")
        return out | ({"loose": loose} if loose else {})


class Scribe:
    """Appends to one session; nothing else writes to it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._failures: dict[str, Failure] = {}  # of the last request of an agent
        self._calls = {e.id: e for e in session.events if isinstance(e, ToolCall)}
        self._claimed = {
            e.tool_use_id for e in session.events if isinstance(e, TaskCreated) and e.tool_use_id
        }

    # ---- a request ---------------------------------------------------------------------------

    def request(
        self,
        conversation: Conversation,
        request: Request,
        messages: Sequence[Message],
        body: Body,
    ) -> None:
        """Log what a request says that the log does not, and the request."""
        agent = conversation.agent
        if agent != MAIN and agent not in self.session.agents:
            self._adopt(agent, messages)
        try:
            surface, compacted = self.session.surface(agent), conversation.quoted
            events = changes(surface, messages, request.model, compacted=compacted)
            loose = ""
        except Loose as error:
            events, loose = [], str(error)
        self._place(agent, events, body.digest)
        if not loose and self.session.surface(agent).messages() != tuple(messages):
            loose = "the log's messages could not be made equal"
        self._context(agent, request, body, loose)

    def unread(self, conversation: Conversation, request: Request, body: Body, why: str) -> None:
        """Log bytes that are no request of the Messages API."""
        self._place(conversation.agent, [], body.digest)
        self._context(conversation.agent, request, body, why)

    def _place(self, agent: str, events: list[SurfaceEvent], digest: str) -> None:
        """Append a request's news: results into the step that called, the rest after its end."""
        state = self.session.state(agent)
        failed = self._failures.pop(agent, None)
        last = state.context
        again = not events and state.step_open and failed is not None and last is not None
        if again and last is not None and last.digest == digest:
            return  # the same request once more: an attempt of the same step
        results = list(takewhile(_is_result, events)) if state.turn_open else []
        news = [e for e in events if e.replaces is None or e is events[-1]]
        prompt = [e for e in news if isinstance(e, UserMessage)]
        self._append(agent, results)
        borders: list[Event] = [StepEnd()] if state.step_open else []
        if state.turn_open and prompt and not results:
            borders.append(_ended(failed))
        if not state.turn_open or (prompt and not results):
            text = text_of(block for event in prompt for block in event.content)
            noticed = any(getattr(e, "kind", "") == "notification" for e in events)
            source: Source = "notification" if noticed and not prompt else "api"
            borders.append(TurnStart(text=text, source=source))
        self.session.append(*borders, agent=agent)
        self._append(agent, events[len(results) :])
        self.session.append(StepStart(), agent=agent)

    def _append(self, agent: str, events: Sequence[SurfaceEvent]) -> None:
        for event in events:  # one by one: a result may follow its call at once
            if isinstance(event, Attachment) and event.kind == "summary":
                by_hand = any(_COMMAND in text_of(each.message().content) for each in events)
                self._compaction(agent, event, by_hand)
                continue
            self.session.append(event, agent=agent)
            if isinstance(event, AssistantMessage):
                self._log_calls(agent, [c for c in calls_of(event) if c.id not in self._calls])

    def _log_calls(self, agent: str, calls: Sequence[ToolCall]) -> None:
        for stored in self.session.append(*calls, agent=agent) if calls else ():
            assert isinstance(stored, ToolCall)
            self._calls[stored.id] = stored

    def _compaction(self, agent: str, event: Attachment, by_hand: bool) -> None:
        """Log what the harness made of its history as the compaction it was."""
        surface = self.session.surface(agent)
        name = f"harness-{agent}-{len(self.session.state(agent).compactions) + 1}"
        answers = [node for node in surface.nodes if isinstance(node, AssistantMessage)]
        pre = [answer.usage.context for answer in answers if answer.usage.known]
        wrote = _writer(answers, event)
        bill = {"calls": [wrote.seq], "chars": len(text_of(wrote.content))} if wrote else {}
        generation = surface.generation
        start = CompactionStart(
            compaction_id=name,
            trigger="manual" if by_hand else "hard",
            strategies=("harness",),
            generation=generation,
            tokens={"pre": pre[-1]} if pre else {},
        )
        event = event.model_copy(update={"meta": {**event.meta, "compaction_id": name}})
        end = CompactionEnd(
            compaction_id=name,
            status="committed",
            cost={**bill, "hidden": len(event.sources)},
            generation=generation + 1,
        )
        self.session.append(start, event, end, agent=agent)

    def _context(self, agent: str, request: Request, body: Body, loose: str) -> None:
        surface, state = self.session.surface(agent), self.session.state(agent)
        fields = header_fields(request)
        header = RequestHeader(
            reason="initial" if state.header is None else "change",
            provider=PROVIDER,
            model=request.model,
            params=request.params,
            system=tuple(fields["system"]),
            tools=tuple(fields["tools"]),
        )
        if state.header is None or fingerprint(state.header) != fingerprint(header):
            self.session.append(header, agent=agent)
        at = self.session.state(agent).header
        assert at is not None
        before = state.context.seq if state.context else -1
        joined: list[Event] = [node for node in surface.nodes if node.seq > before]
        joined += [at] if at.seq > before else []
        context = RequestContext(
            digest=body.digest,
            header=at.seq,
            max_tokens=request.max_tokens,
            surface_generation=surface.generation,
            first_seq=surface.nodes[0].seq if surface.nodes else None,
            last_seq=surface.nodes[-1].seq if surface.nodes else None,
            messages=len(request.messages),
            cache_breakpoints=tuple(tuple(mark.wire()) for mark in request.marks),
            joined=tuple((event.seq, fingerprint(event)) for event in joined),
            body=body.wire(loose),
        )
        self.session.append(context, agent=agent)

    # ---- an answer ---------------------------------------------------------------------------

    def answer(
        self,
        conversation: Conversation,
        outcome: Done | Failure,
        message_id: str | None,
        response: Json,
    ) -> None:
        """Log what came back: a message and its calls, or why there is none."""
        agent = conversation.agent
        if isinstance(outcome, Failure):
            self._failures[agent] = outcome
            partial = {**outcome.partial, "error": outcome.text, "response": response}
            retry = StreamRetry(
                n=self.session.state(agent).requests_in_step,
                error=outcome.kind,
                status=outcome.status,
                wait=outcome.wait,
                partial=partial,
            )
            self.session.append(retry, agent=agent)
            return
        self._failures.pop(agent, None)
        bad = {each.id: each.why for each in outcome.bad_inputs}
        meta = {**outcome.meta, "response": response, **({"bad_inputs": bad} if bad else {})}
        message = AssistantMessage(
            content=outcome.message.content,
            model=outcome.model,
            usage=outcome.usage,
            stop_reason=outcome.stop_reason,
            request_id=outcome.request_id,
            ttft=outcome.ttft,
            seconds=outcome.seconds,
            meta={**meta, "message_id": message_id} if message_id else meta,
        )
        self._said(agent, message)

    def _said(self, agent: str, message: AssistantMessage) -> None:
        try:
            self.session.append(message, agent=agent)
        except SurfaceError:
            self.session.answer_open_calls("the harness sent no result", agent)
            self.session.append(message, agent=agent)
        self._log_calls(agent, calls_of(message))
        if any(isinstance(b, ToolUse) for b in message.content):
            return
        if message.stop_reason == "pause_turn":
            return
        reason = _REASONS.get(str(message.stop_reason), "completed")
        odd = message.stop_reason not in ("end_turn", "stop_sequence", None)
        detail = {"stop_reason": message.stop_reason} if odd else None
        self.session.append(StepEnd(), TurnEnd(reason=reason, detail=detail), agent=agent)
        self._finish(agent, text_of(message.content))

    def end(self) -> None:
        """End the turns whose last request failed; what waits for a harness stays open."""
        for agent, failed in list(self._failures.items()):
            state = self.session.state(agent)
            if state.turn_open:
                steps = [StepEnd()] if state.step_open else []
                self.session.append(*steps, _ended(failed), agent=agent)

    # ---- sub-agents --------------------------------------------------------------------------

    def _adopt(self, agent: str, messages: Sequence[Message]) -> None:
        """Note which call of another conversation a new one came from: its prompt says so."""
        first = messages[0].content if messages and messages[0].role == "user" else ()
        said = {b.text.strip() for b in first if isinstance(b, Text)}
        call = next((c for c in reversed(self._calls.values()) if self._asks(c, said)), None)
        if call is None:
            return
        self._claimed.add(call.id)
        parents = self.session.made.get(call.agent, ())
        made = TaskCreated(
            id=agent,
            kind="agent",
            label=str(call.input.get("description") or call.name),
            tool_use_id=call.id,
            depth=1 + max((task.depth for task in parents), default=0),
        )
        self.session.append(made, agent=call.agent)

    def _asks(self, call: ToolCall, said: set[str]) -> bool:
        """Tell whether one text of a call's input is a text of the conversation's first message."""
        texts = (v.strip() for v in call.input.values() if isinstance(v, str))
        return call.id not in self._claimed and any(len(v) >= _PROMPT and v in said for v in texts)

    def _finish(self, agent: str, text: str) -> None:
        made = self.session.tasks.get(agent)
        if isinstance(made, TaskCreated):
            done = TaskFinished(id=agent, status="completed", summary=text[:200], awaited=True)
            self.session.append(done, agent=made.agent)


def _writer(answers: Sequence[AssistantMessage], summary: Attachment) -> AssistantMessage | None:
    """Return the answer a summary was made of: the last one it hides, when it quotes it."""
    last = answers[-1] if answers else None
    if last is None or last.seq not in summary.sources or not last.usage.known:
        return None
    said = text_of(summary.content)
    lines = (line.strip() for line in text_of(last.content).splitlines())
    return last if any(len(line) >= _PROMPT and line in said for line in lines) else None


def _is_result(event: SurfaceEvent) -> bool:
    return isinstance(event, ToolResultEvent) and event.replaces is None


def _ended(failed: Failure | None) -> TurnEnd:
    if failed is None:
        return TurnEnd(reason="interrupted")
    return TurnEnd(reason="error", detail={"kind": failed.kind, "text": failed.text})
