"""Settings: every key with its default, where its value came from, and which source won.

May not widen by a project's file: that one narrows; its address, model and mode stay inert.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import agent_kernel.guard.settings as guard
from agent_kernel.core.messages import Json

MODES = ("plan", "ask", "accept-edits", "bypass")
PREFIX = "AGENT_KERNEL_"
ALLOW = f"{PREFIX}ALLOW"
PROJECT_FILES = (".agent_kernel/settings.local.json", ".agent_kernel/settings.json")
# Of the guard and of rooms, in the same files.
OTHER_KEYS = {"permissions", "hooks", "trusted", "allow_local", "lsp", "web", "mcpServers"}
Reach = Literal["any", "lower", "never"]


class SettingsError(ValueError):
    """A key or value that does not exist: names it, its file and the nearest key."""


@dataclass(frozen=True)
class Key:
    """One setting: `read` makes its value of text; `reach` says what a project's file may do."""

    name: str
    default: Any
    read: Callable[[Any], Any]
    doc: str
    reach: Reach = "any"


def _whole(value: Any) -> int:
    number = int(str(value).replace(",", "").replace("_", ""))
    if number < 1:
        raise ValueError("give a whole number above 0")
    return number


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            near = difflib.get_close_matches(str(value), words, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"one of {', '.join(words)}{hint}")
        return str(value)

    return read


def _deferral(value: Any) -> str:
    if not re.fullmatch(r"always|never|auto:[1-9]\d?", str(value)):
        raise ValueError("always, never, or auto:N with N in % of the window")
    return str(value)


def _text(value: Any) -> str | None:
    return str(value) if value not in (None, "", "none") else None


def _sources(value: Any) -> Json:
    """Return data sources by name, given as an object or as JSON. Raises ValueError."""
    made = json.loads(value) if isinstance(value, str) else value
    if not isinstance(made, dict) or not all(isinstance(each, dict) for each in made.values()):
        raise ValueError('give an object like {"shop": {"url": "duckdb:shop.duckdb"}}')
    return made


def read_budget(value: Any) -> Json:
    """Return the limit of `0.50`, `$2`, `40k`, `1.5M` or `40000 tokens`. Raises ValueError."""
    if value in (None, "none", {}):
        return {}
    plain = str(value).strip().lower().replace(",", "").replace("tokens", "").strip()
    match = re.fullmatch(r"(\$?)(\d+(?:\.\d+)?)([km]?)", plain)
    if match is None:
        raise ValueError("dollars like 0.50, or tokens like 40k")
    dollar, number, unit = match.groups()
    if unit or (not dollar and "." not in number and float(number) >= 1_000):
        return {"tokens": round(float(number) * {"k": 1e3, "m": 1e6, "": 1}[unit])}
    return {"dollars": float(number)}


KEYS = {
    key.name: key
    for key in (
        Key("model", None, _text, "the model's id; none = by the environment", "never"),
        Key("base_url", None, _text, "the address of the Messages API", "never"),
        Key("mode", "ask", _one_of(*MODES), "what may run without asking", "lower"),
        Key("order", "notebook", _one_of("notebook", "append"), "what a changed earlier cell does"),
        Key("max_steps", 50, _whole, "steps of one turn", "lower"),
        Key("max_tool_calls", 200, _whole, "tool calls of one turn", "lower"),
        Key("max_tokens", 16_384, _whole, "output tokens of one request", "lower"),
        Key("turn_tokens", 2_000_000, _whole, "tokens of one turn", "lower"),
        Key("turn_seconds", 1_800, _whole, "seconds of one turn", "lower"),
        Key("budget", {}, read_budget, "of one turn: dollars like 0.50, tokens like 40k"),
        Key(
            "snapshots",
            "auto",
            _one_of("auto", "tools", "workspace", "off"),
            "files a rewind can put back: auto = all while the workspace is small",
        ),
        Key("instructions", None, _text, "a person's own text at the prompt's end, or its file"),
        Key(
            "file_refs",
            "reference",
            _one_of("reference", "attach"),
            "what `@path` in a prompt does",
        ),
        Key("defer", "always", _deferral, "MCP schemas: always, auto:N (% of the window), never"),
        Key("wake", "cell", _one_of("cell", "auto", "off"), "what a background agent's end does"),
        Key(
            "fallback_model", None, _text, "the model offered after 3 overloaded attempts", "never"
        ),
        Key("wakes_in_a_row", 3, _whole, "turns that `wake auto` starts without a person", "lower"),
        Key("keep_tasks", "off", _one_of("on", "off"), "whether commands outlive their kernel"),
        Key("data.sources", {}, _sources, "databases by name: url, tier, read_only, …", "never"),
        Key("front_wait", 1.0, float, "seconds a front end has to show that it is live"),
        Key("noninteractive", "run", _one_of("run", "replay"), "headless: run or only replay"),
    )
}


@dataclass(frozen=True)
class Found:
    """One source's value of a key; `why` says why it does not count, "" when it does."""

    source: str
    value: Any
    why: str = ""


