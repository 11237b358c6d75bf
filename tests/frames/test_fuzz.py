"""Fuzz: whatever happens to a file, nothing is raised and no line goes missing."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.testing import shapes

ROUNDS = 25
MUTATIONS = 10_000
ODD = [None, True, 0, -1, 1e300, 2**70, "", "x", [], [None], {}, {"type": "text"}, [{"type": 3}]]


def check(path: Path) -> int:
    """Load one file, build every table, and return its calls."""
    found = frames.load(path, readers=transcripts.ALL, cache=False)
    for table in frames.ALL:
        found.columns(table)
    records = found.columns("records")
    if found.files_read():
        with path.open("rb") as stream:
            raw = [line for line in stream if line.strip(b"\xef\xbb\xbf \t\r\n\x0b\x0c")]
        assert len(records["record_id"]) == len(raw)
        bad = sum(one in ("bad_json", "torn", "not_object") for one in records["parse_status"])
        lost = {"bad_json", "torn_tail", "not_object"}
        assert sum(code in lost for code in found.columns("issues")["code"]) == bad
    return len(found.columns("calls")["call_id"])


@pytest.mark.parametrize("name", shapes.ALL)
def test_a_file_cut_anywhere_loads_and_never_gains_a_call(name, tmp_path):
    shapes.ALL[name](tmp_path / "whole")
    pick = random.Random(name)
    for path in sorted((tmp_path / "whole").rglob("*.jsonl")):
        data = path.read_bytes()
        calls = check(path)
        cuts = pick.sample(range(len(data) + 1), min(ROUNDS, len(data) + 1))
        for cut in cuts:
            torn = tmp_path / "torn.jsonl"
            torn.write_bytes(data[:cut])
            assert check(torn) <= calls


def _mutate(value, pick):
    """Put an odd value in one random place."""
    places = []
    stack = [value]
    while stack:
        one = stack.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            places.append((one, key))
            if isinstance(one[key], dict | list):
                stack.append(one[key])
    if places:
        holder, key = pick.choice(places)
        holder[key] = pick.choice(ODD)
    return value


def test_mutated_lines_are_read_or_reported(tmp_path):
    pick = random.Random(5)
    lines = []
    for name, build in shapes.ALL.items():
        build(tmp_path / name)
        for path in sorted((tmp_path / name).rglob("*.jsonl")):
            for raw in path.read_bytes().split(b"\n"):
                try:
                    value = json.loads(raw)
                except ValueError:
                    continue
                if isinstance(value, dict) and value.get("format") != "agent-kernel-log":
                    lines.append(raw)
    for batch in range(20):
        chosen = [json.loads(pick.choice(lines)) for _ in range(MUTATIONS // 20)]
        odd = tmp_path / f"odd{batch}.jsonl"
        first = b'{"sessionId":"s","uuid":"first","type":"user","message":{"content":"x"}}\n'
        body = b"".join(json.dumps(_mutate(one, pick)).encode() + b"\n" for one in chosen)
        odd.write_bytes(first + body)
        check(odd)


def test_mutated_events_of_our_own_log_are_read_or_reported(tmp_path):
    pick = random.Random(6)
    shapes.ALL["own-log"](tmp_path / "own")
    events = [json.loads(line) for line in (tmp_path / "own" / "analysis.agent.jsonl").open("rb")]
    for number in range(300):
        changed = [json.loads(json.dumps(event)) for event in events]
        for _ in range(3):
            _mutate(changed[pick.randrange(1, len(changed))], pick)
        odd = tmp_path / f"odd{number}.jsonl"
        odd.write_text("".join(json.dumps(event) + "\n" for event in changed))
        check(odd)
