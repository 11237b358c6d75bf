"""Metrics: derived numbers of a load as DataFrames; no model, no network.

May not print a number without what it must stand beside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import agent_kernel.frames.avoidable as avoidable
import agent_kernel.frames.detect as detect
import agent_kernel.frames.rereads as reread_windows
from agent_kernel.frames.frames import Frames
from agent_kernel.frames.lanes import clean_steps, lanes

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


def fits(f: Frames) -> pd.DataFrame:
    """Return the characters per token of each model: model, n, chars_per_token, mdape, p90.

    `mdape` and `p90` are shares of the true tokens, each step judged by a fit on the others.
    """
    steps: dict[str, list[tuple[int, int]]] = {}
    for model, chars, delta in clean_steps(f.load):
        steps.setdefault(model, []).append((chars, delta))
    rows = [_fit(model, pairs) for model, pairs in steps.items()]
    return _frame(rows, ("model", "n", "chars_per_token", "mdape", "p90"))


def _fit(model: str, pairs: list[tuple[int, int]]) -> Row:
    ratios = sorted(chars / delta for chars, delta in pairs)
    middle = ratios[len(ratios) // 2]
    errors = sorted(abs(chars / middle - delta) / delta for chars, delta in pairs)
    return {
        "model": model,
        "n": len(pairs),
        "chars_per_token": middle,
        "mdape": errors[len(errors) // 2],
        "p90": errors[int(len(errors) * 0.9)],
    }


def carry(f: Frames) -> pd.DataFrame:
    """Return one row a tool result: session_id, tool_use_id, name, path, tokens, first_usd (when
    it was written to the cache), later_usd (every later read of it), calls that carried it."""
    tools = {(row["session_id"], row["tool_use_id"]): row for row in f.load.rows("tools")}
    rows: list[Row] = []
    for lane in f.load.once(lanes):
        for item in lane.items:
            tool = tools.get((lane.session, item.block["tool_use_id"]))
            if item.source == "tool_results" and tool is not None:
                rows.append(
                    {
                        "session_id": lane.session,
                        "tool_use_id": tool["tool_use_id"],
                        "name": tool["name"],
                        "path": tool["path"],
                        "tokens": item.tokens,
                        "first_usd": item.first_usd,
                        "later_usd": item.later_usd,
                        "calls": item.calls,
                    }
                )
    names = "session_id tool_use_id name path tokens first_usd later_usd calls".split()
    return _frame(rows, names).sort_values("later_usd", ascending=False, ignore_index=True)


def rereads(f: Frames) -> pd.DataFrame:
    """Return paths read again after a compaction, the control beside it, and those edited apart."""
    names = ("where", "windows", "rereads_mean", "edited_between_mean", "tokens_mean")
    return _frame(reread_windows.table(f.load), names)


def findings(f: Frames, **limits: Any) -> pd.DataFrame:
    """Return what the detectors found, dearest first: code, session_id, where, usd, evidence.

    `limits` are the thresholds of detect.Limits.
    """
    return _frame(
        detect.table(f.load, **limits), ("code", "session_id", "where", "usd", "evidence")
    )


def costs(f: Frames) -> pd.DataFrame:
    """Return what could have been saved, dearest first: code, usd, count, cause, change, sessions
    (the dearest five), of_sessions. Causes overlap."""
    names = ("code", "usd", "count", "cause", "change", "sessions", "of_sessions")
    return _frame([cost.row() for cost in avoidable.costs(f.load)], names)


def _frame(rows: list[Row], names: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(names))
