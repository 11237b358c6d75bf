"""Walk: a session that grows and shrinks at random, and everything that must hold after each step.

May not know how a layer works: it only does what people, models, crashes and clocks do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from agent_kernel.compaction.markers import parse
from agent_kernel.core.agent import Agent
from agent_kernel.core.calling import call_model
from agent_kernel.core.compaction import Asked, CompactionFailed, Trigger, WaterMarks
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    CompactionUndo,
    Event,
    PinSet,
    StepStart,
    SurfaceEvent,
    ToolResultEvent,
    UserMessage,
    event_of,
)
from agent_kernel.core.messages import (
    Block,
    Message,
    Text,
    Thinking,
    ToolUse,
    Usage,
    dumps,
    text_of,
)
from agent_kernel.core.model import Done, ProviderError
from agent_kernel.core.session import Session
from agent_kernel.core.surface import SurfaceError, fold
from agent_kernel.core.tool import Input, Tool
from agent_kernel.core.transaction import Run, UndoError, undo
from agent_kernel.core.usage import event_tokens
from agent_kernel.core.validate import validate_messages
from agent_kernel.providers.scripted import scripted
from tests.compaction.kit import LAYERS, SUMMARY, Talk, profile, quick

NAMES = ("read", "edit", "grep", "bash", "todo", "recall_history", "agent", "web_fetch")
PIECES = (
    *(
        "src/pkg/module_{n}.py",
        "compute_total_{n}",
        "必须先跑测试。",
        "https://x.test/{n}",
        "42{n}",
    ),
    *("never touch file_{n}.txt in this task", "e\u0301", "👩\u200d👧", "deadbeef{n}0", "\ud800"),
    *("line of words and more words", "不要改 {n} 号文件，谢谢。"),
    "[cleared: read a, 9 characters; recall_history(seq=1)]",
)
TOOLS = tuple(
    Tool(name, name, Input, None)  # type: ignore[arg-type] # a request names them, nobody runs them
    for name in NAMES
)
WATER = WaterMarks(6_000, soft=500, mid=700, hard=1_000, tail=350, clear_at_least=150)


class Walk:
    """One session under random rules; `violations` are sentences, [] while all holds."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(f"walk:{seed}")
        self.talk = Talk()
        self.thinking = self.random.choice(["none", "none", "manual", "adaptive"])
        self.calls: list[str] = []
        self.violations: list[str] = []
        self.generation = 0
        self.counts: dict[str, int] = {}
        self.number = 0

    @property
    def session(self) -> Session:
        return self.talk.session

    # ---- what happens ----------------------------------------------------------------------------

    def text(self, most: int = 12) -> str:
        pick = self.random
        parts = (
            pick.choice(PIECES).replace("{n}", str(pick.randint(0, 9)))
            for _ in range(pick.randint(1, most))
        )
        return " ".join(parts) * pick.choice([1, 1, 1, 4, 12])

    def grow(self) -> None:
        """A person, a model, a tool or the clock does something."""
        open_calls = self.session.surface().open_calls
        if open_calls and self.random.random() < 0.8:
            return self._result(self.random.choice(open_calls))
        rule = self.random.choice(
            (self._user, self._model, self._model, self._model, self._attach, self._strays)
        )
        rule()
        return None

    def _user(self) -> None:
        self.talk.user(self.text(4))

    def _attach(self) -> None:
        kind = self.random.choice(["context", "memory", "skill", "notification", "reminder"])
        meta = {"section": kind} if kind == "context" else {}
        self.talk.attach(self.text(4), kind, f"{kind} {self.random.randint(0, 2)}", **meta)

    def _model(self) -> None:
        if not self.session.state().turn_open:
            self._user()
        self.session.answer_open_calls("the model goes on")
        pick = self.random
        thinks = self.thinking == "manual" or (self.thinking == "adaptive" and pick.random() < 0.5)
        thought = "hm " * pick.randint(1, 9) if thinks else ""
        count = pick.choice([0, 1, 1, 1, 2, 4])
        calls = [(pick.choice(NAMES), self._input()) for _ in range(count)]
        if pick.random() < 0.3:
            self._request(thought, calls)
        elif calls:
            self.talk.ask(*calls, text=self.text(3), thought=thought)
        else:
            self.talk.answer(self.text(6), thought)

    def _request(self, thought: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
        """The model is really asked: the request is built, checked, logged with its digest (S6)."""
        said: list[Block] = [Thinking(thought, "sig")] if thought else []
        said.append(Text(self.text(3)))
        for name, value in calls:
            said.append(ToolUse(f"toolu_{self.talk.ids}", name, value))
            self.talk.ids += 1
        nodes = self.session.surface().nodes
        if not nodes or nodes[-1].role == "assistant":
            self._user()
        made = Agent(scripted([Message("assistant", said)]), "m", tools=TOOLS, system=())
        made.profile = profile(self.thinking, 6_000)
        self.session.append(StepStart())
        quick(call_model(self.session, made))
        self.count("asked")

    def _input(self) -> dict[str, Any]:
        pick = self.random
        path = f"src/f{pick.randint(0, 3)}.py"
        status = pick.choice(["active", "done", "pending"])
        return pick.choice(
            [{"path": path}, {"path": path}, {"command": f"run {pick.randint(0, 3)}"},
             {"pattern": self.text(2)}, {"items": [{"id": "1", "text": "t", "status": status}]}]
        )  # fmt: skip

    def _result(self, ident: str) -> None:
        meta = {"taint": "web"} if self.random.random() < 0.1 else {}
        text = self.text(20) if self.random.random() < 0.7 else "same output " * 12
        self.talk.result(ident, text, error=self.random.random() < 0.15, **meta)

    def _strays(self) -> None:
        """A foreign, late or second result: the surface refuses it and nothing changes."""
        before = len(self.session.events)
        ident = self.random.choice(["toolu_none", f"toolu_{max(0, self.talk.ids - 5)}"])
        if ident in self.session.surface().open_calls:
            return
        try:
            self.talk.result(ident, "late")
        except SurfaceError:
            if len(self.session.events) != before:
                self.violations.append("S2: a refused append changed the log")
        else:
            self.violations.append(f"V1: a stray result of {ident} joined the surface")

    def tick(self) -> None:
        self.talk.tick(self.random.choice([1.0, 30.0, 400.0, 4_000.0]))

    def pin(self) -> None:
        seqs = self.session.surface().seqs
        if seqs:
            self.talk.add(PinSet(target=self.random.choice(seqs), on=self.random.random() < 0.7))

    def interrupt(self) -> None:
        self.session.answer_open_calls("interrupted")

    # ---- compaction ------------------------------------------------------------------------------

    def compact(self) -> None:
        """A compaction of any trigger, layers and model, which may fail in any way."""
        pick = self.random
        trigger: Trigger = pick.choice(["soft", "hard", "hard", "overflow", "cold", "manual"])
        layers = pick.choice([LAYERS, LAYERS, pick.sample(LAYERS, 2), (pick.choice(LAYERS),)])
        run = Run(self.session, "main", profile(self.thinking, 6_000), layers, trigger, marks=WATER)
        fate = pick.choice(["none", "good", "bad", "fails", "late"])
        if fate != "none":
            run.desk.ask = self._ask(fate)
        self.session.answer_open_calls("shortened")
        before, generation = self._messages(), self.session.surface().generation
        tokens = sum(map(event_tokens, self.session.surface().nodes))
        outcome = quick(run.commit())
        self.count(outcome.status)
        after = self._messages()
        if not outcome.committed:
            if after != before or self.session.surface().generation != generation:
                self.violations.append(f"C3: a {outcome.status} run changed the messages")
        elif sum(map(event_tokens, self.session.surface().nodes)) >= tokens:
            self.violations.append("C4: a committed run freed nothing")
        if outcome.committed and pick.random() < 0.1:
            self._twice(outcome.compaction_id, before)

    def _twice(self, name: str, before: list[bytes]) -> None:
        undo(self.session, name, window=10**9)
        if self._messages() != before:
            self.violations.append("undo: the messages are not those of before")

    def _ask(self, fate: str) -> Callable[..., Any]:
        async def ask(_instruction: str, _limit: int, _left_out: int) -> Asked:
            if fate == "fails":
                raise ProviderError("server", "it fell over", overflow=self.random.random() < 0.3)
            if fate == "late":
                raise CompactionFailed("timeout", "it took too long")
            text = SUMMARY if fate == "good" else self.random.choice(["", "## Next Step\nNone"])
            done = Done(Message("assistant", (Text(text),)), Usage(1, 1), "end_turn", model="m")
            return Asked(done, "d", "p", True, 0.0, 1)

        return ask

    def undo(self) -> None:
        names = [e.compaction_id for e in self.session.events if isinstance(e, CompactionStart)]
        if not names:
            return
        before = len(self.session.events)
        self.session.answer_open_calls("undone")
        count = len(self.session.events)
        try:
            undo(self.session, self.random.choice(names))
            self.count("undone")
        except UndoError:
            if len(self.session.events) != count:
                self.violations.append(f"undo: a refusal changed the log after {before}")

    # ---- crash -----------------------------------------------------------------------------------

    def reload(self) -> None:
        """Write every event as its line, lose some at the end, read them back."""
        events = [event_of(e.wire() | {"h": ""}) for e in self.session.events]
        wires = [dumps(e.wire()) for e in self.session.events]
        if [dumps(e.wire()) for e in events] != wires:
            self.violations.append("S5: a line does not parse back to itself")
        keep = (
            len(events)
            if self.random.random() < 0.5
            else self.random.randint(min(3, len(events)), len(events))
        )
        again = Session()
        again.log.append_all(events[:keep])
        if (
            keep == len(events)
            and [m.bytes for m in again.surface().messages()] != self._messages()
        ):
            self.violations.append("S1: the reopened log folds to other messages")
        again.resume()
        again.complete_calls()
        self.talk.session = again
        self.generation = again.surface().generation
        if again.state().compacting is not None:
            self.violations.append("C1: a stale run stayed open")

    def step(self) -> None:
        """One random step, then everything that must hold."""
        self.number += 1
        pick = self.random.random()
        rules: list[tuple[float, Callable[[], None]]] = [
            (0.74, self.grow), (0.80, self.compact), (0.84, self.undo), (0.88, self.tick),
            (0.91, self.pin), (0.95, self.interrupt), (1.0, self.reload),
        ]  # fmt: skip
        next(rule for limit, rule in rules if pick < limit)()
        self.check()

    # ---- what must hold --------------------------------------------------------------------------

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def _messages(self) -> list[bytes]:
        return [message.bytes for message in self.session.surface().messages()]

    def check(self) -> None:
        """V1-V11, S1-S4, C1, C2, S7, taint, pointers."""
        surface, events = self.session.surface(), self.session.events
        broken = validate_messages(surface.messages(), profile(self.thinking), sendable=False)
        for each in broken:
            if each.severity == "api" and not (surface.open_calls and each.rule == "V1"):
                self.violations.append(f"{each.rule}: {each.text}")
        if [e.seq for e in events[-3:]] != list(range(len(events)))[-3:]:
            self.violations.append("S2: seqs are not contiguous")
        if surface.generation < self.generation:
            self.violations.append("S4: the generation fell")
        self.generation = surface.generation
        if self.number % 7 == 0:
            self._folds(events)
            self._reaches(events)
            self._runs(events)
            self._points()

    def _folds(self, events: Any) -> None:
        folded = fold(events)
        kept = self.session.surface()
        same = (folded.seqs, folded.generation, folded.open_calls) == (
            kept.seqs, kept.generation, kept.open_calls,
        )  # fmt: skip
        if not same or folded.messages() != kept.messages():
            self.violations.append("S1: the fold of the log is not the surface kept")
        replaced = _effective(events)
        if folded.generation != replaced:
            self.violations.append(f"S4: generation {folded.generation}, {replaced} replacements")

    def _reaches(self, events: Any) -> None:
        """S3: every event that was ever appended to the surface is reached from a node."""
        seen: set[int] = set()
        todo = list(self.session.surface().seqs)
        while todo:
            seq = todo.pop()
            if seq not in seen:
                seen.add(seq)
                todo += events[seq].sources
        for event in events:
            if isinstance(event, SurfaceEvent) and event.replaces is None and event.seq not in seen:
                self.violations.append(f"S3: seq {event.seq} is orphaned")

    def _runs(self, events: Any) -> None:
        """C2: the order inside each run, at most one summary, one end; C9, C11."""
        by_id: dict[str, list[Event]] = {}
        for event in events:
            name = getattr(event, "compaction_id", None)
            if name and event.type != "request/context":
                by_id.setdefault(name, []).append(event)
        for name, own in by_id.items():
            kinds = [e.type for e in own if not isinstance(e, CompactionUndo)]
            if kinds[0] != "compaction/start" or kinds.count("compaction/end") > 1:
                self.violations.append(f"C2: run {name} is {kinds}")
            if sum(isinstance(e, CompactionSummary) for e in own) > 1:
                self.violations.append(f"C2: run {name} has two summaries")
        self._kept_words()

    def _kept_words(self) -> None:
        """C11: the first and the present words of the person stand on the surface."""
        people = [e for e in self.session.events if isinstance(e, UserMessage)]
        text = "\n".join(text_of(n.blocks()) for n in self.session.surface().nodes)
        for event in people[:1] + people[-1:]:
            said = text_of(event.content)
            if said[:200] not in text:
                self.violations.append(f"C11: seq {event.seq} of the person is lost")

    def _points(self) -> None:
        """Y6, H8: every pointer names events of the log; taint is as bad as what is hidden."""
        last = len(self.session.events)
        for node in self.session.surface().nodes:
            if not isinstance(node, Attachment) or node.replaces is None:
                continue
            for marker in parse(text_of(node.content)):
                if not 0 <= marker.first <= marker.last < last:
                    self.violations.append(f"H8: {marker} points nowhere")
            hidden = [self.session.events[s] for s in node.sources]
            taints = {getattr(e, "meta", {}).get("taint") for e in hidden}
            if "web" in taints and node.meta.get("taint") != "web":
                self.violations.append(f"taint of seq {node.seq} was laundered")


def _effective(events: Any) -> int:
    """How many replacements took effect, and how many were taken back."""
    done = {
        e.compaction_id for e in events if isinstance(e, CompactionEnd) and e.status == "committed"
    }
    made = sum(
        isinstance(e, SurfaceEvent) and e.replaces is not None and e.compaction_id in done
        for e in events
    )
    back = sum(len(e.restores) for e in events if isinstance(e, CompactionUndo))
    return made + back


__all__ = ["AssistantMessage", "ToolResultEvent", "Walk"]
