"""Web stage: the verdicts on fetching one address.

It dials nothing; addresses.py reads the URL.
"""

from __future__ import annotations

import re

from agent_kernel.guard.addresses import Refusal, Url, check_url
from agent_kernel.guard.calls import Context, Mode, Verdict
from agent_kernel.guard.rules import Rules, match_domain

_REDIRECT = re.compile(r"(\S+)\s+->\s+30[1278]\s+(\S+)")


def judge_fetch(text: str, rules: Rules, mode: Mode, context: Context) -> list[Verdict]:
    """Every stage's verdict on fetching `text`; `U -> 302 V` is U answering with a redirect."""
    redirect = _REDIRECT.fullmatch(text.strip())
    first = redirect[1] if redirect else text
    url = check_url(first, allow_local=context.allow_local)
    if isinstance(url, Refusal):
        return [Verdict("deny", url.reason, "address", parts=(first,))]
    found = [_base(url, rules, mode), *_rules(url, rules)]
    if redirect:
        found += _redirect(url, redirect[2], rules)
    if context.tainted:
        found.append(Verdict("ask", _tainted(url, first), "taint", parts=(first,)))
    return found


def _base(url: Url, rules: Rules, mode: Mode) -> Verdict:
    for rule in rules.allow:
        if rule.tool == "WebFetch" and match_domain(rule, url.scheme, url.host, url.port):
            return Verdict("allow", f"covered by {rule.text!r}", "base", rule.text)
    if mode == "bypass":
        return Verdict("allow", "mode 'bypass' allows it", "base")
    return Verdict("ask", f"fetching from {url.host!r} is not covered", "base")


def _rules(url: Url, rules: Rules) -> list[Verdict]:
    denied = [
        Verdict("deny", f"denied by {rule.text!r}", "deny", rule.text)
        for rule in rules.deny
        if rule.tool == "WebFetch" and _host_matches(rule.spec, url.host)
    ]
    asked = [
        Verdict("ask", f"asks by {rule.text!r}", "ask", rule.text)
        for rule in rules.ask
        if rule.tool == "WebFetch" and _host_matches(rule.spec, url.host)
    ]
    return denied + asked


def _host_matches(spec: str | None, host: str) -> bool:
    """The wide reading of deny and ask: any scheme and port, and every name below the host."""
    wanted = (spec or "").removeprefix("domain:").strip().rstrip(".").lower().removeprefix("*.")
    return wanted in ("", "*") or host == wanted or host.endswith("." + wanted)


def _redirect(url: Url, target: str, rules: Rules) -> list[Verdict]:
    after = check_url(target, answered=True)
    if isinstance(after, Refusal):
        return [Verdict("deny", f"redirects to {target!r}: {after.reason}", "address")]
    same = url.origin == after.origin
    upgrade = url.host == after.host and (url.scheme, after.scheme) == ("http", "https")
    if same or upgrade:
        return _rules(after, rules)
    why = f"redirects to {target!r}, another origin: reported, not followed"
    return [Verdict("report", why, "address"), *_rules(after, rules)]


def _tainted(url: Url, text: str) -> str:
    query = text.partition("?")[2]
    long = f", with a query of {len(query)} characters" if len(query) > 200 else ""
    return f"untrusted text is in view and the call reaches {url.host!r}{long}"
