"""Bash: one command in a shell of its own; only the working directory carries on, by the log.

May not change the text that was judged, hand secrets to a child, or outlive its own time.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

import agent_kernel.tools.bash_task as bash_task
import agent_kernel.tools.files as files
from agent_kernel.core.events import ToolResultEvent
from agent_kernel.core.messages import Json, blocks_of
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import new_task_id
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError
from agent_kernel.guard import process
from agent_kernel.guard.child import TASK_NAME, Child
from agent_kernel.guard.endings import Finished
from agent_kernel.guard.output import Live
from agent_kernel.guard.sandbox import Sandbox
from agent_kernel.tools.bash_output import Output, collect, cut, fits

TIMEOUT, LONGEST = 120, 600  # seconds
CWD_SCRIPT = Path(__file__).with_name("bash_cwd.sh")

DESCRIPTION = (
    "Run a bash command. The working directory carries on to the next call; variables do not. "
    "stdin is closed; what a command leaves behind is stopped. background=true returns a task id "
    "at once and tells you when it ends. Long output is cut, the rest stays readable. Use the "
    "dedicated tool where there is one: read, not cat, head or sed; edit, not sed or awk; write, "
    "not a here-document; glob, not find or ls; grep, not grep or rg; bash for the rest."
)


class BashInput(Input):
    """Input of `bash`."""

    command: str = Field(min_length=1)
    timeout: int = Field(TIMEOUT, ge=1, le=LONGEST, description="seconds")
    background: bool = False
    description: str = Field("", max_length=200, description="5-10 words for the person")


def cwd_of(session: Session, agent: str, workspace: Path) -> Path:
    """Return where the agent's next command starts: where its last one ended, by the log."""
    base = Path(os.path.realpath(workspace))
    for event in reversed(session.events):
        if not isinstance(event, ToolResultEvent) or event.agent != agent:
            continue
        if "command" in event.meta and isinstance(event.meta.get("cwd"), str):
            return base / str(event.meta["cwd"])
    return base


def _live(ctx: ToolContext, mark: bytes) -> Callable[[bytes], None]:
    """What shows output while it comes, decoded, the mark and its folder left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    hidden, over = mark.decode(), False

    def show(chunk: bytes) -> None:
        nonlocal over
        text, found, _ = decoder.decode(chunk).partition(hidden)
        if text and not over:
            ctx.progress(text)
        over = over or bool(found)

    return show


def sandbox_of(ctx: ToolContext) -> Sandbox:
    """Return the sandbox the roof gave: a value, or a function of the call; none by default."""
    given: Any = ctx.services.get("sandbox")
    if given is None:
        return Sandbox()
    made = given(ctx) if callable(given) else given
    assert isinstance(made, Sandbox)
    return made


def start(
    value: BashInput,
    ctx: ToolContext,
    where: Path,
    env: Mapping[str, str],
    spill: Path | None,
    on_output: Callable[[bytes], None] | None,
    eager: bool,
    keep: bool = False,
) -> Child:
    """Start the command. Raises ToolError when the system refuses."""
    extra = {**ctx.services.get("bash_env", {}), **env}
    try:
        return Child.start(
            ["bash", "--noprofile", "--norc", "-c", value.command],
            cwd=where,
            env=process.child_env(extra),
            spill=spill,
            on_output=on_output,
            sandbox=sandbox_of(ctx),
            eager=eager,
            keep=keep,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"the command could not be started: {error}") from None


async def run(value: BashInput, ctx: ToolContext) -> Answer:
    """Run the command to its end, or start it in the background, and return what is known."""
    where = cwd_of(ctx.session, ctx.agent, ctx.workspace)
    note = ""
    if not where.is_dir():
        note = f"[{where} is gone: started in the workspace]\n"
        where = files.root(ctx)
    if value.background:
        return await _behind(value, ctx, where)
    return await _before(value, ctx, where, note)


async def _behind(value: BashInput, ctx: ToolContext, where: Path) -> Answer:
    """Start the command as a task and return at once."""
    tasks = bash_task.tasks_of(ctx)
    bash_task.refuse(ctx)
    task_id, spill = _place(ctx)
    sink = bash_task.Sink()
    keep = spill is not None and bool(ctx.services.get("keep_tasks"))

    def begin() -> Child:
        env = {TASK_NAME: task_id}
        return start(value, ctx, where, env, spill, sink.add, eager=True, keep=keep)

    label = value.description or value.command
    task = bash_task.begin(ctx, tasks, begin, task_id, label, sink)
    return bash_task.launched(task, ctx, _meta(value, ctx, where))


async def _before(value: BashInput, ctx: ToolContext, where: Path, note: str) -> Answer:
    """Run the command to its end; past its time it goes on as a task, or is stopped."""
    mark = f"cwd-{secrets.token_hex(8)}:".encode()
    tasks = None if ctx.headless else ctx.services.get("tasks")
    task_id, spill = _place(ctx)
    sink = bash_task.Sink(Live(asyncio.get_running_loop(), _live(ctx, mark)))
    env = {"BASH_ENV": str(CWD_SCRIPT), "AGENT_KERNEL_MARK": mark.decode(), TASK_NAME: task_id}
    child = start(value, ctx, where, env, spill, sink.add, eager=tasks is not None)
    try:
        finished = await child.wait(value.timeout)
        if finished is None and tasks is not None and bash_task.room(ctx, tasks):
            label = value.description or value.command
            begun = lambda: child  # noqa: E731
            task = bash_task.begin(ctx, tasks, begun, task_id, label, sink, mark, child)
            return bash_task.moved(task, ctx, _meta(value, ctx, where), value.timeout)
        if finished is None:
            finished = replace(await child.stop(), timed_out=True)
    except asyncio.CancelledError:
        await child.stop(process.CANCEL_GRACE)
        raise
    except BaseException:
        child.stop_soon(0.0)
        raise
    sink.flush()
    output, told = collect(finished, mark)
    end = Path(told) if told and Path(told).is_dir() else where
    return _answer(value, ctx, finished, output, (where, end), note)


def _place(ctx: ToolContext) -> tuple[str, Path | None]:
    """A new task's id, and the file its output goes to when the session has a folder."""
    task_id, folder = new_task_id("bash"), ctx.session.folder
    return task_id, folder / "tasks" / f"{task_id}.out" if folder is not None else None


