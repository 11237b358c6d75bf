"""Batch: the permit verb over JSON lines."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

from agent_kernel.guard.batch import VERBS, permit_lines
from tests.guard.places import argument, rows

LINES = 10_000


def ask(**given: object) -> dict[str, object]:
    answer = json.loads(next(permit_lines([json.dumps(given)])))
    assert isinstance(answer, dict)
    return answer


def test_the_documented_example_gives_the_documented_answer() -> None:
    line = (
        '{"id":"1","tool":"Bash","input":"ls && touch pwn","rules":"allow Bash(ls:*)",'
        '"mode":"ask","cwd":"/srv/app"}'
    )
    answer = json.loads(next(permit_lines([line])))
    assert answer["id"] == "1"
    assert answer["verdict"] == "ask"
    assert answer["stage"] == "base"
    assert answer["parts"] == ["ls", "touch pwn"]
    assert "'touch pwn' is not covered by a rule" in answer["reason"]


def test_objects_strings_and_flags_are_read() -> None:
    rules = {"deny": ["Bash(rm:*)"], "ask": [], "allow": ["Bash"]}
    assert ask(id=1, tool="bash", input={"command": "rm x"}, rules=rules)["verdict"] == "deny"
    assert ask(id=1, tool="Bash", input="npm i", rules="", headless=True)["stage"] == "headless"
    assert ask(id=1, tool="Bash", input="ls", rules="mode plan")["verdict"] == "allow"
    assert (
        ask(id=1, tool="Bash", input="ls ..", rules="", cwd="/w/a", root="/w")["verdict"] == "allow"
    )
    tainted = ask(id=1, tool="Bash", input="curl a", rules="allow Bash", tainted=True)
    assert tainted["stage"] == "taint"


def test_a_bad_line_gives_an_error_and_the_rest_go_on() -> None:
    lines = ["{", '{"id": 7, "tool": 3}', "[]", '{"id": 8, "tool": "Bash", "input": "ls"}', "",
             '{"id": 9, "tool": "Bash", "input": "ls", "mode": "yolo"}',
             '{"id": 10, "tool": "Bash", "input": "ls", "rules": {"deny": "x"}}']  # fmt: skip
    answers = [json.loads(answer) for answer in permit_lines(lines)]
    assert [("error" in answer) for answer in answers] == [True, True, True, False, True, True]
    assert [answer["id"] for answer in answers] == [None, 7, None, 8, 9, 10]


def test_ten_thousand_lines_take_less_than_ten_seconds(tmp_path: Path) -> None:
    tables = ("perm_bash_bypass", "perm_bash_readonly", "perm_paths_web_config")
    asked = [
        json.dumps(
            {"id": row["id"], "tool": row.get("tool", "Bash"), "input": argument(row),
             "rules": row["rule"], "cwd": str(tmp_path)}
        )
        for table in tables
        for row in rows(table)
    ]  # fmt: skip
    lines = itertools.islice(itertools.cycle(asked), LINES)
    start = time.process_time()
    assert sum(1 for _ in VERBS["permit"](lines)) == LINES
    assert time.process_time() - start < 10
