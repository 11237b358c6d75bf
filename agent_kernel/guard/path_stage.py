"""Path stage: the verdicts on reading or writing one path.

It resolves once per path and joins nothing; evaluate.py and bash_stage.py do.
"""

from __future__ import annotations

from typing import Literal

from agent_kernel.guard.calls import Context, Mode, Verdict
from agent_kernel.guard.path_rules import allows_path, forbids_path
from agent_kernel.guard.paths import Problem, Target, protected, resolve, secret, within
from agent_kernel.guard.rules import Rules

Access = Literal["Read", "Edit"]


def judge_path(
    access: Access, text: str, rules: Rules, mode: Mode, context: Context, cwd: str = ""
) -> list[Verdict]:
    """Every stage's verdict on reading or writing `text`, seen from `cwd` (default: context's)."""
    target = resolve(text, cwd or context.cwd, context.roots, context.home)
    if isinstance(target, Problem):
        return [Verdict(target.verdict, target.why, "path", parts=(text,))]
    return [
        _base(access, target, rules, mode, context),
        *rule_verdicts(access, target, rules, context),
        *_facts(access, target, context),
    ]


def rule_verdicts(access: Access, target: Target, rules: Rules, context: Context) -> list[Verdict]:
    """The deny and ask rules that cover the target; a Read rule also covers writing."""
    found: list[Verdict] = []
    tools = ("Read",) if access == "Read" else ("Edit", "Read")
    for rule in rules.deny:
        if rule.tool in tools and forbids_path(rule, target, context):
            why = f"{target.text!r} is denied by {rule.text!r}"
            found.append(Verdict("deny", why, "deny", rule.text, (target.text,)))
    for rule in rules.ask:
        if rule.tool in tools and forbids_path(rule, target, context):
            why = f"{target.text!r} asks by {rule.text!r}"
            found.append(Verdict("ask", why, "ask", rule.text, (target.text,)))
    return found


def kept_from(target: Target, context: Context, writing: bool) -> str:
    """Why no tool may touch the target (session log, lock, blobs when writing), or ''."""
    for path in {target.lexical, target.real}:
        if within(path, context.denied):
            return f"{target.text!r} belongs to the session's own record"
        if writing and within(path, context.blobs):
            return f"{target.text!r} is a stored result: it is read, never written"
    return ""


def covered(access: Access, target: Target, rules: Rules, context: Context) -> str:
    """The text of the allow rule that covers the target, or ''."""
    for rule in rules.allow:
        if rule.tool == access and allows_path(rule, target, context):
            return rule.text
    return ""


def _base(access: Access, target: Target, rules: Rules, mode: Mode, context: Context) -> Verdict:
    parts = (target.text,)
    if access == "Edit" and mode == "plan":
        return Verdict("deny", "plan mode writes nothing", "base", parts=parts)
    rule = covered(access, target, rules, context)
    if rule:
        return Verdict("allow", f"{target.text!r} is covered by {rule!r}", "base", rule, parts)
    if _by_mode(access, target, mode):
        return Verdict("allow", f"mode {mode!r} allows it", "base", parts=parts)
    place = "" if target.inside else " outside the workspace"
    verb = "reading" if access == "Read" else "writing"
    return Verdict("ask", f"{verb} {target.text!r}{place} is not covered", "base", parts=parts)


def _by_mode(access: Access, target: Target, mode: Mode) -> bool:
    if access == "Read":
        return target.inside or mode == "bypass"
    return target.inside and mode in ("accept-edits", "bypass")


def _facts(access: Access, target: Target, context: Context) -> list[Verdict]:
    """What stat says about the target, whatever the rules say."""
    parts = (target.text,)
    found: list[Verdict] = []
    kept = kept_from(target, context, access == "Edit")
    if kept:
        found.append(Verdict("deny", kept, "path", parts=parts))
    if target.kind == "device" and target.real != "/dev/null":
        why = f"{target.text!r} is a device, a pipe or a socket"
        found.append(Verdict("deny", why, "path", parts=parts))
    if target.link:
        way = "leads out of the workspace" if target.link == "out" else "leads nowhere yet"
        why = f"{target.text!r} is a link that {way}: {target.real!r}"
        found.append(Verdict("ask", why, "path", parts=parts))
    if target.links > 1:
        why = f"{target.text!r} has {target.links} names: another path shows the same file"
        found.append(Verdict("ask", why, "path", parts=parts))
    if access == "Edit":
        why = protected(target, context.notebook)
        if why:
            found.append(Verdict("ask", why, "path", parts=parts, risk=why))
    elif secret(target.lexical) or secret(target.real):
        why = f"reads {target.text!r}, which by its name holds keys"
        found.append(Verdict("ask", why, "path", parts=parts, risk=why))
    return found
