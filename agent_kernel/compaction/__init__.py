"""Compaction strategies: the layers, cheapest first, that plan what the model no longer needs to
see.

May not commit anything: `core/compaction.py` runs the transaction.
"""

from agent_kernel.compaction.micro import STRATEGY as MICRO
from agent_kernel.compaction.micro import Micro

ALL = (MICRO,)
__all__ = ["ALL", "Micro"]
