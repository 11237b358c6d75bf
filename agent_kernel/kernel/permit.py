"""Permit: the guard's verdict on a call of this session, as the loop's judgement.

May not decide: it gathers rules, mode and place, and asks the guard.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_kernel.core.batch import Judgement
from agent_kernel.core.events import AssistantMessage, ToolCall
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.core.state import input_hash
from agent_kernel.core.tool import Tool, ToolContext
from agent_kernel.guard.calls import Call, Context, Mode, Verdict
from agent_kernel.guard.evaluate import evaluate
from agent_kernel.guard.rules import Refused, Rule, Rules, parse_rule
from agent_kernel.kernel.settings import Settings
from agent_kernel.tools import sql
from agent_kernel.tools.bash import cwd_of

RISKS = {"sql": sql.risk_of}
"""What a tool says of a call's risk, "" = none: a call with one is asked in every mode."""
_TAINTS = ("web", "mcp", "notebook")


@dataclass
class Grants:
    """What a person granted in this kernel: rules since `since` (unix seconds), tools for a turn.

    Grants end with their kernel: rules of an earlier one stand in the log and do not count.
    """

    since: float = field(default_factory=time.time)
    turns: set[tuple[str, int, str]] = field(default_factory=set)  # session id, turn, tool


class Guard:
    """Judges the calls of one session."""

    def __init__(
        self,
        session: Session,
        settings: Settings,
        *,
        mode: Callable[[], Mode],
        notebook: Callable[[], str],
        extra: Rules | None = None,
        grants: Grants | None = None,
        changed: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._session = session
        self._settings = settings
        self._mode = mode
        self._notebook = notebook
        self._extra = extra or Rules()
        self._grants = grants or Grants()
        self._changed = changed
        self.over_budget: Callable[[], str] = str  # the sentence of a spent limit
        self._tools: dict[str, Tool] = {}

    def judge(self, tool: Tool, value: Json, context: ToolContext) -> Judgement:
        """Return what may become of a call: the loop's `permit`."""
        self._tools[tool.name] = tool
        verdict = self.verdict(tool, value, context.headless, context.agent)
        if tool.name in RISKS:
            verdict = _with_risk(verdict, RISKS[tool.name](value, context), context.headless)
        if verdict.verdict == "ask" and self._for_turn(tool.name, verdict):
            reason = f"you allowed {tool.name} for this turn"
            return Judgement("allow", by="rule", stage="grant", reason=reason)
        return Judgement(
            "allow"
            if verdict.verdict == "allow"
            else "ask"
            if verdict.verdict == "ask"
            else "deny",
            by="rule" if verdict.rule else "policy" if verdict.stage == "headless" else "mode",
            rule=verdict.rule or None,
            stage=verdict.stage,
            parts=verdict.parts,
            reason=verdict.reason,
            risk=verdict.risk or None,
            would_pass=verdict.offers[0] if verdict.offers else None,
        )

    def verdict(self, tool: Tool, value: Json, headless: bool, agent: str = "main") -> Verdict:
        """Return the guard's own words on a call, with the rules it offers."""
        call = Call(tool.name, value, read_only=tool.is_read_only(tool.parse(value)))
        where = self._context(call, value, headless, agent)
        return evaluate(call, self.rules(), self._mode(), where)

    def offers(self, name: str, value: Json) -> tuple[str, ...]:
        """Return the rules a person may be shown for a call that was judged before."""
        return self.verdict(self._tools[name], value, False).offers if name in self._tools else ()

    def may_read(self, name: str) -> bool:
        """Tell whether a file found by a search may be read without asking."""
        call = Call("read", {"path": name}, read_only=True)
        context = self._context(call, {}, headless=True)
        return evaluate(call, self.rules(), self._mode(), context).verdict == "allow"

    def grant_turn(self, name: str) -> None:
        """Let the tool `name` run without asking until the open turn ends; high risk still asks."""
        self._grants.turns.add((self._session.id, self._session.state().turn, name))

    def _for_turn(self, name: str, verdict: Verdict) -> bool:
        if verdict.risk or verdict.stage != "base":
            return False
        return (self._session.id, self._session.state().turn, name) in self._grants.turns

    def rules(self) -> Rules:
        """Return the rules of the command line, the session's grants and the settings files."""
        found = self._extra
        for granted in self._session.rules:
            if granted.time < self._grants.since:
                continue
            rule = parse_rule(granted.rule, granted.verdict)
            if not isinstance(rule, Refused):
                found = found.plus(_one(granted.verdict, rule))
        return found.plus(self._settings.guarded().rules)

    def _context(self, call: Call, value: Json, headless: bool, agent: str = "main") -> Context:
        session, folder = self._session, self._settings.folder
        log = session.log.path
        own = () if log is None else (str(log), f"{log}.lock", f"{log}.damaged")
        if session.folder is not None:
            own = (*own, str(session.folder / "cassettes"))
        blobs = () if session.folder is None else (str(session.folder / "blobs"),)
        return Context(
            cwd=str(cwd_of(session, agent, folder) if call.kind == "Bash" else folder),
            roots=(str(folder),),
            headless=headless,
            tainted=_tainted(session),
            denied=own,
            blobs=blobs,
            notebook=self._notebook(),
            trusted=self._settings.trusts,
            settings=str(self._settings.folder),
            changed=self._changed(),
            over_budget=self.over_budget(),
            allow_local=self._settings.allow_local(),
            repeats=_repeats(session, call.tool, value),
        )


def _with_risk(verdict: Verdict, risk: str, headless: bool) -> Verdict:
    """Return a verdict with what a tool says of its call's risk: such a call is always asked."""
    if not risk or verdict.verdict not in ("allow", "ask"):
        return verdict
    if headless:
        return Verdict("deny", f"nobody is here to ask: {risk}", "headless", risk=risk)
    return Verdict("ask", "it writes to a database", "risk", parts=verdict.parts, risk=risk)


def _one(verdict: str, rule: Rule) -> Rules:
    if verdict == "allow":
        return Rules(allow=(rule,))
    return Rules(deny=(rule,)) if verdict == "deny" else Rules(ask=(rule,))


def _tainted(session: Session) -> bool:
    nodes = session.surface().nodes
    return any(getattr(node, "meta", {}).get("taint") in _TAINTS for node in nodes)


def _repeats(session: Session, name: str, value: Json) -> int:
    """Return how often this turn made the same call, this one included."""
    wanted, count, turn = input_hash(value), 0, session.state().turn
    for event in reversed(session.events):
        if event.turn != turn and isinstance(event, AssistantMessage):
            break
        if isinstance(event, ToolCall) and event.name == name and event.input_hash == wanted:
            count += 1
    return max(1, count)
