"""Build: from a choice to a provider, its wrappers in their one order.

May not choose a model and may not open a connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_kernel.core.model import Provider
from agent_kernel.providers.anthropic import Anthropic
from agent_kernel.providers.cassette import Cassette
from agent_kernel.providers.choose import Choice
from agent_kernel.providers.demo import Demo
from agent_kernel.providers.endpoints import endpoint_of
from agent_kernel.providers.gate import Gate
from agent_kernel.providers.keys import find_key
from agent_kernel.providers.retry import Retrying
from agent_kernel.providers.watchdog import Watchdog


def build(
    choice: Choice,
    env: Mapping[str, str],
    *,
    endpoint: Mapping[str, Any] | None = None,
    cassette: Cassette | None = None,
    demo_delay: float = 0.0,
) -> Provider:
    """Return retry(gate(watchdog(cassette(anthropic)))) for a host, or the demo as it is.

    `env` is where the key is read from; `endpoint` sets fields by hand (`name`, `betas`, `first`).
    """
    if choice.provider == "demo":
        return Demo(delay=demo_delay)
    inner = Anthropic(
        choice.base_url,
        find_key(env),
        endpoint=endpoint_of(choice.base_url, endpoint),
        wrap=cassette.wrap if cassette else None,
        keyless=cassette is not None and cassette.offline,
    )
    return Retrying(Gate(Watchdog(inner)))
