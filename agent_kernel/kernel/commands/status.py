"""Status: what is going on, where it is kept, which settings count, and the help.

May not change anything but a setting of this session.
"""

from __future__ import annotations

from agent_kernel.core.compaction import context_tokens
from agent_kernel.kernel import build, places
from agent_kernel.kernel.cell import branch_name
from agent_kernel.kernel.command import Command
from agent_kernel.kernel.workbench import Workbench


def status(bench: Workbench, _words: list[str]) -> None:
    """Print model, key, session, mode, context, tasks, and what to try next."""
    session, settings = bench.session, bench.settings
    choice = build.choice_of(session, settings, build.Options())
    state = session.state()
    rows = [
        ("model", f"{choice.model} ({choice.why})"),
        ("key", choice.key_words),
        (
            "session",
            f"{places.shown(session.log.path, settings.folder)} · {len(session.log)} events",
        ),
        ("branch", branch_name(session)),
        ("mode", build.mode_of(session, settings, build.Options())),
        ("turns", f"{state.turn}{', one is open' if state.turn_open else ''}"),
        ("context", f"{context_tokens(session, 'main'):,} of {choice.profile.window:,} tokens"),
    ]
    print("\n".join(f"{name:8} {value}" for name, value in rows))


STATUS = (Command("status", "see", "", "model, key, session, mode, context", status),)
