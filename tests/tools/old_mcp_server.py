"""An MCP server of 2025 by hand, over stdio: it tells a changed list by a plain notification."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"of": {"type": "string"}}}
names = ["grow"]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"serverInfo": {"name": "old", "version": "1"}, "protocolVersion": "2025-06-18"}
        return {**about, "capabilities": {"tools": {"listChanged": True}}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": SCHEMA} for name in names]}
    if method == "tools/call":
        if params["name"] == "grow" and "late" not in names:
            names.append("late")
            send({"method": "notifications/tools/list_changed"})
        said = f"{params['name']} {params.get('arguments', {}).get('of', '')}"
        return {"content": [{"type": "text", "text": said}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = answer(asked["method"], asked.get("params") or {})
    none = {"code": -32601, "message": "Method not found"}
    send({"id": asked["id"], **({"error": none} if result is None else {"result": result})})
