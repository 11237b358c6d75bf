"""Rules: what a person wrote about tools, read and matched word by word.

It may not look at disk or decide a call: evaluate.py asks it whether a rule covers a part.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from agent_kernel.guard.calls import KINDS, MODES, Mode
from agent_kernel.guard.commands import INTERPRETERS, STATE_BUILTINS
from agent_kernel.guard.shell import Opaque, Word, scan_words
from agent_kernel.guard.wrappers import SHELLS, WRAPPERS

Effect = Literal["deny", "ask", "allow"]
EFFECTS: Final[tuple[Effect, ...]] = ("deny", "ask", "allow")

_FORM = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_KNOWN: Final = {kind.casefold(): kind for kind in ("Read", "Edit", "Bash", "Python", "Agent")} | {
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
}


class WrongForm(ValueError):
    """Settings or rules of another form than they must have; the text names the place."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the tool's name, its spec (None: the whole tool), and for Bash its words.

    `prefix` means any further words may follow; `base` is the folder `/pattern` starts from.
    """

    text: str
    tool: str
    spec: str | None = None
    words: tuple[Word, ...] = ()
    prefix: bool = False
    base: str = ""

    @property
    def whole(self) -> bool:
        """Whether the rule covers every call of its tool."""
        return self.spec in (None, "", "*", "**")

    @property
    def fixed(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule that does not load, with the sentence to show."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules by effect, what did not load, warnings, and what a one-line form set beside them."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    mode: Mode | None = None
    cwd: str = ""
    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def plus(self, other: Rules) -> Rules:
        """Both sets together; the first one's mode and cwd win where it has them."""
        return Rules(
            self.deny + other.deny,
            self.ask + other.ask,
            self.allow + other.allow,
            self.mode or other.mode,
            self.cwd or other.cwd,
            self.refused + other.refused,
            self.warnings + other.warnings,
        )

    def narrowing(self, *tools: str) -> bool:
        """Whether a deny or ask rule on one of the tools is loaded."""
        return any(rule.tool in tools for rule in (*self.deny, *self.ask))


def parse_rules(value: str | Mapping[str, Any], base: str = "") -> Rules:
    """The rules of a `permissions` mapping or of the one-line form of the case tables.

    Raises WrongForm when a list is not a list of strings or the mode is unknown.
    """
    if isinstance(value, str):
        return _from_line(value, base)
    mode = value.get("mode")
    if mode is not None and mode not in MODES:
        raise WrongForm(f"mode {mode!r} is unknown; use one of {', '.join(MODES)}")
    found = Rules(mode=mode)
    for effect in EFFECTS:
        texts = value.get(effect) or []
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise WrongForm(f"{effect!r} is {texts!r}; give a list of rule texts")
        for text in texts:
            found = found.plus(_loaded(text, effect, base))
    return found


def parse_rule(text: str, effect: Effect, base: str = "") -> Rule | Refused:
    """The rule in `text`, or why it does not load; deny and ask rules in tool form always load."""
    form = _FORM.fullmatch(text)
    if not form:
        return Refused(text, f"{text!r} is not `Tool` or `Tool(spec)`")
    spec = None if form[2] is None else form[2].strip()
    rule = Rule(text.strip(), rule_tool(form[1]), spec, base=base)
    if rule.tool != "Bash" or rule.whole:
        return rule if effect != "allow" else _check_spec(rule)
    return _bash_rule(rule, effect)


def rule_tool(name: str) -> str:
    """The name rules are compared by: Claude Code's for tools we know, else as written."""
    folded = name.casefold()
    if folded.startswith("mcp__"):
        return name
    return _KNOWN.get(folded) or KINDS.get(folded) or name


def match_words(rule: Rule, words: Sequence[str], loose: bool = False) -> bool:
    """Whether a Bash rule covers a command's words; `loose` is the wide reading of deny and ask."""
    if rule.whole:
        return True
    size = len(rule.words)
    exact = len(words) == size or (rule.prefix and len(words) > size)
    if exact and all(map(_match_word, rule.words, words)):
        return True
    if not loose:
        return False
    text = rule.spec or ""
    if text.endswith(":*"):
        text = text[:-2] + "*" if text[:-2].endswith(("*", " ")) else text[:-2] + " *"
    line = " ".join(words)
    return fnmatch.fnmatchcase(line, text) or fnmatch.fnmatchcase(line + " ", text)


def match_server(rule: Rule, tool: str) -> bool:
    """Whether an `mcp__server` or `mcp__server__tool` rule covers the MCP tool."""
    name = rule.tool.removesuffix("__*")
    if rule.spec is not None and not rule.whole:
        return False
    if name == tool:
        return True
    return name.count("__") == 1 and tool.startswith(name + "__")


def match_domain(rule: Rule, scheme: str, host: str, port: int) -> bool:
    """Whether a `domain:` rule covers the address: https on 443 to that host (or below `*.`)."""
    if rule.spec is None or not rule.spec.startswith("domain:"):
        return rule.whole
    wanted = rule.spec.removeprefix("domain:").strip().rstrip(".").lower()
    if (scheme, port) != ("https", 443):
        return False
    if wanted.startswith("*."):
        return host.endswith(wanted[1:]) and host != wanted[2:]
    return host == wanted


