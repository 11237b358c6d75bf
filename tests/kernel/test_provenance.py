"""Where the blocks of a request came from: every one has an event, in each recorded session."""

from __future__ import annotations

import asyncio
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel import cli
from agent_kernel.core.events import Event, RequestContext, SurfaceEvent
from agent_kernel.core.messages import Json, ToolResult
from agent_kernel.core.replay import requests
from agent_kernel.core.session import Session
from agent_kernel.kernel.provenance import of_path, origins
from tests.kernel.live import Script, calls, says
from tests.runs import Turn, agent, random_turns, run
from tests.widgets.sessions import worked


def said_by(event: Event, context: RequestContext) -> list[Json]:
    """The blocks an event puts into a request, as they are sent."""
    if isinstance(event, SurfaceEvent):
        return [part.wire() for part in event.blocks()]
    assert event is context and context.instruction is not None
    return list(context.instruction["content"])


def check(session: Session) -> int:
    """Each block of each request is one its event holds; return how many there were."""
    count = 0
    for context, request in requests(session.events, session.blobs):
        for message, seqs in zip(request.messages, origins(session, context, request), strict=True):
            for part, seq in zip(message.content, seqs, strict=True):
                event = session.log.get(seq)
                assert event.seq <= context.seq
                if isinstance(part, ToolResult):
                    assert getattr(event, "id", None) == part.tool_use_id
                else:
                    assert part.wire() in said_by(event, context)
                count += 1
    return count


def test_no_block_of_a_session_with_a_compaction_is_without_its_event() -> None:
    assert check(worked()[0]) > 60


@settings(max_examples=15, deadline=None)
@given(random_turns(), st.sampled_from([200_000, 2_500]))
def test_no_block_of_any_session_is_without_its_event(turns: list[Turn], window: int) -> None:
    session = Session()
    asyncio.run(run(session, agent(turns, window=window), len(turns)))
    check(session)


@pytest.mark.parametrize(
    "path,error",
    [
        ("messages", "names no block"),
        ("system[0].content[0]", "names no block"),
        ("messages[99]", "messages, no messages[99]"),
        ("messages[0].content[99]", "blocks, no messages[0].content[99]"),
        ("tools[2]", "2 tools, no tools[2]"),
    ],
)
def test_a_path_to_nothing_is_one_line(path: str, error: str) -> None:
    with pytest.raises((KeyError, ValueError)) as caught:
        of_path(worked()[0], (1, 1), path)
    assert error in str(caught.value.args[0])


@pytest.mark.kernel
def test_a_block_names_its_event_its_line_and_its_file(kernel, serve, tmp_path, capsys) -> None:
    server = serve(None, Script(calls(("read", {"path": "a.txt"})), says("It says one.")))
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    k = kernel(server)
    k.ok("%%agent\nwhat is in a.txt?", "c1")
    result = next(e for e in k.session().events if e.type == "tool/result")
    log = tmp_path / "session.agent.jsonl"
    lines = log.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if json.loads(line)["seq"] == result.seq)
    wanted = (
        f"Where seq {result.seq} came from", f"session.agent.jsonl:{number}", "tool/result",
        "a.txt", hashlib.sha256(b"one\ntwo\n").hexdigest(), "[1, 2]",
    )  # fmt: skip
    shown = k.ok("%agent where messages[2].content[0] 1.2").plain
    assert not [words for words in wanted if words not in shown], shown
    assert shown == k.ok("%agent where $.messages[2]").plain
    assert "has 1 messages, no messages[2]" in k.run("%agent where messages[2] 1.1").error
    assert "say a seq" in k.run("%agent where").error
    assert cli.main(["request", str(log), "1.2", "--where", "messages[2].content[0]"]) == 0
    said = capsys.readouterr().out
    assert not [words for words in wanted if words not in said], said
    assert cli.main(["request", str(log), "1.2", "--where", "system[0]"]) == 0
    assert "request/header" in capsys.readouterr().out
    assert cli.main(["request", str(log), "1.2", "--where", "messages[7]"]) == 2
    assert "no messages[7]" in capsys.readouterr().err
