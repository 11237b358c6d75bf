"""Providers: who turns a request into a message, and the wrappers around them.

May not import another room; a heavy client is imported at its first stream.
"""

from agent_kernel.providers.anthropic import Anthropic, warm
from agent_kernel.providers.build import build
from agent_kernel.providers.cassette import Cassette
from agent_kernel.providers.choose import DEFAULT_MODEL, SMALL_MODEL, Choice, Wish, choose
from agent_kernel.providers.demo import Demo, answer, demo_server_answer
from agent_kernel.providers.endpoints import BY_NAME, endpoint_of
from agent_kernel.providers.gate import Gate
from agent_kernel.providers.keys import Key, find_key
from agent_kernel.providers.local import look_local
from agent_kernel.providers.profiles import profile_of
from agent_kernel.providers.retry import Retrying
from agent_kernel.providers.scripted import Scripted, scripted
from agent_kernel.providers.watchdog import Watchdog

# Who answers, then the wrappers in their order around it: retry(gate(watchdog(cassette(…)))).
ALL = (Anthropic, Demo, Scripted, Retrying, Gate, Watchdog, Cassette)

__all__ = [
    "ALL",
    "BY_NAME",
    "DEFAULT_MODEL",
    "SMALL_MODEL",
    "Anthropic",
    "Cassette",
    "Choice",
    "Demo",
    "Gate",
    "Key",
    "Retrying",
    "Scripted",
    "Watchdog",
    "Wish",
    "answer",
    "build",
    "choose",
    "demo_server_answer",
    "endpoint_of",
    "find_key",
    "look_local",
    "profile_of",
    "scripted",
    "warm",
]
