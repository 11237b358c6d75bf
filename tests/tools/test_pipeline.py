"""Pipeline: look up, validate, hooks, judge, run, hooks, result; any fault is one error."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import compaction
from agent_kernel.core.batch import Judgement
from agent_kernel.core.calling import compact
from agent_kernel.core.events import Event, HookRun, ToolDecision, ToolStart
from agent_kernel.core.hooks import Hook, HookSaid
from agent_kernel.core.messages import Json, ToolUse, text_of
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool, ToolError, tool
from agent_kernel.guard.hook_files import hooks_of
from agent_kernel.kernel.build import Options, built
from agent_kernel.kernel.settings import Settings, SettingsError
from tests.tools.flow import done, flow, parted, result_text, results, said


@tool
async def act(what: str) -> str:
    """Act."""
    if what == "fail":
        raise ToolError("it does not work")
    if what == "wait":
        await asyncio.sleep(60)
    return f"did {what}"


ACT: Tool = act
OTHER = Tool("other", "Act.", ACT.input, ACT.run)
SLOW = Tool("act", "Act.", ACT.input, ACT.run, timeout=0.05)


async def ran(workspace: Path, what: Any, **changes: Any) -> Session:
    """A turn that calls `act` once; `what` is its input, or its argument."""
    given = what if isinstance(what, dict) else {"what": what}
    main = [done(ToolUse("c", "act", given)), *[said("went on")] * 5]
    session, agent = flow(parted(main, {}), workspace, **{"tools": (ACT,), **changes})
    outcome = await query(session, agent, "go")
    assert outcome.answer == "went on"
    assert verify(session.events).ok
    return session


def runs(session: Session, kind: type[Event] = HookRun) -> list[Any]:
    return [event for event in session.events if isinstance(event, kind)]


def hook(moment: Any, run: Any, **more: Any) -> dict[str, Any]:
    return {"hooks": (Hook(moment, "h", run, **more),)}


def broken(_facts: Json) -> HookSaid:
    raise RuntimeError("no such check")


def never(_facts: Json) -> HookSaid:
    raise AssertionError("a hook of another tool")


@pytest.mark.parametrize(
    "what,changes,error_kind,words",
    [
        ("x", {"tools": (OTHER,)}, "unknown_tool", "no tool 'act'"),
        ({"where": 1}, {}, "bad_input", "- what: Field required"),
        ("x", hook("PreToolUse", broken), "denied", "no such check"),
        ("x", hook("PreToolUse", lambda _f: asyncio.sleep(9), timeout=0.05), "denied", "over 0.05"),
        ("x", hook("PreToolUse", lambda _f: HookSaid("deny", "a rule")), "denied", "a rule"),
        ("x", hook("PreToolUse", lambda _f: HookSaid(input={})), "bad_input", "another input"),
        ("x", hook("PreToolUse", lambda _f: HookSaid("ask", "look")), "denied", "nobody is there"),
        ("x", {"permit": lambda *_: Judgement("deny", reason="mode")}, "denied", "mode"),
        ("fail", {}, "tool", "it does not work"),
        ("wait", {"tools": (SLOW,)}, "timeout", "stopped after 0.05 s"),
    ],
)  # fmt: skip
async def test_a_fault_at_any_stage_is_one_error_result_and_the_loop_goes_on(
    workspace: Path, what: Any, changes: dict[str, Any], error_kind: str, words: str
) -> None:
    session = await ran(workspace, what, **changes)
    (one,) = results(session).values()
    assert one.is_error
    assert one.meta["error_kind"] == error_kind
    assert words in text_of(one.content)
    assert bool(runs(session, ToolStart)) == (error_kind in ("tool", "timeout"))


async def test_a_broken_hook_after_the_call_changes_nothing_and_is_logged(workspace: Path) -> None:
    session = await ran(workspace, "x", **hook("PostToolUse", broken))
    assert result_text(session, "c") == "did x"
    (logged,) = runs(session)
    assert (logged.hook, logged.error) == ("PostToolUse:h", "RuntimeError: no such check")


async def test_hooks_add_text_change_input_and_replace_output_and_each_is_logged(
    workspace: Path,
) -> None:
    seen: list[Json] = []

    async def before(facts: Json) -> HookSaid:
        seen.append(facts)
        return HookSaid(text="mind the gap", input={"what": "y"})

    hooks = (
        Hook("PreToolUse", "before", before),
        Hook("PreToolUse", "other", never, matches=lambda name: name == "other"),
        Hook("PostToolUse", "after", lambda f: HookSaid(output=f["tool_response"].upper())),
    )
    session = await ran(workspace, "x", hooks=hooks)
    assert result_text(session, "c") == "DID Y\n[a hook of the person says: mind the gap]"
    assert seen == [{"tool_name": "act", "tool_input": {"what": "x"}, "tool_use_id": "c"}]
    assert [(e.hook, e.id) for e in runs(session)] == [
        ("PreToolUse:before", "c"), ("PostToolUse:after", "c")
    ]  # fmt: skip
    (decision,) = runs(session, ToolDecision)
    assert decision.edited_input == {"what": "y"}


async def test_a_hook_widens_nothing(workspace: Path) -> None:
    """An input a hook gives is judged; what would be asked of it is denied."""

    def permit(_tool: Any, value: Json, _ctx: Any) -> Judgement:
        return Judgement("allow" if value["what"] == "x" else "ask", reason="unknown")

    changes = hook("PreToolUse", lambda _f: HookSaid(input={"what": "rm"}))
    session = await ran(workspace, "x", permit=permit, **changes)
    assert "a hook changed the input" in result_text(session, "c")
    assert runs(session, ToolStart) == []


# ---- Claude Code's settings format ---------------------------------------------------------------

SCRIPT = """#!/bin/sh
cat > "$CLAUDE_PROJECT_DIR/seen-$1.json"
case "$1" in
  deny) echo "not on Mondays" >&2; exit 2;;
  text) echo "remember the tests";;
  json) cat "$CLAUDE_PROJECT_DIR/answer.json";;
  bad) echo "cannot" >&2; exit 3;;
