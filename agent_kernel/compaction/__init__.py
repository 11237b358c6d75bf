"""Compaction strategies: the layers, cheapest first, that plan what the model no longer needs to
see.

May not commit anything: `core/compaction.py` runs the transaction.
"""

from agent_kernel.compaction.auto import STRATEGY as AUTO
from agent_kernel.compaction.auto import Auto
from agent_kernel.compaction.background import Candidates
from agent_kernel.compaction.budget import STRATEGY as BUDGET
from agent_kernel.compaction.budget import Budget
from agent_kernel.compaction.collapse import STRATEGY as COLLAPSE
from agent_kernel.compaction.collapse import Collapse
from agent_kernel.compaction.kinds import FACT_KINDS
from agent_kernel.compaction.micro import STRATEGY as MICRO
from agent_kernel.compaction.micro import Micro
from agent_kernel.compaction.preview import Preview, Row, chosen, plan
from agent_kernel.compaction.snip import STRATEGY as SNIP
from agent_kernel.compaction.snip import Snip
from agent_kernel.core.transaction import UndoError, undo

ALL = (BUDGET, SNIP, MICRO, COLLAPSE, AUTO)
__all__ = [
    "ALL",
    "FACT_KINDS",
    "Auto",
    "Budget",
    "Candidates",
    "Collapse",
    "Micro",
    "Preview",
    "Row",
    "Snip",
    "UndoError",
    "chosen",
    "plan",
    "undo",
]
