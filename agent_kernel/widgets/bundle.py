"""Bundle: the mimes of one display from one view: html, markdown, plain, and the folded turn.

May not hold widget state: while a widget lives, the kernel adds its `widget-view` mime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import agent_kernel.widgets.html as html
import agent_kernel.widgets.text as text
import agent_kernel.widgets.turn as turn
from agent_kernel.widgets.doc import Block
from agent_kernel.widgets.turnview import MIME, TurnView

Bundle = dict[str, Any]


def of_blocks(blocks: Sequence[Block]) -> Bundle:
    """Return text/html, text/markdown and text/plain of the blocks."""
    return {
        "text/html": html.html(blocks),
        "text/markdown": text.markdown(blocks),
        "text/plain": text.plain(blocks),
    }


def mime_bundle(view: TurnView) -> Bundle:
    """Return the four mimes of a turn; all come from `view`, so live and replay read the same."""
    return {**of_blocks(turn.document(view)), MIME: view}