esac
"""


def commands(workspace: Path, **by_moment: Any) -> list[Hook]:
    """Hooks of a settings block: moment = (matcher, argument of the script)."""
    script = workspace / "hook.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    block = {
        moment: [{"matcher": m, "hooks": [{"type": "command", "command": f"./hook.sh {argument}"}]}]
        for moment, (m, argument) in by_moment.items()
    }
    hooks, problems = hooks_of(block, workspace, {"session_id": "s1"})
    assert problems == []
    return hooks


async def test_a_command_that_exits_with_2_denies_in_its_words(workspace: Path) -> None:
    hooks = commands(workspace, PreToolUse=("Bash|Write", "deny"))
    main = [
        done(ToolUse("b", "bash", {"command": "true"}), ToolUse("g", "glob", {"pattern": "*.txt"}),
             ToolUse("w", "write", {"path": "a.txt", "content": "x"})),
        said("ok"),
    ]  # fmt: skip
    session, agent = flow(parted(main, {}), workspace, hooks=hooks)
    await query(session, agent, "go")
    assert result_text(session, "b") == "Denied, nothing was run: not on Mondays"
    assert not results(session)["g"].is_error
    assert not (workspace / "a.txt").exists()
    told = json.loads((workspace / "seen-deny.json").read_text())
    assert (told["tool_name"], told["hook_event_name"]) == ("Write", "PreToolUse")
    assert told["tool_input"]["file_path"] == "a.txt"
    assert told["session_id"] == "s1"
    assert len(runs(session)) == 2


async def test_commands_speak_at_every_moment(workspace: Path) -> None:
    answer = {"hookSpecificOutput": {"additionalContext": "formatted", "updatedToolOutput": "kept"}}
    (workspace / "answer.json").write_text(json.dumps(answer))
    hooks = commands(
        workspace,
        UserPromptSubmit=("", "text"),
        PostToolUse=("*", "json"),
        Stop=("", "deny"),
        PreCompact=("manual", "text"),
        PostCompact=("", "bad"),
    )
    session = await ran(workspace, "x", hooks=hooks, strategies=compaction.ALL)
    first = next(request for _, request in requests(session.events))
    assert "remember the tests" in "\n".join(text_of(m.content) for m in first.messages)
    assert result_text(session, "c") == "kept\n[a hook of the person says: formatted]"
    stops = [e for e in runs(session) if e.hook.startswith("Stop:")]
    assert len(stops) == 3  # it keeps a turn going three times and no more
    _, agent = flow(parted([], {}), workspace, hooks=hooks, strategies=compaction.ALL)
    nodes = session.surface().nodes
    await compact(session, agent, "manual", span=(nodes[0].seq, nodes[-1].seq), use_model=False)
    last = {e.hook.partition(":")[0]: e for e in runs(session)}
    assert {"UserPromptSubmit", "PostToolUse", "Stop", "PreCompact", "PostCompact"} <= set(last)
    assert "exit 3: cannot" in (last["PostCompact"].error or "")


async def test_a_refused_prompt_is_withheld(workspace: Path) -> None:
    hooks = commands(workspace, UserPromptSubmit=("", "deny"))
    session, agent = flow(parted([said("never")], {}), workspace, hooks=hooks)
    outcome = await query(session, agent, "the password is swordfish")
    assert outcome.reason == "refused"
    assert list(requests(session.events)) == []
    assert "swordfish" not in "".join(text_of(n.blocks()) for n in session.surface().nodes)


def test_a_block_of_another_form_is_named_and_the_rest_counts(tmp_path: Path) -> None:
    good = [{"hooks": [{"type": "command", "command": "true"}]}]
    hooks, problems = hooks_of(
        {"PreToolUse": good, "SessionStart": good, "Stop": [{"hooks": [{"type": "prompt"}]}],
         "PostToolUse": [{"matcher": "(", "hooks": [{"command": "true"}]}]}, tmp_path,
    )  # fmt: skip
    assert [each.moment for each in hooks] == ["PreToolUse"]
    assert [each.split(":")[0] for each in problems] == ["SessionStart", "Stop 1", "PostToolUse 1"]
    assert hooks_of([], tmp_path)[1] == ["`hooks` is []; it must be an object"]


def test_only_the_persons_own_file_sets_hooks(tmp_path: Path) -> None:
    block = {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}
    own, project = tmp_path / "home/.config/agent_kernel", tmp_path / "w/.agent_kernel"
    for folder in (own, project):
        folder.mkdir(parents=True)
    (project / "settings.json").write_text(json.dumps({"hooks": block}))
    settings = Settings(tmp_path / "w", {}, tmp_path / "home")
    assert built(Session(), settings, Options(), services={}).agent.hooks == []
    (own / "settings.json").write_text(json.dumps({"hooks": block}))
    settings = Settings(tmp_path / "w", {}, tmp_path / "home")
    assert len(built(Session(), settings, Options(), services={}).agent.hooks) == 1
    (own / "settings.json").write_text('{"hooks": {"Nope": []}}')
    settings = Settings(tmp_path / "w", {}, tmp_path / "home")
    with pytest.raises(SettingsError, match="Nope"):
        built(Session(), settings, Options(), services={})