def _match_word(pattern: Word, word: str) -> bool:
    if not pattern.globs:
        return pattern.text == word
    if re.search(r"\s", word) or ".." in word.split("/"):
        return False
    return re.fullmatch(_word_regex(pattern), word, re.DOTALL) is not None


def _word_regex(pattern: Word) -> str:
    return "".join(
        ".*" if at in pattern.globs and char == "*" else re.escape(char)
        for at, char in enumerate(pattern.text)
    )


def _check_spec(rule: Rule) -> Rule | Refused:
    """An allow rule of another tool than Bash, unless its spec cannot mean what it says."""
    if rule.spec is None or rule.whole:
        return rule
    if rule.tool in ("Read", "Edit"):
        if rule.spec.startswith("!") or "\x00" in rule.spec:
            return Refused(rule.text, f"{rule.spec!r} takes paths away: write a deny rule instead")
        return rule
    if rule.tool == "WebFetch":
        if re.fullmatch(r"domain:\s*(\*\.)?[\w.\-]+", rule.spec):
            return rule
        return Refused(rule.text, f"{rule.spec!r} is not `domain:host`")
    if rule.tool == "Agent":
        return rule
    return Refused(rule.text, f"{rule.tool} takes no spec: write {rule.tool!r} alone")


def _bash_rule(rule: Rule, effect: Effect) -> Rule | Refused:
    body = rule.spec or ""
    prefix = body.endswith((":*", " *"))
    words = scan_words(body[:-2] if prefix else body)
    if isinstance(words, Opaque):
        if effect == "allow":
            return Refused(rule.text, f"{body!r} {words.why}: an allow rule is plain words only")
        return rule  # matched as a pattern over the joined words
    rule = replace(rule, words=words, prefix=prefix)
    if effect != "allow":
        return rule
    why = _refusal(rule)
    return Refused(rule.text, why) if why else rule


def _refusal(rule: Rule) -> str:
    """Why an allow rule on Bash may not load, or ''."""
    if not rule.words:
        return f"{rule.text!r} names no command"
    head = rule.words[0]
    if head.globs:
        return f"{rule.text!r} has a pattern for a command name: it would cover any program"
    if "=" in head.text:
        return f"{rule.text!r} sets a variable: name the command itself"
    open_end = rule.prefix or any(word.globs for word in rule.words)
    if not open_end:
        return ""
    if head.text in STATE_BUILTINS:
        return f"{head.text!r} evaluates text or changes the shell: only exact rules on it load"
    if _opens(rule.fixed):
        return f"{rule.text!r} would run any program: name the inner command too"
    return ""


def _opens(words: Sequence[str]) -> bool:
    """Whether the words are only wrappers, shells or interpreters and their own arguments."""
    words = list(words)
    while words:
        name = posixpath.basename(words[0])
        if name == "find" and words[-1] in ("-exec", "-execdir", "-ok", "-okdir"):
            return True
        if name in SHELLS or interpreter(name):
            return not any(_plain(word) for word in words[1:])
        wrapper = WRAPPERS.get(name)
        if wrapper is None or not wrapper.listed:
            return False
        words = wrapper.inner(words)
    return True


def _plain(word: str) -> bool:
    return bool(word) and word[0] not in "-*+"


def interpreter(name: str) -> bool:
    """Whether a program of that name runs code given to it: python3.12, node, perl, awk, …"""
    return re.sub(r"[\d.]+$", "", name) in INTERPRETERS or name in INTERPRETERS


def _loaded(text: str, effect: Effect, base: str) -> Rules:
    rule = parse_rule(text, effect, base)
    if isinstance(rule, Refused):
        return Rules(refused=(rule,))
    known = rule.tool in KINDS.values() or rule.tool.startswith("mcp__")
    warnings = () if known else (f"{rule.text!r} names no tool we know",)
    if effect == "deny":
        return Rules(deny=(rule,), warnings=warnings)
    if effect == "ask":
        return Rules(ask=(rule,), warnings=warnings)
    return Rules(allow=(rule,), warnings=warnings)


def _from_line(line: str, base: str) -> Rules:
    found = Rules()
    effect: Effect = "allow"
    for item in _items(line):
        word, _, rest = item.partition(" ")
        if item == "RO" or word == "default":
            continue
        if item.startswith("cwd="):
            found = replace(found, cwd=item.removeprefix("cwd=").strip())
            continue
        if word == "mode" and rest.strip() in MODES:
            found = found.plus(parse_rules({"mode": rest.strip()}))
            continue
        if word in EFFECTS:
            effect, item = _effect(word), rest.strip()
        if item:
            found = found.plus(_loaded(item, effect, base))
    return found


def _effect(word: str) -> Effect:
    return next(effect for effect in EFFECTS if effect == word)


def _items(line: str) -> Iterable[str]:
    """The pieces between commas and semicolons that stand outside parentheses."""
    depth, piece = 0, ""
    for char in line:
        depth += (char == "(") - (char == ")")
        if char in ",;" and depth <= 0:
            yield piece.strip()
            piece, depth = "", 0
        else:
            piece += char
    yield piece.strip()
