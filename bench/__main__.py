"""Command: prints the speed tables and fails when a row is over its bar.

May not measure anything itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from bench import ALL
from bench.row import HEAD


def main(argv: Sequence[str]) -> int:
    """Runs the named tables, or all; returns 1 when a row is over its bar."""
    parser = argparse.ArgumentParser(prog="dev.py bench", description="Speed tables.")
    parser.add_argument("names", nargs="*", help=f"some of: {' '.join(ALL)}; without one, all")
    parser.add_argument("--repeat", type=int, default=5, help="measures of each thing (default 5)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.names if name not in ALL]:
        parser.error(f"no such table: {unknown[0]!r}; there are {', '.join(ALL)}")
    tables = {}
    for name in options.names or ALL:
        tables[name] = ALL[name].rows(options.repeat)
        if not options.json:
            print(
                f"{name}\n{HEAD}", *[row.line() for row in tables[name]], "", sep="\n", flush=True
            )
    if options.json:
        whole = {n: [{**asdict(r), "figure": r.figure} for r in rs] for n, rs in tables.items()}
        print(json.dumps(whole, indent=1))
    over = [row.name for rows in tables.values() for row in rows if not row.passes]
    if over:
        print(f"over the bar: {'; '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
