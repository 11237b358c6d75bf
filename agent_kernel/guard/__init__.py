"""Guard: what may be done, and what survives.

It may not ask, run or keep anything: it answers, by its arguments and what `stat` says.
"""

from agent_kernel.guard.calls import Call, Context, Mode, Verdict
from agent_kernel.guard.evaluate import evaluate
from agent_kernel.guard.rules import Rules, parse_rules

__all__ = ["Call", "Context", "Mode", "Rules", "Verdict", "evaluate", "parse_rules"]
