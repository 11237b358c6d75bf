"""Front ends: a turn in JupyterLab and Notebook 7: streamed, answered by clicks, saved, stepped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from agent_kernel.kernel.install import install
from agent_kernel.kernel.notebook import KEY
from agent_kernel.testing import MessagesServer
from agent_kernel.widgets.turnview import MIME
from tests.browser import views_page
from tests.browser.front import Front, jupyter, write_notebook
from tests.kernel.conftest import env_of
from tests.kernel.live import calls, says

pytestmark = [pytest.mark.browser, pytest.mark.kernel, pytest.mark.timeout(300)]
KINDS = ("lab", "notebook")


class Model:
    """The loopback model: each prompt names what it answers, so that tests share one server."""

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer by the last prompt of a person, then say that all is done."""
        last = body["messages"][-1]["content"]
        if any(block["type"] == "tool_result" for block in last):
            return says("All **done**.")
        text = json.dumps(last)
        if "make it" in text:
            name = re.search(r"make it (\w+)", text)[1]
            return calls(("bash", {"command": f"touch {name}"}), text="I will **make** it.")
        if "sleep" in text:
            return calls(("bash", {"command": "sleep 300"}))
        if "look" in text:
            return calls(("glob", {"pattern": "*.none"}), text="Looking.")
        return says("A long story. " * 60)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[tuple[Path, str, MessagesServer]]:
    """A folder served by Jupyter, its kernels' model a loopback server."""
    install(user=True)
    folder = tmp_path_factory.mktemp("jupyter") / "work"
    folder.mkdir()
    with MessagesServer(None, Model()) as server:
        env = {**env_of(server), "AGENT_KERNEL_FRONT_WAIT": "20"}
        with jupyter(folder, env) as address:
            yield folder, address, server


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """One Chromium for the module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=chromium, args=views_page.ARGS)
        yield found
        found.close()


@pytest.fixture(params=KINDS)
def front(request, place, browser, tmp_path) -> Iterator[Any]:
    """Open a notebook of the given cells in one of the two front ends."""
    folder, address, _server = place
    page = browser.new_page(viewport={"width": 1100, "height": 900})

    def opened(*cells: str) -> Front:
        name = f"{request.param}_{request.node.originalname.removeprefix('test_')}"[:60]
        file = folder / f"{name}.ipynb"
        write_notebook(file, *cells)
        return Front(page, address, request.param, file)

    yield opened
    page.close()


SLOW_MODEL = """
from agent_kernel.kernel import build
from agent_kernel.providers import scripted
build.provider_of = lambda *_, **_more: scripted(["A long **story**. " * 60], delay=0.1)
"""


def test_a_turn_streams_into_its_cell_and_ends_as_a_static_view(front) -> None:
    f = front(SLOW_MODEL, "%%agent\nstory please")
    f.run(0)
    f.start(1)
    live = f.output(1).locator(".ak").first
    expect(live).to_contain_text("A long story.")
    before = len(live.inner_text())
    f.page.wait_for_timeout(1_000)
    assert len(live.inner_text()) > before
    f.done(1)
    expect(f.output(1)).to_contain_text("1 step")
    expect(f.output(1).locator(".ak")).to_have_count(0)
    expect(f.output(1).locator("strong").first).to_have_text("story")


def test_an_approval_is_allowed_by_a_click_while_the_cell_runs(front) -> None:
    f = front("%%agent\nmake it allowed")
    made = f.file.parent / "allowed"
    made.unlink(missing_ok=True)
    f.start(0)
    card = f.output(0).get_by_role("group", name=re.compile("Approval, bash"))
    expect(card).to_contain_text("touch allowed")
    assert not made.exists()
    card.get_by_role("button", name="Allow once").click()
    f.done(0)
    assert made.exists()
    expect(f.output(0)).to_contain_text("All done.")


def test_an_approval_is_denied_by_a_click_and_the_model_reads_why(front, place) -> None:
    server = place[2]
    f = front("%%agent\nmake it denied")
    f.start(0)
    card = f.output(0).get_by_role("group", name=re.compile("Approval, bash"))
    card.get_by_role("textbox").fill("not in this folder")
    card.get_by_role("button", name="Deny").click()
    f.done(0)
    assert not (f.file.parent / "denied").exists()
    assert b"not in this folder" in server.messages[-1].body
    expect(f.output(0)).to_contain_text("denied by you")


def test_the_interrupt_keys_stop_a_running_turn(front) -> None:
    f = front("%agent mode bypass", "%%agent\nsleep now", "print(6 * 7)")
    f.run(0)
    f.start(1)
    expect(f.output(1)).to_contain_text("bash")
    expect(f.output(1)).to_contain_text("running", ignore_case=True)
    f.interrupt()
    f.done(1)
    expect(f.output(1)).to_contain_text("TurnInterrupted")
    expect(f.output(1)).to_contain_text("stopped by you")
    f.run(2)
    expect(f.output(2)).to_contain_text("42")


def test_the_stop_button_stops_a_running_turn(front) -> None:
    f = front("%agent mode bypass", "%%agent\nsleep now")
    f.run(0)
    f.start(1)
    expect(f.output(1)).to_contain_text("Running bash")
    f.output(1).get_by_role("button", name="Stop").click()
    f.done(1)
    expect(f.output(1)).to_contain_text("stopped by you")


def test_a_saved_and_reopened_notebook_still_shows_the_turn(front) -> None:
    f = front("%%agent\nmake it reopened")
    f.start(0)
    f.output(0).get_by_role("button", name="Allow once").click()
    f.done(0)
    saved = f.save()
    (output,) = [o for o in saved["cells"][0]["outputs"] if MIME in o.get("data", {})]
    assert "application/vnd.jupyter.widget-view+json" not in output["data"]
    f.open()
    expect(f.output(0)).to_contain_text("I will make it.")
    expect(f.output(0)).to_contain_text("touch reopened")
    expect(f.output(0)).to_contain_text("All done.")
    expect(f.output(0).locator("strong").first).to_have_text("make")


def test_a_save_writes_session_sidecar_head_and_turns_into_the_metadata(front) -> None:
    f = front("%%agent\ntell me", "%%agent\ntell me more")
    f.run(0)
    f.run(1)
    own = f.save()["metadata"][KEY]
    log = f.file.with_name(f"{f.file.stem}.agent.jsonl")
    assert own["sidecar"] == log.name and log.is_file()
    assert [t["turn"] for t in own["turns"]] == [1, 2]
    last = json.loads(log.read_text().splitlines()[-1])
    assert own["head"] == {"seq": last["seq"], "h": last["h"]}
    assert own["session"] == json.loads(log.read_text().splitlines()[0])["session"]


def test_a_turn_is_stepped_from_other_cells(front) -> None:
    f = front("%%agent --step\nlook around", "%agent step model", "%agent step turn")
    f.run(0)
    expect(f.output(0)).to_contain_text("Next:")
    f.run(1)
    expect(f.output(1)).to_contain_text("glob")
    f.run(2)
    expect(f.output(2)).to_contain_text("All done.")


def test_a_cell_run_again_is_shown_from_the_log(front, place) -> None:
    server = place[2]
    f = front("%%agent\ntell me twice")
    f.run(0)
    sent = len(server.messages)
    f.start(0)
    expect(f.output(0)).to_contain_text("Replayed from the log")
    f.done(0)
    assert len(server.messages) == sent


def test_two_cells_changed_in_the_browser_fork_the_session(front) -> None:
    f = front("%%agent\ntell me a", "%%agent\ntell me b")
    f.run(0)
    f.run(1)
    f.cell(0).locator(".cm-content").click()
    f.page.keyboard.press("Control+End")
    f.page.keyboard.type(" differently")
    f.run(0)
    expect(f.output(0)).to_contain_text("An earlier cell changed")
    expect(f.output(0)).to_contain_text("Turns 2")
