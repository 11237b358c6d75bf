"""Skill: a Claude Code skill folder loads unchanged; its body costs nothing until it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.events import RequestHeader, SkillLoaded
from agent_kernel.core.messages import ToolUse
from agent_kernel.core.query import query
from agent_kernel.tools import frontmatter, skills
from agent_kernel.tools.edit import EDIT
from agent_kernel.tools.read import READ
from agent_kernel.tools.skill import SKILL
from tests.tools.conftest import Bench
from tests.tools.flow import done, flow, parted, result_text, said

HEAD = """---
name: release-notes
description: >
  Write release notes
  from merged changes.
when_to_use: "Before a release: \\"what is new\\""
paths: ["CHANGELOG.md", 'docs/**/*.md']
context: inline
allowed-tools: Read, Grep, Bash(git log:*)
model: haiku
license: MIT
metadata:
  owner: docs
---

# Release notes

Read ${CLAUDE_SKILL_DIR}/template.md, then write notes for $1 since $2 ($ARGUMENTS).
"""


def put(bench: Bench, folder: str, text: str, base: Path | None = None) -> Path:
    path = (base or bench.workspace) / folder / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


async def test_a_claude_code_skill_loads_unchanged(bench: Bench, home: Path) -> None:
    path = put(bench, ".claude/skills/notes", HEAD)
    skill = skills.find(bench.workspace).found["release-notes"]
    assert skill.description == "Write release notes from merged changes."
    assert skill.when_to_use == 'Before a release: "what is new"'
    assert skill.paths == ("CHANGELOG.md", "docs/**/*.md")
    assert skill.allowed_tools == ("Read", "Grep", "Bash(git log:*)")
    assert skill.model == "haiku"
    assert skill.fork is False
    assert set(skill.extra) == {"license", "metadata"}
    text = await bench.text(SKILL, name="release-notes", arguments="2.0 1.9")
    assert text.startswith("Skill 'release-notes'; files beside it: .claude/skills/notes; it uses")
    assert f"Read {path.parent}/template.md" in text
    assert "write notes for 2.0 since 1.9 (2.0 1.9)." in text
    (event,) = [e for e in bench.session.events if isinstance(e, SkillLoaded)]
    assert event.path == ".claude/skills/notes/SKILL.md"


async def test_the_nearer_of_one_name_wins_and_the_other_is_known(bench: Bench, home: Path) -> None:
    put(bench, ".agent_kernel/skills/x", "---\ndescription: near\n---\nnear body")
    put(bench, ".claude/skills/x", "---\ndescription: middle\n---\nmiddle body")
    put(bench, ".claude/skills/x", "---\ndescription: far\n---\nfar body", base=home)
    put(bench, ".claude/skills/mine", "---\ndescription: only user\n---\nbody", base=home)
    found = skills.find(bench.workspace)
    assert found.found["x"].description == "near"
    assert [each.description for each in found.hidden] == ["middle", "far"]
    assert found.found["mine"].origin == "user"
    answer = await bench.call(SKILL, name="x")
    assert "near body" in answer.content[0].text
    assert answer.meta["path"] == ".agent_kernel/skills/x/SKILL.md"
    near, far = answer.meta["hides"]  # both are in the log: what was taken, and what it hid
    assert near == ".claude/skills/x/SKILL.md"
    assert far.endswith("/.claude/skills/x/SKILL.md")


async def test_arguments_without_a_place_stand_at_the_end(bench: Bench, home: Path) -> None:
    put(bench, ".claude/skills/x", "Do it. Costs $100.")
    assert (await bench.text(SKILL, name="x", arguments="now")).endswith(
        "Do it. Costs $100.\n\nARGUMENTS: now"
    )


async def test_a_new_skill_is_there_at_once_and_a_changed_one_is_new(
    bench: Bench, home: Path
) -> None:
    assert "no skill 'x'" in await bench.error(SKILL, name="x")
    path = put(bench, ".claude/skills/x", "one")
    assert "one" in await bench.text(SKILL, name="x")
    path.write_text("two")
    assert "two" in await bench.text(SKILL, name="x")
    assert "the nearest are: x" in await bench.error(SKILL, name="xx")


async def test_a_forked_skill_gets_no_tool_its_parent_lacks(bench: Bench, home: Path) -> None:
    put(bench, ".claude/skills/x", "---\ncontext: fork\nallowed-tools: [Read, Bash]\n---\nbody $1")
    main = [done(ToolUse("s", "skill", {"name": "x", "arguments": "a"})), said("ok")]
    session, agent = flow(
        parted(main, {"body a": said("the child's answer")}),
        bench.workspace,
        tools=(READ, EDIT, SKILL),
    )
    await query(session, agent, "go")
    assert result_text(session, "s") == "the child's answer"
    header = next(e for e in session.events if isinstance(e, RequestHeader) and e.agent != "main")
    assert [tool["name"] for tool in header.tools] == ["read"]


async def test_a_broken_skill_is_a_problem_and_no_crash(bench: Bench, home: Path) -> None:
    put(bench, ".claude/skills/bad", "---\nname: 'no good name!'\n---\nx")
    put(bench, ".claude/skills/big", "x" * (65 << 10))
    put(bench, ".claude/skills/good", "fine")
    (bench.workspace / ".claude/skills/empty").mkdir()
    found = skills.find(bench.workspace)
    own = [each.name for each in found.found.values() if each.origin != "bundled"]
    assert own == ["good"]
    assert len(found.problems) == 2


@pytest.mark.parametrize(
    "text,expected",
    [
        ("no head", {}),
        ("---\nnever closed", {}),
        ("---\n---\nbody", {}),
        ("---\na: 1 # said\nb:\n- x\n- 'y'\n---\n", {"a": "1", "b": ["x", "y"]}),
        ("---\r\na: |\r\n  one\r\n  two\r\n---\r\n", {"a": "one\ntwo"}),
        ("---\na: long\n  line goes on\n---\n", {"a": "long line goes on"}),
        ("---\na: Read, Bash(git add:*, x)\n---\n", {"a": "Read, Bash(git add:*, x)"}),
        ("---\nbroken\n\nb: 2\n---\n", {"b": "2"}),
    ],
)
def test_frontmatter(text: str, expected: dict[str, Any]) -> None:
    assert frontmatter.split(text)[0] == expected


def test_commas_in_parentheses_part_nothing() -> None:
    assert frontmatter.words("Read, Bash(git add:*, x)") == ("Read", "Bash(git add:*, x)")
