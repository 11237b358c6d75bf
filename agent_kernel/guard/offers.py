"""Offers: the allow rules a person may be shown for one asked call.

Only rules that load are offered; opaque text and high risk get none.
"""

from __future__ import annotations

import re

from agent_kernel.guard.calls import Call, Verdict
from agent_kernel.guard.rules import Refused, parse_rule
from agent_kernel.guard.shell import Opaque, scan

_PLAIN = re.compile(r"[\w@%+,./:=^\-]+")


def offers(call: Call, verdict: Verdict) -> tuple[str, ...]:
    """The rules that would cover an asked call, the narrowest first; empty when none may."""
    if verdict.risk or verdict.stage not in ("base", "headless"):
        return ()
    texts: list[str] = []
    if call.kind == "Bash":
        texts = _bash(call.text("command", "cmd"))
    elif call.kind in ("Read", "Edit"):
        path = call.text("path", "file_path", "notebook_path")
        texts = [f"{call.kind}({'/' + path if path.startswith('/') else path})"] if path else []
    elif call.kind == "WebFetch":
        host = re.match(r"https://([\w.\-]+)", call.text("url"))
        texts = [f"WebFetch(domain:{host[1].rstrip('.').lower()})"] if host else []
    elif call.kind in ("Mcp", "Python", "Agent", "WebSearch"):
        texts = [call.tool if call.kind == "Mcp" else call.kind]
    return tuple(text for text in texts if not isinstance(parse_rule(text, "allow"), Refused))


def _bash(text: str) -> list[str]:
    program = scan(text)
    if isinstance(program, Opaque) or len(program.commands) != 1:
        return []
    argv = program.commands[0].argv
    exact = " ".join(map(_quoted, argv))
    found = [f"Bash({exact})"]
    if len(argv) > 2 and not argv[1].startswith("-") and _PLAIN.fullmatch(argv[1]):
        found.append(f"Bash({_quoted(argv[0])} {argv[1]}:*)")
    return found


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"
