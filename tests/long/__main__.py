"""Long: runs the files of this folder for the steps or minutes asked, and goes on where it stopped.

May not judge: a run counts its own violations; this adds them up and fails when there are any.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
STATE = HERE.parent.parent / ".long"
SLICE = 500  # steps between two writes of the state file


def runs() -> dict[str, ModuleType]:
    """Every file of this folder that has a `run`, by name."""
    names = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_"))
    modules = {name: importlib.import_module(f"tests.long.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "run")}


def remembered(name: str, seed: int, new: bool) -> dict[str, Any]:
    """How far the run came with this seed: {"seed", "next", "seconds", "counts"}."""
    path = STATE / f"{name}.{seed}.json"
    if path.exists() and not new:
        return dict(json.loads(path.read_text()))
    return {"seed": seed, "next": 0, "seconds": 0.0, "counts": {}}


def remember(name: str, state: dict[str, Any]) -> None:
    """Writes how far the run came, so that a killed run loses at most one slice."""
    STATE.mkdir(exist_ok=True)
    path = STATE / f"{name}.{state['seed']}.json"
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(state, indent=1))
    draft.replace(path)


def go_on(name: str, module: ModuleType, state: dict[str, Any], steps: int, until: float) -> None:
    """Runs slices until `steps` more are done, the clock says `until`, or a run does no step."""
    left = steps
    while left > 0 and time.monotonic() < until:
        start = time.monotonic()
        asked = min(left, getattr(module, "SLICE", SLICE))
        counts = module.run(seed=state["seed"], start=state["next"], steps=asked, until=until)
        for key, value in counts.items():
            state["counts"][key] = state["counts"].get(key, 0) + value
        state["next"] += counts["steps"]
        state["seconds"] = round(state["seconds"] + time.monotonic() - start, 2)
        remember(name, state)
        left -= counts["steps"]
        if not counts["steps"]:
            return


def line(name: str, state: dict[str, Any]) -> str:
    """One line of counts: every figure is the sum over all the runs with this seed."""
    counts = " ".join(f"{key}={value:,}" for key, value in state["counts"].items())
    return f"{name}: seed={state['seed']} {counts or 'steps=0'} seconds={state['seconds']}"


def main(argv: Sequence[str]) -> int:
    """Runs the named files, or all; prints a line for each; returns 1 when one has violations."""
    parser = argparse.ArgumentParser(prog="dev.py long", description=__doc__)
    parser.add_argument("names", nargs="*", help="files of tests/long; without one, all")
    parser.add_argument("--steps", type=int, help="this many more steps a file")
    parser.add_argument("--minutes", type=float, help="at most this long a file (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="which sequence of steps (default 1)")
    parser.add_argument("--new", action="store_true", help="begin again instead of going on")
    options = parser.parse_args(argv)
    found = runs()
    if unknown := [name for name in options.names if name not in found]:
        parser.error(f"no such run: {unknown[0]!r}; there are {', '.join(found) or 'none yet'}")
    minutes = options.minutes or (5.0 if options.steps is None else float("inf"))
    violations = 0
    for name in options.names or found:
        state = remembered(name, options.seed, options.new)
        until = time.monotonic() + minutes * 60
        go_on(name, found[name], state, options.steps or sys.maxsize, until)
        violations += state["counts"].get("violations", 0)
        print(line(name, state), flush=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
