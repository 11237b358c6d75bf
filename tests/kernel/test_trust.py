"""Trust and plans: what a project's files may do before a yes, after it, and when they change."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.events import HookRun, McpConnected, PermissionMode, PinSet
from tests.kernel.live import Script, calls, says

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(240)]
SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("small")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
server.run()
"""


def project(folder: Path, **more: Any) -> None:
    """Write a project that allows, hooks and serves something."""
    (folder / ".agent_kernel").mkdir(exist_ok=True)
    hook = {"type": "command", "command": "cat >> hooked.json; echo >> hooked.json"}
    moments = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PreCompact", "PostCompact")
    block = {
        "permissions": {
            "allow": ["Bash(touch /src/made)", "Bash(touch made)"],
            "deny": ["Bash(date)"],
        },
        "hooks": {moment: [{"hooks": [hook]}] for moment in moments},
        **more,
    }
    (folder / ".agent_kernel/settings.json").write_text(json.dumps(block))
    (folder / "server.py").write_text(SERVER)
    servers = {"small": {"command": sys.executable, "args": [str(folder / "server.py")]}}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def touch() -> Any:
    return calls(("bash", {"command": "touch made"}))


def test_a_projects_files_widen_only_after_trust_and_not_once_they_changed(
    kernel, serve, tmp_path
) -> None:
    steps = [answer for _ in range(4) for answer in (touch(), says("So."))]
    server = serve(None, Script(*steps))
    project(tmp_path)
    k = kernel(server, XDG_CONFIG_HOME=str(tmp_path / "config"))
    made, hooked = tmp_path / "made", tmp_path / "hooked.json"
    assert "waits for %agent trust" in k.ok("%agent mcp").text
    assert "inert" in k.ok("%agent hooks").text
    k.ok("%%agent\none", "c1")
    assert not made.exists() and not hooked.exists()
    assert "mcp__small" not in server.messages[1].body.decode()

    asked = k.run("%agent trust")  # nobody is there to say yes
    assert "2 allow rules" in asked.error and "cat >> hooked.json" in asked.error
    assert "small" in asked.error
    assert "trusted: " in k.ok("%agent trust --yes").text
    k.ok("%%agent\ntwo", "c2")
    assert made.exists()
    k.run("%agent compact --no-model")
    facts = [json.loads(line) for line in hooked.read_text().splitlines() if line.strip()]
    names = [each["hook_event_name"] for each in facts]
    assert names[:4] == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
    assert names[4:] == ["PreCompact", "PostCompact"]
    assert facts[1]["tool_input"]["command"] == "touch made"
    events = k.session().events
    runs = [e for e in events if isinstance(e, HookRun)]
    assert len(runs) == 6 and not any(e.verdict or e.error for e in runs)
    (state,) = [e for e in events if isinstance(e, McpConnected)]
    assert (state.server, state.status) == ("small", "connected")
    assert "mcp__small__add" in server.messages[3].body.decode()
    assert "mcp__small__add" in k.ok("%agent mcp").text

    made.unlink()
    hooked.unlink()
    project(tmp_path, lsp={})
    k.ok("%%agent\nthree", "c3")
    assert not made.exists() and not hooked.exists()


def test_in_plan_mode_nothing_is_written_until_the_plan_is_approved(
    kernel, serve, tmp_path
) -> None:
    plan = "THE-PLAN: write a.txt, then read it."
    write = ("write", {"path": "a.txt", "content": "made\n"})
    server = serve(
        None,
        Script(
            calls(write),
            calls(("ask", {"question": plan, "kind": "plan"})),
            calls(("ask", {"question": plan, "kind": "plan"})),
            calls(write),
            says("Done."),
            says("Later."),
        ),
    )
    k = kernel(server, AGENT_KERNEL_FRONT_WAIT="0.2")
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return ["check it too", "1", "y"][len(prompts) - 1]

    ran = k.run("%%agent --mode plan\nmake a.txt", "p1", stdin=answer)
    assert ran.status == "ok", ran.error
    first = server.messages[1].body.decode()
    assert "plan" in first.lower() and not k.session().observed("main", "none")
    assert "Plan mode" in server.messages[0].body.decode()
    assert "not approved: check it too" in server.messages[2].body.decode()
    assert "approved: do what the plan says" in server.messages[3].body.decode()
    assert len(prompts) == 3 and "Allow write?" in prompts[2]
    assert (tmp_path / "a.txt").read_text() == "made\n"
    events = k.session().events
    assert [e.mode for e in events if isinstance(e, PermissionMode)] == ["plan", "ask"]
    assert [e.on for e in events if isinstance(e, PinSet)] == [True]
    k.run("%agent compact --no-model")
    k.ok("%%agent\ngo on", "p2")
    assert "THE-PLAN" in server.messages[-1].body.decode()
