"""Probes: questions about a session whose exact answers stand in its log.

May not ask anybody: who answers is given, and never sees which context it was handed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_kernel.core.events import AssistantMessage, SurfaceEvent, ToolResultEvent, UserMessage
from agent_kernel.core.messages import ToolUse, text_of
from agent_kernel.lab.behaviour import WRITE

TESTS = ("pytest", "go test", "npm test", "cargo test", "make test", "unittest", "jest")
NO = ("no, ", "don't", "do not", "instead", "revert", "undo", "wrong", "不要", "不对", "别")
DONE = ("done", "completed")


@dataclass(frozen=True, slots=True)
class Probe:
    """One question, the strings any of which is a right answer, and the events it rests on."""

    session: str
    kind: str
    question: str
    answers: tuple[str, ...]
    seqs: tuple[int, ...]


Answerer = Callable[[str, str], Awaitable[str]]  # (context, question) -> answer


def probes(session: str, events: Sequence[SurfaceEvent]) -> list[Probe]:
    """Return the probes of a hidden span; a kind without an answer in the log is left out.

    Kinds: file changed, failing test, its fix, rejected way, open task.
    """
    calls = {b.id: b for e in events if isinstance(e, AssistantMessage) for b in e.content
             if isinstance(b, ToolUse)}  # fmt: skip
    made = [*_changed(session, events, calls), *_failing(session, events, calls)]
    return [*made, *_rejected(session, events), *_open_task(session, calls, events)]


def _changed(
    session: str, events: Sequence[SurfaceEvent], calls: Mapping[str, ToolUse]
) -> Iterator[Probe]:
    changed: dict[str, int] = {}
    for event in events:
        call = calls.get(event.id) if isinstance(event, ToolResultEvent) else None
        if call is None or call.name not in WRITE or getattr(event, "is_error", False):
            continue
        path = call.input.get("path") or call.input.get("file_path")
        if isinstance(path, str):
            changed[path] = event.seq
    for path, seq in list(changed.items())[-3:]:
        name = path.rsplit("/", 1)[-1]
        folder = path.rsplit("/", 1)[0] if "/" in path else "."
        yield Probe(
            session, "file", f"In which folder is the changed file {name}?", (folder,), (seq,)
        )


def _failing(
    session: str, events: Sequence[SurfaceEvent], calls: Mapping[str, ToolUse]
) -> Iterator[Probe]:
    failed: tuple[int, str] | None = None
    fixed: tuple[int, str] | None = None
    last_write = ""
    for event in events:
        call = calls.get(event.id) if isinstance(event, ToolResultEvent) else None
        if call is None or not isinstance(event, ToolResultEvent):
            continue
        if call.name in WRITE:
            last_write = str(call.input.get("path") or call.input.get("file_path") or "")
        command = str(call.input.get("command", ""))
        if not any(word in command for word in TESTS):
            continue
        if event.is_error:
            failed, fixed = (event.seq, _first_line(text_of(event.content))), None
        elif failed is not None and fixed is None and last_write:
            fixed = (event.seq, last_write)
    if failed is not None and failed[1]:
        text = "What did the last failing test run say, in its first line?"
        yield Probe(session, "failing test", text, (failed[1],), (failed[0],))
    if fixed is not None:
        name = fixed[1].rsplit("/", 1)[-1]
        text = "Which file was changed last before the failing tests passed?"
        yield Probe(session, "fix", text, (fixed[1], name), (fixed[0],))


def _first_line(text: str) -> str:
    return next((line.strip()[:80] for line in text.splitlines() if line.strip()), "")


def _rejected(session: str, events: Sequence[SurfaceEvent]) -> Iterator[Probe]:
    for event in events:
        if isinstance(event, UserMessage):
            text = " ".join(text_of(event.content).split())
            if 10 < len(text) < 300 and text.lower().startswith(NO):
                question = "What did the person reject or correct? Quote their words."
                yield Probe(session, "rejected", question, (text,), (event.seq,))
                return


def _open_task(
    session: str, calls: Mapping[str, ToolUse], events: Sequence[SurfaceEvent]
) -> Iterator[Probe]:
    last = [c for c in calls.values() if c.name in ("todo", "TodoWrite")][-1:]
    for call in last:
        items = call.input.get("items") or call.input.get("todos") or []
        listed = [i for i in items if isinstance(i, Mapping)] if isinstance(items, list) else []
        left = [
            str(i.get("text") or i.get("content")) for i in listed if i.get("status") not in DONE
        ]
        if left:
            seq = next(
                e.seq for e in events if isinstance(e, AssistantMessage) and call in e.content
            )
            text = "Which piece of work on the list is not done yet?"
            yield Probe(session, "open task", text, tuple(left), (seq,))


def right(probe: Probe, answer: str) -> bool:
    """Return whether an answer holds one of the right strings, whatever its case and blanks."""
    said = " ".join(answer.lower().split())
    return any(" ".join(good.lower().split()) in said for good in probe.answers)


def answerable(probe: Probe, context: str) -> bool:
    """Return whether a context holds one of the right strings: the most any answerer could know."""
    return right(probe, context)


async def ask(
    found: Sequence[Probe], contexts: Mapping[str, Callable[[Probe], str]], answerer: Answerer
) -> dict[str, tuple[int, int, int]]:
    """Return, by context name, how many answers were right, abstained, and asked.

    The answerer is handed contexts without their names, in the fixed order of the probes.
    """
    out: dict[str, tuple[int, int, int]] = {}
    for name in sorted(contexts):
        good = none = 0
        for probe in found:
            answer = await answerer(contexts[name](probe), probe.question)
            good += right(probe, answer)
            none += not answer.strip() or "unknown" in answer.lower()
        out[name] = (good, none, len(found))
    return out
