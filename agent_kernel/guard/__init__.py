"""Guard: what may be done, and what survives."""

from agent_kernel.guard.calls import Call, Context, Mode, Verdict
from agent_kernel.guard.evaluate import evaluate
from agent_kernel.guard.rules import Rules, parse_rules

__all__ = ["Call", "Context", "Mode", "Rules", "Verdict", "evaluate", "parse_rules"]
