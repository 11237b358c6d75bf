"""Hook files: the commands of a settings file's `hooks`, in Claude Code's form, as our hooks.

May not run one of a project nobody trusts: the roof hands over only blocks that count.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast, get_args

from agent_kernel.core.hooks import GATES, Hook, HookSaid, Moment
from agent_kernel.core.messages import Json
from agent_kernel.guard.process import child_env

BLOCKED = 2  # the exit code that denies, with stderr as the reason
TEXT = 10_000  # characters of what a hook says that are kept
SECONDS = 60.0
# Claude Code's names of tools, by ours: its matchers and scripts know those.
NAMES: Final[Mapping[str, str]] = {
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "bash": "Bash",
    "agent": "Task",
    "notebook": "NotebookEdit",
    "todo": "TodoWrite",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "skill": "Skill",
    "ask": "AskUserQuestion",
}
MOMENTS: Final = frozenset(get_args(Moment))


def hooks_of(
    block: Any, folder: Path, about: Mapping[str, str] | None = None
) -> tuple[list[Hook], list[str]]:
    """Return the hooks of a `hooks` object in its order, and what is wrong with the others.

    `folder` is where they run and CLAUDE_PROJECT_DIR; `about` joins the facts they read on stdin.
    """
    if not isinstance(block, Mapping):
        return [], [f"`hooks` is {block!r}; it must be an object"]
    found: list[Hook] = []
    problems: list[str] = []
    for moment, groups in block.items():
        if moment not in MOMENTS:
            problems.append(
                f"{moment}: no such moment here; there are {', '.join(get_args(Moment))}"
            )
            continue
        for n, (matcher, entry) in enumerate(_entries(groups), 1):
            try:
                found.append(_hook(moment, n, matcher, entry, folder, about or {}))
            except (ValueError, TypeError, AttributeError, re.error) as error:
                problems.append(f"{moment} {n}: {error}")
    return found, problems


def _entries(groups: Any) -> Iterator[tuple[str, Any]]:
    for group in groups if isinstance(groups, list) else []:
        for entry in group.get("hooks") or [] if isinstance(group, Mapping) else []:
            yield str(group.get("matcher") or ""), entry


def _hook(
    moment: str, number: int, matcher: str, entry: Any, folder: Path, about: Mapping[str, str]
) -> Hook:
    if entry.get("type", "command") != "command" or not isinstance(entry.get("command"), str):
        raise ValueError("only hooks of type `command` with a `command` run here")
    command, seconds = entry["command"], float(entry.get("timeout") or SECONDS)
    wanted = None if matcher in ("", "*") else re.compile(matcher)

    def matches(subject: str) -> bool:
        names = (subject, NAMES.get(subject, subject))
        return wanted is None or any(wanted.fullmatch(name) for name in names)

    async def run(facts: Json) -> HookSaid:
        given = {**about, "cwd": str(folder), "hook_event_name": moment, **told(facts)}
        return said(cast(Moment, moment), *await _ran(command, given, folder))

    return Hook(cast(Moment, moment), f"{number} {command[:60]}", run, matches, seconds)


def told(facts: Json) -> Json:
    """Return the facts of a moment under Claude Code's names of tools and paths."""
    out = dict(facts)
    if "tool_name" in out:
        out["tool_name"] = NAMES.get(out["tool_name"], out["tool_name"])
    given = out.get("tool_input")
    if isinstance(given, dict) and "path" in given:
        out["tool_input"] = {**given, "file_path": given["path"]}
    return out


async def _ran(command: str, facts: Json, folder: Path) -> tuple[int, str, str]:
    """Run a hook's command with its facts on stdin; return exit code, stdout and stderr."""
    child = await asyncio.create_subprocess_shell(
        command,
        cwd=folder,
        env=child_env({"CLAUDE_PROJECT_DIR": str(folder)}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await child.communicate(json.dumps(facts, ensure_ascii=False).encode())
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    texts = (each.decode("utf-8", "replace").strip()[:TEXT] for each in (out, err))
    return child.returncode or 0, *texts  # type: ignore[return-value]


def said(moment: Moment, code: int, out: str, err: str) -> HookSaid:
    """Return what an ended hook wants: exit 2 denies, JSON on stdout says more, text is added.

    Any other failure of a gate denies too: a check that did not run was not passed.
    """
    if code == BLOCKED:
        return HookSaid("deny", err or "the hook gave no reason")
    if code != 0:
        error = f"exit {code}: {err or out}"[:500]
        return HookSaid(
            "deny" if moment in GATES else None, f"the hook failed, {error}", error=error
        )
    try:
        data = json.loads(out)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        return HookSaid(text=out if moment in ("UserPromptSubmit", "PreCompact") else "")
    return _worded(data)


def _worded(data: Json) -> HookSaid:
    special = data.get("hookSpecificOutput")
    more: Json = special if isinstance(special, dict) else {}
    verdict = more.get("permissionDecision") or data.get("decision")
    denied = verdict in ("deny", "block") or data.get("continue") is False
    reasons = (more.get("permissionDecisionReason"), data.get("reason"), data.get("stopReason"))
    output = more.get("updatedToolOutput") or more.get("updatedMCPToolOutput")
    return HookSaid(
        "deny" if denied else "ask" if verdict == "ask" else None,  # `allow` widens nothing here
        next((str(reason)[:TEXT] for reason in reasons if reason), ""),
        str(more.get("additionalContext") or "")[:TEXT],
        _own(more.get("updatedInput")),
        output if output is None or isinstance(output, str) else json.dumps(output),
    )


def _own(given: Any) -> Json | None:
    """Return an input a hook gives, its paths under our name."""
    if not isinstance(given, dict):
        return None
    out = dict(given)
    if "file_path" in out:
        out["path"] = out.pop("file_path")
    return out
