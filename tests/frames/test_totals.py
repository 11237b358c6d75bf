"""Totals: each call counted once, at list prices, and what the sum lacks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames import cli_totals

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


def totals(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict]:
    parser = argparse.ArgumentParser()
    cli_totals.add_arguments(parser)
    code = cli_totals.main(parser.parse_args([*argv, "--json"]), readers=transcripts.ALL)
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.exists(), reason="the real transcripts are not here")
def test_corpus_totals_are_the_published_numbers(capsys):
    code, found = totals(capsys, str(CORPUS / "claude-code"))
    total = found["total"]
    assert code == 0
    assert total["calls"] == 7_620
    assert total["input"] == 242_072
    assert total["output"] == 748_055
    assert total["cache_write_5m"] == 17_894_104
    assert total["cache_write_1h"] == 14_596_493
    assert total["cache_read"] == 723_340_817
    assert total["usd"] == pytest.approx(608.0179338, abs=1e-6)
    assert found["issues"] == {"bad_json": 4, "unknown_format": 1}
    # Only the lines that may state tokens are read: one of the four bad ones, the same totals.
    _, fast = totals(capsys, str(CORPUS / "claude-code"), "--fast")
    assert fast["issues"] == {"bad_json": 1, "unknown_format": 1}
    assert fast["total"] == total


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.exists(), reason="the real transcripts are not here")
def test_the_ledger_reproduces_what_other_counters_say():
    found = frames.load(CORPUS / "claude-code", readers=transcripts.ALL, cache=False)
    table = found.columns("reconcile")
    usd = dict(zip(table["equals"], table["usd"], strict=True))
    assert usd["ccusage 20 daily"] == pytest.approx(608.0179338, abs=5e-7)
    assert usd["ccusage 20 session, aiburn"] == pytest.approx(573.1974832, abs=5e-7)
    assert table["usd"][6] == pytest.approx(found.totals()["total"]["usd"])
    steps = zip(table["usd"][1:], table["delta_usd"][1:], table["usd"][:-1], strict=True)
    assert all(now == pytest.approx(before + delta) for now, delta, before in steps)
