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
    """While it is entered, changes of the list of tools reach the client's own handler.

    Servers before 2026-07-28 send a notification by themselves; later ones only on a stream that
    was asked for. `changed` is called when one broke: what came between is not told again.
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
                    continue  # the client's own handler is told of each too
        except SubscriptionLost:
            await asyncio.sleep(PAUSE)
            changed()
        except (ListenNotSupportedError, MCPError, TimeoutError):
            return
        else:
            return
