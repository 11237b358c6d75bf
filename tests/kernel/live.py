"""Live: a real kernel started from its kernelspec, driven by messages as a front end drives it.

May not look into the kernel: what a test knows of it came over its sockets or lies on the disk.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

import agent_kernel
from agent_kernel.core.session import Session
from agent_kernel.widgets.turnview import MIME

PACKAGE = Path(agent_kernel.__file__).parents[1]
DEADLINE = 60.0
Stdin = Sequence[str] | Callable[[str], str] | None


@dataclass
class Ran:
    """What one cell gave: reply, every message, and the last state of each display."""

    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """ok or error."""
        return str(self.reply["content"]["status"])

    @property
    def text(self) -> str:
        """All that was printed."""
        return "".join(m["content"]["text"] for m in self.messages if m["msg_type"] == "stream")

    @property
    def error(self) -> str:
        """The error's name and value, "" without one."""
        content = self.reply["content"]
        return f"{content['ename']}: {content['evalue']}" if self.status == "error" else ""

    @property
    def displays(self) -> list[dict[str, Any]]:
        """The outputs as a notebook keeps them: updates applied by display id."""
        found: dict[str, dict[str, Any]] = {}
        for message in self.messages:
            if message["msg_type"] in ("display_data", "update_display_data", "execute_result"):
                content = message["content"]
                key = content.get("transient", {}).get("display_id") or f"_{len(found)}"
                found[key] = content
        return list(found.values())

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The turn views shown."""
        return [d for d in self.displays if MIME in d["data"]]

    @property
    def plain(self) -> str:
        """The plain text of everything displayed."""
        return "\n".join(str(d["data"].get("text/plain", "")) for d in self.displays)

    @property
    def record(self) -> dict[str, Any]:
        """What the last turn's output keeps for the notebook."""
        return dict(self.turns[-1]["metadata"]["agent_kernel"])


class Live:
    """One running kernel; `run` executes a cell and waits for its end."""

    def __init__(self, folder: Path, env: dict[str, str], name: str = "agent-kernel") -> None:
        self.folder = folder
        self.closed = False
        self.manager = KernelManager(kernel_name=name)
        given = {**os.environ, "PYTHONPATH": str(PACKAGE), **env}
        self.manager.start_kernel(cwd=str(folder), env=given)
        self.client: BlockingKernelClient = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE)

    def start(self, code: str, cell: str | None = None, *, stdin: bool = False) -> str:
        """Send a cell and return its message id at once."""
        content = {
            "code": code, "silent": False, "store_history": True, "user_expressions": {},
            "allow_stdin": stdin, "stop_on_error": False,
        }  # fmt: skip
        message = self.client.session.msg("execute_request", content)
        if cell is not None:
            message["metadata"]["cellId"] = cell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def finish(
        self,
        msg_id: str,
        stdin: Stdin = None,
        *,
        timeout: float = DEADLINE,
        each: Callable[[dict[str, Any]], None] = lambda _m: None,
    ) -> Ran:
        """Collect a started cell's messages until it is idle and replied."""
        ran, began = Ran(), time.monotonic()
        answers = iter(stdin) if isinstance(stdin, Sequence) else None
        idle = False
        while not (idle and ran.reply):
            if time.monotonic() - began > timeout:
                raise TimeoutError(f"cell not done after {timeout} s; got {ran}")
            for message in self._messages():
                if message["parent_header"].get("msg_id") != msg_id:
                    continue
                if message["msg_type"] == "execute_reply":
                    ran.reply = message
                elif message["msg_type"] == "input_request":
                    prompt = message["content"]["prompt"]
                    ran.prompts.append(prompt)
                    self.client.input(stdin(prompt) if callable(stdin) else next(answers))
                elif message["msg_type"] == "status":
                    idle = message["content"]["execution_state"] == "idle"
                else:
                    ran.messages.append(message)
                each(message)
        ran.seconds = time.monotonic() - began
        return ran

    def _messages(self) -> Iterator[dict[str, Any]]:
        got = False
        for get in (
            self.client.get_iopub_msg, self.client.get_shell_msg, self.client.get_stdin_msg
        ):  # fmt: skip
            try:
                while True:
                    yield get(timeout=0)
                    got = True
            except queue.Empty:
                continue
        if not got:
            time.sleep(0.01)

    def run(
        self, code: str, cell: str | None = None, stdin: Stdin = None, timeout: float = DEADLINE
    ) -> Ran:
        """Execute a cell to its end."""
        return self.finish(self.start(code, cell, stdin=stdin is not None), stdin, timeout=timeout)

    def ok(self, code: str, cell: str | None = None, stdin: Stdin = None) -> Ran:
        """Execute a cell that must succeed."""
        ran = self.run(code, cell, stdin)
        assert ran.status == "ok", f"{ran.error}\n{ran.text}"
        return ran

    def interrupt(self) -> None:
        """Interrupt as a front end does."""
        self.manager.interrupt_kernel()

    def kill(self) -> None:
        """kill -9."""
        os.kill(self.pid, signal.SIGKILL)
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.closed = True

    @property
    def pid(self) -> int:
        """The kernel's process id."""
        return int(self.manager.provisioner.pid)

    def close(self) -> None:
        """Shut the kernel down as a front end does."""
        if self.closed:
            return
        self.client.stop_channels()
        self.manager.shutdown_kernel()
        self.closed = True

    # ---- what lies on the disk -------------------------------------------------------------------

    def session(self, name: str = "session.agent.jsonl") -> Session:
        """Return the session as another process reads it."""
        return Session.open(self.folder / name)

    def types(self) -> list[str]:
        """Return the event types of the log in order."""
        return [event.type for event in self.session().events]


@contextmanager
def live(folder: Path, env: dict[str, str], name: str = "agent-kernel") -> Iterator[Live]:
    """A kernel in `folder` for the body."""
    made = Live(folder, env, name)
    try:
        yield made
    finally:
        made.close()


def until(check: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return what `check` gives as soon as it is true. Raises AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"{check} stayed {found!r} for {seconds} s"
        time.sleep(0.02)
    return found


def says(text: str) -> dict[str, Any]:
    """A model answer of one text."""
    return {"content": [{"type": "text", "text": text}]}


def calls(*uses: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    """A model answer that calls tools: (name, input) each."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for at, (name, given) in enumerate(uses):
        seed = json.dumps([name, given, at], sort_keys=True)
        ident = f"toolu_{abs(hash(seed)) % 10**12:012d}{at}"
        blocks.append({"type": "tool_use", "id": ident, "name": name, "input": given})
    return {"content": blocks}


class Script:
    """Answers in order by turn of phrase: `Script(a, b)` gives a, then b, then 'Done.'"""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.at = 0

    def __call__(self, _body: dict[str, Any]) -> dict[str, Any]:
        """Return the next answer, ids made unique by its place."""
        made = self.answers[self.at] if self.at < len(self.answers) else says("Done.")
        made = json.loads(json.dumps(made))
        for block in made["content"]:
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{self.at:03d}_{block['id'][-4:]}"
        self.at += 1
        return made
