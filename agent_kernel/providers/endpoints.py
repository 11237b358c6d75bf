"""Endpoints: what each host can do, chosen by its address. Data; no line in ALL.

May not ask a host: "documented" in a note means read in its documentation, the rest was seen.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any
from urllib.parse import urlsplit

from agent_kernel.core.model import Endpoint

ANTHROPIC_URL = "https://api.anthropic.com"
_LOCAL_FIRST = 600.0  # seconds before a local model's first event: it loads from disk

ANTHROPIC = Endpoint(
    "anthropic",
    auth="bearer",
    betas=True,
    cache_control=True,
    count_tokens=True,
    models=True,
    thinking=True,
    note="models list gives limits; diagnostics say why the cache missed",
)
LLAMACPP = Endpoint(
    "llamacpp",
    count_tokens=True,
    models=True,
    tool_choice=False,
    first=_LOCAL_FIRST,
    note="real cache_read; tool_choice any and output_config.format are not enforced",
)
OLLAMA = Endpoint(
    "ollama",
    models=True,
    first=_LOCAL_FIRST,
    note="documented: stream, tools, thinking; usage approximate",
)
LMSTUDIO = Endpoint(
    "lmstudio", models=True, first=_LOCAL_FIRST, note="documented: takes either key header"
)
VLLM = Endpoint("vllm", models=True, first=_LOCAL_FIRST, note="documented: stream and tools")
DEEPSEEK = Endpoint(
    "deepseek",
    auth="x-api-key",
    note="documented: anthropic-beta, anthropic-version, container, mcp_servers are ignored",
)
MISTRALRS = Endpoint(
    "mistralrs",
    count_tokens=True,
    models=True,
    first=_LOCAL_FIRST,
    note="documented: counts tokens",
)
LITELLM = Endpoint("litellm", models=True, note="every optional field off")
LOOPBACK = Endpoint(
    "loopback",
    models=True,
    first=_LOCAL_FIRST,
    note="some server of this machine; optional fields off",
)
COMPATIBLE = Endpoint("compatible", note="every optional field off; set one by hand")
DEMO = Endpoint(
    "demo", auth="bearer", cache_control=True, count_tokens=True, models=True, note="no host: rules"
)

ENDPOINTS: tuple[Endpoint, ...] = (
    ANTHROPIC, LLAMACPP, OLLAMA, LMSTUDIO, VLLM, DEEPSEEK, MISTRALRS, LITELLM, LOOPBACK, COMPATIBLE,
    DEMO,
)  # fmt: skip
BY_NAME: dict[str, Endpoint] = {each.name: each for each in ENDPOINTS}
_BY_PORT = {8080: LLAMACPP, 11434: OLLAMA, 1234: LMSTUDIO, 8000: VLLM}
LOCAL_PORTS = (11434, 1234, 8080, 8000)  # asked by `%agent model local`, in this order


def endpoint_of(base_url: str | None, settings: Mapping[str, Any] | None = None) -> Endpoint:
    """Return what the host at `base_url` can do; `settings` set single fields by hand.

    `settings["name"]` picks a host kind by its name. Raises ValueError on an unknown field or kind.
    """
    given = dict(settings or {})
    name = given.pop("name", None)
    if name is not None and name not in BY_NAME:
        raise ValueError(f"unknown endpoint {name!r}; one of {', '.join(BY_NAME)}")
    found = BY_NAME[name] if name is not None else _by_address(base_url)
    known = {f.name for f in fields(Endpoint)}
    odd = sorted(set(given) - known)
    if odd:
        raise ValueError(f"unknown endpoint fields {odd}; one of {', '.join(sorted(known))}")
    return replace(found, **given)


def _by_address(base_url: str | None) -> Endpoint:
    parts = urlsplit(base_url or ANTHROPIC_URL)
    host = (parts.hostname or "").rstrip(".").lower()
    if host == "api.anthropic.com":
        return ANTHROPIC
    if host == "deepseek.com" or host.endswith(".deepseek.com"):
        return DEEPSEEK
    if is_loopback(base_url):
        return _BY_PORT.get(parts.port or 0, LOOPBACK)
    return COMPATIBLE


def is_loopback(base_url: str | None) -> bool:
    """Return whether the address is this machine's own."""
    host = urlsplit(base_url or ANTHROPIC_URL).hostname or ""
    if host.rstrip(".").lower() == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
