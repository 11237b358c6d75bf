"""Pages: blocks of a view published under a cell, as rich output or as text in a terminal.

May not hold words of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_kernel.kernel.display import Publisher
from agent_kernel.widgets.bundle import of_blocks
from agent_kernel.widgets.doc import Block


def show(publisher: Publisher, blocks: Sequence[Block]) -> None:
    """Publish blocks as one output."""
    publisher.show_once(of_blocks(blocks))
