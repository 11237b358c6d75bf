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

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Run a cell and answer it, also when it is interrupted before its code begins.

        ipykernel 7 then logs the interrupt and never replies, and the cell stays busy for ever.
        """
        try:
            await super().execute_request(stream, ident, parent)  # type: ignore[no-untyped-call]
        except KeyboardInterrupt:
            error = {"ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
            self.send_response(self.iopub_socket, "error", error)  # type: ignore[no-untyped-call]
            reply = {"status": "error", "execution_count": self.execution_count, **error}
            if self.session is not None:
                self.session.send(stream, "execute_reply", reply, parent, ident=ident)
