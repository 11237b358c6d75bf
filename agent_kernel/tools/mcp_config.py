"""MCP config: which servers a person set, in the form of Claude Code's `.mcp.json`.

May not start one: a project's file is inert until the roof says that a person trusts it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class ServerConfig:
    """One server: a command over stdio, a URL over streamable HTTP, or a server object in process.

    `always_load` sends its tools from the first request on; `read_only` names tools that a person
    says have no side effect: a server's own word for it does not count.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    server: Any = None
    always_load: bool = False
    read_only: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raise ValueError when the name cannot be part of a tool's, or the way is not one."""
        if not _NAME.fullmatch(self.name) or "__" in self.name:
            raise ValueError(f"server name {self.name!r}: letters, digits, `-` and single `_` only")
        ways = [way for way in (self.command, self.url, self.server) if way is not None]
        if len(ways) != 1:
            raise ValueError(f"server {self.name!r} needs one of command, url, server")
        if self.url is not None and not re.match(r"https?://", self.url):
            raise ValueError(f"server {self.name!r}: {self.url!r} is no http(s) URL")


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """Return text with `${NAME}` and `${NAME:-default}` filled in. Raises ValueError on none."""

    def value(found: re.Match[str]) -> str:
        given = environment.get(found[1])
        if given is not None:
            return given
        if found[2] is not None:
            return found[2]
        raise ValueError(f"the variable {found[1]!r} is not set")

    return _VARIABLE.sub(value, text)


def read(
    path: Path, environment: Mapping[str, str] | None = None
) -> tuple[list[ServerConfig], list[str]]:
    """Return the servers of a `.mcp.json` by name, and what is wrong with the others.

    Raises ValueError when the file is no JSON object with `mcpServers`.
    """
    where = os.environ if environment is None else environment
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is no JSON: {error}") from None
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ValueError(f"{path.name} has no object `mcpServers`")
    found: list[ServerConfig] = []
    problems: list[str] = []
    for name in sorted(servers):
        try:
            found.append(_one(name, servers[name], where, path.parent))
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(f"{name}: {error}")
    return found, problems


def _one(name: str, said: Any, where: Mapping[str, str], folder: Path) -> ServerConfig:
    kind = said.get("type", "http" if "url" in said else "stdio")
    if kind not in ("stdio", "http", "streamable-http"):
        raise ValueError(f"type {kind!r} is not supported; use stdio or http")
    pairs = {
        key: {k: expanded(str(v), where) for k, v in (said.get(key) or {}).items()}
        for key in ("env", "headers")
    }
    command, url = said.get("command"), said.get("url")
    return ServerConfig(
        name,
        expanded(command, where) if command is not None else None,
        tuple(expanded(str(arg), where) for arg in said.get("args") or ()),
        pairs["env"],
        folder,
        expanded(url, where) if url is not None else None,
        pairs["headers"],
        always_load=bool(said.get("alwaysLoad", False)),
    )
