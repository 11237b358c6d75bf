"""Columns of agents: sub-agents and their use, as columns.py has all others.

May not hold anything else.
"""

from __future__ import annotations

SUBAGENTS = """
session_id s - session
agent_id s - its id
parent_tool_use s - tool call that started it
parent_agent s - agent that made that call
kind c - kind of agent
label s - its description
depth i - 1 for a child of main
started t - first line
ended t - last line
status c - how it ended
calls i - model calls
input i tokens uncached input
output_recorded i tokens output as logged
cache_write_5m i tokens written to the 5-minute cache
cache_write_1h i tokens written to the 1-hour cache
cache_read i tokens read from the cache
usd_recorded f dollars output as logged
usd_best f dollars with estimated output where not final
tokens i tokens all five kinds, its own calls
tokens_inclusive i tokens with those of the agents below it
usd_inclusive f dollars output as logged, with the agents below it
context_peak i tokens largest context
found_in c - file progress both
"""
