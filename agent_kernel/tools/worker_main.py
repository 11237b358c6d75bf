"""Worker main: runs cells of Python in one lasting namespace, told by lines of JSON.

Runs by path in a process of its own, so it may import nothing but the stdlib; what the code prints
goes to the real stdout and stderr, what is said of it to the descriptor given as first argument.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import contextlib
import inspect
import io
import json
import linecache
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import types
import zlib
from collections.abc import Iterator
from typing import Any

FRAMES = 30  # of a traceback
VALUE_CHARS = 50_000
SMALL = 1 << 20  # bytes: what is larger is told apart by identity and shape alone

Space = dict[str, Any]


# ---------------------------------------------------------------- what names hold
def describe(value: object) -> str:
    """Return what a value is in words: its type and size, never its content."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(n, int) for n in shape):
        return f"{kind} {' × '.join(map(str, shape))}".rstrip()
    if isinstance(value, (str, bytes, list, tuple, dict, set, frozenset)):
        return f"{kind} ({len(value)})"
    return kind


def fingerprint(value: object, whole: bool = False) -> str:
    """Return what changes when the value does: by content if small or `whole`, else by identity."""
    table = sys.modules.get("pandas")
    if table is not None and isinstance(value, (table.DataFrame, table.Series)):
        if whole or value.size < SMALL // 8:
            return f"{list(getattr(value, 'columns', ()))} {_pickled(value)}"
    elif whole or isinstance(value, (str, bytes, int, float, list, tuple, dict, set, bytearray)):
        if whole or sys.getsizeof(value) < SMALL:
            return _pickled(value)
    elif getattr(value, "nbytes", SMALL) < SMALL:
        return _pickled(value)
    return f"{id(value)} {describe(value)}"


def _pickled(value: object) -> str:
    try:
        return str(zlib.crc32(pickle.dumps(value, 5)))
    except Exception:  # noqa: BLE001 - any class may refuse to be pickled, in its own way
        return f"{id(value)} {describe(value)}"


def names(space: Space) -> dict[str, tuple[str, str]]:
    """Return (words, fingerprint) of every name a person would call a variable."""
    return {
        name: (describe(value), fingerprint(value))
        for name, value in list(space.items())
        if not name.startswith("_") and not inspect.ismodule(value)
    }


def changes(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> Space:
    """Return the names that came, changed and went, each with what it is now."""
    return {
        "added": {n: after[n][0] for n in sorted(after.keys() - before.keys())},
        "changed": {
            n: after[n][0] for n in sorted(after.keys() & before.keys()) if after[n] != before[n]
        },
        "removed": sorted(before.keys() - after.keys()),
    }


# ---------------------------------------------------------------- running
def compiled(code: str, name: str) -> tuple[types.CodeType | None, types.CodeType | None]:
    """Return the statements, and the last expression when its value is to be shown."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = ast.parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        shown = tree.body.pop()
        assert isinstance(shown, ast.Expr)
        last = compile(ast.Expression(shown.value), name, "eval", flags=flags)
    body = compile(tree, name, "exec", flags=flags) if tree.body else None
    return body, last


def evaluate(code: types.CodeType, space: Space) -> Any:
    """Run compiled code; one that awaits at its top is run to its end."""
    value = eval(code, space)  # noqa: S307 - running code is what this process is for
    if code.co_flags & inspect.CO_COROUTINE and inspect.iscoroutine(value):
        return asyncio.run(value)
    return value


def cut_trace(error: BaseException) -> str:
    """Return the traceback without our own frames: at most 30, the first 5 and the last 25."""
    made = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in made.stack if frame.filename != __file__]
    if len(frames) > FRAMES:
        left = len(frames) - FRAMES
        gap = traceback.FrameSummary(f"[{left} frames left out]", 0, "…")
        frames = [*frames[:5], gap, *frames[-25:]]
    made.stack = traceback.StackSummary.from_list(frames)
    return "".join(made.format())


def figures() -> list[tuple[str, str]]:
    """Return the open matplotlib figures as PNG in base64, and close them."""
    plots = sys.modules.get("matplotlib.pyplot")
    if plots is None:
        return []
    found = []
    for number in plots.get_fignums():
        picture = io.BytesIO()
        plots.figure(number).savefig(picture, format="png")
        found.append(("image/png", base64.b64encode(picture.getvalue()).decode()))
    plots.close("all")
    return found


@contextlib.contextmanager
def put_back() -> Iterator[None]:
    """Put back afterwards what code may bend: streams, working directory, the interrupt handler."""
    where, out, err = os.getcwd(), sys.stdout, sys.stderr  # noqa: PTH109
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr, out, err):
            with contextlib.suppress(ValueError, OSError, AttributeError):
                stream.flush()
        sys.stdout, sys.stderr = out, err
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if os.getcwd() != where:  # noqa: PTH109
            os.chdir(where)
            err.write(f"[the working directory was put back to {where}]\n")
            err.flush()


def run(code: str, number: int, space: Space) -> Space:
    """Run one cell; what came of it, ready for JSON."""
    name = f"<cell {number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    before, said = names(space), dict[str, Any]()
    began = time.monotonic()
    try:
        with put_back():
            body, last = compiled(code, name)
            if body is not None:
                evaluate(body, space)
            value = evaluate(last, space) if last is not None else None
            if value is not None:
                space["_"] = value
                said["value_text"] = repr(value)[:VALUE_CHARS]
            said["images"] = figures()
    except BaseException as error:  # noqa: BLE001 - SystemExit and interrupts are the cell's too
        said["error"] = f"{type(error).__name__}: {error}"
        said["traceback"] = cut_trace(error)
    said["seconds"] = round(time.monotonic() - began, 3)
    said["namespace_diff"] = changes(before, names(space))
    return said


def watch_parent(parent: int) -> None:
    """End this process when the one that started it is gone, whatever the code is doing."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def main(told: int) -> None:
    """Answer every request line until the end of stdin."""
    os.set_inheritable(told, False)
    requests = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    threading.Thread(target=watch_parent, args=(os.getppid(),), daemon=True).start()
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.path.insert(0, "")
    space = vars(module)
    with os.fdopen(told, "wb", buffering=0) as answers:
        for number, line in enumerate(requests, 1):
            request = json.loads(line)
            guarded = {n: fingerprint(space[n], True) for n in request["protect"] if n in space}
            said = run(request["code"], number, space)
            said["broken"] = [
                n
                for n, was in guarded.items()
                if n not in space or fingerprint(space[n], True) != was
            ]
            answers.write(json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
