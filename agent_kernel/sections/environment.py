"""Environment: where this runs, said when it changes: folder, mode, system, day, Python, names.

May not send a variable that is not on the allow list, nor a clock finer than a day.
"""

from __future__ import annotations

import os
import platform
import time

from agent_kernel.core.events import ToolResultEvent
from agent_kernel.core.prompt import PromptContext, Section

ALLOWED = ("CI", "NODE_ENV", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV")


def render(context: PromptContext) -> str:
    """Return one line a fact."""
    session = context.facts.get("session")
    rows = [("working directory", str(context.workspace))]
    shell = _shell_folder(session, context.agent)
    if shell not in (None, ".", ""):
        rows.append(("bash's directory", str(shell)))
    rows.append(("permission mode", context.mode))
    path = session.log.path if session is not None else None
    if path is not None:
        rows.append(("session file", path.name))
    rows += [
        ("system", f"{platform.system()} {platform.machine()}"),
        ("date", time.strftime("%Y-%m-%d")),
        ("python", platform.python_version()),
    ]
    kernel = context.facts.get("kernel")
    if kernel:
        rows.append(("kernel", str(kernel)))
    rows += [(name, os.environ[name]) for name in ALLOWED if os.environ.get(name)]
    return "\n".join(f"{name}: {value}" for name, value in rows)


def _shell_folder(session: object, agent: str) -> str | None:
    events = getattr(session, "events", ())
    for event in reversed(events[-200:]):
        if isinstance(event, ToolResultEvent) and event.agent == agent and "cwd" in event.meta:
            return str(event.meta["cwd"])
    return None


ENVIRONMENT = Section("environment", False, render)
