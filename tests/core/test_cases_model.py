"""Rows of model_faults.csv that are the loop's: what it logs, runs once, asks again, or ends."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Question, Reply
from agent_kernel.core.calling import build
from agent_kernel.core.events import (
    AssistantMessage,
    ModelSelected,
    RequestContext,
    StreamAttempt,
    StreamRetry,
    ToolAsk,
    ToolCall,
    ToolResultEvent,
    ToolStart,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.limits import dollars
from agent_kernel.core.mending import mended
from agent_kernel.core.messages import (
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
    block_of,
    text_of,
)
from agent_kernel.core.model import BadInput, Done, ProviderError, Request
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.state import input_hash
from agent_kernel.core.tool import tool
from agent_kernel.core.usage import cost
from agent_kernel.guard.calls import Call, Context
from agent_kernel.guard.evaluate import evaluate
from agent_kernel.guard.rules import parse_rules
from agent_kernel.providers import Retrying, scripted
from agent_kernel.testing import MessagesServer
from agent_kernel.tools.bash import BASH
from agent_kernel.tools.read import READ
from tests.providers.kit import Time, whole_of
from tests.providers.test_cases_model import LATER
from tests.runs import agent

Check = Callable[[Path], Awaitable[None]]
HERE: dict[str, Check] = {}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()


def row(*ids: str) -> Callable[[Check], Check]:
    """Registers a check for rows of the table."""

    def take(check: Check) -> Check:
        HERE.update(dict.fromkeys(ids, check))
        return check

    return take


def done(*blocks: Any, stop: str = "", **more: Any) -> Done:
    calls = any(isinstance(b, ToolUse) for b in blocks)
    reason = stop or ("tool_use" if calls else "end_turn")
    return Done(Message("assistant", blocks), Usage(10, 5), reason, model="scripted", **more)


def call(id: str, name: str = "look", **given: Any) -> ToolUse:
    return ToolUse(id, name, given or {"size": 3})


def made(answers: Any, **changes: Any) -> Agent:
    return replace(agent([]), provider=scripted(answers), **changes)


async def ran(answers: Any, prompt: Any = "go", **changes: Any) -> Session:
    session = Session()
    await query(session, made(answers, **changes), prompt)
    assert verify(session.events).ok
    return session


def kinds(session: Session, kind: type[Any]) -> list[Any]:
    return [e for e in session.events if isinstance(e, kind)]


def said(session: Session, id: str) -> str:
    (found,) = [e for e in kinds(session, ToolResultEvent) if e.id == id and e.replaces is None]
    return text_of(found.content)


def ending(session: Session) -> tuple[str, Any]:
    end = session.state().turn_end
    assert end is not None
    return end.reason, end.detail


def overloaded(count: int, *then: Any) -> Any:
    left = iter([ProviderError("overloaded", "busy", retryable=True, status=529)] * count + [*then])
    return lambda _request: next(left)


@row("005")
async def _fallback(_tmp: Path) -> None:
    """After three overloaded attempts the other model is taken; thinking does not go with it."""
    thinks = done(Thinking("hm", "sig"), Text("I look"), call("a"))
    asked: list[Request] = []
    busy = overloaded(3, done(Text("I am the other")))

    def answer(request: Request) -> Any:
        asked.append(request)
        return thinks if len(asked) == 1 else busy(request)

    main = made([], fallback_model="other")
    main.provider = Retrying(scripted(answer), sleep=Time().sleep)
    session = Session()
    await query(session, main, "go")
    assert [r.model for r in asked] == ["scripted"] * 4 + ["other"]
    (chosen,) = kinds(session, ModelSelected)
    assert (chosen.model, chosen.why) == ("other", "3 overloaded attempts of scripted")
    assert session.model is None  # for this turn alone
    assert not any(isinstance(b, Thinking) for m in asked[-1].messages for b in m.content)
    assert any(isinstance(b, Thinking) for m in asked[1].messages for b in m.content)
    assert verify(session.events).ok

    refused: list[str] = []

    async def no(question: str, *_: Any) -> str:
        refused.append(question)
        return "no"

    main = made([], fallback_model="other", ask=_yes, services={"ask": no})
    main.provider = Retrying(scripted(overloaded(3, done(Text("back")))), sleep=Time().sleep)
    with pytest.raises(ProviderError):
        await query(Session(), main, "go")
    assert "Go on with other?" in refused[0]


async def _yes(_question: Question) -> Reply:
    return Reply("allow")


@row("008")
async def _no_repair_no_second_request(_tmp: Path) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Any:
        asked.append(request)
        raise ProviderError("request", "bad", status=400)

    with pytest.raises(ProviderError):
        await ran(answer)
    assert len(asked) == 1


@row("009")
async def _orphan_answered_once(_tmp: Path) -> None:
    """What our own check let through is answered in the log; a host that errs is asked once."""
    error = ProviderError("request", "orphan", status=400, repair="answer_open_calls")
    session = Session()
    session.append(TurnStart(text="x"), UserMessage(content=(Text("x"),)))
    session.append(AssistantMessage(content=(call("lost"),), model="m", usage=Usage()))
    session.append(UserMessage(content=(Text("and now?"),)))
    main = made([])
    assert build(session, main)[2] != []
    assert await mended(session, main, error)
    assert "its result was lost" in said(session, "lost")
    assert build(session, main)[2] == []
    assert not await mended(session, main, error)

    asked: list[Request] = []

    def answer(request: Request) -> Any:
        asked.append(request)
        raise error

    with pytest.raises(ProviderError):
        await ran(answer)
    assert len(asked) == 1


@row("010")
async def _images_dropped_once(_tmp: Path) -> None:
    image = block_of(
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    )
    asked: list[Request] = []

    def answer(request: Request) -> Any:
        asked.append(request)
        if any(isinstance(b, Image) for m in request.messages for b in m.content):
            raise ProviderError("request", "too many images", status=400, repair="drop_images")
        return done(Text("good"))

    session = await ran(answer, prompt=[Text("see"), image])
    assert len(asked) == 2
    assert "an image was left out" in text_of(asked[1].messages[0].content)
    assert len(kinds(session, RequestContext)) == 2
    assert ending(session)[0] == "completed"

    session = Session()
    session.append(TurnStart(text="x"), UserMessage(content=(Text("first"), image)))
    session.append(AssistantMessage(content=(call("a"),), model="m", usage=Usage()))
    session.append(ToolResultEvent(id="a", content=(Text("r"), image)))
    error = ProviderError("request", "messages.2: image too large", repair="drop_images")
    assert await mended(session, made([]), error)
    messages = session.surface().messages()
    assert isinstance(messages[0].content[1], Image)
    result = messages[2].content[0]
    assert isinstance(result, ToolResult)
    assert not any(isinstance(b, Image) for b in result.content)

    def always(request: Request) -> Any:
        raise ProviderError("request", "image", status=400, repair="drop_images")

    with pytest.raises(ProviderError):
        await ran(always, prompt=[Text("see"), image])


def marker(path: Path) -> dict[str, Any]:
    """A call of bash that writes a line each time it runs."""
    return {
        "type": "tool_use", "id": "toolu_1", "name": "bash",
        "input": {"command": f"echo ran >> {path / 'marker'}"},
    }  # fmt: skip


async def served(tmp: Path, *replies: Any) -> tuple[Session, MessagesServer]:
    """A turn over the loopback server with the real client, its waits on a jumping clock."""
    with MessagesServer({"scenario": "loop", "replies": list(replies)}) as server:
        provider = whole_of(server, Time())
        session, main = Session(), made([], tools=(BASH, READ), workspace=tmp, ask=_yes)
        main.provider, main.model = provider, "claude-sonnet-5-5"
        main.permit = lambda *_: _allowed()
        try:
            await query(session, main, "go")
        finally:
            await provider.close()
        assert verify(session.events).ok
        return session, server


def _allowed() -> Any:
    from agent_kernel.core.batch import Judgement

    return Judgement("allow")


OK = {"message": {"content": [{"type": "text", "text": "Done."}]}}


@row("015", "041")
async def _latch(tmp: Path) -> None:
    """No tool starts before its message is whole: what a broken attempt called never ran."""
    tool_reply = {"message": {"content": [marker(tmp)], "stop_reason": "tool_use"}}
    for fault in ({"fault": "tool_then_reset"}, {"fault": "error_event"}):
        (tmp / "marker").unlink(missing_ok=True)
        session, server = await served(tmp, {**tool_reply, **fault}, tool_reply, OK)
        assert (tmp / "marker").read_text() == "ran\n"
        assert len(kinds(session, ToolStart)) == len(kinds(session, ToolResultEvent)) == 1
        assert len(kinds(session, StreamRetry)) == 1
        assert len(server.requests) == 3


@row("044")
async def _always_streamed(tmp: Path) -> None:
    replies = [{"fault": "overloaded"}, {**OK, "fault": "truncate", "after": 3}, OK]
    session, server = await served(tmp, *replies)
    assert all(r.json["stream"] is True for r in server.requests)
    assert [e.n for e in kinds(session, StreamAttempt)] == [1, 2, 3]


@row("027", "028", "029", "030")
async def _unusable_calls(_tmp: Path) -> None:
    ran_tools: list[str] = []

    @tool
    async def act(size: int) -> str:
        """Act."""
        ran_tools.append("act")
        return "acted"

    bad = call("json", "act")
    answers = [
        done(
            bad, ToolUse("empty", "act", {}), ToolUse("extra", "act", {"size": 1, "more": 2}),
            call("gone", "left_the_set"), bad_inputs=(BadInput("json", "no JSON: oops"),),
        ),
        done(Text("I see")),
    ]  # fmt: skip
    session = await ran(answers, tools=(act,), permit=lambda *_: _allowed())
    assert ran_tools == []
    assert "oops" in said(session, "json")
    assert "size: Field required" in said(session, "empty")
    assert "more: Extra inputs" in said(session, "extra")
    assert "there is no tool 'left_the_set'" in said(session, "gone")
    assert all(e.is_error for e in kinds(session, ToolResultEvent))
    assert ending(session)[0] == "completed"


@row("031")
async def _twenty_at_once(_tmp: Path) -> None:
    running = most = 0

    @tool(concurrent=True, read_only=True)
    async def slow(n: int) -> str:
        """Be slow."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02 if n % 2 else 0.001)
        running -= 1
        return str(n)

    calls = [ToolUse(f"c{n}", "slow", {"n": n}) for n in range(20)]
    session = await ran(
        [done(*calls), done(Text("ok"))], tools=(slow,), permit=lambda *_: _allowed()
    )
    assert most == 10
    assert [e.id for e in kinds(session, ToolResultEvent)] == [c.id for c in calls]
    last = list(requests(session.events))[1][1].messages[-1]
    assert [b.tool_use_id for b in last.content if isinstance(b, ToolResult)] == [
        c.id for c in calls
    ]


