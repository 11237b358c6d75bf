"""Again: one past request sent again, n times, its answers kept in a branch; no tool is run.

May not touch the session it was asked about: the branch is opened beside it and closed.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from agent_kernel.core import replay
from agent_kernel.core.agent import Agent
from agent_kernel.core.events import RequestContext, Sample
from agent_kernel.core.messages import Json, Usage
from agent_kernel.core.model import Done, ProviderError, Request
from agent_kernel.core.session import Session
from agent_kernel.core.surface import fold, merged
from agent_kernel.kernel.edits import EditError, changed, target

AT_ONCE = 4
MOST = 100


@dataclass(frozen=True)
class Wish:
    """What differs from the request that was sent: content of an event, tools, model."""

    edit: tuple[int, str | Json] | None = None
    without: tuple[str, ...] = ()
    model: str | None = None

    def wire(self) -> Json:
        """Return it as the log keeps it; the edited content is in the request's digest alone."""
        out: Json = {"edit": self.edit[0]} if self.edit else {}
        if self.without:
            out["without"] = list(self.without)
        return {**out, "model": self.model} if self.model else out


def wished(session: Session, context: RequestContext, made: Request, wish: Wish) -> Request:
    """Return the request of `context` with what the wish changes.

    Raises EditError for a seq the request did not hold, KeyError for a tool it did not offer.
    """
    if wish.edit is not None:
        seq, content = wish.edit
        before = [event for event in session.events if event.seq < context.seq]
        node, call = target(before, seq)
        nodes = fold(before, context.agent).nodes
        if node.seq not in [each.seq for each in nodes]:
            raise EditError(f"seq {seq} was not in that request; %agent request shows what was")
        edited = changed(node, call, content)
        made = replace(
            made, messages=merged(edited if n.seq == node.seq else n for n in nodes), marks=()
        )
    names = {tool.name for tool in made.tools}
    for name in wish.without:
        if name not in names:
            raise KeyError(f"that request offered no tool {name!r}; it had {', '.join(names)}")
    tools = tuple(tool for tool in made.tools if tool.name not in wish.without)
    return replace(made, tools=tools, model=wish.model or made.model)


async def ask(
    session: Session, agent: Agent, where: tuple[int, int | None], count: int, wish: Wish
) -> Session:
    """Send the request of a step `count` times and return the closed branch that holds the answers.

    The first goes alone, so that the others read its cache; then four at once. An error is a
    sample too. Raises KeyError on an unknown step or tool, EditError on a seq it did not hold.
    """
    context, made = replay.request_at(session.events, *where, blobs=session.blobs)
    request = wished(session, context, made, wish)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(n: int) -> Sample:
        async with gate:
            return await _sample(agent, request, context.seq, n, wish)

    found = [await one(1)]
    found += await asyncio.gather(*(one(n) for n in range(2, count + 1)))
    branch = session.fork(context.seq, _name(session, context))
    branch.append(*found)
    await branch.log.commit()
    branch.close()
    return branch


async def _sample(agent: Agent, request: Request, of: int, n: int, wish: Wish) -> Sample:
    began = time.monotonic()
    facts: Any = {"of": of, "n": n, "digest": request.digest, "changes": wish.wire()}
    try:
        done = await _answer(agent, request)
    except ProviderError as error:
        return Sample(**facts, model=request.model, usage=Usage(), error=f"{error.kind}: {error}")
    return Sample(
        **facts,
        model=done.model or request.model,
        content=done.message.content,
        usage=done.usage,
        stop_reason=done.stop_reason,
        request_id=done.request_id,
        seconds=round(time.monotonic() - began, 3),
    )


async def _answer(agent: Agent, request: Request) -> Done:
    async with aclosing(agent.provider.stream(request)) as stream:
        async for event in stream:
            if isinstance(event, Done):
                return event
    raise ProviderError("protocol", "the stream ended without a message")


def _name(session: Session, context: RequestContext) -> str:
    """Return a free branch name like again-3.2-1."""
    stem, n = f"again-{context.turn}.{context.step}", 1
    folder = session.folder
    while folder is not None and (folder / "branches" / f"{stem}-{n}.jsonl").exists():
        n += 1
    return f"{stem}-{n}"
