"""Lab: what compaction costs, saves and forgets, measured on session logs with matched controls.

May not import another room: a loader, the facts, the ledger and the layers are given by the roof.
"""

from agent_kernel.lab.policies import ALL

__all__ = ["ALL"]
