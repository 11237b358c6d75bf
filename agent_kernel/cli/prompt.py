"""Prompt: one turn from the command line, over the session log of this folder.

May not ask anybody: what no rule allows is denied.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from agent_kernel.core.events import ToolDecision
from agent_kernel.core.log import LogError
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ProviderError
from agent_kernel.core.query import TurnError, query, result
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks, lose_tasks
from agent_kernel.guard.rules import parse_rules
from agent_kernel.kernel import build, places
from agent_kernel.kernel.parse import budget
from agent_kernel.kernel.settings import Settings
from agent_kernel.kernel.turns import record, turn_number


async def run_prompt(args: argparse.Namespace) -> tuple[int, Json]:
    """Run one turn; return the exit status and {session, turns, steps, reason, answer, usage,
    cost, …}.

    Raises ValueError on a rule, a budget or a log that cannot be used.
    """
    settings = Settings(Path.cwd())
    path = places.newest_log(places.log_path(None, settings.folder))
    session = Session.open(path, redact=build.redactor(settings))
    options = build.Options(
        model=args.model,
        base_url=args.base_url,
        budget=budget(args.budget) if args.budget else {},
        rules=parse_rules({"allow": args.allow}, str(settings.folder)),
    )
    if len(session.log):
        session.resume(settings.folder)
    lost = lose_tasks(session) if len(session.log) else []
    made = build.built(session, settings, options, services={}, tasks=Tasks(session)).agent
    began, first, error = time.monotonic(), len(session.log), None
    if session.state(made.id).turn_open:
        session.close_turn("interrupted", "the process ended", made.id)
        first = len(session.log)
    try:
        await query(session, made, args.prompt, source="api")
    except (ProviderError, TurnError, LogError) as failure:
        error = str(failure)
    told: Json = {"session": session.id, "turns": 1, "error": error, "tasks_lost": lost}
    if session.state(made.id).turn_end is not None and len(session.log) > first:
        outcome = result(session, made.id)
        kept = record(session, turn_number(session, outcome.turn).first)
        told.update(steps=outcome.steps, reason=outcome.reason, answer=outcome.answer)
        told.update(usage=kept["usage"], cost=kept["cost"])
    told["seconds"] = round(time.monotonic() - began, 3)
    told["denials"] = [
        {"id": e.id, "reason": e.reason, "would_pass": e.would_pass}
        for e in session.events[first:]
        if isinstance(e, ToolDecision) and e.verdict == "deny"
    ]
    session.close()
    return (0 if told.get("reason") == "completed" else 1), told
