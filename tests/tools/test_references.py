"""References: a path stays a path, candidates stay inside, an attached file is whole or cut."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.batch import Judgement
from agent_kernel.core.events import FileObserved
from agent_kernel.core.messages import Image, Text, ToolUse, text_of
from agent_kernel.core.query import advance, query, start_turn
from agent_kernel.core.tool import Tool, ToolError, tool
from agent_kernel.tools.references import (
    Reference,
    attach,
    attach_all,
    candidates,
    fence_of,
    references,
)
from tests.tools.flow import done, flow, parted, request_texts, result_text, said

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(
    "text,expected",
    [
        ("see @a/b.py now", [Reference("a/b.py")]),
        ('and @"with space.py", too', [Reference("with space.py")]),
        ("@a.py:10-40 and @a.py:7", [Reference("a.py", 10, 40), Reference("a.py", 7, 7)]),
        ('@"b c.py":3-4', [Reference("b c.py", 3, 4)]),
        ("is it @a.py? or (@b.py).", [Reference("a.py"), Reference("b.py")]),
        ("mail me@example.org or `@code`", []),
        ("@a.py @a.py", [Reference("a.py")]),
        ("@docs:file:///x/y.md", [Reference("file:///x/y.md", server="docs")]),
        ("@ alone and @@twice", []),
        ("看 @数据/表.csv", [Reference("数据/表.csv")]),
    ],
)
def test_what_a_prompt_names(text: str, expected: list[Reference]) -> None:
    assert references(text) == expected


async def test_a_reference_adds_no_content_until_it_is_read(workspace: Path) -> None:
    (workspace / "a.py").write_text("SECRET_NUMBER = 42\n")
    session, agent = flow(parted([said("ok")], {}), workspace)
    await query(session, agent, "what is in @a.py?")
    assert "SECRET_NUMBER" not in str([e.wire() for e in session.events])


def test_candidates_are_paths_of_the_workspace_and_nothing_else(workspace: Path) -> None:
    names = "src/app.py src/api.py docs/api.md .venv/api.py ignored/api.py .git/api".split()
    for name in (*names, "with space.py", "node_modules/api.js", "__pycache__/api.pyc"):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (workspace / ".gitignore").write_text("ignored/\n")
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "api_secret.py").write_text("x")
    (workspace / "api_link").symlink_to(outside)
    (workspace / "api_link.py").symlink_to(outside / "api_secret.py")
    found = candidates(workspace, "api")
    assert [each.path for each in found] == ["docs/api.md", "src/api.py"]
    assert [each.word for each in candidates(workspace, "with")] == ['@"with space.py"']
    assert candidates(workspace, "src/")[0].path == "src/"
    assert candidates(workspace, "src")[0].kind == "folder"
    assert candidates(workspace, "../") == candidates(workspace, "/etc") == []


def test_a_large_workspace_is_bounded_and_quick(workspace: Path) -> None:
    for n in range(120):
        folder = workspace / f"f{n:03}"
        folder.mkdir()
        for m in range(100):
            (folder / f"x{m}.txt").touch()
    began = time.monotonic()
    found = candidates(workspace, "x1")
    assert time.monotonic() - began < 5.0
    assert len(found) == 20
    began = time.monotonic()
    candidates(workspace, "x2")
    assert time.monotonic() - began < 0.5


async def attached(workspace: Path, wanted: Reference, **changes: Any) -> tuple[Any, Any]:
    session, agent = flow(parted([said("ok")], {}), workspace, **changes)
    start_turn(session, agent, "go")
    made = await attach(session, agent, wanted, by_person=True)
    return session, made


async def test_a_short_file_is_attached_whole_in_a_longer_fence_and_counts_as_read(
    workspace: Path,
) -> None:
    (workspace / "a.md").write_text("one\n````\ntwo\n````\n")
    session, made = await attached(workspace, Reference("a.md"))
    assert text_of(made.content) == "File: a.md\n`````md\none\n````\ntwo\n````\n`````"
    assert made.meta["lines"] == [1, 4]
    assert made.meta["truncated"] is False
    assert session.observed("main", "a.md") == made.meta["sha256"]
    assert fence_of("no fence") == "```"


async def test_a_long_file_is_cut_at_lines_and_does_not_count_as_read(workspace: Path) -> None:
    lines = [f"{n:06} {'x' * 92}" for n in range(1, 10_001)]
    (workspace / "big.txt").write_text("\n".join(lines) + "\n")
    session, made = await attached(workspace, Reference("big.txt"))
    text = text_of(made.content)
    assert len(text) < 20_300
    assert "[lines 151-9950 of 10000 left out: read('big.txt', offset=151)]" in text
    assert text.index("000150 ") < text.index("[lines 151") < text.index("009951 ")
    assert made.meta["truncated"] is True
    assert session.observed("main", "big.txt") is None
    edit = {"path": "big.txt", "old": "000001", "new": "x"}
    again, agent = flow(parted([done(ToolUse("e", "edit", edit)), said("ok")], {}), workspace)
    await query(again, agent, "go")
    assert "you have not read" in result_text(again, "e")


async def test_lines_a_picture_one_endless_line_and_what_is_none_of_these(workspace: Path) -> None:
    (workspace / "a.txt").write_text("\n".join(map(str, range(1, 101))))
    session, made = await attached(workspace, Reference("a.txt", 10, 12))
    assert text_of(made.content) == "File: a.txt\n```txt\n10\n11\n12\n```"
    assert session.observed("main", "a.txt") is None
    (workspace / "p.png").write_bytes(PNG)
    _, made = await attached(workspace, Reference("p.png"))
    assert isinstance(made.content[0], Text)
    assert isinstance(made.content[1], Image)
    (workspace / "line.txt").write_text("y" * 50_000)
    _, made = await attached(workspace, Reference("line.txt"))
    assert len(text_of(made.content)) < 21_000
    assert "line 1 has 50,000 characters" in text_of(made.content)
    (workspace / "b.bin").write_bytes(b"\0\1\2")
    for name, why in (
        ("b.bin", "no text"),
        ("none.txt", "no file"),
        ("/dev/null", "no regular file"),
    ):
        with pytest.raises(ToolError, match=why):
            await attached(workspace, Reference(name))


async def test_attaching_passes_the_same_judge_as_read(workspace: Path) -> None:
    (workspace / "a.txt").write_text("a")

    def judged(verdict: Any) -> Callable[..., Judgement]:
        return lambda made, value, _ctx: Judgement(
            verdict if made.name == "read" and value["path"] == "a.txt" else "deny", reason="rule"
        )

    session, agent = flow(parted([], {}), workspace, permit=judged("deny"))
    with pytest.raises(ToolError, match="not attached: rule"):
        await attach(session, agent, Reference("a.txt"), by_person=True)
    agent = replace(agent, permit=judged("ask"))
    start_turn(session, agent, "@a.txt and @b.txt")
    problems = await attach_all(session, agent, "@a.txt and @b.txt")
    assert problems == ["a.txt: not attached: rule", "b.txt: not attached: rule"]
    assert await attach(session, agent, Reference("a.txt"), by_person=True)


async def test_with_the_setting_attach_a_turns_first_request_carries_the_files(
    workspace: Path,
) -> None:
    (workspace / "a.py").write_text("x = 41\n")
    session, agent = flow(parted([said("ok")], {}), workspace)
    start_turn(session, agent, "what is in @a.py?")
    assert await attach_all(session, agent, "what is in @a.py?") == []
    while session.state().turn_open:
        await advance(session, agent)
    request = agent.provider.requests[0]  # type: ignore[attr-defined]
    assert "x = 41" in request_texts(request)
    assert text_of(request.messages[0].content).startswith("what is in @a.py?")
    assert any(isinstance(e, FileObserved) for e in session.events)


async def test_a_servers_resource_is_attached_as_the_server_gave_it(workspace: Path) -> None:
    @tool(name="mcp__docs__read_resource", read_only=True, deferred=True)
    async def read_resource(uri: str) -> str:
        """Read."""
        return f"<untrusted>{uri}</untrusted>"

    made: Tool = read_resource
    session, agent = flow(parted([], {}), workspace, tools=(made,))
    start_turn(session, agent, "go")
    found = await attach(session, agent, Reference("file:///x.md", server="docs"))
    assert text_of(found.content) == "<untrusted>file:///x.md</untrusted>"
    assert found.meta["taint"] == "mcp"
    with pytest.raises(ToolError, match="no server 'other' offers resources"):
        await attach(session, agent, Reference("x:y", server="other"))
