"""Rates: prices kept on disk are those the table package states, on every day and in every tier."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from agent_kernel.core import prices
from agent_kernel.frames.rates import RateShelf

MODELS = (
    "claude-opus-4-5-20251101",
    "claude-opus-4-6",
    "claude-sonnet-4-5",
    "claude-haiku-4-5-20251001",
    "gpt-5",
    "gemini-2.5-pro",
    "deepseek-chat",
    "deepseek-reasoner",
    "no-such-model",
)
CONTEXTS = (0, 1, 128_001, 200_000, 200_001, 900_000)
DAYS = [datetime(2024, 6, 1, 5, tzinfo=UTC) + timedelta(days=61, hours=9) * n for n in range(16)]


@pytest.mark.parametrize("model", MODELS)
def test_kept_rates_are_the_packages(model, tmp_path):
    first = RateShelf(tmp_path)
    wanted = [prices.rates(model, day, context) for day in DAYS for context in CONTEXTS]
    assert [first.rates(model, day, n) for day in DAYS for n in CONTEXTS] == wanted
    first.keep()
    again = RateShelf(tmp_path)
    assert [again.rates(model, day, n) for day in DAYS for n in CONTEXTS] == wanted


def test_what_was_kept_needs_no_package(tmp_path):
    shelf = RateShelf(tmp_path)
    shelf.rates("claude-opus-4-6", DAYS[-1], 10)
    shelf.keep()
    code = (
        "import sys; from pathlib import Path; from datetime import datetime, UTC\n"
        "from agent_kernel.frames.rates import RateShelf\n"
        "found = RateShelf(Path(sys.argv[1])).rates('claude-opus-4-6', datetime.now(UTC), 10)\n"
        "print(found.input, 'genai_prices' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["5.0", "False"]


@pytest.mark.parametrize("damage", ["stamp", "cut", "odd"])
def test_another_version_or_damage_is_not_used(damage, tmp_path):
    shelf = RateShelf(tmp_path)
    wanted = shelf.rates("claude-opus-4-6", DAYS[-1], 10)
    shelf.keep()
    path = tmp_path / "rates.json"
    said = json.loads(path.read_text())
    said["models"]["claude-opus-4-6"][0][1][0]["input"] = 1e6
    if damage == "stamp":
        said["stamp"] = "another"
    elif damage == "odd":
        said["models"]["claude-opus-4-6"][0] = 3
    text = json.dumps(said)
    path.write_text(text[:-9] if damage == "cut" else text)
    assert RateShelf(tmp_path).rates("claude-opus-4-6", DAYS[-1], 10) == wanted
