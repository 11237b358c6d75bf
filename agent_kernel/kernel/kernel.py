"""Kernel class: IPython's kernel that has the extension loaded and wakes on an interrupt.

May not change what a Python cell does.
"""

from __future__ import annotations

from typing import Any

from ipykernel.ipkernel import IPythonKernel

from agent_kernel.kernel import extension, sigint


class AgentKernel(IPythonKernel):
    """The kernel of the kernelspec `agent-kernel`; everything it adds comes from the extension."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        extension.load_ipython_extension(self.shell)

    def _cancel_on_sigint(self, future: Any) -> Any:
        return sigint.cancel_on_sigint(self, future)
