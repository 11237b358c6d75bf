"""Shell oracle: bash itself, and tree-sitter-bash, asked about programs from a fixed seed."""

from __future__ import annotations

import os

import pytest

from tests.long import shell_programs

PROGRAMS = int(os.environ.get("AK_PROGRAMS", "2000"))
SEED = 1


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_scanner_and_finder_agree_with_bash() -> None:
    counts = shell_programs.run(seed=SEED, steps=PROGRAMS)
    print(counts)
    assert counts["steps"] == PROGRAMS
    assert counts["accepted"] >= PROGRAMS // 5
    assert counts["allowed"] >= PROGRAMS // 10
    assert counts["unauthorised"] == 0, "an allowed program runs a command outside the rules"
    assert counts["wrong"] == 0, "an accepted program runs other words than were judged"
    assert counts["omissions"] == 0, "bash runs a name that deny rules would not see"
    assert counts["doubted"] == 0, "tree-sitter reads other commands"


def test_the_oracle_sees_a_scanner_that_misreads() -> None:
    """The guard of the guard: a wrong reading of a quote must be counted."""
    counts = dict.fromkeys(shell_programs.COUNTED, 0)
    real = shell_programs.scan
    shell_programs.scan = lambda text: real(text.replace("'", ""))  # type: ignore[assignment]
    try:
        problems = list(shell_programs.judge(["alpha 'b c' d"], counts))
    finally:
        shell_programs.scan = real
    assert counts["wrong"] == 1
    assert problems


def test_the_oracle_sees_a_finder_that_omits() -> None:
    counts = dict.fromkeys(shell_programs.COUNTED, 0)
    real = shell_programs.find
    shell_programs.find = lambda text: real(text.partition(";")[0])
    try:
        problems = list(shell_programs.judge(["{ alpha; beta; }"], counts))
    finally:
        shell_programs.find = real
    assert counts["omissions"] == 1
    assert problems


def test_known_misreadings_of_tree_sitter_are_silent_ones() -> None:
    for text in ("coproc alpha", "time alpha", "alpha\rbeta", "{ alpha; }", "[ -f a\n]"):
        assert shell_programs.misread(text)
