"""Bash: one command in a shell of its own; only the working directory carries on, by the log.

May not change the text that was judged, hand secrets to a child, or outlive its own time.
"""

from __future__ import annotations

import codecs
import os
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from agent_kernel.core.events import ToolResultEvent
from agent_kernel.core.messages import Json, blocks_of
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError
from agent_kernel.guard import process
from agent_kernel.guard.sandbox import Sandbox
from agent_kernel.tools import files

CHARS, BYTES = 30_000, 48_000  # of one answer
FAILED_CHARS = 5_000  # of head, and of tail, of a failed command's long output
ERROR_LINES, ERROR_CHARS = 40, 300
BLOB_BYTES = 8 << 20  # a longer output stays in its file
TIMEOUT, LONGEST = 120, 600  # seconds
CWD_SCRIPT = Path(__file__).with_name("bash_cwd.sh")
ERROR_WORDS = re.compile(
    rb"error|exception|traceback|fail|fatal|panic|denied|cannot|undefined|not found|no such|killed",
    re.IGNORECASE,
)

DESCRIPTION = (
    "Run a bash command. The working directory carries on to the next call; variables do not. "
    "stdin is closed; background processes end with the call. Long output is cut, the rest stays "
    "readable. Use the dedicated tool where there is one: read, not cat, head or sed; edit, not "
    "sed or awk; write, not a here-document; glob, not find or ls; grep, not grep or rg; bash for "
    "the rest."
)


class BashInput(Input):
    """Input of `bash`."""

    command: str = Field(min_length=1)
    timeout: int = Field(TIMEOUT, ge=1, le=LONGEST, description="seconds")
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


# ---------------------------------------------------------------- output
@dataclass(frozen=True)
class Output:
    """What a command wrote: its bytes, or with `path` a file that is too big for a blob."""

    data: bytes
    path: Path | None

    def chunks(self) -> Iterator[bytes]:
        """Yield all that was kept, in pieces."""
        if self.path is None:
            yield self.data
            return
        with self.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                yield chunk


def without_mark(data: bytes, mark: bytes) -> tuple[bytes, str | None]:
    """Return output without the shell's last word, and the working directory it told."""
    at = data.rfind(b"\n" + mark)
    if at < 0:
        return data, None
    end = data.find(b"\n", at + 1)
    told = data[at + 1 + len(mark) : end if end >= 0 else len(data)]
    rest = data[end + 1 :] if end >= 0 else b""
    return data[:at] + rest, told.decode("utf-8", "surrogateescape")


def collect(finished: process.Finished, mark: bytes) -> tuple[Output, str | None]:
    """Return the whole output without the mark, from memory or the spill file, and the cwd."""
    spill = finished.spill
    if spill is None:
        gap = finished.total - len(finished.head) - len(finished.tail)
        middle = f"\n[{gap:,} bytes left out]\n".encode() if gap else b""
        data, cwd = without_mark(finished.head + middle + finished.tail, mark)
        return Output(data, None), cwd
    if spill.stat().st_size <= BLOB_BYTES:
        data, cwd = without_mark(spill.read_bytes(), mark)
        spill.unlink()
        return Output(data, None), cwd
    _, cwd = without_mark(finished.tail, mark)
    if cwd is not None:
        size = finished.tail.rfind(b"\n" + mark) - len(finished.tail)
        os.truncate(spill, max(0, min(spill.stat().st_size, finished.total + size)))
    return Output(b"", spill), cwd


def error_lines(chunks: Iterator[bytes], first: int, last: int) -> list[tuple[int, str]]:
    """Return (number, text) of at most 40 lines with an error word between two byte offsets."""
    found: list[tuple[int, str]] = []
    at, number, rest = 0, 1, b""
    for chunk in chunks:
        data = rest + chunk
        cut = data.rfind(b"\n") + 1
        whole, rest = data[:cut], data[cut:]
        counted = 0
        for hit in ERROR_WORDS.finditer(whole):
            begin = whole.rfind(b"\n", 0, hit.start()) + 1
            if begin < counted or not first <= at + begin < last:
                continue
            number += whole.count(b"\n", counted, begin)
            counted = whole.find(b"\n", begin) + 1
            text = whole[begin : min(counted - 1, begin + ERROR_CHARS)]
            found.append((number, text.decode("utf-8", "replace")))
            number += 1
            if len(found) == ERROR_LINES:
                return found
        number += whole.count(b"\n", counted)
        at += cut
    return found