def _meta(value: BashInput, ctx: ToolContext, cwd: Path) -> Json:
    return {
        "command": value.command,
        "cwd": files.name_of(ctx, cwd),
        "sandbox": sandbox_of(ctx).level,
        "taint": "repo",
    }


def _answer(
    value: BashInput,
    ctx: ToolContext,
    finished: Finished,
    output: Output,
    moved: tuple[Path, Path],
    note: str,
) -> Answer:
    failed = finished.exit_code != 0 or finished.timed_out
    total = len(output.data) if output.path is None else finished.total
    meta: Json = {
        **_meta(value, ctx, moved[1]),
        "exit_code": finished.exit_code,
        "seconds": round(finished.seconds, 3),
        "truncated": False,
        "original_bytes": total,
    }
    where = _keep(ctx, output, meta)
    ends = (output.data, output.data) if output.path is None else (finished.head, finished.tail)
    text = note + cut(output, *ends, total, failed, where)
    if text and not text.endswith("\n"):
        text += "\n"
    if finished.timed_out:
        meta["error_kind"] = "timeout"
    text += f"[{_ending(finished, ctx, moved)}]"
    return Answer(blocks_of(text), meta, is_error=failed)


def _keep(ctx: ToolContext, output: Output, meta: Json) -> str:
    """Keep what is too long for the answer; where it is, in words for the model."""
    if output.path is not None:
        meta |= {"truncated": True, "output": files.name_of(ctx, output.path)}
        return f"read(path={meta['output']!r}) has the rest"
    if fits(output.data.decode("utf-8", "replace")):
        return ""
    sha256 = ctx.session.blobs.put(output.data)
    meta |= {"truncated": True, "blob": sha256}
    path = f"blob:{sha256}"
    if ctx.session.blobs.folder is not None:
        path = files.name_of(ctx, Path(os.path.realpath(ctx.session.blobs.path(sha256))))
    return f"read(path={path!r}) has the rest"


def _ending(finished: Finished, ctx: ToolContext, moved: tuple[Path, Path]) -> str:
    parts = [finished.ending()]
    if finished.strays:
        parts.append(f"{finished.strays} background processes it left were stopped")
    if finished.trouble:
        parts.append(finished.trouble)
    if moved[0] != moved[1]:
        parts.append(f"now in {files.name_of(ctx, moved[1])}")
    return "; ".join(parts)


BASH = Tool("bash", DESCRIPTION, BashInput, run, spill=False)
