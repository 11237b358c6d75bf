"""Columns of samples: the answers to a request that was sent again, as columns.py has all others.

May not hold anything else.
"""

from __future__ import annotations

SAMPLES = """
session_id s - session
request i - seq of the request that was sent again
n i - which answer
action c - text tool error
tool c - first tool it called
tools i - calls in it
input s - input of the first call, as sorted JSON
text s - its text, at most 2,000 characters
model c - model that answered
stop_reason c - as recorded
input_tokens i tokens uncached input
output_tokens i tokens output
cache_read i tokens cache read
cost f dollars at list prices; missing = no price known
seconds f seconds to the whole answer
error s - why there is none
"""