def cut(output: Output, head: bytes, tail: bytes, total: int, failed: bool, where: str) -> str:
    """Return the output for the model: whole when short, else head and tail with errors between."""
    if output.path is None and _fits(text := output.data.decode("utf-8", "replace")):
        return text
    size = FAILED_CHARS if failed else CHARS // 3
    begin = head.decode("utf-8", "replace")[: size if failed else 2 * size]
    begin = begin[: begin.rfind("\n") + 1] or begin
    end = tail.decode("utf-8", "replace")[-size:]
    end = end[end.find("\n") + 1 :] or end
    while not _fits(begin + end):
        begin, end = begin[: len(begin) * 3 // 4], end[len(end) // 4 :]
    first, last = len(begin.encode()), total - len(end.encode())
    notice = f"[{last - first:,} of {total:,} bytes left out; {where}]"
    if failed and (lines := error_lines(output.chunks(), first, last)):
        notice += "\n" + "\n".join(f"{number}: {text}" for number, text in lines)
    return f"{begin.rstrip()}\n{notice}\n{end}"


def _fits(text: str) -> bool:
    return len(text) <= CHARS and len(text.encode("utf-8", "replace")) <= BYTES


# ---------------------------------------------------------------- running
def _live(ctx: ToolContext, mark: bytes) -> Callable[[bytes], None]:
    """What shows output while it comes: decoded piece by piece, the mark left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    hidden = mark.decode()

    def show(chunk: bytes) -> None:
        text = decoder.decode(chunk).partition(hidden)[0]
        if text:
            ctx.progress(text)

    return show


def _spill(ctx: ToolContext) -> Path | None:
    folder = ctx.session.folder
    name = re.sub(r"[^A-Za-z0-9_-]", "_", ctx.call_id)[:80]
    return folder / "tasks" / f"{name}.out" if folder is not None else None


def sandbox_of(ctx: ToolContext) -> Sandbox:
    """Return the sandbox the roof gave: a value, or a function of the call; none by default."""
    given: Any = ctx.services.get("sandbox")
    if given is None:
        return Sandbox()
    made = given(ctx) if callable(given) else given
    assert isinstance(made, Sandbox)
    return made


async def run(value: BashInput, ctx: ToolContext) -> Answer:
    """Run the command to its end, at most `timeout` seconds, and return output and exit code."""
    start = cwd_of(ctx.session, ctx.agent, ctx.workspace)
    note = ""
    if not start.is_dir():
        note = f"[{start} is gone: started in the workspace]\n"
        start = files.root(ctx)
    mark = f"cwd-{secrets.token_hex(8)}:".encode()
    extra = {**ctx.services.get("bash_env", {}), "BASH_ENV": str(CWD_SCRIPT)}
    sandbox = sandbox_of(ctx)
    try:
        finished = await process.run(
            ["bash", "--noprofile", "--norc", "-c", value.command],
            cwd=start,
            timeout=value.timeout,
            env=process.child_env({**extra, "AGENT_KERNEL_MARK": mark.decode()}),
            spill=_spill(ctx),
            on_output=_live(ctx, mark),
            sandbox=sandbox,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"the command could not be started: {error}") from None
    output, told = collect(finished, mark)
    end = Path(told) if told and Path(told).is_dir() else start
    return _answer(value, ctx, finished, output, (start, end), note, sandbox.level)


def _answer(
    value: BashInput,
    ctx: ToolContext,
    finished: process.Finished,
    output: Output,
    moved: tuple[Path, Path],
    note: str,
    sandbox: str,
) -> Answer:
    failed = finished.exit_code != 0 or finished.timed_out
    total = len(output.data) if output.path is None else finished.total
    meta: Json = {
        "command": value.command,
        "exit_code": finished.exit_code,
        "cwd": files.name_of(ctx, moved[1]),
        "seconds": round(finished.seconds, 3),
        "truncated": False,
        "original_bytes": total,
        "sandbox": sandbox,
        "taint": "repo",
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
    if _fits(output.data.decode("utf-8", "replace")):
        return ""
    sha256 = ctx.session.blobs.put(output.data)
    meta |= {"truncated": True, "blob": sha256}
    path = f"blob:{sha256}"
    if ctx.session.blobs.folder is not None:
        path = files.name_of(ctx, Path(os.path.realpath(ctx.session.blobs.path(sha256))))
    return f"read(path={path!r}) has the rest"


def _ending(finished: process.Finished, ctx: ToolContext, moved: tuple[Path, Path]) -> str:
    parts = [finished.ending()]
    if finished.strays:
        parts.append(f"{finished.strays} background processes it left were stopped")
    if finished.trouble:
        parts.append(finished.trouble)
    if moved[0] != moved[1]:
        parts.append(f"now in {files.name_of(ctx, moved[1])}")
    return "; ".join(parts)


BASH = Tool("bash", DESCRIPTION, BashInput, run, spill=False)
