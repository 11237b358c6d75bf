"""Concept search: a planted idea is found among many files, and the ranker is named."""

from __future__ import annotations

import time

import pytest

from agent_kernel.tools import ranking
from agent_kernel.tools.concept_search import CONCEPT_SEARCH
from tests.tools.conftest import Bench

PLANTED = '''
import math


def settle(rows):
    """Spread a refund over the installments a customer has not paid yet."""
    return [math.floor(r) for r in rows]
'''


def fill(bench: Bench, count: int = 200) -> None:
    for at in range(count):
        bench.file(
            f"pkg/mod{at}.py",
            f"def handler_{at}(request):\n    value = request.get('k{at}')\n    return value\n" * 5,
        )
    bench.file("pkg/billing/later.py", PLANTED)


@pytest.mark.parametrize(
    "query",
    [
        "refund spread over unpaid installments",
        "how are refunds handled for customers who have not paid",
        "installment refund",
    ],
)
async def test_the_planted_idea_is_among_the_first_five(bench: Bench, query: str) -> None:
    fill(bench)
    text = await bench.text(CONCEPT_SEARCH, query=query, limit=5)
    assert "pkg/billing/later.py:" in text
    assert "Spread a refund" in text
    assert text.endswith("[ranked by BM25 over 201 files]")


async def test_a_changed_file_is_found_by_its_new_words(bench: Bench) -> None:
    fill(bench, 3)
    assert "nothing shares" in await bench.text(CONCEPT_SEARCH, query="zebra")
    bench.file("pkg/mod1.py", "def zebra_crossing():\n    pass\n")
    assert "pkg/mod1.py" in await bench.text(CONCEPT_SEARCH, query="zebras crossing")


async def test_ignored_secret_and_binary_files_are_left_out(bench: Bench) -> None:
    bench.file(".gitignore", "hidden/\n")
    bench.file("hidden/a.py", "zebra\n")
    bench.file(".env", "ZEBRA=1\n")
    bench.file("a.bin", b"zebra\0")
    bench.file("seen.md", "zebra\n")
    text = await bench.text(CONCEPT_SEARCH, query="zebra")
    assert text.startswith("seen.md:1-2")
    assert "over 2 files" in text  # .gitignore is a text file too


async def test_it_is_bounded_and_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_kernel.tools import concepts

    fill(bench, 30)
    monkeypatch.setattr(concepts, "FILES", 10)
    answer = await bench.call(CONCEPT_SEARCH, query="handler request")
    assert "only the first 10 files" in answer.content[0].text
    assert answer.meta["truncated"]


async def test_the_second_question_reads_nothing_again(bench: Bench) -> None:
    fill(bench, 2000)
    began = time.monotonic()
    await bench.text(CONCEPT_SEARCH, query="handler")
    cold = time.monotonic() - began
    began = time.monotonic()
    await bench.text(CONCEPT_SEARCH, query="request")
    assert time.monotonic() - began < cold


@pytest.mark.parametrize(
    "text,expected",
    [
        ("getHTTPResponse_code2", ["get", "http", "response", "code", "2"]),
        ("the classes and class", ["classe", "class"]),
        ("数据仓库", ["数据", "据仓", "仓库"]),
        ("naïve", ["naïve"]),
    ],
)
def test_words_split_by_case_underscore_and_pairs(text: str, expected: list[str]) -> None:
    assert ranking.words(text) == expected
