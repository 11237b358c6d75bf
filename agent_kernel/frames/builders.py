"""Builders: the tables of a load, in the documented order, each with what builds it.

May not build anything itself.
"""

from __future__ import annotations

import agent_kernel.frames.accounts as accounts
import agent_kernel.frames.agents as agents
import agent_kernel.frames.blocks as blocks
import agent_kernel.frames.calls as calls
import agent_kernel.frames.compactions as compactions
import agent_kernel.frames.facts as facts
import agent_kernel.frames.items as items
import agent_kernel.frames.permissions as permissions
import agent_kernel.frames.reconcile as reconcile
import agent_kernel.frames.records as records
import agent_kernel.frames.samples as samples
import agent_kernel.frames.sessions as sessions
import agent_kernel.frames.steps as steps
import agent_kernel.frames.tools as tools
import agent_kernel.frames.turns as turns
import agent_kernel.frames.work as work
from agent_kernel.frames.load import Builder

BUILDERS: dict[str, Builder] = {
    "sessions": sessions.build,
    "records": records.build,
    "calls": calls.build,
    "blocks": blocks.build,
    "tools": tools.build,
    "turns": turns.build,
    "steps": steps.build,
    "compactions": compactions.build,
    "compaction_items": items.build,
    "facts": facts.build,
    "files": work.files,
    "subagents": agents.build,
    "tasks": work.tasks,
    "permissions": permissions.build,
    "samples": samples.build,
    "prices": accounts.prices,
    "issues": accounts.issues,
    "reconcile": reconcile.build,
}
