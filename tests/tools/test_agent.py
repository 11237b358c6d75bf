"""Agents: started at once, narrower than their parent, told once, never running away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.batch import Judgement
from agent_kernel.core.events import AssistantMessage, RequestHeader, TaskLost
from agent_kernel.core.messages import Text, ToolUse, text_of
from agent_kernel.core.model import Request
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks, new_task_id
from agent_kernel.guard import process
from agent_kernel.testing import MessagesServer
from agent_kernel.tools import background, roles
from agent_kernel.tools.task_output import TASK_OUTPUT
from tests.providers.kit import anthropic_of
from tests.tools.flow import (
    done,
    ends,
    flow,
    notices,
    parted,
    request_texts,
    result_text,
    results,
    said,
    start,
    tasks,
)


async def test_three_calls_in_one_answer_are_three_tasks_told_at_once(workspace: Path) -> None:
    calls = [start(f"a{n}", f"part {n}") for n in range(3)]

    async def child(_request: Request) -> Any:
        await asyncio.sleep(0.2)
        return said("found 3")

    session, main = flow(
        parted([done(*calls), said("meanwhile"), *[said("all")] * 3], {"part": child}), workspace
    )
    await query(session, main, "go")
    acks = [json.loads(result_text(session, f"a{n}")) for n in range(3)]
    assert {ack["status"] for ack in acks} == {"async_launched"}
    assert [ack["task_id"] for ack in acks] == [made.id for made in tasks(session)]
    assert all(made.id[0] == "a" and len(made.id) == 17 for made in tasks(session))
    assert len(notices(session)) == 3
    assert verify(session.events).ok


@pytest.mark.parametrize("background", [True, False])
async def test_three_agents_of_one_answer_are_at_work_at_the_same_moment(
    workspace: Path, background: bool
) -> None:
    """None is answered before all three have asked: one after the other would wait for ever."""
    together = asyncio.Barrier(3)

    async def child(_request: Request) -> Any:
        async with asyncio.timeout(60):
            await together.wait()
        return said("done")

    calls = [start(f"a{n}", f"part {n}", background=background) for n in range(3)]
    main = [done(*calls), *[said("all")] * 4]
    session, agent = flow(parted(main, {"part": child}), workspace)
    await query(session, agent, "go")
    assert {end.status for end in ends(session)} == {"completed"}
    assert len(notices(session)) == (3 if background else 0)
    assert [each.id for each in results(session).values()] == ["a0", "a1", "a2"]
    assert verify(session.events).ok


async def test_a_forks_requests_begin_with_its_parents_bytes_and_read_its_cache(
    workspace: Path,
) -> None:
    (workspace / "a.txt").write_text("needle\n" * 200)

    def answer(body: Any) -> Any:
        last = json.dumps(body["messages"][-1])
        turns = sum(m["role"] == "assistant" for m in body["messages"])
        if "You are a fork" in last:
            return wire(Text("the fork's part"))
        if turns == 0:
            return wire(ToolUse("r", "read", {"path": "a.txt"}))
        if turns == 1:
            return wire(start("f", "your part", fork=True, background=False))
        return wire(Text("all"))

    with MessagesServer(answer=answer) as server:
        provider = anthropic_of(server)
        session, agent = flow(
            lambda _r: None, workspace, provider=provider, model="claude-sonnet-5-5"
        )
        await query(session, agent, "find the needle")
        await provider.close()
    (made,) = tasks(session)
    sent: dict[str, list[Request]] = {}
    for context, request in requests(session.events):
        sent.setdefault(context.agent, []).append(request)
    forked, before = sent[made.id][0], sent["main"][1]
    assert forked.head == before.head  # system and tools
    assert forked.messages[: len(before.messages) - 1] == before.messages[:-1]
    first = next(
        e for e in session.events if isinstance(e, AssistantMessage) and e.agent == made.id
    )
    assert first.usage.cache_read > 1_000
    assert result_text(session, "f") == "the fork's part"
    assert not any(
        isinstance(b, ToolUse) and b.id == "f" for m in forked.messages for b in m.content
    )


def wire(block: Any) -> Any:
    return {"role": "assistant", "content": [block.wire()]}


async def test_a_child_is_judged_as_its_parent_is(workspace: Path) -> None:
    def permit(made: Any, _value: Any, _ctx: Any) -> Judgement:
        return Judgement("deny" if made.name == "write" else "allow", reason="house rule")

    write = {"path": "a.txt", "content": "x"}
    child = [done(ToolUse("w", "write", write)), said("could not")]
    main = [done(start("a", "write it", background=False)), said("ok")]
    session, agent = flow(parted(main, {"write it": child}), workspace, permit=permit)
    await query(session, agent, "go")
    assert "house rule" in result_text(session, "w", tasks(session)[0].id)
    assert not (workspace / "a.txt").exists()


async def test_a_waited_for_agent_gives_its_text_alone_and_no_notice(workspace: Path) -> None:
    child = [done(ToolUse("g", "glob", {"pattern": "*"})), said("two files")]
    main = [done(start("a", "count files", background=False)), said("two it is")]
    session, agent = flow(parted(main, {"count files": child}), workspace)
    await query(session, agent, "go")
    assert result_text(session, "a") == "two files"
    assert notices(session) == []
    seen = [request_texts(r) for c, r in requests(session.events) if c.agent == "main"]
    assert not any("no file fits" in text for text in seen)
    (made,) = tasks(session)
    assert (made.depth, made.fork, made.awaited, made.tool_use_id) == (1, False, True, "a")


def test_ten_thousand_ids_are_all_different() -> None:
    assert len({new_task_id("agent") for _ in range(10_000)}) == 10_000


async def test_a_role_gives_its_text_its_tools_and_the_rest_of_the_rules(workspace: Path) -> None:
    folder = workspace / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "finder.md").write_text(
        "---\nname: finder\ndescription: Finds things\ntools: Read, Grep, Nope\ncolor: red\n---\n"
        "You find things.\n"
    )
    main = [done(start("a", "find it", role="finder", background=False)), said("ok")]
    session, agent = flow(parted(main, {"find it": said("here")}), workspace)
    await query(session, agent, "go")
    header = next(e for e in session.events if isinstance(e, RequestHeader) and e.agent != "main")
    assert [part["name"] for part in header.system] == ["identity", "rules"]
    assert header.system[0]["text"] == "You find things."
    assert [tool["name"] for tool in header.tools] == ["read", "grep"]
    found, problems = roles.find(workspace, workspace / "nobody")
    assert found["finder"].extra == {"color": "red"}
    assert problems == ()


async def test_an_unknown_role_names_the_nearest(workspace: Path) -> None:
    folder = workspace / ".agent_kernel/agents"
    folder.mkdir(parents=True)
    (folder / "finder.md").write_text("You find things.")
    (folder / "empty.md").write_text("---\nname: empty\n---\n")
    main = [done(start("a", "x", role="findr")), said("ok")]
    session, agent = flow(parted(main, {}), workspace)
    await query(session, agent, "go")
    assert "no role 'findr'; the nearest are: finder" in result_text(session, "a")
    assert tasks(session) == []


async def test_a_wider_tool_list_is_refused(workspace: Path) -> None:
    main = [done(start("a", "x", tools=["read", "everything"])), said("ok")]
    session, agent = flow(parted(main, {}), workspace)
    await query(session, agent, "go")
    assert "a child may only have fewer" in result_text(session, "a")
    assert tasks(session) == []


async def test_a_model_that_forks_at_each_step_gets_one_child_also_after_a_restart(
    workspace: Path, tmp_path: Path
) -> None:
    def answer(request: Request) -> Any:
        last = text_of(request.messages[-1].content)
        if "Fork is not available" in last or "forked" in last:
            return said("alone then")
        if "alone then" in last:
            return said("good")
        return done(start(f"f{len(request.messages)}", "your part", fork=True, background=False))

    path = tmp_path / "a.agent.jsonl"
    session, agent = flow(answer, workspace, path)
    await query(session, agent, "go")
    (made,) = tasks(session)
    assert "Fork is not available inside a forked worker" in str(
        [e.wire() for e in session.events if e.agent == made.id]
    )
    assert result_text(session, f"f{1}") == "alone then"
    session.close()

    again, agent = flow(answer, workspace, path)
    calls = [
        done(ToolUse("t", "agent", {"prompt": "more", "description": "m", "to": made.id,
                                    "background": False})),
        said("ok"),
    ]  # fmt: skip
    left = iter(calls)

    def later(request: Request) -> Any:
        if "more" in text_of(request.messages[-1].content):
            return done(start("again", "your part", fork=True))
        if "Fork is not available" in text_of(request.messages[-1].content):
            return said("still alone")
        return next(left)

    agent.provider.answers = later  # type: ignore[attr-defined]
    await query(again, agent, "and now")
    assert result_text(again, "t") == "still alone"
    assert {each.id for each in tasks(again)} == {made.id}
    again.close()


async def test_a_tree_of_agents_stays_within_depth_and_number(workspace: Path) -> None:
    """Each agent starts four: at most three levels, ten an agent, twenty in all."""
    most = 0

    async def answer(request: Request) -> Any:
        nonlocal most
        most = max(most, len(agent.tasks.running()))  # type: ignore[union-attr]
        if len(request.messages) > 1:
            await asyncio.sleep(0.05)
            return said("enough")
        return done(*[start(f"c{n}", f"branch {n}") for n in range(4)])

    session, agent = flow(answer, workspace)
    await query(session, agent, "branch")
    assert max(made.depth for made in tasks(session)) <= 3
    assert most == 20
    refused = [text_of(e.content) for a in session.agents for e in results(session, a).values()]
    assert any("20 tasks of this session are running; at most 20 may" in text for text in refused)


async def test_a_fourth_level_is_refused(workspace: Path) -> None:
    def answer(request: Request) -> Any:
        if len(request.messages) > 1:
            return said(text_of(request.messages[-1].content))
        return done(start("c", "deeper", background=False))

    session, agent = flow(answer, workspace)
    await query(session, agent, "deeper")
    assert [made.depth for made in tasks(session)] == [1, 2, 3]
    assert "agents may be 3 deep" in result_text(session, "c")


async def test_a_teammate_starts_nothing_behind_its_call(workspace: Path) -> None:
    child = [
        done(start("b1", "below"), ToolUse("b2", "bash", {"command": "true", "background": True}),
             ToolUse("b3", "bash", {"command": "echo front"})),
        said("told"),
        said("again"),
    ]  # fmt: skip
    main = [
        done(start("a", "mate work", team="scouts", background=False)),
        done(start("t", "once more", to="scouts", background=False)),
        said("ok"),
    ]
    session, agent = flow(parted(main, {"mate work": child}), workspace)
    await query(session, agent, "go")
    mate = tasks(session)[0].id
    for call in ("b1", "b2"):
        assert "a teammate of 'scouts' may not start" in result_text(session, call, mate)
    assert "front" in result_text(session, "b3", mate)
    assert result_text(session, "t") == "again"
    assert {made.id for made in tasks(session)} == {mate}


async def test_to_goes_on_with_an_agent_that_ended_and_steers_one_that_runs(
    workspace: Path,
) -> None:
    reached = asyncio.Event()
    steered: list[str] = []

    async def slow(request: Request) -> Any:
        text = request_texts(request)
        if "second question" in text:
            return said("second answer")
        if "look left" in text:
            steered.append(text)
            return said("left it is")
        reached.set()
        await asyncio.sleep(0.3)
        return done(ToolUse("g", "glob", {"pattern": "*"}))

    async def main(request: Request) -> Any:
        count = len([m for m in request.messages if m.role == "assistant"])
        if count == 0:
            return done(start("a", "slow part"))
        made = tasks(session)[0].id
        if count == 1:
            await reached.wait()
            return done(start("s", "look left", to=made))
        if "task-notification" not in request_texts(request):
            return said("waiting")
        if "second answer" in request_texts(request):
            return said("both")
        return done(start("t", "second question", to=made, background=False))

    async def answer(request: Request) -> Any:
        child = "slow part" in text_of(request.messages[0].content)
        return await (slow if child else main)(request)

    session, agent = flow(answer, workspace)
    outcome = await query(session, agent, "go")
    assert len(steered) == 1
    assert "read before its next request" in result_text(session, "s")
    assert result_text(session, "t") == "second answer"
    assert outcome.answer == "both"
    assert len(notices(session)) == 1
    assert verify(session.events).ok


async def test_only_its_parent_speaks_to_an_agent(workspace: Path) -> None:
    async def other(request: Request) -> Any:
        if len(request.messages) > 1:
            return said("ok")
        return done(start("x", "hello", to=tasks(session)[0].id))

    main = [
        done(start("a", "first part", background=False)),
        done(start("b", "other part", background=False)),
        said("ok"),
    ]
    session, agent = flow(parted(main, {"first part": said("1"), "other part": other}), workspace)
    await query(session, agent, "go")
    assert "only its own parent speaks to it" in result_text(session, "x", tasks(session)[1].id)


SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


async def test_an_answer_by_schema_is_mended_twice_then_refused_with_its_last_text(
    workspace: Path,
) -> None:
    good = [said("I think 3"), said('```json\n{"n": "3"}\n```'), said('{"n": 3}')]
    bad = [said("no"), said("no, really"), said("never")]
    main = [
        done(start("a", "good one", schema=SCHEMA)),
        done(start("b", "bad one", schema=SCHEMA)),
        done(
            start("c", "x", schema={"type": "nothing"}),
            start("d", "x", schema={"$ref": "http://x"}),
        ),
        said("ok"),
    ]
    session, agent = flow(parted(main, {"good one": good, "bad one": bad}), workspace)
    await query(session, agent, "go")
    assert result_text(session, "a") == '{"n": 3}'
    assert results(session)["a"].meta["value"] == {"n": 3}
    assert results(session)["b"].is_error
    assert result_text(session, "b").endswith("never")
    assert "the schema is none" in result_text(session, "c")
    assert "nothing is fetched" in result_text(session, "d")
    assert len(tasks(session)) == 2


def repository(folder: Path) -> None:
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.email", "a@example.org"],
        ["config", "user.name", "A"],
        ["add", "."],
        ["commit", "-q", "-m", "one"],
    ):
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


async def test_two_agents_edit_one_file_each_in_its_own_worktree(
    workspace: Path, tmp_path: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")
    repository(workspace)

    def editing(word: str) -> list[Any]:
        edit = {"path": "a.txt", "old": "one", "new": word}
        calls = [done(ToolUse("r", "read", {"path": "a.txt"})), done(ToolUse("e", "edit", edit))]
        return [*calls, said(f"now {word}")]

    calls = [
        start(word, f"edit {word}", isolation="worktree", background=False)
        for word in ("left", "right", "idle")
    ]
    children: dict[str, Any] = {"edit left": editing("left"), "edit right": editing("right")}
    session, agent = flow(
        parted([done(*calls), said("ok")], {**children, "edit idle": said("nothing to do")}),
        workspace,
        tmp_path / "a.agent.jsonl",
    )
    await query(session, agent, "go")
    assert (workspace / "a.txt").read_text() == "one\n"
    for word in ("left", "right"):
        text = result_text(session, word)
        assert "a.txt | 2 +-" in text
        made = next(e for e in tasks(session) if e.tool_use_id == word)
        assert f"branch agent/{made.id}, not merged" in text
        folder = Path(text.split("[worktree ")[1].split(",")[0])
        assert (folder / "a.txt").read_text() == f"{word}\n"
        assert made.isolation == "worktree"
    assert "its worktree was unchanged and is removed" in result_text(session, "idle")
    listed = subprocess.run(
        ["git", "-C", str(workspace), "branch", "--list", "agent/*"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(listed.stdout.split()) == 4  # two branches, each marked `+`
    session.close()


async def test_a_worktree_outside_a_repository_is_refused(workspace: Path) -> None:
    main = [done(start("a", "x", isolation="worktree")), said("ok")]
    session, agent = flow(parted(main, {}), workspace)
    await query(session, agent, "go")
    assert results(session)["a"].is_error
    assert "git" in result_text(session, "a")
    assert tasks(session) == []


async def test_after_a_restart_a_lost_agent_is_taken_up_where_its_log_stands(
    workspace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.agent.jsonl"
    reached = asyncio.Event()

    async def first(request: Request) -> Any:
        if len(request.messages) == 1:
            return done(ToolUse("g", "glob", {"pattern": "*"}))
        reached.set()
        return await asyncio.sleep(60)

    main = [done(start("a", "long part")), said("launched")]
    session, agent = flow(parted(main, {"long part": first}), workspace, path, wake="off")
    await query(session, agent, "go")
    await reached.wait()
    lines = path.read_bytes()  # what a kill -9 leaves
    await agent.tasks.stop_all()  # type: ignore[union-attr]
    session.close()
    path.write_bytes(lines)

    def after(request: Request) -> Any:
        text = request_texts(request)
        if "long part" in text_of(request.messages[0].content):
            return said("done after all")
        if "done after all" in text:
            return said("all is well")
        assert "<status>lost</status>" in text
        assert f"agent(to='{made.id}') goes on with it" in text
        return done(start("t", "go on", to=made.id, background=False))

    again, agent = flow(after, workspace, path, wake="off")
    (made,) = tasks(again)
    again.resume()
    reopened = await background.reopen(again, agent.tasks)  # type: ignore[arg-type]
    assert reopened.lost == (made.id,)
    assert await background.reopen(again, agent.tasks) == background.Reopened((), ())  # type: ignore[arg-type]
    outcome = await query(again, agent, "how is it?")
    assert outcome.answer == "all is well"
    assert result_text(again, "t") == "done after all"
    assert len([e for e in again.events if isinstance(e, TaskLost)]) == 1
    assert len(notices(again)) == 1
    assert verify(again.events).ok
    again.close()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from agent_kernel.core.messages import ToolUse
from agent_kernel.core.query import query
from tests.tools.flow import done, flow, parted, said, start, tasks

def shell(id, command):
    return ToolUse(id, "bash", {"command": command, "background": True})

async def child(_request):
    await asyncio.sleep(60)

async def main():
    calls = [shell("live", "echo here; sleep 6; echo end"), shell("dead", "echo gone; sleep 60")]
    session, agent = flow(
        parted([done(*calls, start("ag", "long part")), said("launched")], {"long part": child}),
        Path(sys.argv[2]), Path(sys.argv[1]), wake="off", services={"keep_tasks": True},
    )
    await query(session, agent, "go")
    made = {e.tool_use_id: e.id for e in tasks(session)}
    outputs = [agent.tasks.get(made[name]).output for name in ("live", "dead")]
    while not all(path.exists() and path.stat().st_size for path in outputs):
        await asyncio.sleep(0.02)
    await session.log.commit()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_three_right_states_after_a_restart(workspace: Path, tmp_path: Path) -> None:
    """One command lives on, one is dead, one was an agent: adopted, lost, lost; none silent."""
    path = tmp_path / "a.agent.jsonl"
    words = [sys.executable, "-c", KILLED, str(path), str(workspace)]
    ran = await asyncio.to_thread(subprocess.run, words, capture_output=True, timeout=60)
    assert ran.returncode == -9, ran.stderr.decode()

    again = Session.open(path)
    made = {e.tool_use_id: e.id for e in tasks(again)}
    for pid in process.marked(made["dead"]):
        os.kill(pid, signal.SIGKILL)
    while process.marked(made["dead"]):
        await asyncio.sleep(0.02)
    held = Tasks(again)
    again.resume()
    found = await background.reopen(again, held)
    assert found.adopted == (made["live"],)
    assert set(found.lost) == {made["dead"], made["ag"]}
    task = await held.wait(made["live"], 30)
    assert task.ended is not None
    assert task.ended.exit_code is None
    assert "its exit code is not known" in task.ended.summary
    assert task.ended.result == "here\nend\n"
    assert len(again.state().inbox) == 3
    lost = next(e for e in again.events if isinstance(e, TaskLost) and e.id == made["dead"])
    assert lost.result == "gone\n"
    again.close()


async def test_task_output_of_an_agent_shows_what_it_does_while_it_runs(workspace: Path) -> None:
    reached = asyncio.Event()

    async def child(request: Request) -> Any:
        if len(request.messages) == 1:
            return done(Text("I look"), ToolUse("g", "glob", {"pattern": "*.py"}))
        reached.set()
        return await asyncio.sleep(60)

    session, agent = flow(
        parted([done(start("a", "part one")), said("launched")], {"part one": child}),
        workspace,
        wake="off",
    )
    await query(session, agent, "go")
    await reached.wait()
    context = agent.runner.context(session, "x")
    answer = await TASK_OUTPUT.run(TASK_OUTPUT.parse({"task": tasks(session)[0].id}), context)
    assert answer.content[0].text.startswith('I look\n[glob {"pattern": "*.py"}]\n[running')
    await agent.tasks.stop_all()  # type: ignore[union-attr]
    assert [e.status for e in ends(session)] == ["stopped"]


async def test_stopping_a_waiting_turn_stops_the_agent_it_waits_for(workspace: Path) -> None:
    reached = asyncio.Event()

    async def child(_request: Request) -> Any:
        reached.set()
        await asyncio.sleep(60)

    main = [done(start("a", "part one", background=False))]
    session, agent = flow(parted(main, {"part one": child}), workspace)
    running = asyncio.ensure_future(query(session, agent, "go"))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [e.status for e in ends(session)] == ["stopped"]
    assert session.state(tasks(session)[0].id).turn_end is not None
    assert session.state().turn_end.reason == "interrupted"  # type: ignore[union-attr]
