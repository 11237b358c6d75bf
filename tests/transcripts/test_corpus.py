"""Corpus: real files of three harnesses, counted again by other means."""

from __future__ import annotations

import collections
import gzip
import json
from pathlib import Path

import pytest

from agent_kernel import frames, transcripts

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.exists(), reason="the real transcripts are not here"),
]


def lines(path):
    with gzip.open(path) as stream:
        return [raw for raw in stream if raw.strip()]


def total(folder):
    return frames.load(CORPUS / folder, readers=transcripts.ALL, cache=False).totals()["total"]


@pytest.mark.parametrize("folder", ["claude-code", "claude-code-subagents", "codex", "deepseek"])
def test_records_are_the_lines_and_every_bad_line_has_its_issue(folder):
    found = frames.load(CORPUS / folder, readers=transcripts.ALL, cache=False)
    records, issues = found.columns("records"), found.columns("issues")
    counts = collections.Counter(records["path"])
    assert counts == {path: len(lines(path)) for path in found.files_read()}
    bad = [one for one in records["parse_status"] if one != "ok"]
    lost = [code for code in issues["code"] if code in ("bad_json", "torn_tail", "not_object")]
    assert len(bad) == len(lost)
    assert "unknown_type" not in issues["code"]
    assert "unknown_block" not in issues["code"]


def test_deepseek_tokens_equal_an_independent_count():
    seen, sums = set(), collections.Counter()
    for path in sorted((CORPUS / "deepseek").glob("*.gz")):
        session = None
        for raw in lines(path):
            event = json.loads(raw)
            if event["type"] == "session":
                session = event["id"]
            data = event.get("data") or {}
            usage, name = data.get("usage"), (data.get("message") or data).get("id") or ""
            key = name if len(name) == 36 else (session, json.dumps(event, sort_keys=True))
            if usage and key not in seen:  # a fork repeats its parent's events
                seen.add(key)
                sums.update(usage)
                sums["calls"] += 1
    found = total("deepseek")
    assert found["calls"] == sums["calls"]
    assert found["input"] == sums["inputTokens"]
    assert found["output"] == sums["outputTokens"]
    assert found["cache_read"] == sums["cacheReadTokens"]


def test_codex_tokens_equal_the_final_totals_of_the_files():
    sums = collections.Counter()
    for path in sorted((CORPUS / "codex").glob("*.gz")):
        last = {}
        for raw in lines(path):
            payload = json.loads(raw)["payload"]
            if payload.get("type") == "token_count" and payload.get("info"):
                last = payload["info"]["total_token_usage"]
        sums.update(last)
    found = total("codex")
    assert found["input"] == sums["input_tokens"] - sums["cached_input_tokens"]
    assert found["cache_read"] == sums["cached_input_tokens"]
    assert found["output"] == sums["output_tokens"]


def test_claude_results_are_rejoined_that_the_official_walk_loses():
    found = frames.load(CORPUS / "claude-code", readers=transcripts.ALL, cache=False)
    walks = [found.walk(name) for name in found.columns("sessions")["session_id"]]
    assert sum(walk.official_lost for walk in walks) > 300
    assert sum(walk.ours_lost for walk in walks) == 0
