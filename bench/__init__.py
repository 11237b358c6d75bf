"""Bench: speed tables, each row ours beside its plain counterpart, measured in one run.

May not compare with another machine or another day: a bar is a ratio, or seconds the design asks.
"""

from __future__ import annotations

from bench import frames, harness, imports, kernel, lsp, proxy, wire

ALL = {
    "imports": imports,
    "kernel": kernel,
    "wire": wire,
    "frames": frames,
    "lsp": lsp,
    "proxy": proxy,
    "harness": harness,
}
