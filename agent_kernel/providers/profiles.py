"""Profiles: the limits of a model, from its host, else the price table, else assumed and said so.

May not ask the network: what the host listed is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_kernel.core.model import Endpoint, ModelInfo, ModelProfile
from agent_kernel.core.prices import context_window
from agent_kernel.providers.demo import PROFILE as DEMO_PROFILE

WINDOW, MAX_OUTPUT = 200_000, 8_192  # tokens, assumed where nobody says
# Claude models by family and version: thinking is adaptive and prefill gone from 4.6 on.
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:-(\d{1,2})(?!\d))?")
# Tokens under which a prefix is not cached (the host's documentation of prompt caching).
_MIN_CACHEABLE = (("haiku", 4_096), ("opus", 4_096), ("sonnet", 1_024))


def profile_of(model: str, endpoint: Endpoint, infos: Sequence[ModelInfo] = ()) -> ModelProfile:
    """Return the profile of `model` at `endpoint`; `assumed` when its limits are nobody's word."""
    if endpoint.name == "demo":
        return DEMO_PROFILE
    info = next((each for each in infos if each.id == model), None)
    window = (info.window if info else None) or context_window(model)
    version = _version(model)
    modern = endpoint.thinking and version is not None and version >= (4, 6)
    return ModelProfile(
        model,
        window=window or WINDOW,
        max_output=(info.max_output if info else None) or MAX_OUTPUT,
        thinking="adaptive" if modern else "none",
        prefill=version is not None and version < (4, 6),
        mid_system=modern,
        deferred_tools=modern and endpoint.betas,
        server_compaction=modern and endpoint.betas,
        min_cacheable=next((n for word, n in _MIN_CACHEABLE if word in model), 1_024),
        assumed=window is None,
    )


def _version(model: str) -> tuple[int, int] | None:
    found = _CLAUDE.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else None
