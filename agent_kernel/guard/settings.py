"""Settings: rules and mode from every source, and which of a project's wishes a person trusted.

A project's file may narrow at once and widen only after trust; rules never come from notebooks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from agent_kernel.guard.calls import Mode
from agent_kernel.guard.rules import Rules, WrongForm, parse_rules

SourceKind = Literal["command", "local", "project", "user"]

PROJECT_FILES: Final = (
    ".agent_kernel/settings.local.json",
    ".agent_kernel/settings.json",
    ".mcp.json",
)
USER_FILE: Final = "~/.config/agent_kernel/settings.json"
_ORDER: Final[Mapping[SourceKind, int]] = {"command": 0, "local": 1, "project": 2, "user": 3}
# Wishes that only the user's own file or the command line may make, trusted project or not.
_OWN_ONLY: Final = ("pass_env", "allow_local", "sandbox", "trusted")


@dataclass(frozen=True, slots=True)
class Source:
    """One settings file or the command line: its kind, its path ('' for none), its content."""

    kind: SourceKind
    data: Mapping[str, Any]
    path: str = ""

    @property
    def project(self) -> bool:
        """Whether the work tree brought it."""
        return self.kind in ("local", "project")


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds: the rules, the mode, the other keys by name, and what waits for trust."""

    rules: Rules = field(default_factory=Rules)
    mode: Mode = "ask"
    others: Mapping[str, Any] = field(default_factory=dict)
    inert: tuple[str, ...] = ()


def settle(sources: Iterable[Source], trusted: frozenset[str] = frozenset()) -> Settings:
    """The settings that hold; `trusted` are the paths of project files a person trusts.

    Lists of all sources merge; for other keys the command line wins over local, project, user.
    Raises WrongForm, naming the file, when a permissions block has the wrong form.
    """
    found = Settings()
    mode: Mode | None = None
    others: dict[str, Any] = {}
    for source in sorted(sources, key=lambda source: _ORDER[source.kind]):
        rules, waiting = _rules(source, trusted)
        own = not source.project
        if rules.mode and (own or rules.mode != "bypass"):
            mode = mode or rules.mode
        for key, value in _others(source, source.path in trusted):
            others.setdefault(key, value)
        inert = (*found.inert, *waiting)
        found = replace(found, rules=found.rules.plus(replace(rules, mode=None)), inert=inert)
    return replace(found, mode=mode or "ask", others=others)


def read_sources(root: str, user_file: str = "", home: str = "") -> list[Source]:
    """The sources on disk for a work tree: its settings files, `.mcp.json`, and the user's file.

    Raises WrongForm, naming the file, when one is not a JSON object.
    """
    user = user_file or USER_FILE.replace("~", home or os.path.expanduser("~"), 1)
    found = [
        Source("local" if "local" in name else "project", data, path)
        for name in PROJECT_FILES
        for path in [os.path.join(root, name)]
        for data in [_load(path)]
        if data is not None
    ]
    data = _load(user)
    return found if data is None else [*found, Source("user", data, user)]


def trust(root: str, user_file: str) -> dict[str, str]:
    """Writes the SHA-256 of each project file of `root` into the user's own settings.

    Returns the digests by file name. A file that changes later is inert again.
    """
    digests = _digests(root)
    data = dict(_load(user_file) or {})
    trusted = dict(data.get("trusted") or {})
    trusted[os.path.realpath(root)] = digests
    data["trusted"] = trusted
    save(user_file, data)
    return digests


def trusted_paths(root: str, user: Mapping[str, Any]) -> frozenset[str]:
    """The project files of `root` whose content is what the user's settings say was trusted."""
    known = (user.get("trusted") or {}).get(os.path.realpath(root)) or {}
    return frozenset(
        os.path.join(root, name)
        for name, digest in _digests(root).items()
        if known.get(name) == digest
    )


def fingerprint(name: str, schema: Mapping[str, Any], description: str) -> str:
    """The SHA-256 an MCP tool's approval is bound to; any change of the three asks again."""
    text = json.dumps([name, schema, description], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def save(path: str, data: Mapping[str, Any]) -> None:
    """Writes a settings file in one step, readable by its owner alone."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(f"{path}.{os.getpid()}.new")
    temporary.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    temporary.chmod(0o600)
    temporary.replace(path)


def _rules(source: Source, trusted: frozenset[str]) -> tuple[Rules, Sequence[str]]:
    block = source.data.get("permissions") or {}
    name = source.path or "the command line"
    if not isinstance(block, dict):
        raise WrongForm(f"{name!r}: 'permissions' is {block!r}; give an object")
    try:
        rules = parse_rules(block, _base(source))
    except WrongForm as error:
        raise WrongForm(f"{name!r}: {error}") from error
    if not source.project or source.path in trusted:
        return rules, ()
    waiting = [f"{key!r} of {name!r}" for key in source.data if key != "permissions"]
    if rules.allow:
        waiting.append(f"{len(rules.allow)} allow rules of {name!r}")
    if rules.mode:
        waiting.append(f"mode {rules.mode!r} of {name!r}")
    return replace(rules, allow=(), mode=None), waiting


def _base(source: Source) -> str:
    """The folder `/pattern` starts from: the project for its own files, else the file's folder."""
    folder = os.path.dirname(source.path)
    return os.path.dirname(folder) if source.project and folder else folder


def _others(source: Source, trusted: bool) -> Iterable[tuple[str, Any]]:
    if source.project and not trusted:
        return []
    return [
        (key, value)
        for key, value in source.data.items()
        if key != "permissions" and not (source.project and key in _OWN_ONLY)
    ]


def _digests(root: str) -> dict[str, str]:
    return {
        name: hashlib.sha256(Path(root, name).read_bytes()).hexdigest()
        for name in PROJECT_FILES
        if Path(root, name).is_file()
    }


def _load(path: str) -> Mapping[str, Any] | None:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise WrongForm(f"{path!r} is no JSON ({error}); mend or remove it") from error
    if not isinstance(data, dict):
        raise WrongForm(f"{path!r} holds {type(data).__name__}; a settings file is an object")
    return data
