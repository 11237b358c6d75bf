"""Offer: a request carries the resident tools of use and the deferred ones found so far."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from agent_kernel import compaction
from agent_kernel import tools as room
from agent_kernel.core.calling import compact
from agent_kernel.core.events import ToolEnabled
from agent_kernel.core.messages import ToolUse, text_of
from agent_kernel.core.model import Request
from agent_kernel.core.prompt import PromptError
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool, tool
from agent_kernel.tools import Servers
from agent_kernel.tools.mcp_config import ServerConfig
from agent_kernel.tools.web import WebConfig
from tests.tools.flow import done, flow, parted, result_text, results, said, start

CORE = [t for t in room.ALL if not t.deferred]
RESIDENT = [t.name for t in CORE if t.name not in ("tool_search", "web_search")]


def names(session: Session, agent: str = "main") -> list[list[str]]:
    """The names of each request's tools."""
    return [[t.name for t in r.tools] for c, r in requests(session.events) if c.agent == agent]


def use(id: str, name: str, **value: Any) -> ToolUse:
    return ToolUse(id, name, value)


def later(name: str, words: str = "Count the stars.") -> Tool:
    @tool(name=name, deferred=True)
    async def made(of: str) -> str:
        """Replaced."""
        return f"{name} of {of}"

    found: Tool = made
    return Tool(name, words, found.input, found.run, deferred=True, read_only=True)


def many() -> MCPServer:
    """A server of 500 tools."""
    server = MCPServer("hall")
    for n in range(500):

        async def act(of: str, n: int = n) -> str:
            return f"tool {n} of {of}"

        words = f"Does thing number {n} to a shelf, at length and with many words of its own."
        server.add_tool(act, name=f"thing_{n}", description=words)
    return server


async def test_500_deferred_tools_cost_one_search_and_the_one_found_outlives_a_compaction(
    workspace: Path, tmp_path: Path
) -> None:
    servers = Servers([ServerConfig("hall", server=many())])
    await servers.connect()
    try:
        tools = room.ordered([*CORE, *servers.tools()])
        assert sum(each.deferred for each in tools) == 501  # and the reader of resources
        path, wanted = tmp_path / "a.agent.jsonl", "mcp__hall__thing_321"
        main = [
            done(use("s", "tool_search", query="thing number 321", limit=1)),
            done(use("c", wanted, of="north")),
            *[said("x " * 4_000), said("y"), said("z")],
        ]
        changes = {"tools": tools, "strategies": compaction.ALL}
        session, agent = flow(parted(main, {}), workspace, path, **changes)
        for words in ("go", "more", "again"):
            await query(session, agent, words)
        with_search = [t.name for t in CORE if t.name != "web_search"]
        assert names(session)[:2] == [with_search, [*with_search, wanted]]
        assert "tool 321 of north" in result_text(session, "c")
        nodes = session.surface().nodes
        await compact(session, agent, "manual", span=(nodes[0].seq, nodes[-1].seq), use_model=False)
        assert "c" not in {getattr(n, "id", None) for n in session.surface().nodes}
        session.close()

        again, agent = flow(parted([said("there")], {}), workspace, path, **changes)
        await query(again, agent, "still there?")
        assert names(again)[-1] == [*with_search, wanted]
        assert verify(again.events).ok
        again.close()
    finally:
        await servers.close()


async def test_a_deferred_tool_called_before_it_is_loaded_is_told_how_to_load_it(
    workspace: Path,
) -> None:
    main = [
        done(use("a", "count_stars", of="sky")),
        done(use("s", "tool_search", query="select:count_stars")),
        done(use("b", "count_stars", of="sky"), use("x", "count_star")),
        said("ok"),
    ]
    session, agent = flow(parted(main, {}), workspace, tools=(*room.ALL, later("count_stars")))
    await query(session, agent, "go")
    first = results(session)["a"]
    assert first.is_error
    assert first.meta["error_kind"] == "not_loaded"
    assert "tool_search(query='select:count_stars')" in result_text(session, "a")
    assert result_text(session, "b") == "count_stars of sky"
    assert results(session)["x"].meta["error_kind"] == "unknown_tool"
    assert "count_stars" not in result_text(session, "x")  # names of deferred tools are not listed


