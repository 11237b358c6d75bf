"""Report: every figure of the lab for some session files, as one JSON object.

May not hold anything that differs between two runs: times and memory are told beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import agent_kernel.lab.forgetting as forgetting
import agent_kernel.lab.spending as spending
from agent_kernel.core.surface import cut_positions
from agent_kernel.lab.behaviour import Window, windows
from agent_kernel.lab.bootstrap import pooled, quantile
from agent_kernel.lab.economy import Bill, bills
from agent_kernel.lab.given import Given
from agent_kernel.lab.histories import History, histories
from agent_kernel.lab.ladder import replay
from agent_kernel.lab.learn import Learnt, learn
from agent_kernel.lab.policies import ALL
from agent_kernel.lab.probes import Probe, answerable, probes
from agent_kernel.lab.recall import Case, ledger_of, rare_facts
from agent_kernel.lab.simulate import Policy, total
from agent_kernel.lab.trajectory import Trajectory, price_table, trajectory

VERSION = 1


@dataclass(frozen=True)
class Options:
    """How a report is made: seconds a write lives (None = as logged), resamples, slow parts."""

    ttl: float | None = None
    resamples: int = 1_000
    layers: bool = False  # replay the real layers too
    trials: int = 0  # draws of ledger weights, 0 = no learning
    policies: tuple[Policy, ...] = ALL


def report(paths: Any, given: Given, options: Options | None = None) -> dict[str, Any]:
    """Return the report of the sessions below `paths`.

    Raises FileNotFoundError for a path that is not there, ValueError when nothing is readable.
    """
    how = options or Options()
    tables = given.load(paths)
    found = histories(tables, given)
    if not found:
        raise ValueError("no session was found there")
    prices = price_table(tables.columns("prices"))
    usable = [one for one in found if one.requests and one.events]
    made = [trajectory(one, prices, how.ttl) for one in usable]
    cases = forgetting.cases_of(usable, given)
    return {
        "version": VERSION,
        "inputs": _inputs(found, usable, made),
        "calibration": spending.calibration(usable, made, how.resamples),
        "metrics": _metrics(usable, cases, prices, given, how),
        **_policies(usable, made, given, how),
        "probes": _probes(usable, cases, given),
        "skipped": [one.session for one in found if not (one.requests and one.events)],
    }


def _inputs(
    found: Sequence[History], usable: Sequence[History], made: Sequence[Trajectory]
) -> dict[str, Any]:
    return {
        "sessions": len(found),
        "measured": len(usable),
        "harnesses": dict(sorted(Counter(one.harness for one in found).items())),
        "requests": sum(len(one.steps) for one in made),
        "boundaries": sum(len(one.boundaries) for one in usable),
        "sessions_with_boundary": sum(bool(one.boundaries) for one in usable),
        "damaged_lines": sum(one.damaged for one in found),
    }


def _metrics(
    usable: Sequence[History],
    cases: Sequence[Case],
    prices: dict[str, Any],
    given: Given,
    how: Options,
) -> dict[str, Any]:
    paid = [bill for one in usable for bill in bills(one, prices)]
    out = {
        "needed_facts": dict(forgetting.needed(cases)),
        "recall": forgetting.table(usable, cases, given, how.resamples),
        "reachable": forgetting.reachable(cases, given, how.resamples),
        "behaviour": _behaviour([w for one in usable for w in windows(one)], how.resamples),
        "economy": _economy(paid, how.resamples),
        "cuts": _cuts(usable),
        "prefix_read": _prefix(usable, how.resamples),
    }
    if how.trials and cases:
        out["learnt"] = _learnt(usable, cases, given, how)
    return out


def _behaviour(found: Sequence[Window], resamples: int) -> dict[str, Any]:
    """Return what windows after a boundary and controls repeat, per window, with intervals."""
    fields = ("rereads", "reread_after_edit", "regret_tokens", "repeated_errors")
    out: dict[str, Any] = {}
    for name in ("after", "control"):
        own = [w for w in found if w.group == name]
        out[name] = {"windows": len(own)}
        for field in fields:
            rows = [(w.session, float(getattr(w, field)), 1.0) for w in own]
            out[name][field] = pooled(rows, resamples).wire()
    return out


def _economy(paid: Sequence[Bill], resamples: int) -> dict[str, Any]:
    def share(late: str) -> dict[str, Any]:
        ended = ((b.session, float((getattr(b, late) or 1e9) > b.requests), 1.0) for b in paid)
        return pooled(ended, resamples).wire()

    def middle(field: str) -> float | None:
        values = [getattr(b, field) for b in paid if getattr(b, field) is not None]
        found = quantile(values, 0.5)
        return None if found is None else round(found, 4)

    fields = ("pre", "post", "penalty_usd", "call_warm_usd", "call_cold_usd", "even_warm",
              "even_cold", "saved", "since_last")  # fmt: skip
    return {
        "boundaries": len(paid),
        "median": {field: middle(field) for field in fields},
        "penalty_tokens": {
            "5m": sum(b.penalty_5m for b in paid),
            "1h": sum(b.penalty_1h for b in paid),
        },
        "ended_before_even_warm": share("even_warm"),
        "ended_before_even_cold": share("even_cold"),
    }


def _cuts(usable: Sequence[History]) -> dict[str, int]:
    """Return how many positions of all sessions split a pair, a thinking loop, or nothing."""
    out = {"positions": 0, "split_pair": 0, "in_thinking_loop": 0, "free": 0}
    for one in usable:
        loose, strict = (len(cut_positions(one.events, thin)) for thin in (False, True))
        whole = len(one.events) + 1
        out["positions"] += whole
        out["split_pair"] += whole - loose
        out["in_thinking_loop"] += loose - strict
        out["free"] += strict
    return out


def _prefix(usable: Sequence[History], resamples: int) -> dict[str, Any]:
    """Return the share of the former request's context that the next one read from the cache."""
    rows = []
    for one in usable:
        for before, after in zip(one.requests, one.requests[1:], strict=False):
            if before.epoch == after.epoch:
                held = float(min(after.read, before.context))
                rows.append((one.session, held, float(before.context)))
    return pooled(rows, resamples).wire()


