"""Recall: what a compaction hid, word for word, for the person who asks.

May not change what the model sees: the text is printed, and joins no request.
"""

from __future__ import annotations

from agent_kernel.core.messages import Json, text_of
from agent_kernel.core.tool import ToolContext, ToolError
from agent_kernel.guard.render import visible
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.parse import UsageError, nearest, parse
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.tools.recall_history import DIMENSIONS, RECALL_HISTORY


def recall(bench: Workbench, words: list[str]) -> Work:
    """Print earlier events by compaction, seq, path or exact text, hidden ones too."""
    _given, rest = parse(words, (), most=len(DIMENSIONS))
    asked: Json = {}
    for word in rest:
        name, eq, value = word.partition("=")
        if not eq:
            name, value = ("seq" if word.replace("-", "").isdigit() else "compaction_id"), word
        if name not in DIMENSIONS:
            raise UsageError(f"recall has no {name!r}{nearest(name, DIMENSIONS)}")
        asked[name] = int(value) if name in ("turn", "step") and value.isdigit() else value
    if not asked:
        raise UsageError(f"say what: %agent recall ID, or {'=…, '.join(DIMENSIONS)}=…")
    return Work(_recall(bench, asked), print)


async def _recall(bench: Workbench, asked: Json) -> str:
    session = bench.session
    context = ToolContext(session, "main", "", bench.settings.folder, services=bench.services())
    try:
        answer = await RECALL_HISTORY.run(RECALL_HISTORY.parse(asked), context)
    except ToolError as error:
        raise UsageError(str(error)) from None
    return visible(text_of(answer.content))


RECALL = (
    Command(
        "recall",
        "context",
        "[ID|SEQ] [contains=TEXT] [path=P] [turn=T] …",
        "earlier events word for word, hidden ones too",
        recall,
    ),
)
