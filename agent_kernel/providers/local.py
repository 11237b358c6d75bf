"""Local: which model servers answer on this machine, asked only when a person asks.

May not reach beyond 127.0.0.1, and asks nothing but for the list of models.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.core.model import Endpoint
from agent_kernel.providers.endpoints import LOCAL_PORTS, endpoint_of


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answered: its address, its kind, and the ids of its models."""

    base_url: str
    endpoint: Endpoint
    models: tuple[str, ...]


async def look_local(ports: Sequence[int] = LOCAL_PORTS, seconds: float = 2.0) -> list[Found]:
    """Return the servers of these ports that list models, in port order as given."""
    answers = await asyncio.gather(
        *(asyncio.to_thread(_ask, f"http://127.0.0.1:{port}", seconds) for port in ports)
    )
    return [found for found in answers if found is not None]


def _ask(base_url: str, seconds: float) -> Found | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"{base_url}/v1/models", headers={"x-api-key": "none"})  # noqa: S310
    try:
        with opener.open(request, timeout=seconds) as answer:
            body = json.loads(answer.read(1 << 20))
    except (OSError, ValueError, urllib.error.URLError):
        return None  # no server, or none that speaks this: that is the answer
    rows = body.get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    ids = tuple(str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row)
    return Found(base_url, endpoint_of(base_url), ids)