def _policies(
    usable: Sequence[History], made: Sequence[Trajectory], given: Given, how: Options
) -> dict[str, Any]:
    totals = spending.costs(made, how.policies)
    none = next(t.usd for t in totals if t.policy.name == "none")
    out: dict[str, Any] = {}
    if how.layers:
        by_name = {one.session: one for one in usable}
        replays = [replay(by_name[one.session], one, given.strategies) for one in made]
        name = Policy("ladder", note="the five layers without a model")
        totals.append(total(name, [one.cost for one in replays], none))
        by_layer: Counter[str] = Counter()
        for each in replays:
            by_layer.update(each.by_layer)
        out["ladder"] = {
            "edits_by_layer": dict(sorted(by_layer.items())),
            "lists_checked": sum(one.checked for one in replays),
            "violations": sum(one.violations for one in replays),
        }
    return {
        "policies": spending.rows(totals, made, how.resamples),
        "tuned": spending.tuned(made, how.resamples),
        "swaps": spending.swaps(totals),
        "bound": spending.bounds(made, none),
        **out,
    }


def _learnt(
    usable: Sequence[History], cases: Sequence[Case], given: Given, how: Options
) -> dict[str, Any]:
    rare = rare_facts(usable, cases)

    def text(one: Case, rank: Any) -> str:
        return ledger_of(given, forgetting.SIZE, rank)(one)

    found: Learnt = learn(cases, text, given.ranking, given.weights, given, rare, how.trials)
    return {
        "weights": {name: round(value, 6) for name, value in found.weights.items()},
        "inside": round(found.inside, 4),
        "trials": found.trials,
        "held_out": forgetting.summed(found.held_out, how.resamples),
    }


def _probes(usable: Sequence[History], cases: Sequence[Case], given: Given) -> dict[str, Any]:
    """Return the probes by kind, and the share of them each context could answer at all."""
    by_name = {one.session: one for one in usable}
    ledger = ledger_of(given, forgetting.SIZE, given.ranks)
    asked: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for one in cases:
        hidden = by_name[one.session].hidden(one.boundary)
        made, summary = ledger(one), one.boundary.summary
        full = "\n".join(block.text for block in one.blocks)
        texts = {"full": full, "summary": summary, "ledger": made, "both": f"{summary}\n{made}"}
        for probe in probes(one.session, hidden):
            asked[probe.kind] += 1
            good.update(name for name, text in texts.items() if answerable(probe, text))
    whole = sum(asked.values())
    return {
        "by_kind": dict(sorted(asked.items())),
        "asked": whole,
        "answerable": {
            name: round(good[name] / whole, 4) if whole else None
            for name in ("full", "summary", "ledger", "both")
        },
    }


def probes_of(paths: Any, given: Given) -> list[dict[str, Any]]:
    """Return the probe questions of every boundary below `paths`, with their answers."""
    found: list[Probe] = []
    for one in histories(given.load(paths), given):
        for boundary in one.boundaries:
            found += probes(one.session, one.hidden(boundary))
    return [asdict(probe) for probe in found]
