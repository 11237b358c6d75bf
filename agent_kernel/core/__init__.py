"""Core: the loop, the log and what is derived from it.

Imports nothing of ours outside this package; each file imports only those above it in the reading
order of docs.
"""
