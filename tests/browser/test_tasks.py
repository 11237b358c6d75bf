"""Tasks in JupyterLab: the panel outlives its cell; Detach frees it; a moved turn asks there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from agent_kernel.core.session import Session
from agent_kernel.kernel.install import install
from agent_kernel.testing import MessagesServer
from tests.browser import views_page
from tests.browser.front import Front, jupyter, write_notebook
from tests.kernel.conftest import env_of
from tests.kernel.live import calls, says

pytestmark = [pytest.mark.browser, pytest.mark.kernel, pytest.mark.timeout(300)]
ALLOW = json.dumps(["Agent", "Bash"])


class Model:
    """The loopback model; a child of it waits for the file `go`."""

    def __init__(self) -> None:
        self.at = 0

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer by the conversation's words."""
        said = json.dumps(body["messages"])
        last = json.dumps(body["messages"][-1])
        self.at += 1
        if "CHILD" in json.dumps(body["messages"][0]):
            if "tool_result" in last:
                return says("The child found 42.")
            return calls(("bash", {"command": "until test -e go; do sleep 0.1; done"}))
        if "task-notification" in last:
            return says("The agent says 42.")
        if "make it later" in said and "tool_result" in last:
            return says("All made.")
        if "tool_result" in last:
            return says("It runs.")
        if "spawn" in last:
            made = calls(("agent", {"prompt": "CHILD work", "description": "count things"}))
        else:
            made = calls(("python", {"code": "open('later', 'w').close()"}), text="Now.")
        made["content"][-1]["id"] = f"toolu_{self.at:06d}x"
        return made


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[tuple[Path, str]]:
    """A folder served by JupyterLab, its kernels' model a loopback server."""
    install(user=True)
    folder = tmp_path_factory.mktemp("tasks") / "work"
    folder.mkdir()
    with MessagesServer(None, Model()) as server:
        env = {**env_of(server), "AGENT_KERNEL_FRONT_WAIT": "20", "AGENT_KERNEL_ALLOW": ALLOW}
        with jupyter(folder, env) as address:
            yield folder, address


@pytest.fixture(scope="module")
def page(chromium: str) -> Iterator[Any]:
    """One page of Chromium for the module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=views_page.ARGS)
        yield browser.new_page(viewport={"width": 1100, "height": 900})
        browser.close()


def opened(place: Any, page: Any, name: str, *cells: str) -> Front:
    """Open a notebook of these cells in JupyterLab."""
    file = place[0] / f"{name}.ipynb"
    write_notebook(file, *cells)
    return Front(page, place[1], "lab", file)


def test_detach_frees_the_cell_and_its_panel_goes_on_until_the_agent_ends(place, page) -> None:
    f = opened(place, page, "detach", "%%agent\nspawn one", "6 * 7", "%%agent\nand now")
    f.start(0)
    view = f.output(0)
    expect(view).to_contain_text("Waiting for 1 of 1 task")
    view.get_by_role("button", name="Detach").click()
    f.done(0)
    expect(view).to_contain_text("1 of 1 task running")  # the panel, under the ended cell
    f.run(1)
    expect(f.output(1)).to_contain_text("42")
    (place[0] / "go").touch()
    expect(view).to_contain_text("1 task, none running")
    expect(view).to_contain_text("finished")
    f.run(2)
    expect(f.output(2)).to_contain_text("The agent says 42.")
    session = Session.open(f.file.with_name("detach.agent.jsonl"))
    kinds = [getattr(e, "kind", "") for e in session.events]
    assert kinds.count("notification") == 1
    assert [e.reason for e in session.events if e.type == "turn/end" and e.agent == "main"] == [
        "completed",
        "completed",
    ]


def test_a_moved_turn_asks_and_steers_in_the_panel_after_its_cell_ended(place, page) -> None:
    made = place[0] / "later"
    made.unlink(missing_ok=True)
    f = opened(place, page, "moved", "%%agent\nmake it later", "'still ' + 'here'")
    f.start(0)
    view = f.output(0)
    expect(view).to_contain_text("Run Python in this kernel?")
    view.get_by_role("button", name="Move to background").click()
    f.done(0)
    expect(view).to_contain_text("The turn goes on as task c")
    f.run(1)
    expect(f.output(1)).to_contain_text("still here")
    panel = view.locator(".ak").last
    expect(panel).to_contain_text("Run Python in this kernel?")
    line = panel.get_by_role("textbox", name="Add to this turn")
    line.fill("take this back")
    line.press("Enter")
    expect(panel).to_contain_text("waits to be read: take this back")
    panel.get_by_role("button", name="Remove").click()
    expect(panel).not_to_contain_text("take this back")
    assert not made.exists()
    panel.get_by_role("button", name="Allow once").click()
    expect(view).to_contain_text("All made.")
    assert made.exists()
    session = Session.open(f.file.with_name("moved.agent.jsonl"))
    types = [e.type for e in session.events]
    assert types.count("inbox/dropped") == 1 and "inbox/claimed" not in types
    assert session.state().turn_end.reason == "completed"
