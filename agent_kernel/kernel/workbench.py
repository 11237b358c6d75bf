"""Workbench: what one kernel keeps for its agent: runtime, settings, open session, what runs now.

May not hold a fact a restarted kernel would need: that is in the log.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

from agent_kernel.compaction import Candidates
from agent_kernel.core.agent import Agent
from agent_kernel.core.events import SessionResume
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks
from agent_kernel.kernel import beside, build, places
from agent_kernel.kernel.approve import Approver
from agent_kernel.kernel.cellstates import with_states
from agent_kernel.kernel.connections import Connections
from agent_kernel.kernel.display import Publisher, TurnDisplay, kept_outputs
from agent_kernel.kernel.mainthread import MainThread
from agent_kernel.kernel.namespace import frames_in
from agent_kernel.kernel.panel import TaskPanel, tail_of
from agent_kernel.kernel.permit import Grants
from agent_kernel.kernel.runtime import Runtime, Submitted
from agent_kernel.kernel.secrecy import Secrecy
from agent_kernel.kernel.settings import Settings
from agent_kernel.providers import Cassette
from agent_kernel.tools import background

REOPEN_SECONDS = 30.0


class OpenNotebook:
    """The service `notebook`: the open notebook's path and cells; it never writes the file."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    @property
    def path(self) -> str | None:
        """The notebook's path relative to the workspace, None where no front end says it."""
        found = self._bench.notebook
        return places.shown(found, self._bench.settings.folder) if found else None

    def cells(self) -> list[Json]:
        """Return the cells as last saved, each with its state in this kernel. Raises OSError when
        the file cannot be read."""
        import json

        found = self._bench.notebook
        if found is None or not found.is_file():
            return []
        saved = json.loads(found.read_text(encoding="utf-8"))["cells"]
        history = getattr(getattr(self._bench, "shell", None), "history_manager", None)
        return with_states(saved, history.input_hist_raw if history is not None else [])

    def propose(self, *, action: str, source: str | None, position: str | None, **_: Any) -> str:
        """Offer a new cell to the person; only they put it into the notebook."""
        if action != "insert" or not source:
            return f"not done: the notebook is open; tell the person what to {action}"
        self._bench.proposed.append(source)
        return f"proposed as the next cell (asked for: {position}); the person may take or leave it"


