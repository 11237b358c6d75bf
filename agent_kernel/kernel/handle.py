"""Handle: `get_ipython().agent`, the same agent through Python: its session, its tables, a turn
awaited.

May not do anything that a cell cannot: a turn runs as `%%agent` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_kernel.core.session import Session
    from agent_kernel.frames import Frames
    from agent_kernel.kernel.extension import Front


class Handle:
    """The agent of this kernel; everything is opened at its first use."""

    def __init__(self, front: Front) -> None:
        self._front = front

    @property
    def session(self) -> Session:
        """The open session."""
        return self._front.workbench.session

    @property
    def frames(self) -> Frames:
        """The live tables of the open session: the same as those of its file."""
        from agent_kernel import frames

        return frames.of(self.session)

    async def __call__(self, prompt: str, options: str = "") -> Any:
        """Run a turn, shown under this cell; `options` as after `%%agent`."""
        return await self._front.agent_cell(options, prompt)

    def __repr__(self) -> str:
        return f"<agent of {self.session!r}; .session, .frames, await agent('…')>"
