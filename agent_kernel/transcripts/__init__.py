"""Transcripts: readers of session logs, one a harness, and what is done to one file.

May not import frames, which finds these by the entry-point group `agent_kernel.transcripts`.
"""

from __future__ import annotations

from typing import Any

from agent_kernel.transcripts.claude_code import ClaudeCode
from agent_kernel.transcripts.codex import Codex
from agent_kernel.transcripts.deepseek import DeepSeek

ALL: dict[str, Any] = {"claude_code": ClaudeCode(), "codex": Codex(), "deepseek": DeepSeek()}

__all__ = ["ALL"]
