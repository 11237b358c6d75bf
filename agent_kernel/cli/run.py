"""Run verb: a notebook's cells, or one prompt, without a front end.

May not answer an ask: what no rule allows is denied, and the model is told why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from agent_kernel.cli.notebooks import NotebookError, read_notebook, write_notebook
from agent_kernel.core.messages import Json
from agent_kernel.kernel.notebook import KEY, fold_metadata
from agent_kernel.kernel.parse import budget
from agent_kernel.kernel.settings import SettingsError

POLICIES = ("run", "replay")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("notebook", nargs="?", type=Path, metavar="NB", help="run in place")
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="one turn instead of a notebook")
    parser.add_argument("-m", "--model", help="the model's id")
    parser.add_argument("--base-url", help="the address of a Messages API")
    parser.add_argument("--policy", choices=POLICIES, default="run", help="replay runs nothing new")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="RULE", help="as Bash(ls:*)"
    )
    parser.add_argument("--budget", help="of a turn: 0.50 dollars or 40k tokens")
    parser.add_argument("--timeout", type=float, default=None, help="seconds for one cell")
    parser.add_argument("--json", action="store_true", help="one result object")


def main(args: argparse.Namespace) -> int:
    """Run and print the result; return 1 when a cell or a turn failed, 2 on bad input."""
    if (args.notebook is None) == (args.prompt is None):
        sys.stderr.write("agent-kernel run: give a notebook, or -p and a prompt\n")
        return 2
    if args.timeout is not None and args.timeout <= 0:
        sys.stderr.write(f"agent-kernel run: --timeout {args.timeout:g}: give seconds above 0\n")
        return 2
    if args.prompt is not None and not args.prompt.strip():
        sys.stderr.write("agent-kernel run: the prompt is empty; give the turn's words after -p\n")
        return 2
    try:
        if args.prompt is not None:
            from agent_kernel.cli.prompt import run_prompt

            status, told = asyncio.run(run_prompt(args))
        else:
            status, told = run_notebook(args.notebook, environment(args), timeout=args.timeout)
    except (NotebookError, SettingsError, ValueError) as error:
        sys.stderr.write(f"agent-kernel run: {error}\n")
        return 2
    sys.stdout.write((json.dumps(told) if args.json else _words(told)) + "\n")
    if told["error"]:
        sys.stderr.write(f"agent-kernel run: {told['error']}\n")
    return status


def environment(args: argparse.Namespace) -> dict[str, str]:
    """Return the kernel's environment: what was asked for on the command line comes first."""
    given = {
        "ANTHROPIC_BASE_URL": args.base_url,
        "AGENT_KERNEL_MODEL": args.model,
        "AGENT_KERNEL_NONINTERACTIVE": args.policy,
        "AGENT_KERNEL_ALLOW": json.dumps(args.allow) if args.allow else None,
        "AGENT_KERNEL_TURN_TOKENS": _tokens(args.budget) if args.budget else None,
    }
    return {**os.environ, **{name: value for name, value in given.items() if value is not None}}


def _tokens(text: str) -> str:
    """Return a token budget as the setting takes it. Raises ValueError on dollars."""
    found = budget(text)
    if "tokens" not in found:
        raise ValueError(
            f"--budget {text!r}: a notebook takes tokens here, as 40k; dollars go into its cells"
        )
    return str(found["tokens"])


def run_notebook(
    path: Path, env: dict[str, str], *, timeout: float | None = None, kernel: str | None = None
) -> tuple[int, Json]:
    """Run every cell of a notebook file in place; return the exit status and the result object.

    The outputs and the metadata are written also when a cell failed. Raises NotebookError.
    """
    read_notebook(path)
    began = time.monotonic()
    error = _execute(path, env, timeout, kernel)
    told = read_notebook(path).get("metadata", {}).get(KEY, {})
    # A turn that was stepped through stands under several cells: its last record is the whole.
    turns = list({(t.get("session"), t.get("turn")): t for t in told.get("turns", [])}.values())
    result: Json = {
        "notebook": path.name,
        "session": told.get("session"),
        "turns": len(turns),
        "steps": sum(turn.get("steps") or 0 for turn in turns),
        "reason": turns[-1].get("reason") if turns else None,
        "usage": (told.get("totals") or {}).get("usage"),
        "cost": (told.get("totals") or {}).get("cost"),
        "replayed": sum(bool(turn.get("replayed")) for turn in turns),
        "seconds": round(time.monotonic() - began, 3),
        "error": error,
    }
    return (1 if error else 0), result


def _execute(path: Path, env: dict[str, str], timeout: float | None, kernel: str | None) -> Any:
    """Run the notebook by nbclient and write it; return what failed, None when nothing did."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    nb = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    name = kernel or nb.metadata.get("kernelspec", {}).get("name") or "agent-kernel"
    folder = path.absolute().parent
    client = NotebookClient(
        nb,
        timeout=timeout,
        kernel_name=name,
        resources={"metadata": {"path": str(folder)}},
        allow_errors=False,
    )
    failed: str | None = None
    try:
        client.execute(env={**env, "JPY_SESSION_NAME": str(path.absolute())})
    except CellExecutionError as error:
        failed = f"{error.ename}: {error.evalue}"
    except (DeadKernelError, TimeoutError) as error:
        failed = f"{type(error).__name__}: {error}"
    nbformat.write(nb, path)  # type: ignore[no-untyped-call]
    write_notebook(path, fold_metadata(read_notebook(path)))
    return failed


def _words(told: Json) -> str:
    if "answer" in told:
        return str(told["answer"])
    if "notebook" not in told:
        return "(no answer)"
    again = f" ({told['replayed']} replayed)" if told["replayed"] else ""
    turns = f"{told['turns']} turns{again}, {told['steps']} steps, {told['seconds']} s"
    return f"{told['notebook']}: {turns}" + (f"; failed: {told['error']}" if told["error"] else "")
