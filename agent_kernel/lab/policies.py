"""Policies: the rules that are replayed and compared, by name.

May not simulate: each is only the numbers of a rule.
"""

from __future__ import annotations

from agent_kernel.lab.simulate import Policy

SUMMARY, CALL = 2_900, 2_900  # tokens of a model's summary (compaction.md §11)
LEDGER = 1_500  # ledger, carried words, frame
PEAK = 167_000  # tokens a window of 200k leaves to the context


def auto(at: int) -> Policy:
    """Return: a model's summary at `at` tokens."""
    return Policy(f"auto@{at // 1000}k", replace_at=at, artefact=SUMMARY + 1_000, call_output=CALL)


def by_ledger(at: int) -> Policy:
    """Return: the ledger, without a model, at `at` tokens."""
    return Policy(f"ledger@{at // 1000}k", replace_at=at, artefact=LEDGER)


def mask(keep: int, how: str, **more: int | float) -> Policy:
    """Return: clear all but the newest `keep` results, as `how` says."""
    return Policy(f"mask@{keep}/{how}", keep=keep, **more)  # type: ignore[arg-type]


ALL: tuple[Policy, ...] = (
    Policy("none"),
    *(auto(at) for at in (60_000, 80_000, 100_000, 130_000, 155_000, 167_000)),
    by_ledger(100_000),
    by_ledger(167_000),
    mask(10, "step", batch=1),
    *(mask(10, f"batch={size}", batch=size) for size in (10, 25)),
    *(mask(10, f"least={size // 1000}k", least=size) for size in (20_000, 40_000)),
    mask(5, "cold", cold_least=1),
    mask(5, "cold+least=30k", cold_least=1, least=30_000),
    mask(5, "cold+auto@167k", cold_least=1, replace_at=167_000, artefact=SUMMARY + 1_000,
         call_output=CALL),
    mask(5, "cold+least=30k+ledger@160k", cold_least=1, least=30_000, replace_at=160_000,
         artefact=LEDGER),
    mask(5, "cold+ledger@160k", cold_least=1, replace_at=160_000, artefact=LEDGER),
    mask(5, "cold+ledger@160k/cold@120k", cold_least=1, replace_at=160_000, replace_cold=120_000,
         artefact=LEDGER),
    mask(5, "cold+ledger@160k/cold@70k", cold_least=1, replace_at=160_000, replace_cold=70_000,
         artefact=LEDGER),
)  # fmt: skip


def grid() -> list[Policy]:
    """Return the grid of online policies without a model that are tuned over."""
    return [
        Policy(
            f"mask@{keep}/cold+least={least // 1000}k+ledger@{at // 1000}k/cold@{cold // 1000}k",
            keep=keep, cold_least=1, least=least, replace_at=at, replace_cold=cold,
            artefact=LEDGER,
        )
        for keep in (3, 5, 10)
        for least in (0, 40_000, 60_000)
        for at in (120_000, 140_000, 160_000)
        for cold in (50_000, 70_000, 90_000, 120_000)
    ]  # fmt: skip