async def test_a_fork_carries_what_its_parent_found_and_a_fresh_agent_does_not(
    workspace: Path,
) -> None:
    def answer(request: Request) -> Any:
        last, first = (text_of(request.messages[n].content) for n in (-1, 0))
        if "part" in last.rsplit("\n", 1)[-1]:
            return said("a child's")
        if len(request.messages) == 1:
            return done(use("s", "tool_search", query="select:count_stars"))
        if len(request.messages) == 3:
            own = start("n", "fresh part", background=False)
            return done(start("f", "forked part", fork=True, background=False), own)
        return said(first)

    session, agent = flow(answer, workspace, tools=(*room.ALL, later("count_stars")))
    await query(session, agent, "go")
    forked, fresh = (names(session, made[0].id)[0] for made in session.made.values())
    assert forked == names(session)[-1]
    assert forked[-1] == "count_stars"
    assert "count_stars" not in fresh


async def test_tools_without_a_use_are_not_sent(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sent(**changes: Any) -> list[str]:
        given = {"tools": CORE, **changes}
        session, agent = flow(parted([said("ok")], {}), workspace, **given)
        await query(session, agent, "go")
        return names(session)[0]

    for key in ("EXA_API_KEY", "PERPLEXITY_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    assert await sent() == RESIDENT
    assert "tool_search" in await sent(tools=(*room.ALL, later("count_stars")))
    assert "web_search" in await sent(services={"web": WebConfig(folder=tmp_path)})
    assert "web_search" in await sent(services={"web": WebConfig(search="exa")})
    monkeypatch.setenv("EXA_API_KEY", "x")
    assert "web_search" in await sent()


async def test_a_person_switches_tools_on_and_off_from_the_next_request(
    workspace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.agent.jsonl"
    tools = (*room.ALL, later("count_stars"))
    main = [said("1"), done(use("g", "glob", pattern="*"), use("c", "count_stars", of="x")),
            said("2"), said("3")]  # fmt: skip
    session, agent = flow(parted(main, {}), workspace, path, tools=tools)
    await query(session, agent, "one")
    session.append(ToolEnabled(name="glob", on=False), ToolEnabled(name="count_stars", on=True))
    await query(session, agent, "two")
    assert "glob" in names(session)[0]
    assert "glob" not in names(session)[1]
    assert names(session)[1][-1] == "count_stars"
    assert results(session)["g"].meta["error_kind"] == "switched_off"
    assert result_text(session, "c") == "count_stars of x"
    session.append(ToolEnabled(name="count_stars", on=False))
    session.close()
    again, agent = flow(parted([said("3")], {}), workspace, path, tools=tools)
    await query(again, agent, "three")
    assert not {"glob", "count_stars"} & set(names(again)[-1])
    again.close()


def test_the_setting_defer_decides_what_is_sent_at_once() -> None:
    tools = [*CORE, *[later(f"t{n}", "word " * 400) for n in range(20)]]

    def deferred(how: str, window: int = 200_000) -> int:
        return sum(each.deferred for each in room.deferral(tools, how, window))

    assert deferred("always") == 20
    assert deferred("never") == 0
    assert deferred("auto:10") == 0  # some 10,000 tokens of 200,000
    assert deferred("auto:10", 50_000) == 20
    with pytest.raises(ValueError, match="auto:N"):
        deferred("sometimes")


def test_tools_stand_in_one_order_whatever_the_order_they_came_in() -> None:
    tools = [*room.ALL, *[later(n) for n in ("zeta", "alpha", "mcp__b__x", "mcp__a__y")]]
    for seed in range(100):
        shuffled = tools[:]
        random.Random(seed).shuffle(shuffled)
        assert [each.name for each in room.ordered(shuffled)] == [
            *(each.name for each in room.ALL),
            *("alpha", "mcp__a__y", "mcp__b__x", "zeta"),
        ]


def package(folder: Path, points: Sequence[str]) -> None:
    (folder / "their_tools.py").write_text(
        "from agent_kernel.core.tool import tool\n"
        "@tool\nasync def rows(table: str) -> int:\n    'Count rows.'\n    return 1\n"
        "READ = type(rows)('read', 'x', rows.input, rows.run, owner='their_tools')\nNONE = 3\n"
    )
    info = folder / "their_tools-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-tools\nVersion: 1.0\n")
    lines = "\n".join(points)
    (info / "entry_points.txt").write_text(f"[agent_kernel.tools]\n{lines}\n")


def test_another_packages_tool_comes_after_ours_and_clashes_name_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, ["rows = their_tools:rows"])
    monkeypatch.syspath_prepend(str(tmp_path))
    found = room.found()
    assert found[: len(room.ALL)] == room.ALL
    assert [(each.name, each.owner) for each in found[len(room.ALL) :]] == [("rows", "their_tools")]
    package(tmp_path, ["read = their_tools:READ"])
    with pytest.raises(PromptError, match="'read' comes from 'agent_kernel' and 'their_tools'"):
        room.found()
    package(tmp_path, ["none = their_tools:NONE"])
    with pytest.raises(PromptError, match="is no Tool"):
        room.found()
