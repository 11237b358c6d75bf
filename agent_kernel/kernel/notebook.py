"""Notebook: what a saved notebook says of its agent turns, and the log it may carry (log.md §5).

May not open a connection or a kernel, and follows no path that leaves the notebook's folder.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_kernel.core.files import DISK, write_whole
from agent_kernel.core.messages import Json, Usage

KEY = "agent_kernel"
SCHEMA = 1


class NotebookError(ValueError):
    """A notebook that cannot be used as asked: names the file, what is wrong and what to do."""


def records(nb: Mapping[str, Any]) -> list[Json]:
    """Return the turn records on the outputs of a notebook, in cell order, each turn once."""
    found: dict[tuple[Any, Any], Json] = {}
    for output in _outputs(nb):
        record = output.get("metadata", {}).get(KEY)
        if isinstance(record, dict) and "turn" in record and "session" in record:
            found[record["session"], record["turn"]] = record
    return list(found.values())


def _outputs(nb: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for cell in nb.get("cells", ()):
        for output in cell.get("outputs", ()) if isinstance(cell, dict) else ():
            if isinstance(output, dict):
                yield output


def fold_metadata(nb: Json) -> Json:
    """Return `nb` with its notebook metadata made anew from the records on its outputs, in place.

    Pure on plain JSON; unknown keys of the metadata are kept, and an embedded log too. A notebook without
    agent turns is returned as it came.
    """
    turns = records(nb)
    metadata = nb.setdefault("metadata", {})
    before = metadata.get(KEY) if isinstance(metadata.get(KEY), dict) else {}
    if not turns and not before:
        return nb
    head = max(turns, key=lambda r: (r.get("time") or 0, r["seq"][1]), default=None)
    made: Json = {**before, "schema": SCHEMA, "log": before.get("log")}
    if head is not None:
        made.update(
            session=head["session"],
            sidecar=_bare(head.get("sidecar")),
            head={"seq": head["seq"][1], "h": head.get("head_h")},
        )
    made.update(
        turns=[{k: v for k, v in r.items() if k not in ("compactions", "sidecar")} for r in turns],
        totals=_totals(turns),
        compactions=[c for r in turns for c in r.get("compactions", ())],
    )
    metadata[KEY] = made
    return nb


def _totals(turns: list[Json]) -> Json:
    """Return turns, steps, tokens and dollars of the records; dollars None when one is unknown."""
    usage = Usage()
    for record in turns:
        usage = usage + Usage.of(record.get("usage"))
    costs = [record.get("cost") for record in turns]
    known = [c for c in costs if c is not None]
    return {
        "turns": len(turns),
        "steps": sum(record.get("steps") or 0 for record in turns),
        "usage": usage.wire(),
        "cost": round(sum(known), 6) if len(known) == len(costs) else None,
    }


def _bare(name: Any) -> str | None:
    """Return a sidecar's name when it is a bare file name; a path that leaves the folder is refused."""
    if not isinstance(name, str) or not name or Path(name).name != name:
        return None
    return name


def read_notebook(path: Path) -> Json:
    """Return a notebook file's JSON. Raises NotebookError when it is none."""
    try:
        nb = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotebookError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise NotebookError(f"{str(path)!r} is no notebook: {error}") from None
    if not isinstance(nb, dict) or not isinstance(nb.get("cells"), list):
        raise NotebookError(f"{str(path)!r} is no notebook: it holds no cells")
    return nb


def write_notebook(path: Path, nb: Json) -> None:
    """Write a notebook file in one step, as Jupyter writes it."""
    text = json.dumps(nb, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_whole(DISK, path, text.encode("utf-8", "surrogatepass"), mode)


def sidecar_of(path: Path, nb: Mapping[str, Any]) -> Path:
    """Return the log beside a notebook. Raises NotebookError when its name leaves the folder."""
    told = nb.get("metadata", {}).get(KEY, {})
    name = told.get("sidecar") or f"{path.stem}.agent.jsonl"
    if _bare(name) is None:
        raise NotebookError(
            f"{str(path)!r} names the sidecar {name!r}; only a bare file name is used"
        )
    return path.with_name(name)


def embed(path: Path) -> Json:
    """Put the whole log into the notebook's metadata (gzip, base64); return {log, bytes, embedded}.

    Raises NotebookError when there is no log beside it.
    """
    nb = fold_metadata(read_notebook(path))
    log = sidecar_of(path, nb)
    if not log.is_file():
        raise NotebookError(f"{log.name!r} is missing beside {path.name!r}; run the notebook first")
    data = log.read_bytes()
    packed = base64.b64encode(gzip.compress(data, mtime=0)).decode("ascii")
    told = nb["metadata"].setdefault(KEY, {"schema": SCHEMA, "sidecar": log.name})
    told["log"] = packed
    write_notebook(path, nb)
    return {"log": log.name, "bytes": len(data), "embedded": len(packed)}


def extract(path: Path, *, force: bool = False) -> Json:
    """Write the embedded log back beside the notebook; return {log, bytes}.

    Raises NotebookError when none is embedded, it cannot be unpacked, or another log stands there.
    """
    nb = read_notebook(path)
    packed = nb.get("metadata", {}).get(KEY, {}).get("log")
    if not isinstance(packed, str):
        raise NotebookError(f"{path.name!r} carries no log; `agent-kernel embed` puts it in")
    try:
        data = gzip.decompress(base64.b64decode(packed, validate=True))
    except (ValueError, OSError, EOFError) as error:
        raise NotebookError(f"the log in {path.name!r} is damaged: {error}") from None
    log = sidecar_of(path, nb)
    if log.exists() and log.read_bytes() != data and not force:
        raise NotebookError(f"{log.name!r} is there and differs; move it, or use --force")
    write_whole(DISK, log, data)
    return {"log": log.name, "bytes": len(data)}


def check_head(path: Path, nb: Mapping[str, Any]) -> str | None:
    """Return one sentence when the log beside a notebook is missing, older or altered, else None."""
    from agent_kernel.core.branches import open_log

    told = nb.get("metadata", {}).get(KEY, {})
    head = told.get("head") or {}
    if not head:
        return None
    log = sidecar_of(path, nb)
    kept = f"the notebook still holds {len(told.get('turns', ()))} turn records"
    if not log.is_file():
        return f"{log.name!r} is missing; {kept}"
    opened = open_log(log)
    if opened.next_seq <= head["seq"]:
        return (
            f"{log.name!r} is older than the notebook (seq {opened.next_seq - 1} of {head['seq']})"
        )
    if opened.hash_at(head["seq"]) != head.get("h"):
        return f"{log.name!r} was altered: seq {head['seq']} is not what the notebook knows; {kept}"
    return None
