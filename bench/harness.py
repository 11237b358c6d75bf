"""Harness: one scripted run of four steps, our loop beside the real Claude Code client.

May not leave the machine nor install anything: AGENT_KERNEL_CLAUDE names the client's program, and
without it the table is one line that says so.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_kernel.testing import MessagesServer
from bench.row import Row, side_by_side

VARIABLE = "AGENT_KERNEL_CLAUDE"
DEADLINE = 120.0
MODEL = "claude-sonnet-4-5"
PROMPT = "Set x to 2 in a.py and run it."
OURS = (sys.executable, "-m", "agent_kernel", "run", "-p", PROMPT, "-m", MODEL)
ALLOWED = ("--allow", "Read", "--allow", "Edit", "--allow", "Bash(python3 a.py)")
THEIRS = ("-p", PROMPT, "--model", MODEL, "--allowedTools", "Bash,Read,Edit")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Read, edit, bash, answer, in the words of whichever harness asks."""
    names = {tool.get("name") for tool in request.get("tools", ())}
    done = sum(
        block.get("type") == "tool_result"
        for message in request["messages"]
        for block in message["content"]
        if isinstance(block, dict)
    )
    theirs = "Read" in names
    key = "file_path" if theirs else "path"
    path = str(Path(answer.folder) / "a.py") if theirs else "a.py"  # type: ignore[attr-defined]
    old, new = ("old_string", "new_string") if theirs else ("old", "new")
    steps: list[tuple[str, dict[str, str]]] = [
        ("Read", {key: path}),
        ("Edit", {key: path, old: "x = 1", new: "x = 2"}),
        ("Bash", {"command": "python3 a.py"}),
    ]
    if not names or done >= len(steps):
        return {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}
    name, given = steps[done]
    call = {
        "type": "tool_use",
        "id": f"toolu_{done}",
        "name": name if theirs else name.lower(),
        "input": given,
    }
    return {"content": [call], "stop_reason": "tool_use"}


class Runs:
    """Runs one command again and again in a fresh folder.

    `bytes` are those of its requests, `steps` the seconds from its first request to its last.
    """

    def __init__(self, server: MessagesServer, command: Sequence[str]) -> None:
        self.server, self.command = server, tuple(command)
        self.bytes: list[int] = []
        self.steps: list[float] = []

    def seconds(self) -> float:
        """Seconds from start to end; raises RuntimeError when the run was another."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "ws"
            folder.mkdir()
            (folder / "a.py").write_text("x = 1\nprint(x)\n")
            answer.folder = str(folder)  # type: ignore[attr-defined]
            env = {
                **os.environ,
                "HOME": name,
                "ANTHROPIC_BASE_URL": self.server.base_url,
                "ANTHROPIC_API_KEY": "bench-" + "key-not-a-secret",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_TELEMETRY": "1",
            }
            before, start = len(self.server.messages), time.perf_counter()
            done = subprocess.run(
                self.command, cwd=folder, env=env, capture_output=True, text=True, check=False,
                timeout=DEADLINE, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            took = time.perf_counter() - start
            if (folder / "a.py").read_text() != "x = 2\nprint(x)\n":
                said = (done.stdout + done.stderr)[-300:]
                raise RuntimeError(f"{self.command[0]} did not do the four steps: {said}")
        asked = [each for each in self.server.messages[before:] if each.json.get("tools")]
        self.bytes += [len(each.body) for each in asked]
        self.steps.append(asked[-1].at - asked[0].at)
        return took


def rows(repeat: int) -> list[Row]:
    """Wall time of the four steps with a model that answers at once, and bytes a request."""
    client = shutil.which(os.environ.get(VARIABLE, ""))
    if client is None:
        print(f"harness: not run: set {VARIABLE} to the claude program", file=sys.stderr)
        return []
    with MessagesServer(None, answer, strict=False) as server:
        mine, theirs = Runs(server, (*OURS, *ALLOWED)), Runs(server, (client, *THEIRS))
        pair = side_by_side(mine.seconds, theirs.seconds, max(3, repeat))
        steps = statistics.median(mine.steps), statistics.median(theirs.steps)
        sizes = statistics.median(mine.bytes) / 1e6, statistics.median(theirs.bytes) / 1e6
    return [
        Row("read, edit, bash, answer: start to end", *pair),
        Row("its first request to its last", *steps),
        Row("a request's size, in KB", *sizes, bar=0.5),
    ]
