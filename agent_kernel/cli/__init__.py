"""Command line: `agent-kernel VERB …`, each verb one module, loaded when it is used.

May not do anything itself but find the verb.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module


@dataclass(frozen=True)
class Verb:
    """One verb: `module` has `add_arguments(parser)` and `main(args) -> int`, the exit code."""

    name: str
    summary: str
    module: str


ALL = (
    Verb("run", "run a notebook, or a prompt, without a front end", "agent_kernel.cli.run"),
    Verb("demo", "open the tour in JupyterLab, or run it headless", "agent_kernel.cli.demo"),
    Verb("install", "install the kernelspec for this Python", "agent_kernel.cli.install"),
    Verb("model", "say which model would answer, and why", "agent_kernel.cli.model"),
    Verb("totals", "tokens and dollars of session logs", "agent_kernel.cli.totals"),
    Verb("frames", "one table of session logs as csv, json, parquet", "agent_kernel.cli.frames"),
    Verb("report", "a page: what sessions cost, and what to change", "agent_kernel.cli.report"),
    Verb("audit", "every permission decision of a log, and why", "agent_kernel.cli.audit"),
    Verb("lab", "what compaction costs, saves and forgets", "agent_kernel.cli.lab"),
    Verb("doctor", "examine session logs; write a repaired copy", "agent_kernel.cli.doctor"),
    Verb("request", "show one request of a log, exactly", "agent_kernel.cli.request"),
    Verb("replay", "rebuild every request of a log and verify it", "agent_kernel.cli.replay"),
    Verb("proxy", "run any harness behind a recording proxy", "agent_kernel.cli.proxy"),
    Verb("next", "say what a log's loop would do next", "agent_kernel.cli.upcoming"),
    Verb("embed", "put a notebook's log into the notebook", "agent_kernel.cli.embed"),
    Verb("extract", "write a notebook's embedded log back", "agent_kernel.cli.extract"),
    Verb("guard", "ask the guard: permit, address, render, redact", "agent_kernel.cli.guard"),
    Verb("messages-server", "a loopback Messages API with faults", "agent_kernel.cli.server"),
)
CODES = "exit status: 0 done, 1 findings or a failed turn, 2 bad input, 3 refused by a policy"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage())
        return 0 if given else 2
    if given[0] in ("-V", "--version"):
        from agent_kernel import __version__

        sys.stdout.write(f"agent-kernel {__version__}\n")
        return 0
    verb = next((v for v in ALL if v.name == given[0]), None)
    if verb is None:
        near = get_close_matches(given[0], [v.name for v in ALL], 1)
        hint = f"; did you mean {near[0]!r}?" if near else "; see agent-kernel help"
        sys.stderr.write(f"agent-kernel: there is no verb {given[0]!r}{hint}\n")
        return 2
    return _run(verb, given[1:])


def _run(verb: Verb, rest: Sequence[str]) -> int:
    module = import_module(verb.module)
    parser = argparse.ArgumentParser(
        prog=f"agent-kernel {verb.name}", description=verb.summary + ".", epilog=CODES
    )
    module.add_arguments(parser)
    try:
        status = module.main(parser.parse_args(rest))
    except BrokenPipeError:
        return 0  # the reader of our output has read enough
    return int(status)


def usage() -> str:
    """Return the list of verbs."""
    width = max(len(verb.name) for verb in ALL)
    lines = [f"  {verb.name:<{width}}  {verb.summary}" for verb in ALL]
    return "\n".join(["usage: agent-kernel VERB …", "", *lines, "", CODES, ""])
