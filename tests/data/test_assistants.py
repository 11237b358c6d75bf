"""The assistants end to end: a scripted model, the real loop, guard, tools and databases."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.batch import Question, Reply
from agent_kernel.core.events import ToolAsk, ToolDecision, ToolResultEvent
from agent_kernel.core.messages import Message, Text, ToolUse, text_of
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from agent_kernel.core.tool import tool
from agent_kernel.guard.rules import parse_rules
from agent_kernel.kernel.build import Options, built
from agent_kernel.kernel.settings import Settings
from agent_kernel.providers.scripted import scripted
from agent_kernel.tools import skills


class Run:
    """A session over the roof's own wiring; each step is one list of calls, the last a text."""

    def __init__(self, workspace: Path, tools: tuple = (), rules: Any = None) -> None:
        self.session, self.asked = Session(), list[Question]()
        self.settings = Settings(workspace, {}, workspace)
        self.settings.session["data.sources"] = {"shop": {"url": "duckdb:shop.duckdb"}}
        self.options = Options(tools=tools, rules=rules)
        self.says = "allow"

    async def ask(self, question: Question) -> Reply:
        self.asked.append(question)
        return Reply(self.says, reason="not today" if self.says == "deny" else "")

    async def turn(
        self, prompt: str, *steps: list[tuple[str, dict]] | str
    ) -> dict[str, ToolResultEvent]:
        """Run a turn; return its results by tool name, the last of each."""
        answers = []
        for at, step in enumerate(steps):
            if isinstance(step, str):
                answers.append(step)
                continue
            turn = self.session.state().turn
            uses = [
                ToolUse(f"t{turn}s{at}c{n}", name, given) for n, (name, given) in enumerate(step)
            ]
            answers.append(Message("assistant", (Text("Next."), *uses)))
        agent = built(self.session, self.settings, self.options, services={}, ask=self.ask).agent
        agent.provider = scripted(answers)
        first = len(self.session.events)
        await query(self.session, agent, prompt)
        names = {e.id: e.name for e in self.session.events if e.type == "tool/call"}
        made = [e for e in self.session.events[first:] if isinstance(e, ToolResultEvent)]
        return {names[e.id]: e for e in made}


LOAD = ("tool_search", {"query": "select:sql,data_risk"})


def sql(action: str, text: str = "", **more: Any) -> tuple[str, dict]:
    return "sql", {"action": action, **({"sql": text} if text else {}), **more}


async def test_a_drop_goes_by_report_backup_and_two_words_of_the_person(workspace: Path) -> None:
    run = Run(workspace)
    results = await run.turn(
        "Drop the table users and clean its files.",
        [("skill", {"name": "table-drop-risk"}), LOAD],
        [sql("catalog", table="users"), ("data_risk", {"object": "users"})],
        [sql("execute", "CREATE TABLE users_backup AS SELECT * FROM users")],
        [sql("query", "SELECT count(*) FROM users_backup")],
        [("data_risk", {"object": "users"})],  # the backup changed the database
        [sql("execute", "DROP TABLE users")],
        [sql("catalog")],
        "users is gone, users_backup keeps its 2 rows.",
    )
    shown = text_of(results["sql"].content)
    assert "users_backup" in shown and not re.search(r"^users ", shown, re.MULTILINE)
    assert [q.input["sql"].split()[0] for q in run.asked] == ["CREATE", "DROP"]
    drop = run.asked[1].ask
    assert drop.risk.startswith("DROP on users in shop (dev)\nreport of users: needs approval")
    assert len([e for e in run.session.events if isinstance(e, ToolAsk)]) == 2


async def test_refusing_leaves_the_table_in_every_mode(workspace: Path) -> None:
    for mode in ("ask", "bypass"):
        run = Run(workspace)
        run.options = Options(mode=mode)
        run.says = "deny"
        results = await run.turn(
            "Drop it.", [LOAD], [("data_risk", {"object": "users"})],
            [sql("execute", "DROP TABLE users")], [sql("catalog")], "You said no.",
        )  # fmt: skip
        assert "users" in text_of(results["sql"].content)
        assert len(run.asked) == 1, "a drop is asked whatever the mode"


async def test_nobody_there_is_a_no(workspace: Path) -> None:
    run = Run(workspace)
    agent = built(run.session, run.settings, Options(mode="bypass"), services={}).agent
    agent.provider = scripted(
        [
            Message("assistant", (ToolUse("a", *LOAD),)),
            Message("assistant", (ToolUse("b", *sql("execute", "DROP VIEW v_weekly")),)),
            "No.",
        ]
    )
    await query(run.session, agent, "Drop it.")
    result = next(e for e in run.session.events if isinstance(e, ToolResultEvent) and e.id == "b")
    assert "nobody is here to ask" in text_of(result.content)


def blocks(skill: str, kind: str) -> list[str]:
    """The fenced blocks of a kind in a bundled skill, with their indent taken off."""
    text = (skills.BUNDLED / skill / "SKILL.md").read_text(encoding="utf-8")
    found = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    return [re.sub(r"(?m)^ {3}", "", block) for block in found]


