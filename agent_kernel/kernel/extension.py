"""Extension: what `%load_ext agent_kernel` and the kernelspec load: magics, the cell transform, a
warm-up.

May not import anything heavy, write a file, open a connection or grant anything: the rest comes at
first use.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_kernel.kernel import completer, sigint, transform
from agent_kernel.kernel.handle import Handle

if TYPE_CHECKING:
    from agent_kernel.kernel.workbench import Workbench

WARM_AFTER = 1.0  # seconds of quiet before the heavy imports begin
# In the order of first need; each is loaded in a thread while the person still types.
WARM = (
    "agent_kernel.kernel.workbench",
    "agent_kernel.kernel.magics",
    "agent_kernel.kernel.cell",
    "agent_kernel.tools",
    "agent_kernel.widgets",
)
TRANSFORMS = (transform.agent_cells, transform.agent_lines)


class Front:
    """What stands in the shell until the first use; then it makes the workbench, once."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._made: Workbench | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def workbench(self) -> Workbench:
        """The workbench of this kernel, made at the first use."""
        with self._lock:
            if self._made is None:
                from agent_kernel.kernel.workbench import Workbench

                self._made = Workbench(self.shell)
            return self._made

    async def agent_cell(self, line: str, body: str) -> Any:
        """Run one `%%agent` cell: options in `line`, the prompt in `body`."""
        from agent_kernel.kernel.cell import run_cell

        return await run_cell(self.workbench, line, body)

    async def agent_line(self, line: str) -> Any:
        """Run the command of one `%agent` line, awaiting what it starts."""
        from agent_kernel.kernel.magics import run_line_async

        return await run_line_async(self.workbench, line)

    def line_magic(self, line: str) -> Any:
        """%agent COMMAND: look at, steer and set up the agent of this notebook (`%agent help`)."""
        from agent_kernel.kernel.magics import run_line

        return run_line(self.workbench, line)

    def before_cell(self, info: Any) -> None:
        """Warn of a secret that a cell is about to put into the history."""
        cell = str(info.raw_cell or "")
        if "env" in cell and "%" in cell:
            from agent_kernel.kernel.secrecy import history_warning

            if said := history_warning(cell):
                print(f"warning: {said}", file=sys.stderr)

    def warm(self) -> None:
        """Load the heavy modules in a thread, after a moment of quiet; nothing waits for it.

        AGENT_KERNEL_WARM=0 leaves it out: then the first agent cell waits for them.
        """
        if os.environ.get("AGENT_KERNEL_WARM") == "0":
            return
        threading.Thread(target=self._warm, name="agent-warm", daemon=True).start()

    def _warm(self) -> None:
        if self._closed.wait(WARM_AFTER):
            return
        for name in WARM:
            import_module(name)
            time.sleep(0.01)
        if any(name.startswith("ANTHROPIC_") for name in os.environ):
            import_module("agent_kernel.providers").warm()

    def close(self) -> None:
        """Close the session and end the runtime thread."""
        self._closed.set()
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None


def load_ipython_extension(shell: Any) -> None:
    """Give `shell` the `%agent` magic and `%%agent` cells; a second load changes nothing."""
    if getattr(shell, "agent_front", None) is not None:
        return
    front = Front(shell)
    shell.agent_front = front
    shell.agent = Handle(front)
    shell.agent_cell = front.agent_cell
    shell.agent_line = front.agent_line
    shell.register_magic_function(front.line_magic, "line", "agent")
    shell.events.register("pre_run_cell", front.before_cell)
    shell.input_transformers_cleanup.extend(TRANSFORMS)
    shell.Completer.custom_matchers.append(completer.references)
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        sigint.wake_on_interrupt(kernel)
    atexit.register(front.close)
    front.warm()


def unload_ipython_extension(shell: Any) -> None:
    """Take back what `load_ipython_extension` gave, and close the session."""
    front = getattr(shell, "agent_front", None)
    if front is None:
        return
    atexit.unregister(front.close)
    shell.events.unregister("pre_run_cell", front.before_cell)
    front.close()
    shell.Completer.custom_matchers.remove(completer.references)
    for each in TRANSFORMS:
        shell.input_transformers_cleanup.remove(each)
    shell.magics_manager.magics["line"].pop("agent", None)
    shell.agent_front = shell.agent = shell.agent_cell = shell.agent_line = None
