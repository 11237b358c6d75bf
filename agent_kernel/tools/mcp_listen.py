"""MCP listen: hears that a server's list of tools changed, by the way its protocol version has.

May not read the list itself: it only says when to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp import Client

AGAIN, PAUSE = 5, 1.0  # streams that broke and are opened again, seconds between


@asynccontextmanager
async def listening(client: Client, changed: Callable[[], None]) -> AsyncIterator[None]:
    """While it is entered, call `changed` when the list of tools may be another.

    Servers before 2026-07-28 send a notification the client's own handler takes; later ones tell
    it only on a stream that was asked for.
    """
    task = asyncio.create_task(_listen(client, changed))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(client: Client, changed: Callable[[], None]) -> None:
    from mcp import MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

    for _ in range(AGAIN):
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _event in events:
                    changed()
        except SubscriptionLost:
            await asyncio.sleep(PAUSE)
            changed()  # what came between is not told again
        except (ListenNotSupportedError, MCPError, TimeoutError):
            return
        else:
            return