async def test_the_wide_tables_ddl_and_rules_run_and_every_column_has_a_source(
    workspace: Path,
) -> None:
    fields = {"order_id": "o.id", "user_name": "u.name", "amount": "o.amount", "dt": "o.dt"}
    select = (
        f"SELECT {', '.join(f'{origin} AS {name}' for name, origin in fields.items())} "
        "FROM orders o JOIN users u ON o.user_id = u.id WHERE o.dt >= '2026-11-01'"
    )
    text = (skills.BUNDLED / "table-design" / "SKILL.md").read_text(encoding="utf-8")
    rules = [
        rule.replace(" t ", " orders_wide ")
        .replace("FROM t", "FROM orders_wide")
        .replace("key", "order_id")
        for rule in re.findall(r"`(SELECT count[^`]*)`", text)
    ]
    assert len(rules) == 3
    run = Run(workspace)
    results = await run.turn(
        "Design a wide table of orders and users.",
        [("skill", {"name": "table-design"}), LOAD],
        [sql("catalog"), sql("explain", select)],
        [sql("execute", f"CREATE TABLE orders_wide AS {select}")],
        [sql("catalog", table="orders_wide")],
        "Here it is.",
    )
    shown = text_of(results["sql"].content)
    assert all(name in shown for name in fields), "every column is there, each with its origin"
    made = next(
        e for e in run.session.events if isinstance(e, ToolResultEvent) and "lineage" in e.meta
    )
    assert made.meta["lineage"] == {"sources": ["orders", "users"], "targets": ["orders_wide"]}
    found = [
        text_of((await run.turn("Rule.", [sql("query", rule)], "ok"))["sql"].content).split("\n")[1]
        for rule in rules
    ]
    assert found == ["0", "0", "0"]


async def test_exported_rows_equal_counted_rows_and_the_delimiter_is_quoted(
    workspace: Path,
) -> None:
    run = Run(workspace)
    await run.turn(
        "Insert.",
        [LOAD],
        [sql("execute", "INSERT INTO users VALUES (3, 'Cy, the \"third\"')")],
        "ok",
    )
    code = (
        "import csv, duckdb\n"
        "c = duckdb.connect('shop.duckdb', read_only=True)\n"
        "with open('users.csv', 'w', newline='') as f:\n"
        "    w = csv.writer(f, quoting=csv.QUOTE_MINIMAL)\n"
        "    w.writerow(['id', 'name'])\n"
        "    w.writerows(c.execute('SELECT id, name FROM users ORDER BY id').fetchall())\n"
    )
    results = await run.turn(
        "Export users as csv.",
        [("skill", {"name": "export-task"})],
        [sql("query", "SELECT count(*) FROM users")],
        [("python", {"code": code})],
        "Written.",
    )
    counted = int(text_of(results["sql"].content).split("\n")[1])
    rows = list(csv.DictReader((workspace / "users.csv").open(newline="")))
    assert len(rows) == counted == 3 and rows[2]["name"] == 'Cy, the "third"'


@pytest.mark.parametrize("skill", ["pipeline-draft", "export-task"])
def test_the_dag_is_acyclic_and_every_step_names_its_input(skill: str) -> None:
    (block,) = blocks(skill, "json")
    steps = {step["id"]: step for step in json.loads(block)["steps"]}
    done: set[str] = set()
    while len(done) < len(steps):
        ready = [i for i, step in steps.items() if i not in done and set(step["needs"]) <= done]
        assert ready, "a cycle"
        done.update(ready)
    for step in steps.values():
        assert step["input"] and step["output"]
        if skill == "pipeline-draft" and step["needs"]:
            made = {steps[each]["output"] for each in step["needs"]}
            assert set(step["input"]) <= made


async def test_the_batch_variant_of_a_pipeline_reconciles(workspace: Path) -> None:
    run = Run(workspace)
    grouped = (
        "SELECT user_id, dt, count(*) AS n, sum(amount) AS total FROM orders "
        "WHERE dt > '2026-01-01' GROUP BY ALL"
    )
    results = await run.turn(
        "Aggregate by user.",
        [("skill", {"name": "pipeline-draft"}), LOAD],
        [sql("explain", grouped)],
        [sql("query", f"SELECT sum(n), sum(total) FROM ({grouped})")],
        "Both agree.",
    )
    batch = text_of(results["sql"].content).split("\n")[1]
    again = await run.turn(
        "Count.", [sql("query", "SELECT count(*), sum(amount) FROM orders")], "ok"
    )
    assert batch == text_of(again["sql"].content).split("\n")[1]


async def test_a_platform_publishes_only_when_asked_and_is_not_gone_round(workspace: Path) -> None:
    scheduler: list[dict] = []

    @tool
    async def publish_job(name: str, cron: str) -> str:
        """Publish a job to the scheduler of the platform."""
        scheduler.append({"name": name, "cron": cron})
        return f"published {name}"

    rules = parse_rules({"deny": ["Bash(hdfs:*)", "Bash(airflow:*)"]})
    run = Run(workspace, (publish_job,), rules)
    run.options = Options(tools=(publish_job,), rules=rules, mode="bypass")
    results = await run.turn(
        "Go round it.", [("bash", {"command": "hdfs dfs -rm -r /warehouse/orders"})], "Refused."
    )
    assert results["bash"].is_error and "hdfs" in text_of(results["bash"].content)
    run.options = Options(tools=(publish_job,), rules=rules)
    run.says = "deny"
    job = {"name": "orders_minute", "cron": "* * * * *"}
    await run.turn("Publish.", [("publish_job", job)], "Not done.")
    assert scheduler == []
    run.says = "allow"
    await run.turn("Publish.", [("publish_job", job)], "Done.")
    assert scheduler == [job]
    audit = [(e.verdict, e.by) for e in run.session.events if isinstance(e, ToolDecision)][-2:]
    assert audit == [("deny", "person"), ("allow", "person")]
