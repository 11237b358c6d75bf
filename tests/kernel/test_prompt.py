"""The prompt of a kernel: sections with all they need, a person's own text last, files on wish."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_kernel import sections, tools
from agent_kernel.core.messages import text_of
from agent_kernel.core.replay import requests
from agent_kernel.core.session import Session
from agent_kernel.kernel.build import Options, built
from agent_kernel.kernel.settings import Settings, SettingsError
from tests.kernel.live import Script, says


def agent_of(folder: Path, **env: str):  # type: ignore[no-untyped-def]
    return built(Session(), Settings(folder, env, folder), Options(), services={}).agent


@pytest.mark.parametrize("given", ["Answer in French.", "own.md"])
def test_a_persons_own_text_is_the_last_static_one(tmp_path: Path, given: str) -> None:
    (tmp_path / "own.md").write_text("Answer in French.")
    agent = agent_of(tmp_path, AGENT_KERNEL_INSTRUCTIONS=given)
    assert [each.name for each in agent.sections][-1] == "instructions"
    asyncio.run(agent.refresh(Session()))
    assert [part.name for part in agent.system] == ["identity", "rules", "instructions"]
    assert agent.system[-1].text == "Answer in French."


def test_without_wishes_sections_and_tools_are_those_of_the_rooms(tmp_path: Path) -> None:
    agent = agent_of(tmp_path)
    assert agent.sections == sections.ALL
    assert [each.name for each in agent.tools] == [each.name for each in tools.ALL]
    assert agent.services["lent"] is tools.LENT


@pytest.mark.parametrize(
    "key,good,bad", [("FILE_REFS", "attach", "atach"), ("DEFER", "auto:10", "auto:0")]
)
def test_settings_of_files_and_deferral_are_read(
    tmp_path: Path, key: str, good: str, bad: str
) -> None:
    name = key.lower()
    assert Settings(tmp_path, {f"AGENT_KERNEL_{key}": good}, tmp_path).get(name) == good
    with pytest.raises(SettingsError, match=name):
        Settings(tmp_path, {f"AGENT_KERNEL_{key}": bad}, tmp_path).get(name)


@pytest.mark.kernel
def test_a_cell_carries_memory_skills_and_the_files_it_names(kernel, serve, tmp_path: Path) -> None:
    for name, text in {
        "AGENTS.md": "Use tabs. @docs/style.md",
        "docs/style.md": "Lines of 100.",
        ".agent_kernel/memory/kerberos.md": "kerberos tickets: run kinit\n",
        ".claude/skills/notes/SKILL.md": "---\nname: notes\ndescription: writes notes\n---\nBODY\n",
        "a.py": "answer = 41\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    server = serve(None, Script(says("41.")))
    k = kernel(server, AGENT_KERNEL_FILE_REFS="attach")
    ran = k.ok("%%agent\nwhat do kerberos and @a.py say, and @none.py?", "c1")
    (_, request), *_ = requests(k.session().events)
    said = "\n".join(text_of(message.content) for message in request.messages)
    for word in ("Use tabs.", "Lines of 100.", "run kinit", "- notes: writes notes", "answer = 41"):
        assert word in said
    assert "BODY" not in said
    assert said.startswith("what do kerberos and @a.py say")
    assert "not attached: none.py" in ran.text
    code = "%%agent\nsee @a"
    k.client.complete(code, len(code))
    reply = k.client.get_shell_msg(timeout=60)
    while reply["msg_type"] != "complete_reply":
        reply = k.client.get_shell_msg(timeout=60)
    assert "@a.py" in reply["content"]["matches"]