@row("032")
async def _the_block_decides(_tmp: Path) -> None:
    session = await ran([done(call("a"), stop="end_turn"), done(Text("ok"))])
    assert said(session, "a") == "xxx"


@row("033", "037")
async def _endings(_tmp: Path) -> None:
    for stop in ("tool_use", "future_stop"):
        session = await ran([done(Text("that was it"), stop=stop)])
        assert ending(session) == ("completed", stop)
        assert kinds(session, AssistantMessage)[0].stop_reason == stop


@row("034")
async def _cut_input(_tmp: Path) -> None:
    cut = done(call("a"), stop="max_tokens", bad_inputs=(BadInput("a", "input was cut at 5"),))
    session = await ran([cut, done(Text("ok"))], max_tokens=100)
    assert "input was cut" in said(session, "a")
    assert kinds(session, ToolStart) == []
    assert [c.max_tokens for c in kinds(session, RequestContext)] == [100, 200]


@row("035")
async def _continued(_tmp: Path) -> None:
    session = await ran([done(Text("more"), stop="max_tokens") for _ in range(9)])
    assert len(kinds(session, AssistantMessage)) == 4
    assert ending(session) == ("completed", "max_tokens: cut 4 times")


@row("036")
async def _window_exceeded(_tmp: Path) -> None:
    """An overflow compacts and goes on once; where nothing gets shorter the turn ends so."""
    error = ProviderError("overflow", "prompt is too long", overflow=True, status=400)
    steps = [done(call(f"c{n}", size=3_000)) for n in range(8)]
    session = await ran([*steps, error, done(Text("went on"))])
    assert ending(session)[0] == "completed"
    with pytest.raises(ProviderError):
        await ran([error, error])


