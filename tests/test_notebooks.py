"""The shipped notebooks and the demo: run without a key over real HTTP, and again for nothing."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.cli.demo import ALLOW, notebooks
from agent_kernel.cli.run import run_notebook
from agent_kernel.core.events import ToolDecision, ToolStart
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.providers.demo import demo_server_answer
from agent_kernel.testing import MessagesServer

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300)]
NAMES = sorted(path.name for path in notebooks().glob("*.ipynb"))


def environment(server: MessagesServer) -> dict[str, str]:
    return {
        **os.environ,
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "demo",
        "ANTHROPIC_MODEL": "demo",
        "AGENT_KERNEL_ALLOW": ALLOW,
    }


def words(text: str) -> set[str]:
    """The words of a text."""
    return set(re.findall(r"\w+", text))


def readable(page: str) -> str:
    """What a person can read of a page."""
    shown = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return html.unescape(shown)


def outputs(path: Path) -> list[dict[str, Any]]:
    """The saved views of a notebook that has run: data by MIME type."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    made = [output for cell in cells for output in cell.get("outputs", ())]
    return [output["data"] for output in made if output["output_type"] == "display_data"]


def reads_well_converted(path: Path) -> None:
    """The notebook as a page, without a kernel, says all that its plain views say."""
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter().from_filename(str(path))  # type: ignore[no-untyped-call]
    views, read = outputs(path), words(readable(page))
    for data in views:
        missing = words("".join(data["text/plain"])) - read
        assert not missing
    ours = ["".join(data.get("text/html", "")) for data in views]
    assert page.count('<div class="agent-kernel') == sum(
        one.count('<div class="agent-kernel') for one in ours
    )
    assert "application/vnd.jupyter.widget-view+json" not in page


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_a_second_run_sends_nothing(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(notebooks(), folder)
    with MessagesServer(answer=demo_server_answer) as server:
        status, told = run_notebook(folder / name, environment(server), timeout=120)
        assert (status, told["error"]) == (0, None)
        sent = [recorded.body for recorded in server.messages]
        log = folder / name.replace(".ipynb", ".agent.jsonl")
        if sent:
            session = Session.open(log)
            assert [request.body for _, request in requests(session.events)] == sent
            assert verify(session.events, session.log.loaded.findings).ok
        reads_well_converted(folder / name)
        before = log.read_bytes() if log.exists() else b""
        (folder / "notes.md").write_bytes((notebooks() / "notes.md").read_bytes())
        if name.startswith(("01", "02")):
            status, again = run_notebook(folder / name, environment(server), timeout=120)
            assert (status, again["error"]) == (0, None)
            assert again["replayed"] == again["turns"] == told["turns"]
            assert len(server.messages) == len(sent)
            assert log.read_bytes().startswith(before)


def test_notebook_metadata_names_session_sidecar_head_and_turns(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(notebooks(), folder)
    with MessagesServer(answer=demo_server_answer) as server:
        run_notebook(folder / "01_first_turn.ipynb", environment(server), timeout=120)
    told = json.loads((folder / "01_first_turn.ipynb").read_text())["metadata"]["agent_kernel"]
    session = Session.open(folder / "01_first_turn.agent.jsonl")
    assert told["session"] == session.id
    assert told["sidecar"] == "01_first_turn.agent.jsonl"
    assert told["head"]["h"] == session.log.hash_at(told["head"]["seq"])
    assert [turn["turn"] for turn in told["turns"]] == list(range(1, session.state().turn + 1))


def demo(tmp_path: Path, *words: str) -> tuple[Path, str]:
    command = [sys.executable, "-m", "agent_kernel", "demo", "--headless", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = Path(done.stdout.strip().splitlines()[-1])
    return page, page.read_text(encoding="utf-8")


def test_the_demo_runs_headless_and_prints_its_page_last(tmp_path: Path) -> None:
    _, html = demo(tmp_path)
    assert "24,475.5" in html
    session = Session.open(tmp_path / "01_first_turn.agent.jsonl")
    started = [e for e in session.events if isinstance(e, ToolStart)]
    names = {e.name for e in session.events if e.type == "tool/call"}  # type: ignore[attr-defined]
    denied = [e for e in session.events if isinstance(e, ToolDecision) and e.verdict == "deny"]
    assert len(started) >= 4
    assert {"read", "bash", "python"} <= names
    assert len(denied) == 1
    assert sum(e.type == "step/start" for e in session.events) >= 3


def test_with_another_csv_in_its_place_the_answers_change(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(
        "order,day,region,product,units,price\n1,d,moon,lamp,2,10.25\n2,d,mars,lamp,1,3\n"
        "3,d,venus,lamp,1,14481.66\n"
    )
    _, html = demo(tmp_path / "out", "--data", str(other))
    assert "20.5" in html
    assert "14,481.66" in html
    assert "24,475.5" not in html
