"""Totals verb: tokens and dollars of any session logs.

May not load pandas, pyarrow, numpy or anthropic.
"""

from agent_kernel.frames.cli_totals import add_arguments, main

__all__ = ["add_arguments", "main"]
