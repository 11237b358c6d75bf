"""Claude: reads the `permissions` block of a Claude Code settings file rule by rule.

It says what each rule becomes here; nothing becomes wider than it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from agent_kernel.guard.calls import KINDS, Mode
from agent_kernel.guard.commands import NETWORK
from agent_kernel.guard.rules import EFFECTS, Effect, Refused, Rule, WrongForm, parse_rule

Outcome = Literal["kept", "narrowed", "refused"]

_MODES: Final[Mapping[str, Mode]] = {
    "acceptEdits": "accept-edits",
    "bypassPermissions": "bypass",
    "default": "ask",
    "auto": "ask",
    "dontAsk": "ask",
    "plan": "plan",
}


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one rule (or of the mode): the text to keep ('' when refused), and how."""

    effect: Effect | Literal["mode", "other"]
    text: str
    outcome: Outcome
    note: str = ""
    kept: str = ""

    def __str__(self) -> str:
        """Return the line to print: effect, rule, outcome with its reason."""
        note = f": {self.note}" if self.note else ""
        return f"{self.effect} {self.text} -> {self.outcome}{note}"


def import_claude(settings: Mapping[str, Any]) -> list[Imported]:
    """One Imported a rule of a Claude Code `settings.json` object, then the mode and the rest.

    Raises WrongForm when `permissions` or one of its lists has another form.
    """
    block = settings.get("permissions", {})
    if not isinstance(block, Mapping):
        raise WrongForm(f"'permissions' is {block!r}; it must be an object")
    found: list[Imported] = []
    for effect in EFFECTS:
        texts = block.get(effect) or []
        if not isinstance(texts, list):
            raise WrongForm(f"{effect!r} is {texts!r}; it must be a list")
        found += [_one(text, effect) for text in texts]
    return [*found, *_rest(block)]


def to_settings(imported: Iterable[Imported]) -> dict[str, Any]:
    """The `permissions` object that the kept rules make, ready for a settings file of ours."""
    block: dict[str, Any] = {effect: [] for effect in EFFECTS}
    for item in imported:
        if item.outcome == "refused":
            continue
        if item.effect == "mode":
            block["mode"] = item.kept
        elif item.effect in EFFECTS:
            block[item.effect].append(item.kept)
    return {"permissions": block}


def _one(text: Any, effect: Effect) -> Imported:
    if not isinstance(text, str):
        return Imported(effect, repr(text), "refused", "a rule is a text")
    rule = parse_rule(text, effect)
    if isinstance(rule, Refused):
        return Imported(effect, text, "refused", rule.why)
    note = _narrowed(rule) if effect == "allow" else ""
    if note:
        return Imported(effect, text, "narrowed", note, rule.text)
    known = rule.tool in KINDS.values() or rule.tool.startswith("mcp__")
    return Imported(effect, text, "kept", "" if known else "names no tool we know", rule.text)


def _narrowed(rule: Rule) -> str:
    """How an allow rule covers less here than in Claude Code, or ''."""
    if rule.tool == "Bash":
        return _narrowed_bash(rule)
    if rule.tool in ("Read", "Edit"):
        return _narrowed_path(rule)
    if rule.tool == "WebFetch" and rule.spec:
        return "https on port 443 only; redirects to another origin are reported"
    if rule.tool.startswith("mcp__"):
        return "bound to the tool's name, schema and description: a change asks again"
    return ""


def _narrowed_bash(rule: Rule) -> str:
    if rule.whole:
        return "asks where a command name is computed, or a write leaves the workspace"
    head = rule.words[0].text
    if rule.prefix and head in NETWORK:
        return f"covers {' '.join(rule.fixed)!r} alone: {head!r} reaches the network"
    if any(word.globs for word in rule.words):
        return "`*` covers one word, no blank and no `/..`"
    if rule.prefix:
        return "flags that write or run a program ask, and so do paths outside the workspace"
    return ""


def _narrowed_path(rule: Rule) -> str:
    if rule.whole:
        return "covers the workspace only"
    if "/" not in (rule.spec or ""):
        return "covers the current folder only; write `**/` before it for any depth"
    return "protected files still ask" if rule.tool == "Edit" else ""


def _rest(block: Mapping[str, Any]) -> list[Imported]:
    found: list[Imported] = []
    mode = block.get("defaultMode")
    if mode is not None:
        ours = _MODES.get(mode) if isinstance(mode, str) else None
        note = "every ask is a deny" if mode == "dontAsk" else ""
        if ours is None:
            found.append(Imported("mode", str(mode), "refused", "there is no such mode"))
        else:
            outcome: Outcome = "narrowed" if mode in ("auto", "dontAsk") else "kept"
            found.append(Imported("mode", str(mode), outcome, note or f"is {ours!r} here", ours))
    for key in block:
        if key not in (*EFFECTS, "defaultMode"):
            why = "is no rule; give workspace folders on the command line"
            found.append(Imported("other", str(key), "refused", why))
    return found
