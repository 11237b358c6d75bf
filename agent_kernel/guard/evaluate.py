"""Evaluate: the verdict on any tool call, from every stage at once.

Stages only narrow; it holds no state, and a person is never asked here.
"""

from __future__ import annotations

from dataclasses import replace

from agent_kernel.guard.bash_stage import judge_bash
from agent_kernel.guard.calls import MODES, Call, Context, Mode, Verdict, join
from agent_kernel.guard.effects import input_effects, python_effects, write_effects
from agent_kernel.guard.offers import offers
from agent_kernel.guard.path_stage import Access, judge_path
from agent_kernel.guard.python_stage import mentions
from agent_kernel.guard.rules import Rule, Rules, match_server
from agent_kernel.guard.web_stage import judge_fetch

_PATH_FIELDS = ("path", "file_path", "notebook_path", "folder", "file")
_EQUAL_CALLS = 5


def evaluate(
    call: Call, rules: Rules, mode: Mode = "ask", context: Context | None = None
) -> Verdict:
    """Whether the call may be done: the join of all stages.

    Without a live front end (`context.headless`) an ask becomes a deny that names the rule which
    would allow it. Raises ValueError for an unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is unknown; use one of {', '.join(MODES)}")
    context = context or Context()
    found = join([*_stages(call, rules, mode, context), *_limits(call, context)])
    if found.verdict == "ask":
        return _answerable(found, call, context)
    return found


def _stages(call: Call, rules: Rules, mode: Mode, context: Context) -> list[Verdict]:
    kind = call.kind
    if kind == "Harmless":
        return [Verdict("allow", f"{call.tool!r} changes nothing", "base"), *_by_name(call, rules)]
    if kind in ("Read", "Edit"):
        return _paths("Read" if kind == "Read" else "Edit", call, rules, mode, context)
    if kind == "Bash":
        text = call.text("command", "cmd")
        if not text.strip():
            return [Verdict("error", "the command is empty", "base")]
        return judge_bash(text, rules, mode, context)
    if kind == "WebFetch":
        return judge_fetch(call.text("url"), rules, mode, context)
    return _named(call, rules, mode, context)


def _paths(access: Access, call: Call, rules: Rules, mode: Mode, context: Context) -> list[Verdict]:
    texts = [call.text(*_PATH_FIELDS)]
    if not texts[0]:
        if access == "Edit" and call.tool.casefold() != "notebook":
            return [Verdict("error", f"{call.tool!r} names no path", "base")]
        texts = [context.notebook or "."] if access == "Edit" else ["."]
    if not isinstance(call.input, str) and call.tool.casefold() == "glob":
        texts += _pattern_folder(call.text("pattern"))
    found: list[Verdict] = []
    for text in texts:
        found += judge_path(access, text, rules, mode, context)
        if access == "Edit":
            found += [
                Verdict("ask", why, "risk", parts=(text,), risk=why)
                for why in write_effects(text, context.roots)
            ]
    return found


def _pattern_folder(pattern: str) -> list[str]:
    """The literal folder a glob pattern starts in, when it leaves the folder it is given."""
    parts = pattern.split("/")
    literal = parts[: next((at for at, p in enumerate(parts) if set(p) & set("*?[{")), len(parts))]
    if pattern.startswith(("/", "~")) or ".." in parts:
        leaves = "/".join(parts) if ".." in parts[len(literal) :] else "/".join(literal)
        return [leaves or "/"]
    return []


def _named(call: Call, rules: Rules, mode: Mode, context: Context) -> list[Verdict]:
    """Stages of tools judged by their name: python, agent, MCP, search, others."""
    found = [_base_named(call, rules, mode), *_by_name(call, rules)]
    effects = []
    if call.kind == "Python":
        effects = python_effects(call.text("code"))
        found += mentions(call.text("code"), rules, context)
    if call.kind in ("Mcp", "Other"):
        effects = input_effects(call)
    found += [Verdict("ask", why, "risk", risk=why) for why in effects]
    if call.tool in context.changed:
        why = f"{call.tool!r} is not the tool that was approved: its description changed"
        found.append(Verdict("ask", why, "ask"))
    if context.tainted and call.kind in ("Mcp", "WebSearch", "Python"):
        why = f"untrusted text is in view and {call.tool!r} may reach the network"
        found.append(Verdict("ask", why, "taint"))
    return found


def _base_named(call: Call, rules: Rules, mode: Mode) -> Verdict:
    looking = call.kind == "WebSearch" or (call.kind == "Other" and call.read_only)
    if mode == "plan" and not looking:
        return Verdict("deny", f"plan mode only looks: {call.tool!r} may act", "base")
    if call.kind == "Other" and call.read_only:
        return Verdict("allow", f"{call.tool!r} only reads", "base")
    for rule in rules.allow:
        if _covers(rule, call):
            return Verdict("allow", f"covered by {rule.text!r}", "base", rule.text)
    if mode == "bypass":
        return Verdict("allow", "mode 'bypass' allows it", "base")
    return Verdict("ask", f"{call.tool!r} is not covered by a rule", "base")


def _by_name(call: Call, rules: Rules) -> list[Verdict]:
    denied = [
        Verdict("deny", f"denied by {rule.text!r}", "deny", rule.text)
        for rule in rules.deny
        if _covers(rule, call)
    ]
    asked = [
        Verdict("ask", f"asks by {rule.text!r}", "ask", rule.text)
        for rule in rules.ask
        if _covers(rule, call)
    ]
    return denied + asked


def _covers(rule: Rule, call: Call) -> bool:
    if call.kind == "Mcp":
        return match_server(rule, call.tool)
    name = rule.tool.casefold()
    if name not in (call.kind.casefold(), call.tool.casefold()):
        return False
    if rule.whole:
        return True
    return call.kind == "Agent" and rule.spec == call.text("label", "name", "role", "subagent_type")


def _limits(call: Call, context: Context) -> list[Verdict]:
    found: list[Verdict] = []
    if context.repeats >= _EQUAL_CALLS and call.kind != "Harmless":
        why = f"the same call was made {context.repeats} times in this turn"
        found.append(Verdict("ask", why, "ask"))
    if context.over_budget:
        found.append(Verdict("deny", context.over_budget, "budget"))
    return found


def _answerable(verdict: Verdict, call: Call, context: Context) -> Verdict:
    """The ask with the rules it may offer, or the deny it is when nobody can answer."""
    offered = offers(call, verdict)
    if not context.headless:
        return replace(verdict, offers=offered)
    hint = f"; the rule {offered[0]!r} would allow it" if offered else ""
    return replace(
        verdict,
        verdict="deny",
        stage="headless",
        reason=f"nobody is here to ask: {verdict.reason}{hint}",
        offers=offered,
    )
