"""Data risk: ten checks of a table before it is dropped or cleaned; unknown is never a pass.

May not delete or change anything.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

import agent_kernel.tools.data_sources as data_sources
import agent_kernel.tools.sql_catalog as sql_catalog
import agent_kernel.tools.sql_check as sql_check
from agent_kernel.core.events import ToolResultEvent
from agent_kernel.core.messages import Json, canonical
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer

DESCRIPTION = (
    "Report the risks of dropping a table or cleaning its files: ten checks (exists, tier, size, "
    "downstream views, lineage, schedule use, last access, storage path, Hudi, approval), each "
    "pass, risk or unknown with evidence, and a verdict. Changes nothing."
)
EVIDENCE = 12
LARGE = 1_000_000  # rows
RECENT = 7 * 86_400  # seconds
Result = Literal["pass", "risk", "unknown"]


class RiskInput(Input):
    """Input of `data_risk`."""

    object: str = Field(min_length=1)
    source: str | None = None
    path: str | None = Field(None, description="storage path that would be cleaned")
    intent: Literal["drop", "clean"] = "drop"


@dataclass(frozen=True)
class Check:
    """One finding; `stop` = the act must not be done at all."""

    check: str
    result: Result
    evidence: tuple[str, ...]
    stop: bool = False

    def wire(self) -> Json:
        """Return it as the report shows it."""
        return {"check": self.check, "result": self.result, "evidence": list(self.evidence)}


@dataclass(frozen=True)
class Case:
    """What is looked at: the request, its source, the object (None = missing) and all others."""

    value: RiskInput
    source: data_sources.Source
    found: sql_catalog.Object | None
    every: tuple[sql_catalog.Object, ...]
    workspace: Path


def _exists(case: Case) -> Check:
    if case.found is None:
        near = [each.name for each in case.every][:5]
        return Check("exists", "risk", (f"no such object; there are {', '.join(near)}",), stop=True)
    return Check("exists", "pass", (f"{case.found.kind}, {len(case.found.columns)} columns",))


def _tier(case: Case) -> Check:
    if case.source.tier == "dev":
        return Check("tier", "pass", ("dev",))
    approved = _approved(case)
    return Check("tier", "risk", ("prod", approved or "no approval"), stop=not approved)


def _size(case: Case) -> Check:
    if case.found is None or case.found.rows is None:
        return Check("size", "unknown", ("rows were not counted",))
    size = f"{case.found.rows:,} rows"
    file = case.source.path
    if file is not None:
        size += f"; the database file has {file.stat().st_size:,} bytes"
    return Check("size", "risk" if case.found.rows >= LARGE else "pass", (size,))


def _views(case: Case) -> Check:
    """Find the views that read the object, and those that read such a view, by parsing."""
    found: dict[str, str] = {}
    unread: list[str] = []
    uses: dict[str, tuple[str, ...]] = {}
    for view in case.every:
        if view.kind != "view":
            continue
        try:
            tree = sql_check.parsed(view.sql.rstrip("; \n"), case.source.dialect)
        except ToolError:
            unread.append(view.name)
            continue
        names = sql_check.tables_of(tree)
        uses[view.name] = tuple(n for n in names if not sql_check.same_object(n, view.name))
    wanted = [case.value.object]
    while wanted:
        name = wanted.pop()
        for reader, reads in uses.items():
            if reader not in found and any(sql_check.same_object(name, each) for each in reads):
                through = "" if name == case.value.object else f" (through {name})"
                found[reader] = f"{reader}{through}"
                wanted.append(reader)
    evidence = (*found.values(), *(f"{name}: its text does not parse" for name in unread))
    if found:
        return Check("downstream_views", "risk", evidence)
    return Check(
        "downstream_views", "unknown" if unread else "pass", evidence or ("no view reads it",)
    )


def _lineage(case: Case) -> Check:
    """Read OpenLineage run events, one JSON a line: a job whose input is the object."""
    lines = _lines(case, case.source.lineage)
    if lines is None:
        return Check("lineage", "unknown", ("no lineage is configured (data.sources … lineage)",))
    jobs: dict[str, None] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        inputs = event.get("inputs") or [] if isinstance(event, dict) else []
        names = [str(each.get("name")) for each in inputs if isinstance(each, dict)]
        if any(sql_check.same_object(case.value.object, name) for name in names):
            jobs[str((event.get("job") or {}).get("name"))] = None
    if jobs:
        return Check("lineage", "risk", tuple(f"job {name} reads it" for name in jobs))
    return Check("lineage", "pass", (f"{len(lines):,} lineage events, none reads it",))


def _lines(case: Case, name: str | None) -> list[str] | None:
    path = case.workspace / name if name else None
    if path is None or not path.is_file():
        return None
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _schedule(case: Case) -> Check:
    folder = case.workspace / case.source.jobs if case.source.jobs else None
    if folder is None or not folder.is_dir():
        return Check("schedule", "unknown", ("no folder of jobs is configured",))
    short = case.value.object.rpartition(".")[2].lower()
    hits: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 20:
            continue
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if _names(short, line.lower()):
                hits.append(f"{path.relative_to(case.workspace)}:{number}: {line.strip()[:120]}")
                break
    if hits:
        return Check("schedule", "risk", tuple(hits))
    return Check("schedule", "pass", (f"no file below {case.source.jobs} names it",))


def _names(word: str, line: str) -> bool:
    """Tell whether a line holds the word whole."""
    at = line.find(word)
    while at >= 0:
        before, after = line[at - 1 : at], line[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        at = line.find(word, at + 1)
    return False


def _access(case: Case) -> Check:
    path = case.source.paths.get(case.value.object)
    folder = case.workspace / path if path else None
    if folder is None or not folder.exists():
        return Check("last_access", "unknown", (f"{case.source.dialect} keeps no access times",))
    files = [folder, *folder.rglob("*")] if folder.is_dir() else [folder]
    last = max(each.stat().st_mtime for each in files)
    words = f"last write {datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC"
    recent = datetime.now(UTC).timestamp() - last < RECENT
    return Check("last_access", "risk" if recent else "pass", (words,))


def _path(case: Case) -> Check:
    """Compare the path that would be cleaned with the table's own, and with all others'."""
    known = case.source.paths.get(case.value.object)
    given = case.value.path
    if given is None:
        needed = case.value.intent == "clean"
        said = known or "no path was given or is configured"
        return Check("storage_path", "unknown" if needed or not known else "pass", (said,))
    here = (case.workspace / given).resolve()
    for name, other in case.source.paths.items():
        there = (case.workspace / other).resolve()
        if name != case.value.object and (here == there or here in there.parents):
            return Check("storage_path", "risk", (f"{given} holds {name} too",), stop=True)
    if known is None:
        return Check("storage_path", "unknown", (f"nothing says that {given} is this table's",))
    own = (case.workspace / known).resolve()
    if here != own:
        return Check(
            "storage_path", "risk", (f"{given} is not the table's path {known}",), stop=True
        )
    return Check("storage_path", "pass", (f"{known} is this table's alone",))


def _hudi(case: Case) -> Check:
    path = case.value.path or case.source.paths.get(case.value.object)
    folder = case.workspace / path / ".hoodie" if path else None
    if folder is None:
        return Check("hudi", "unknown", ("no storage path to look into",))
    if not folder.is_dir():
        return Check("hudi", "pass", ("no Hudi timeline inside",))
    names = sorted(each.name for each in folder.iterdir())
    hanging = [n for n in names if n.endswith((".inflight", ".requested"))]
    return Check("hudi", "risk", ("a Hudi timeline is inside", *hanging[:5]))


def _approval(case: Case) -> Check:
    approved = _approved(case)
    if approved:
        return Check("approval", "pass", (approved,))
    configured = case.source.approvals
    return Check("approval", "risk" if configured else "unknown", ("no approval is on record",))


def _approved(case: Case) -> str:
    lines = _lines(case, case.source.approvals)
    try:
        found = json.loads("\n".join(lines or ())) if lines else {}
    except ValueError:
        return ""
    said = found.get(case.value.object) if isinstance(found, dict) else None
    return f"approved: {said}" if isinstance(said, str) and said else ""


CHECKS: tuple[Callable[[Case], Check], ...] = (
    _exists, _tier, _size, _views, _lineage, _schedule, _access, _path, _hudi, _approval
)  # fmt: skip


def verdict(checks: list[Check]) -> str:
    """Return stop, needs approval, or low: unknown never counts as a pass."""
    if any(check.stop for check in checks):
        return "stop"
    return "low" if all(check.result == "pass" for check in checks) else "needs approval"


def state_of(source: data_sources.Source, found: sql_catalog.Object | None) -> str:
    """Return the SHA-256 of an object's name, columns, rows, and its file's size and last write."""
    file = source.path
    stat = file.stat() if file is not None and file.is_file() else None
    facts = {
        "name": found.name.lower() if found is not None else None,
        "columns": [[*column[:2]] for column in found.columns] if found is not None else [],
        "rows": found.rows if found is not None else None,
        "bytes": stat.st_size if stat else None,
        "write": stat.st_mtime_ns if stat else None,
    }
    return hashlib.sha256(canonical(facts)).hexdigest()


def report(value: RiskInput, ctx: ToolContext, source: data_sources.Source) -> Json:
    """Return the report of ten checks in their fixed order."""
    with data_sources.reading(ctx, source) as connection:
        (found,) = sql_catalog.objects(connection, value.object) or (None,)
        every = tuple(sql_catalog.objects(connection))
    case = Case(value, source, found, every, ctx.workspace)
    checks = [check(case) for check in CHECKS]
    return {
        "object": value.object,
        "source": source.name,
        "intent": value.intent,
        "verdict": verdict(checks),
        "state": state_of(source, found),
        "checks": [check.wire() for check in checks],
    }


# ---- what a write needs -----------------------------------------------------------------------


def last_report(ctx: ToolContext, source: data_sources.Source, target: str) -> Json | None:
    """Return the last report of an object of this turn, None when there is none."""
    turn = ctx.session.state(ctx.agent).turn
    for event in reversed(ctx.session.events):
        if not isinstance(event, ToolResultEvent) or (event.turn or 0) != turn:
            continue
        made = event.meta.get("data_risk")
        if not isinstance(made, dict) or made.get("source") != source.name:
            continue
        if sql_check.same_object(str(made.get("object")), target):
            return made
    return None


def need_report(ctx: ToolContext, source: data_sources.Source, target: str) -> None:
    """Raise ToolError unless this turn holds a report of the object as it is now, not a stop."""
    found = last_report(ctx, source, target)
    if found is None:
        raise ToolError(f"{target!r} would be taken away: call data_risk for it in this turn first")
    if found["verdict"] == "stop":
        raise ToolError(f"the report of {target!r} says stop; it is not run")
    with data_sources.reading(ctx, source) as connection:
        (now,) = sql_catalog.objects(connection, str(found["object"])) or (None,)
    if state_of(source, now) != found["state"]:
        raise ToolError(f"{target!r} has changed since its report; call data_risk again")


def in_a_line(target: str, found: Json | None) -> str:
    """Return a report in one line for the person who is asked."""
    if found is None:
        return f"no risk report of {target} in this turn"
    risks = [c for c in found["checks"] if c["result"] != "pass"]
    named = "; ".join(f"{c['check']} {c['result']}: {', '.join(c['evidence'][:3])}" for c in risks)
    return f"report of {target}: {found['verdict']}{f' ({named})' if named else ''}"


def text_of(found: Json) -> str:
    """Return a report as the model reads it."""
    lines = [f"{found['object']} ({found['source']}), {found['intent']}: {found['verdict']}"]
    for check in found["checks"]:
        evidence = check["evidence"]
        more = f"; {len(evidence) - EVIDENCE} more" if len(evidence) > EVIDENCE else ""
        lines.append(
            f"{check['result']:<8} {check['check']}: {'; '.join(evidence[:EVIDENCE])}{more}"
        )
    return "\n".join([*lines, f"state {found['state']}"])


async def run(value: RiskInput, ctx: ToolContext) -> Answer:
    """Return the report."""
    source = data_sources.source_of(ctx, value.source)
    found = await asyncio.to_thread(report, value, ctx, source)
    return text_answer(text_of(found), data_risk=found)


DATA_RISK = Tool(
    "data_risk",
    DESCRIPTION,
    RiskInput,
    run,
    concurrent=True,
    read_only=True,
    deferred=True,
    timeout=60.0,
    when=data_sources.configured,
)
