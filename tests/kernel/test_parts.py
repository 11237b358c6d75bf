"""Parts of the kernel in one process: transforms, options, namespaces, plans of a cell, places."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_kernel.core.agent import Agent
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from agent_kernel.kernel import filled, namespace, places, transform, turns
from agent_kernel.kernel.parse import Option, UsageError, count, parse, words_of
from agent_kernel.providers import scripted


@pytest.mark.parametrize(
    "cell,made",
    [
        ("%%agent\nhi {x} %s\n", "await get_ipython().agent_cell('', 'hi {x} %s\\n')\n"),
        ("\n%%agent -m x\nhi?\n", "await get_ipython().agent_cell(' -m x', 'hi?\\n')\n"),
        ("%%agents\nhi\n", None),
        ("x = 1\n%%agent\n", None),
        ("%agent status\n", "await get_ipython().agent_line('status')\n"),
        (
            "# look\n%agent step\n\n%agent stop\n",
            "await get_ipython().agent_line('step')\nawait get_ipython().agent_line('stop')\n",
        ),
        ("x = 1\n%agent status\n", None),
        ("'''\n%agent status\n'''\n", None),
        ("", None),
    ],
)
def test_only_agent_cells_and_lines_are_rewritten(cell, made) -> None:
    lines = cell.splitlines(keepends=True)
    out = transform.agent_lines(transform.agent_cells(lines))
    assert "".join(out) == (cell if made is None else made)


OPTIONS = (Option(("-n", "--number"), count), Option(("--flag",)))


def test_options_and_words_are_told_apart() -> None:
    assert parse(["--number=3", "word", "--flag"], OPTIONS, most=1) == (
        {"number": 3, "flag": True},
        ["word"],
    )


@pytest.mark.parametrize(
    "line,words",
    [
        ("--numbr 3", "did you mean '--number'"),
        ("--number", "needs a value"),
        ("--number x", "whole number"),
        ("--flag=1", "takes no value"),
        ("one two", "'two' is not understood"),
        ("'open", "close the quote"),
    ],
)
def test_a_line_nobody_understands_is_a_usage_error(line, words) -> None:
    with pytest.raises(UsageError, match=words):
        parse(words_of(line), OPTIONS, most=1)


def test_a_namespace_says_names_kinds_and_shapes_and_no_value() -> None:
    import pandas as pd

    secret = "a value nobody sends"
    before = namespace.snapshot({"old": 1, "same": secret, "os": os})
    space = {"same": secret, "df": pd.DataFrame({"a": range(120)}), "_hidden": 1, "os": os}
    change = namespace.changes(before, namespace.snapshot(space))
    assert namespace.in_words(change) == "+ df DataFrame 120 × 1\n- old"
    assert secret not in str(change) and "os" not in change["added"]


@pytest.mark.parametrize("change", [lambda s: s["d"].append(4), lambda s: s.update(n=2)])
def test_a_changed_value_is_seen_by_its_fingerprint(change) -> None:
    space = {"d": [1, 2, 3], "n": 1}
    before = namespace.snapshot(space)
    change(space)
    assert namespace.changes(before, namespace.snapshot(space))["changed"]


def test_marks_are_filled_and_everything_else_stays_as_typed() -> None:
    made = filled.fill("Use $`x` not $x, {y}, `code`, 100 %", {"x": "hello"})
    assert made.text.startswith("Use x not $x, {y}, `code`, 100 %")
    assert "hello" in made.text and made.typed.startswith("Use $`x`")


async def session_of(*cells: tuple[str, str]) -> Session:
    """A session with one completed turn for each (cell id, key)."""
    session = Session()
    agent = Agent(scripted(["ok"] * len(cells)), "demo")
    for cell, key in cells:
        await query(session, agent, "hi", cell=cell, key=key)
    return session


async def test_what_a_cell_does_follows_from_the_recorded_turns() -> None:
    found = turns.recorded(await session_of(("a", "1"), ("b", "2"), ("c", "3")))

    def kind(cell, key, **how) -> str:
        given = {"fresh": False, "notebook_order": True, **how}
        return turns.plan(found, cell, key, **given).kind

    assert kind("a", "1") == "replay"
    assert kind("d", "1") == "new"
    assert kind(None, "1") == "new"
    assert kind("b", "other") == "fork"
    assert kind("b", "2", fresh=True) == "fork"
    assert kind("b", "other", notebook_order=False) == "new"
    assert turns.plan(found, "a", "x", fresh=False, notebook_order=True).later == (2, 3)


async def test_a_turn_that_did_not_complete_is_run_again() -> None:
    session = await session_of(("a", "1"))
    from agent_kernel.core.query import start_turn

    start_turn(session, Agent(scripted([]), "demo"), "two", cell="b", key="2")
    found = turns.recorded(session)
    assert turns.plan(found, "b", "2", fresh=False, notebook_order=True).kind == "resume"
    session.close_turn("interrupted")
    found = turns.recorded(session)
    assert turns.plan(found, "b", "2", fresh=False, notebook_order=True).kind == "fork"


def test_the_log_opened_is_the_one_written_last(tmp_path: Path) -> None:
    main = places.log_path(tmp_path / "a[1].ipynb", tmp_path)
    assert main.name == "a[1].agent.jsonl" and places.newest_log(main) == main
    branch = tmp_path / "a[1].agent" / "branches" / "x.jsonl"
    branch.parent.mkdir(parents=True)
    for at, path in enumerate((main, branch, tmp_path / "a[1].agent.2.jsonl"), 1):
        path.write_text("")
        os.utime(path, (at, at))
        assert places.newest_log(main) == path
    assert places.main_log(branch) == main
    assert places.next_log(branch).name == "a[1].agent.3.jsonl"
    (tmp_path / "a[1].agentless.jsonl").write_text("")
    assert places.newest_log(main).name == "a[1].agent.2.jsonl"


@pytest.mark.parametrize(
    "space,env,wanted",
    [
        ({"__vsc_ipynb_file__": "/x/n.ipynb"}, {"JPY_SESSION_NAME": "y.ipynb"}, "/x/n.ipynb"),
        ({}, {"JPY_SESSION_NAME": "y.ipynb"}, "/here/y.ipynb"),
        ({}, {"JPY_SESSION_NAME": "console-1"}, None),
        ({}, {}, None),
    ],
)
def test_the_notebooks_path_is_what_the_front_end_says(space, env, wanted) -> None:
    found = places.notebook_path(space, env, Path("/here"))
    assert (str(found) if found else None) == wanted