class Settings:
    """One session's settings: option, session, environment, project file, user file, default."""

    def __init__(
        self,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        home: Path | None = None,
    ) -> None:
        self.folder = folder or Path.cwd()
        self.env = dict(os.environ if env is None else env)
        base = self.env.get("XDG_CONFIG_HOME")
        self.user_file = (
            Path(base) / "agent_kernel/settings.json"
            if base
            else (home or Path.home()) / ".config/agent_kernel/settings.json"
        )
        self.session: Json = {}  # %agent config KEY VALUE, of this kernel
        self._files: dict[Path, tuple[float, Json]] = {}

    def get(self, name: str, option: Any = None) -> Any:
        """Return the value that counts. Raises SettingsError on an unknown key or a bad value."""
        return next(f.value for f in self.explain(name, option) if not f.why)

    def explain(self, name: str, option: Any = None) -> list[Found]:
        """Return every source that names the key, the winner first among those without a `why`."""
        key = self.key(name)
        found: list[Found] = []
        if option is not None:
            found.append(Found("option", _value(key, option, "the option")))
        if name in self.session:
            found.append(Found("session", self.session[name]))
        variable = PREFIX + name.upper().replace(".", "_")
        if self.env.get(variable):
            found.append(Found(variable, _value(key, self.env[variable], variable)))
        below = [*self._of_file(key, self.user_file), Found("default", key.default)]
        found += [
            Found(each.source, each.value, _narrower(key, each, below[0]))
            for path in PROJECT_FILES
            for each in self._of_file(key, self.folder / path)
        ]
        return [*found, *below]

    def set(self, name: str, value: str) -> Any:
        """Set a key for this session and return its value. Raises SettingsError."""
        key = self.key(name)
        self.session[name] = _value(key, value, "the command")
        return self.session[name]

    def key(self, name: str) -> Key:
        """Return the key of a name. Raises SettingsError naming the nearest one."""
        if name in KEYS:
            return KEYS[name]
        raise SettingsError(f"no setting is called {name!r}{_nearest(name)}")

    def hooks(self) -> list[tuple[str, Any]]:
        """Return (file, `hooks` block) of the person's own file and of project files they trust."""
        return [(source.path, source.data["hooks"]) for source in self.counting("hooks")]

    # ---- what a person trusts --------------------------------------------------------------------

    def trusted(self) -> frozenset[str]:
        """Return the paths of the project's files that are as the person trusted them."""
        return guard.trusted_paths(str(self.folder), self._read(self.user_file))

    @property
    def trusts(self) -> bool:
        """True when a person trusted this work tree and no file of it has changed since."""
        known = self._read(self.user_file).get("trusted") or {}
        here = {source.path for source in self.sources() if source.project}
        return os.path.realpath(self.folder) in known and here <= self.trusted()

    def sources(self) -> list[guard.Source]:
        """Return the settings files there are, the project's and the person's own.

        Raises WrongForm naming a file that is no JSON object.
        """
        return guard.read_sources(str(self.folder), str(self.user_file))

    def counting(self, key: str) -> list[guard.Source]:
        """Return the files whose `key` counts: the person's own, and those they trust."""
        trusted = self.trusted()
        return [
            source
            for source in reversed(self.sources())
            if key in source.data and (not source.project or source.path in trusted)
        ]

    def guarded(self) -> guard.Settings:
        """Return the rules and the mode that hold, and what waits for trust. Raises WrongForm."""
        return guard.settle(self.sources(), self.trusted())

    def allow_local(self) -> frozenset[tuple[str, int]]:
        """Return the (address, port) pairs that the person's own file lets web_fetch reach.

        Raises SettingsError on anything but a list of `address:port`.
        """
        given = self._read(self.user_file).get("allow_local") or []
        found: set[tuple[str, int]] = set()
        for each in given if isinstance(given, list) else [given]:
            host, _, port = str(each).rpartition(":")
            if not host or not port.isdigit():
                raise SettingsError(f"allow_local holds {each!r}; give texts like '127.0.0.1:8080'")
            found.add((host.strip("[]"), int(port)))
        return frozenset(found)

    def allowed(self) -> list[str]:
        """Return the allow rules of whoever started the process: a JSON list in AGENT_KERNEL_ALLOW.

        Raises SettingsError when it is no list of texts.
        """
        given = self.env.get(ALLOW)
        try:
            rules = json.loads(given) if given else []
        except ValueError as error:
            raise SettingsError(f"{ALLOW} is no JSON list of rules: {error}") from None
        if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
            raise SettingsError(f"{ALLOW} is {given!r}; give a JSON list of rules")
        return rules

    def _of_file(self, key: Key, path: Path) -> list[Found]:
        data = self._read(path)
        if key.name not in data:
            return []
        return [Found(str(path), _value(key, data[key.name], str(path)))]

    def _read(self, path: Path) -> Json:
        try:
            stamp = path.stat().st_mtime
        except OSError:
            return {}
        if path in self._files and self._files[path][0] == stamp:
            return self._files[path][1]
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SettingsError(f"settings file {str(path)!r} is no JSON: {error}") from error
        if not isinstance(data, dict):
            raise SettingsError(f"settings file {str(path)!r} holds no object; write {{…}}")
        for name in data:
            if name not in KEYS and name not in OTHER_KEYS:
                raise SettingsError(f"{str(path)!r}: no setting is called {name!r}{_nearest(name)}")
        self._files[path] = (stamp, data)
        return data


def _value(key: Key, given: Any, where: str) -> Any:
    try:
        return key.read(given)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{key.name} in {where} cannot be {given!r}: {error}") from error


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, KEYS, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; the keys are {', '.join(KEYS)}"


def _narrower(key: Key, project: Found, user: Found) -> str:
    """Return why a project's value does not count, "" when it may."""
    if key.reach == "never":
        return "inert: a project's file may not say where requests go"
    if key.reach == "any" or project.value == user.value:
        return ""
    order = MODES.index if key.name == "mode" else float
    if order(project.value) > order(user.value):
        return f"inert: a project's file may only narrow {user.value!r}"
    return ""