class Workbench:
    """The agent's place in one kernel.

    `session` is opened at first use and writes nothing until a turn does; `running` is the turn
    that runs now, None between turns.
    """

    def __init__(self, shell: Any, env: dict[str, str] | None = None) -> None:
        self.shell = shell
        self.runtime = Runtime()
        self.settings = Settings(Path.cwd(), env)
        self.secrecy = Secrecy(self.settings.env)
        self.approver = Approver(self)
        self.display: TurnDisplay | None = None
        self.running: Submitted[Any] | None = None
        self.replayed: int | None = None  # the turn the last agent cell showed again
        self.proposed: list[str] = []
        self.grants = Grants()
        self.agent_cells = 0  # run in this kernel's life: the place of a cell without an id
        self.namespace_seen: Json | None = None
        self._session: Session | None = None
        self._resumed = False
        self._said = 0  # notices of the session's log
        self.tasks: Tasks | None = None
        self.candidates = Candidates()
        self.main = MainThread(self.runtime, shell, self._drawn)
        self.providers: build.Kept = {}
        self.cassette: Cassette | None = None  # what records or answers the requests
        self.mcp = Connections(self)
        self.lock = threading.Lock()  # over who becomes the turn that runs
        self.leave = asyncio.Event()  # a person detaches from a turn that waits for agents
        self.panel: TaskPanel | None = None
        self.lost: tuple[str, ...] = ()  # tasks of a former kernel, not yet said
        self._under: tuple[Publisher, Context] | None = None
        self.waker: asyncio.Task[None] | None = None
        self._kept: set[asyncio.Future[Any]] = set()
        self._pid = os.getpid()

    # ---- where we are ----------------------------------------------------------------------------

    @property
    def notebook(self) -> Path | None:
        """The notebook's path, None where no front end says it."""
        return places.notebook_path(self.shell.user_ns, self.settings.env, self.settings.folder)

    @property
    def session(self) -> Session:
        """The open session; opened at the first use, from the file written last."""
        if self._session is None:
            log = places.log_path(self.notebook, self.settings.folder)
            self.open(places.newest_log(log))
        assert self._session is not None
        return self._session

    @property
    def opened(self) -> bool:
        """True once a session was opened."""
        return self._session is not None

    def open(self, path: Path) -> Session:
        """Close the session and open the log at `path`. Raises LogError."""
        notebook = self.notebook.name if self.notebook else None
        made = Session.open(path, redact=self.secrecy.wire, notebook=notebook)
        return self.use(made)

    def use(self, session: Session, *, made_here: bool = False) -> Session:
        """Make `session` the open one; the former is closed and stays on disk.

        `made_here` says that this kernel made its log, so that there is nothing to resume.
        """
        if self._session is not None and self._session is not session:
            self._leave(self._session, self.tasks)
        self._session, self._said = session, 0
        self._resumed = made_here
        self.tasks = Tasks(session)
        self.candidates = Candidates()
        self.namespace_seen = None
        return session

    def ready(self) -> SessionResume | None:
        """Close, once, what a former process left open; None when it left everything well.

        A clean log gets no line: a turn stepped across restarts is the same log as one run at once.
        """
        if self._resumed:
            return None
        session = self.session
        self._resumed = True
        opened = [c for a in session.agents for c in session.state(a).open_calls if c.started]
        found = self._reopened() if session.tasks else background.Reopened((), ())
        self.lost = found.lost
        if session.findings or opened or found.lost:
            return session.resume(self.settings.folder)
        return None

    def _reopened(self) -> background.Reopened:
        """Take up what still runs of a former kernel and lose the rest, on the runtime's loop."""
        session, tasks = self.session, self.tasks
        assert tasks is not None
        if self.runtime.here:
            return background.reopen_now(session, tasks)

        async def there() -> background.Reopened:
            return background.reopen_now(session, tasks)

        return asyncio.run_coroutine_threadsafe(there(), self.runtime.loop).result(REOPEN_SECONDS)

    def _leave(self, session: Session, tasks: Tasks | None) -> None:
        """Close a session that is left; what runs for it is stopped first."""
        if tasks is None or not tasks.running():
            session.close()
            return

        async def stop() -> None:
            await tasks.stop_all()
            session.close()

        work = asyncio.run_coroutine_threadsafe(stop(), self.runtime.loop)
        if not self.runtime.here:
            work.result(REOPEN_SECONDS)

    # ---- what runs -------------------------------------------------------------------------------

    def built(self, options: build.Options, *, ask: bool = True) -> build.Built:
        """Return the agent of the open session with this kernel's services."""
        session = self.session
        return build.built(
            session,
            self.settings,
            options,
            services=self.services(),
            notebook=lambda: str(self.notebook or ""),
            ask=self.approver.ask if ask and self.approver.reachable else None,
            grants=self.grants,
            tasks=self.tasks,
            providers=self.providers,
            background=self.candidates,
            wake=self.settings.get("wake"),
            servers=self.mcp.servers,
            cassette=self.cassette,
        )

    def tools_again(self, agent: Agent) -> None:
        """Give a running agent the tools of the servers as they are now."""
        servers = self.mcp.servers
        if servers is not None:
            own = [tool for tool in agent.tools if not tool.name.startswith("mcp__")]
            agent.tools = build.with_servers(self.settings, agent.profile, own, servers)

    def services(self) -> Json:
        """Return what the roof hands to tools and sections."""
        found: Json = {
            "run_cell": self.main.run_cell,
            "notebook": OpenNotebook(self),
            "kernel": "agent_kernel in IPython",
            "frames": lambda: frames_in(self.shell.user_ns),
        }
        if self.settings.get("keep_tasks") == "on":
            found["keep_tasks"] = True
        if self.approver.reachable:
            found["ask"] = self.approver.asker.question
        return found

    # ---- beside the cells ------------------------------------------------------------------------

    @property
    def moved(self) -> bool:
        """True while a turn runs in the background."""
        return self.running is not None and self.running.left.done()

    def busy(self) -> bool:
        """True while a task runs, or a turn in the background."""
        return self.moved or (self.tasks is not None and bool(self.tasks.running()))

    def heard(self, message: Json) -> None:
        """Take a click of a widget, on the runtime's loop."""
        beside.hear(self, message)

    def tails(self) -> dict[str, str]:
        """Return the ends of the outputs of running tasks, secrets masked, by task id."""
        running = self.tasks.running() if self.tasks is not None else []
        return {task.id: self.secrecy.text(tail_of(task)) for task in running}

    def stand_under(self, publisher: Publisher) -> None:
        """Take the cell whose code runs now as the one under which later news are shown."""
        self._under = (publisher, copy_context())

    def show_panel(self, *, anew: bool = False) -> None:
        """Show the task panel under the last agent cell, on the runtime's loop; `anew` = here."""
        live = self.panel is not None and self.panel.live
        if self._under is None or not self._under[0].rich or (live and not anew):
            return
        if self.panel is not None and live:
            self.keep(asyncio.ensure_future(self.panel.close()))
        self.panel = TaskPanel(self, *self._under)

    def keep(self, work: asyncio.Future[Any]) -> None:
        """Hold work of the runtime's loop until it is done."""
        self._kept.add(work)
        work.add_done_callback(self._kept.discard)

    def touch(self) -> None:
        """Ask turn and panel for an update, from any thread."""
        for shown in (self.display, self.panel):
            if shown is not None:
                shown.touch()

    def say_lost(self) -> None:
        """Print, once, which tasks were lost with a former kernel."""
        lost, self.lost = self.lost, ()
        for task_id in lost:
            label = self.session.made[task_id][-1].label
            self.notice(f"lost with the former kernel: task {task_id[-6:]} {label}")

    def notice(self, text: str) -> None:
        """Print one line to the person."""
        print(self.secrecy.text(text), file=sys.stderr)

    def _drawn(self, outputs: list[Json]) -> None:
        if self.display is not None:
            clean = self.secrecy.json(outputs)
            self.display.rich_outputs = kept_outputs([*self.display.rich_outputs, *clean])

    def say_notices(self) -> None:
        """Print what the log has to say and has not said here: it lost its file, it has none."""
        if self._session is None:
            return
        notices = self._session.log.notices
        for notice in notices[self._said :]:
            print(f"session: {self.secrecy.text(notice)}", file=sys.stderr)
        self._said = len(notices)

    def on_session(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        """Call `listener` with each stored event until the returned function is called."""
        log = self.session.log
        log.listeners.append(listener)
        return lambda: log.listeners.remove(listener)

    def close(self) -> None:
        """Close the session and end the runtime thread; a forked child closes nothing."""
        if os.getpid() != self._pid:
            return
        self.mcp.close()
        if self.waker is not None:
            self.runtime.loop.call_soon_threadsafe(self.waker.cancel)
        if self._session is not None:
            self._session.close()
        self.runtime.close()
