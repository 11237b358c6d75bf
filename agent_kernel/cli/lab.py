"""Lab verb: what compaction costs, saves and forgets in session logs, and what other rules would.

May not measure anything itself: it hands the rooms' functions to the lab.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from agent_kernel.lab.given import Given, Rank
from agent_kernel.lab.policies import ALL
from agent_kernel.lab.report import Options, probes_of
from agent_kernel.lab.report import report as made_report
from agent_kernel.lab.simulate import Policy
from agent_kernel.lab.text import text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to `parser`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="session files, folders, globs")
    parser.add_argument("--json", action="store_true", help="one JSON object, version 1")
    parser.add_argument("--policies", metavar="LIST", help="names with commas (default: all)")
    parser.add_argument(
        "--ttl", type=float, help="seconds a cached prefix lives (default: as logged)"
    )
    parser.add_argument("--bootstrap", type=int, default=1_000, help="resamples of intervals")
    parser.add_argument("--layers", action="store_true", help="replay the five real layers, slow")
    parser.add_argument("--learn", type=int, default=0, metavar="N", help="learn ledger weights by "
                        "5-fold cross-validation over N draws, slow")  # fmt: skip
    parser.add_argument("--probes", action="store_true", help="only the probe questions, as JSON")


def main(args: argparse.Namespace) -> int:
    """Print the report; return 0, or 2 with one line when nothing is readable."""
    start = time.monotonic()
    try:
        if args.probes:
            sys.stdout.write(json.dumps(probes_of(args.paths, given())) + "\n")
            return 0
        options = Options(args.ttl, args.bootstrap, args.layers, args.learn, _chosen(args.policies))
        made = made_report(args.paths, given(), options)
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"agent-kernel lab: {error}\n")
        return 2
    sys.stdout.write(json.dumps(made, indent=1) + "\n" if args.json else text(made))
    sys.stderr.write(f"{time.monotonic() - start:.1f} s wall, {_peak():,.0f} MB peak memory\n")
    return 0


def report(paths: Any, **how: Any) -> dict[str, Any]:
    """Return the lab's report of the sessions below `paths`; `how` are the fields of Options."""
    return made_report(paths, given(), Options(**how))


def tables(paths: Any, **how: Any) -> str:
    """Return the report as the text `agent-kernel lab` prints."""
    return text(report(paths, **how))


def _chosen(names: str | None) -> tuple[Policy, ...]:
    if names is None:
        return ALL
    known = {policy.name: policy for policy in ALL}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise ValueError(f"no policy {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(["none", *wanted]))


def _peak() -> float:
    """Return the most memory this process held, in MB; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def given() -> Given:
    """Return what the lab needs of other rooms."""
    import agent_kernel.compaction.facts as facts
    import agent_kernel.compaction.ledger as ledger
    import agent_kernel.compaction.ranking as ranking
    from agent_kernel import compaction, frames
    from agent_kernel.compaction.auto import standing
    from agent_kernel.compaction.constraints import constraints, survives
    from agent_kernel.frames.unpack import opened

    def weighted(weights: Mapping[str, float]) -> Rank:
        made = replace(ranking.START, **weights)  # type: ignore[arg-type]

        def rank(found: Sequence[Any], end: int) -> list[float]:
            return ranking.ranking(made, found, end)

        return rank

    start = {name: value for name, value in asdict(ranking.START).items() if name != "listed"}
    return Given(
        load=lambda paths: frames.load(paths, cache=False),
        opened=opened, said=facts.said, facts_of=facts.facts_of, found_in=facts.found_in,
        norm_of=facts.norm_of, values=facts.values, holds=ledger.holds, constraints=constraints,
        survives=survives, ledger=ledger.ledger, standing=standing, ranks=ranking.ranks,
        untuned=ranking.untuned, ranking=weighted, weights=start, strategies=compaction.ALL,
    )  # fmt: skip
