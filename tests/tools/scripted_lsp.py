"""A language server by script: odd capabilities, pushed diagnostics, crashes and silence."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def read() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline():
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(length))
        length = int(line.split(b":")[1])
    return None


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def place(uri: str, line: int, start: int) -> dict[str, Any]:
    at = {"line": line, "character": start}
    return {"uri": uri, "range": {"start": at, "end": at}}


def define(mode: str, lives: int, message: dict[str, Any]) -> None:
    if mode == "crash" or (mode == "crash once" and lives == 0):
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(7)
    if mode == "silent":
        time.sleep(60)
    if mode == "refuse":
        send({"id": message["id"], "error": {"code": -32000, "message": "not today"}})
        return
    where, uri = message["params"]["position"], message["params"]["textDocument"]["uri"]
    send({"id": message["id"], "result": place(uri, where["line"], where["character"])})


def publish(uri: str) -> None:
    found = [{**place(uri, 0, 4), "message": "pushed", "severity": 2}]
    params = {"uri": uri, "diagnostics": found}
    send({"method": "textDocument/publishDiagnostics", "params": params})


def main(mode: str, mark: Path) -> None:
    lives = len(mark.read_text()) if mark.exists() else 0
    mark.write_text("x" * (lives + 1))
    capabilities: dict[str, Any] = {"definitionProvider": True, "referencesProvider": True}
    while (message := read()) is not None:
        method, ident = message.get("method"), message.get("id")
        if method == "initialize":
            send({"id": ident, "result": {"capabilities": capabilities}})
        elif method == "initialized":
            send({"id": "e1", "method": "workspace/applyEdit", "params": {"edit": {}}})
            send({"id": "c1", "method": "workspace/configuration", "params": {"items": [{}, {}]}})
        elif ident in ("e1", "c1"):
            with mark.with_suffix(".answers").open("a") as file:
                file.write(json.dumps(message.get("result")) + "\n")
        elif method == "textDocument/didOpen":
            publish(message["params"]["textDocument"]["uri"])
        elif method == "textDocument/definition":
            define(mode, lives, message)
        elif ident is not None:
            send({"id": ident, "result": None})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
