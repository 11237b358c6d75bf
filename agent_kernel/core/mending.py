"""Mending: what is done once about a request a host refused, or a model that is overloaded.

May not try twice: what was mended is in the log, and the step asks once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agent_kernel.core.agent import Agent
from agent_kernel.core.compaction import Outcome
from agent_kernel.core.events import (
    AssistantMessage,
    ModelSelected,
    Replace,
    SurfaceEvent,
    ToolResultEvent,
)
from agent_kernel.core.hooks import run_hooks
from agent_kernel.core.messages import (
    Block,
    Image,
    Json,
    Raw,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
)
from agent_kernel.core.model import ProviderError
from agent_kernel.core.session import Session

TIRED = 3  # overloaded attempts in a row after which another model is offered (models.md §5)
DROPPED = "[an image was left out: the host refused it]"


async def mended(session: Session, agent: Agent, error: ProviderError) -> bool:
    """Mend what the error names, in the log; tell whether another request is worth it.

    Once a step: a second refusal ends the turn.
    """
    if error.kind == "overloaded" and agent.fallback_model is not None:
        return await _fell_back(session, agent)
    if error.repair is None or session.state(agent.id).requests_in_step > 1:
        return False
    if error.repair == "answer_open_calls":
        return _answered(session, agent.id)
    return _without_images(session, agent.id, error.text)


# ---- calls without a result ----------------------------------------------------------------------


def _answered(session: Session, agent: str) -> bool:
    """Answer the open calls; a call deeper in history that has no result is left out."""
    answered = session.answer_open_calls("its result was lost", agent)
    nodes = session.surface(agent).nodes
    known = {node.id for node in nodes if isinstance(node, ToolResultEvent)}

    def change(block: Block) -> Block | None:
        if isinstance(block, ToolUse) and block.id not in known:
            return Text(f"[a call of {block.name} was left out: it has no result]")
        return block

    mine = [node for node in nodes if isinstance(node, AssistantMessage)]
    return _replaced(session, agent, mine, change, "answer_open_calls") + answered > 0


# ---- images --------------------------------------------------------------------------------------


def _without_images(session: Session, agent: str, text: str) -> bool:
    """Put a note in the place of each image: of the message the host names, else of all."""
    nodes = session.surface(agent).nodes
    named = [node for node in _message(nodes, text) if _images(node)]
    chosen = named or [node for node in nodes if _images(node)]

    def change(block: Block) -> Block | None:
        return Text(DROPPED) if isinstance(block, Image) else block

    return _replaced(session, agent, chosen, change, "drop_images") > 0


def _message(nodes: Sequence[SurfaceEvent], text: str) -> list[SurfaceEvent]:
    """Return the nodes of the message an error names as `messages.N`."""
    _, found, rest = text.partition("messages.")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    wanted, at, role = int(digits) if found and digits else -1, -1, None
    out = []
    for node in nodes:
        at, role = at + (node.role != role), node.role
        if at == wanted:
            out.append(node)
    return out


def _images(node: SurfaceEvent) -> bool:
    return any(isinstance(block, Image) for block in _flat(node.blocks()))


def _flat(blocks: Iterable[Block]) -> Iterable[Block]:
    for block in blocks:
        yield from block.content if isinstance(block, ToolResult) else (block,)


# ---- another model -------------------------------------------------------------------------------


def tired(session: Session, agent: Agent) -> None:
    """Raise ProviderError when a fallback is set and the last attempts were all overloaded."""
    if agent.fallback_model in (None, agent.model):
        return
    if session.state(agent.id).overloads >= TIRED:
        raise ProviderError("overloaded", f"{TIRED} attempts in a row", status=529)


async def _fell_back(session: Session, agent: Agent) -> bool:
    """Ask the person, when there is one, then go on with the other model; thinking stays behind."""
    former, chosen = agent.model, agent.fallback_model
    assert chosen is not None
    agent.fallback_model = None  # offered once
    ask = agent.services.get("ask")
    if ask is not None and agent.ask is not None:
        words = f"{former} is overloaded ({TIRED} attempts). Go on with {chosen}?"
        if await ask(words, ["yes", "no"], False, "question") not in ("yes", ["yes"]):
            return False
    why = f"{TIRED} overloaded attempts of {former}"
    said = ModelSelected(model=chosen, provider=agent.provider.name, why=why, fallback=True)
    session.append(said, agent=agent.id)

    def change(block: Block) -> Block | None:
        kind = block.data.get("type") if isinstance(block, Raw) else ""
        return None if isinstance(block, Thinking) or kind == "redacted_thinking" else block

    mine = [n for n in session.surface(agent.id).nodes if isinstance(n, AssistantMessage)]
    _replaced(session, agent.id, mine, change, "strip_thinking")
    agent.model = chosen
    return True


# ---- replacing in place --------------------------------------------------------------------------


def _replaced(
    session: Session,
    agent: str,
    nodes: Sequence[SurfaceEvent],
    change: Callable[[Block], Block | None],
    why: str,
) -> int:
    """Log a replacement of each node `change` alters a block of; return how many there were."""
    made: list[SurfaceEvent] = []
    for node in nodes:
        content = _changed(getattr(node, "content", ()), change)
        if content != getattr(node, "content", ()):
            kept = getattr(node, "meta", {}).items()  # but for the compaction it waited for
            meta: Json = {k: v for k, v in kept if k != "compaction_id"} | {"repair": why}
            update: Json = {"content": content or (Text("[left out]"),), "meta": meta}
            update |= {"replaces": Replace(first=node.seq, last=node.seq), "sources": (node.seq,)}
            if isinstance(node, AssistantMessage):
                update["usage"] = Usage()  # it was counted where it first stood
            made.append(node.model_copy(update={**update, "seq": -1, "time": 0.0}))
    if made:
        session.append(*made, agent=agent)
    return len(made)


def _changed(
    content: tuple[Block, ...], change: Callable[[Block], Block | None]
) -> tuple[Block, ...]:
    found = (change(block) for block in content)
    return tuple(block for block in found if block is not None)


# ---- hooks around a compaction -------------------------------------------------------------------


async def before_compact(
    session: Session, agent: Agent, trigger: str, instructions: str | None
) -> str | None:
    """Return the instructions with what hooks add to them."""
    facts: Json = {"trigger": trigger, "custom_instructions": instructions or ""}
    said = await run_hooks(session, agent.id, agent.hooks, "PreCompact", facts, subject=trigger)
    return "\n".join(part for part in (instructions, said.text) if part) or None


async def after_compact(session: Session, agent: Agent, trigger: str, outcome: Outcome) -> Outcome:
    """Return the outcome once the hooks were told of it."""
    facts: Json = {"trigger": trigger, "committed": outcome.committed}
    await run_hooks(session, agent.id, agent.hooks, "PostCompact", facts, subject=trigger)
    return outcome
