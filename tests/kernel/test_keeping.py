"""Cells kept, states of cells, tags of cells, and variables a resumed session lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.core.agent import Agent
from agent_kernel.core.events import NamespaceChanged, UserMessage
from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from agent_kernel.kernel import keeping, namespace, tags, variables
from agent_kernel.kernel.cellstates import with_states
from agent_kernel.kernel.keeping import Kept
from agent_kernel.kernel.turns import recorded
from agent_kernel.providers import scripted
from tests.kernel.live import Script, calls, says

CODES = [
    "import math\nnumbers = [3, 4]",
    "numbers",
    "print(len(numbers))",
    "wrong = undefined_name",
    "side = 7",
    "side = math.hypot(*numbers)",
    "{'side': side, 'count': len(numbers)}",
]


async def worked(folder: Path) -> Session:
    """A session whose agent ran CODES by the real python tool in its worker."""
    from agent_kernel.core.batch import Judgement
    from agent_kernel.tools.python import PYTHON

    answers = [
        Message("assistant", (Text("x"), ToolUse(f"c{n}", "python", {"code": code})))
        for n, code in enumerate(CODES)
    ]
    session = Session()
    agent = Agent(
        scripted([*answers, "Five."]), "m", (PYTHON,),
        permit=lambda *_: Judgement("allow"), workspace=folder,
    )  # fmt: skip
    await query(session, agent, "go", cell="c1")
    return session


async def test_the_kept_cells_run_alone_and_give_the_turns_last_value(tmp_path: Path) -> None:
    session = await worked(tmp_path)
    found = keeping.worked(session, recorded(session)[0])
    assert len(found) == len(CODES) - 1, "the call that failed is no cell"
    kept = keeping.cells(found)
    assert [each.code for each in kept] == [CODES[0], CODES[5], CODES[6]]
    assert keeping.check(kept, tmp_path) == ("equal", "")
    verdict, why = keeping.check([*kept[:-1], Kept("side + 1", 9, "7.0")], tmp_path)
    assert verdict == "differs" and "6.0" in why
    verdict, why = keeping.check(kept[1:], tmp_path)
    assert verdict == "differs" and "fails alone: NameError" in why
    assert keeping.check([Kept("object()", 9, "<object object at 0x7f>")], tmp_path)[0] == (
        "not checkable"
    )


@pytest.mark.parametrize(
    "code,kept",
    [
        ("df.head()", False),
        ("len(x); print(x)", False),
        ("df.drop(columns='a', inplace=True)", True),
        ("df.to_csv('a.csv')", True),
        ("print(x := 3)", True),
        ("%matplotlib inline", True),
        ("a = 1", False),
        ("b = 1", True),
        ("a = load()", True),
        ("a.x = 1", True),
    ],
)
def test_only_looks_and_dead_ends_are_left_out(code: str, kept: bool) -> None:
    later = [Kept("a = 2", 2, ""), Kept("a + b", 3, "3")]
    assert (code in [each.code for each in keeping.cells([Kept(code, 1, ""), *later])]) is kept


def test_a_cells_state_is_right_after_edits_and_restarts() -> None:
    def cell(source: str, count: int | None = None, kind: str = "code") -> dict:
        return {"cell_type": kind, "source": source, "execution_count": count}

    typed = ["", "x = 1", "x + 1", "x = 1"]
    made = with_states(
        [
            cell("x = 1\n", 1),
            cell("x + 2", 2),
            cell("new"),
            cell("y", 9),
            cell("# t", None, "markdown"),
        ],
        typed,
    )
    assert [each.get("state") for each in made] == [
        "ran in this kernel, In[3]",
        "stale: not what ran in this kernel as In[2]",
        "never run",
        "stale: In[9] was of another kernel, it did not run in this one",
        None,
    ]
    restarted = with_states([cell("x = 1", 1)], [""])
    assert restarted[0]["state"].startswith("stale: In[1] was of another kernel")


async def test_a_tagged_cell_is_pinned_or_left_out(tmp_path: Path) -> None:
    session = Session()
    agent = Agent(scripted(["ok"] * 9), "m")
    for cell in ("a", "b", "c"):
        await query(session, agent, f"prompt {cell}", cell=cell)

    def tagged(name: str, *words: str) -> dict:
        return {"id": name, "cell_type": "code", "metadata": {"tags": list(words)}}

    cells = [tagged("a", "agent-pin"), tagged("b", "agent-skip", "x"), tagged("c"), {"id": "d"}]
    said = tags.apply(session, cells)
    assert said == ["turn 1's prompt is pinned (agent-pin)", "turn 2 is left out (agent-skip)"]
    prompts = [e.seq for e in session.events if isinstance(e, UserMessage)]
    assert session.pins == {prompts[0]}
    sent = b"".join(message.bytes for message in session.surface().messages())
    assert b"prompt a" in sent and b"prompt b" not in sent and b"prompt c" in sent
    assert tags.apply(session, cells) == [], "once is enough"
    assert tags.apply(Session(), []) == []


def test_a_resumed_session_names_what_is_gone_and_what_changed() -> None:
    space = {"df": [1, 2, 3], "n": 1, "same": "x"}
    session = Session()
    session.append(NamespaceChanged(added=namespace.snapshot(space)))
    assert variables.lines(session, space) == []
    (gone, changed) = variables.lines(session, {"n": 2, "same": "x"})
    assert gone.startswith("Variables this kernel lacks: df (list 3)")
    assert changed == "Variables that are not what they were: n (int)."
    session.append(NamespaceChanged(removed=("df",)))
    assert variables.lines(session, {"n": 1, "same": "x"}) == []


@pytest.mark.kernel
def test_a_restarted_kernel_names_them_and_offers_their_code(kernel, serve, tmp_path) -> None:
    call = calls(("python", {"code": "made = [1, 2, 3]\nsum(made)"}))
    server = serve(None, Script(call, says("Six.")))
    notebook = tmp_path / "n.ipynb"
    cells = [{"cell_type": "code", "id": "c1", "source": "x = 1", "execution_count": 1,
              "metadata": {}, "outputs": []}]  # fmt: skip
    notebook.write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    k = kernel(server, JPY_SESSION_NAME=str(notebook))
    k.ok("%agent mode bypass")
    k.ok("%%agent\nsum it", "c2")
    said = k.ok("%agent cells --check")
    assert "1 of 1 Python calls of turn 1" in said.text and "in a fresh process: equal" in said.text
    (payload,) = said.reply["content"]["payload"]
    assert payload["source"] == "set_next_input" and "made = [1, 2, 3]" in payload["text"]
    assert "there is no turn 9" in k.run("%agent cells 9").error
    k.close()
    k = kernel(server, JPY_SESSION_NAME=str(notebook))
    said = k.ok("%agent resume")
    assert "Variables this kernel lacks: made (list 3, turn 1)" in said.text
