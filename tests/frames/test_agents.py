"""Sub-agents: what each used itself, and what it and all that it started used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_kernel import frames
from agent_kernel.core.messages import Message, Text, Usage
from agent_kernel.core.model import Done
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from tests.tools.flow import flow, parted, start

MODEL = "claude-sonnet-4-5"
SUMS = ("input", "output_recorded", "cache_write_5m", "cache_write_1h", "cache_read")


def spent(tokens: int, *blocks: Any) -> Done:
    """An answer that took `tokens` in and 7 of each other kind."""
    stop = "tool_use" if not isinstance(blocks[-1], Text) else "end_turn"
    return Done(Message("assistant", blocks), Usage(tokens, 7, 7, 7, 7), stop, model=MODEL)


async def tree(path: Path) -> Session:
    """Main starts `left` and waits, and `right` behind its call; left starts `mid`, mid `low`."""
    answers: dict[str, Any] = {
        "left": [spent(100, start("c", "mid", background=False)), spent(100, Text("left"))],
        "mid": [spent(1_000, start("c", "low")), *[spent(1_000, Text("mid"))] * 3],
        "low": [spent(10_000, Text("low"))],
        "right": [spent(100_000, Text("right"))],
    }
    main = [
        spent(10, start("a", "left", background=False), start("b", "right")),
        *[spent(10, Text("all"))] * 5,
    ]

    session, agent = flow(parted(main, answers), path.parent, path)
    await query(session, agent, "go")
    return session


async def test_own_tokens_add_up_and_inclusive_ones_count_upwards(tmp_path: Path) -> None:
    session = await tree(tmp_path / "tree.agent.jsonl")
    session.close()
    found = frames.load(tmp_path / "tree.agent.jsonl", readers={}, cache=False)
    whole = found.load.rows("sessions")[0]
    calls = found.load.rows("calls")
    rows = {row["label"]: row for row in found.load.rows("subagents")}
    assert set(rows) == {"left", "mid", "low", "right"}
    assert {name: row["depth"] for name, row in rows.items()} == {
        "left": 1,
        "mid": 2,
        "low": 3,
        "right": 1,
    }
    main = [row for row in calls if row["agent_id"] == "main"]

    for name in (*SUMS, "usd_recorded"):
        own = sum(row[name] for row in main) + sum(row[name] for row in rows.values())
        assert own > 0
        assert abs(own - whole[name]) < 1e-12, name

    assert [rows[one]["parent_agent"] for one in ("left", "mid", "low", "right")] == [
        "main",
        rows["left"]["agent_id"],
        rows["mid"]["agent_id"],
        "main",
    ]
    calls_of = {name: row["parent_tool_use"] for name, row in rows.items()}
    assert calls_of == {"left": "a", "right": "b", "mid": "c", "low": "c"}
    below = {"left": ("left", "mid", "low"), "mid": ("mid", "low"), "low": ("low",)}
    for name, parts in {**below, "right": ("right",)}.items():
        assert rows[name]["tokens_inclusive"] == sum(rows[one]["tokens"] for one in parts)
        usd = sum(rows[one]["usd_recorded"] for one in parts)
        assert abs(rows[name]["usd_inclusive"] - usd) < 1e-12
    assert rows["low"]["tokens"] == 10_028
    started = [row for row in rows.values() if row["parent_agent"] == "main"]
    spent_main = sum(row[name] for row in main for name in SUMS)
    total = sum(whole[name] for name in SUMS)
    assert spent_main + sum(row["tokens_inclusive"] for row in started) == total


async def test_an_agent_that_ended_in_our_log_says_how(tmp_path: Path) -> None:
    session = await tree(tmp_path / "tree.agent.jsonl")
    created = next(e.seq for e in session.events if e.type == "task/created")
    assert {row["status"] for row in frames.of(session).load.rows("subagents")} == {"completed"}
    branch = session.fork(created, "open")
    assert [row["status"] for row in frames.of(branch).load.rows("subagents")] == ["running"]
    branch.close()
    session.close()