@row("038")
async def _the_guard_asks_at_the_fifth(tmp: Path) -> None:
    allow = parse_rules({"allow": ["Bash(make:*)"]})
    asked = [
        evaluate(Call("bash", {"command": "make"}), allow, "ask", Context(str(tmp), repeats=n))
        for n in range(1, 6)
    ]
    assert [v.verdict for v in asked] == ["allow"] * 4 + ["ask"]
    assert "5 times in this turn" in asked[-1].reason
    session = await ran([*[done(call(f"c{n}", size=1)) for n in range(5)], done(Text("ok"))])
    assert len([e for e in session.events if getattr(e, "label", "") == "repeat"]) == 2


@row("039")
async def _long_result(tmp: Path) -> None:
    session = Session.open(tmp / "a.agent.jsonl")
    await query(session, made([done(call("a", size=200_000)), done(Text("ok"))]), "go")
    (result,) = kinds(session, ToolResultEvent)
    assert len(text_of(result.content).encode()) <= 50_000
    assert "bytes left out" in text_of(result.content)
    assert session.blobs.path(result.meta["blob"]).read_bytes() == b"x" * 200_000
    session.close()


@row("040")
async def _large_image(tmp: Path) -> None:
    (tmp / "big.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * (6 << 20))
    session = await ran(
        [done(ToolUse("r", "read", {"path": "big.png"})), done(Text("ok"))],
        tools=(READ,),
        workspace=tmp,
        permit=lambda *_: _allowed(),
    )
    assert "5" in said(session, "r")
    assert not any(isinstance(b, Image) for b in kinds(session, ToolResultEvent)[0].content)


@row("042")
async def _repeat_of_an_unknown_outcome_asks(tmp: Path) -> None:
    path = tmp / "a.agent.jsonl"
    session = Session.open(path)
    session.append(TurnStart(text="go"), UserMessage(content=(Text("go"),)))
    use = call("t1", "touch", size=1)
    session.append(AssistantMessage(content=(use,), model="m", usage=Usage()))
    session.append(
        ToolCall(id="t1", name="touch", input=use.input, input_hash=input_hash(use.input)),
        ToolStart(id="t1", input_hash=input_hash(use.input)),
    )
    session.close()

    again = Session.open(path)
    again.resume()
    ran_tools: list[str] = []
    main = replace(
        agent([], ran_tools),
        provider=scripted([done(call("t2", "touch", size=1)), done(Text("ok"))]),
        permit=lambda *_: _allowed(),
        ask=_yes,
    )
    await query(again, main)
    (ask,) = kinds(again, ToolAsk)
    assert ask.id == "t2"
    assert "nobody knows its outcome" in ask.reason
    assert ran_tools == ["t2"]  # after the person said yes, and only once
    again.close()


@row("043")
async def _interrupt_in_a_tool(_tmp: Path) -> None:
    reached = asyncio.Event()

    @tool
    async def wait(size: int) -> str:
        """Wait."""
        reached.set()
        await asyncio.sleep(60)
        return "never"

    session = Session()
    main = made([done(call("a", "wait")), done(Text("ok"))], tools=(wait,))
    main.permit = lambda *_: _allowed()
    running = asyncio.ensure_future(query(session, main, "go"))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ending(session) == ("interrupted", "tools")
    assert "interrupted" in said(session, "a")
    assert build(session, main)[2] == []
    await query(session, main, "and now")
    assert ending(session)[0] == "completed"


@row("046")
async def _no_price(_tmp: Path) -> None:
    session = await ran([done(Text("ok"))])
    assert cost("scripted", Usage(10, 5)) is None
    assert dollars(session, made([]), {"main": Usage(10, 5)}) is None


@pytest.mark.parametrize("number", sorted(HERE))
async def test_row(number: str, tmp_path: Path) -> None:
    await HERE[number](tmp_path)


def test_every_row_that_needs_the_loop_is_here() -> None:
    assert set(HERE) == set(LATER)
