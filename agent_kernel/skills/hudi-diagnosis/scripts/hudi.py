"""Hudi: a table folder's timeline and files as JSON, with what is wrong in them.

It lists names and reads commit files, and may not change anything.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

INSTANT = re.compile(r"(\d{14,17})(?:_\d+)?\.(\w+)(?:\.(requested|inflight))?")
BASE = re.compile(
    r"(?P<id>[0-9A-Za-z-]+?)_(?P<token>[\d-]+)_(?P<instant>\d{14,17})\.(?:parquet|orc)"
)
BUCKET = re.compile(r"(\d{8})-")
DATA = ("commit", "deltacommit", "replacecommit")
COMMIT_BYTES = 64 << 20


def timeline(table: Path) -> dict[str, dict[str, str]]:
    """Return {instant: {action, state}}, the furthest state of each."""
    order = {"requested": 0, "inflight": 1, "completed": 2}
    found: dict[str, dict[str, str]] = {}
    hoodie = table / ".hoodie"
    for folder in (hoodie, hoodie / "timeline"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            match = INSTANT.fullmatch(path.name)
            if match is None:
                continue
            action, state = match[2], match[3] or "completed"
            if action == "inflight":  # the old name of a commit's inflight file
                action, state = "commit", "inflight"
            known = found.get(match[1])
            if known is None or order[state] > order[known["state"]]:
                found[match[1]] = {"action": action, "state": state, "file": path.name}
    return dict(sorted(found.items()))


def written(table: Path, instants: dict[str, dict[str, str]]) -> set[str] | None:
    """Return the file names completed commits say they wrote; None when none of them is JSON."""
    names: set[str] = set()
    read = False
    for facts in instants.values():
        if facts["state"] != "completed" or facts["action"] not in DATA:
            continue
        places = [table / ".hoodie" / facts["file"], table / ".hoodie" / "timeline" / facts["file"]]
        path = next((each for each in places if each.is_file()), None)
        if path is None or path.stat().st_size > COMMIT_BYTES:
            continue
        try:
            stats = json.loads(path.read_text(encoding="utf-8"))["partitionToWriteStats"]
        except (ValueError, KeyError, TypeError):
            continue
        read = True
        for each in stats.values():
            names.update(Path(str(stat.get("path"))).name for stat in each)
    return names if read else None


def base_files(table: Path) -> list[dict[str, str]]:
    """Return every base file: partition, file id, instant, name."""
    out = []
    for path in sorted(table.rglob("*")):
        if ".hoodie" in path.parts or not path.is_file():
            continue
        match = BASE.fullmatch(path.name)
        if match is not None:
            partition = path.parent.relative_to(table).as_posix()
            out.append({"partition": partition, "name": path.name, **match.groupdict()})
    return out


def duplicates(files: list[dict[str, str]]) -> list[str]:
    """Return file ids with two base files of one instant, or in two partitions."""
    by_id: dict[str, list[dict[str, str]]] = defaultdict(list)
    for each in files:
        by_id[each["id"]].append(each)
    out = []
    for name, same in sorted(by_id.items()):
        partitions = {each["partition"] for each in same}
        instants = [each["instant"] for each in same]
        if len(partitions) > 1:
            out.append(f"{name} lies in {', '.join(sorted(partitions))}")
        elif len(set(instants)) < len(instants):
            twice = sorted({i for i in instants if instants.count(i) > 1})
            out.append(f"{name} has two base files of {', '.join(twice)}")
    return out


def buckets(files: list[dict[str, str]]) -> dict[str, list[str]]:
    """Return bucket numbers that are missing or double, by partition; {} for no bucket index."""
    ids: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each in files:
        match = BUCKET.match(each["id"])
        if match is None:
            return {}
        ids[each["partition"]][int(match[1])].add(each["id"])
    most = max((max(found) for found in ids.values()), default=-1)
    missing, double = [], []
    for partition, found in sorted(ids.items()):
        missing += [f"{partition}: bucket {n}" for n in range(most + 1) if n not in found]
        double += [
            f"{partition}: bucket {n} has {len(held)} file ids"
            for n, held in sorted(found.items())
            if len(held) > 1
        ]
    return {"missing": missing, "double": double}


def examine(table: Path) -> dict[str, Any]:
    """Return the report of a table folder. Raises FileNotFoundError without a timeline."""
    if not (table / ".hoodie").is_dir():
        raise FileNotFoundError(f"{str(table)!r} has no .hoodie folder; give a Hudi table's folder")
    instants = timeline(table)
    done = [instant for instant, facts in instants.items() if facts["state"] == "completed"]
    last = max(done, default="")
    hanging = [i for i, facts in instants.items() if facts["state"] != "completed" and i < last]
    files = base_files(table)
    names = written(table, instants)
    orphans = [] if names is None else [
        f"{each['partition']}/{each['name']}" for each in files if each["name"] not in names
    ]  # fmt: skip
    double, held = duplicates(files), buckets(files)
    by_state: dict[str, int] = defaultdict(int)
    for facts in instants.values():
        by_state[f"{facts['action']} {facts['state']}"] += 1
    rollbacks = [i for i, facts in instants.items() if facts["action"] == "rollback"]
    faults = [f"hanging {instants[i]['state']} {instants[i]['action']} {i}" for i in hanging]
    faults += [f"duplicate file id: {each}" for each in double]
    faults += [f"bucket missing: {each}" for each in held.get("missing", [])]
    faults += [f"bucket double: {each}" for each in held.get("double", [])]
    faults += [f"no commit names {each}" for each in orphans]
    return {
        "instants": dict(sorted(by_state.items())),
        "last_completed": last or None,
        "hanging": hanging,
        "rollbacks": rollbacks,
        "compactions": [i for i, facts in instants.items() if facts["action"] == "compaction"],
        "base_files": len(files),
        "commits_read": names is not None,
        "duplicate_files": double,
        "buckets": held,
        "orphans": orphans,
        "faults": faults,
    }


def main(arguments: list[str]) -> int:
    """Print the report of the folder named; 2 when it is no table."""
    if len(arguments) != 1:
        print("usage: hudi.py TABLE_FOLDER", file=sys.stderr)
        return 2
    try:
        print(json.dumps(examine(Path(arguments[0])), indent=1))
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
