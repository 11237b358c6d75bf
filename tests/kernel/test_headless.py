"""Headless: nbclient, nbconvert, papermill run an agent notebook; run again, it sends nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from agent_kernel.widgets.turnview import MIME
from tests.kernel.conftest import env_of
from tests.kernel.live import PACKAGE, Script, calls, says

pytestmark = pytest.mark.kernel


def notebook(*cells: str) -> nbformat.NotebookNode:
    """A notebook of these cells for our kernel."""
    spec = {"name": "agent-kernel", "display_name": "Agent (Python 3)", "language": "python"}
    made = new_notebook(metadata={"kernelspec": spec})
    made.cells = [new_code_cell(text) for text in cells]
    return made


def execute(nb: nbformat.NotebookNode, folder: Path, server, **env: str) -> nbformat.NotebookNode:
    """Run a notebook as nbclient does."""
    client = NotebookClient(nb, timeout=60, resources={"metadata": {"path": str(folder)}})
    given = {**os.environ, "PYTHONPATH": str(PACKAGE), **env_of(server), **env}
    return client.execute(env=given)


def turn_of(cell) -> dict:
    """The turn output of a cell, its text and metadata."""
    (found,) = [o for o in cell.outputs if MIME in o.get("data", {})]
    return found


TWO = ("x = 20", "%%agent\nWhat is x?", "%%agent -o answer\nTwice that?", "print(answer)")


def test_nbclient_runs_a_notebook_and_the_second_run_sends_nothing(tmp_path, serve) -> None:
    server = serve(None, Script(says("It is 20."), says("Forty.")))
    nb = execute(notebook(*TWO), tmp_path, server)
    assert "It is 20." in turn_of(nb.cells[1]).data["text/plain"]
    assert nb.cells[3].outputs[0].text.strip() == "Forty."
    assert turn_of(nb.cells[1]).metadata["agent_kernel"]["turn"] == 1
    assert len(server.messages) == 2
    again = execute(notebook(*TWO), tmp_path, server)
    assert len(server.messages) == 2
    assert turn_of(again.cells[1]).metadata["agent_kernel"]["replayed"] is True
    assert again.cells[3].outputs[0].text.strip() == "Forty."
    assert "widgets" not in nb.metadata


def test_a_changed_cell_runs_anew_from_there_on(tmp_path, serve) -> None:
    server = serve(None, Script(says("A"), says("B"), says("C"), says("D")))
    execute(notebook("%%agent\none", "%%agent\ntwo"), tmp_path, server)
    nb = execute(notebook("%%agent\none, changed", "%%agent\ntwo"), tmp_path, server)
    assert len(server.messages) == 4
    assert "D" in turn_of(nb.cells[1]).data["text/plain"]
    execute(notebook("%%agent\none, changed", "%%agent\ntwo"), tmp_path, server)
    assert len(server.messages) == 4


def test_the_policy_replay_fails_a_cell_that_is_not_recorded(tmp_path, serve) -> None:
    server = serve(None, Script(says("A")))
    with pytest.raises(CellExecutionError, match="is not recorded"):
        execute(notebook("%%agent\none"), tmp_path, server, AGENT_KERNEL_NONINTERACTIVE="replay")
    assert not server.messages


def test_a_failed_turn_stops_the_run(tmp_path, serve) -> None:
    server = serve({"scenario": "auth", "replies": [{"fault": "auth"}]})
    with pytest.raises(CellExecutionError, match="TurnFailed"):
        execute(notebook("%%agent\none", "never = 1"), tmp_path, server)


def test_a_turn_is_stepped_from_cells(tmp_path, serve) -> None:
    script = Script(calls(("glob", {"pattern": "*"})), says("Nothing here."))
    steps = ["%agent step model", "%agent step tools", "%agent step turn"]
    nb = execute(notebook("%%agent --step\nLook.", *steps), tmp_path, serve(None, script))
    assert "Next:" in str(nb.cells[0].outputs)
    assert "Nothing here." in str(nb.cells[3].outputs)


def jupyter(*words: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a module as a command in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_nbconvert_executes_and_its_html_reads_well(tmp_path, serve) -> None:
    server = serve(None, Script(says("A **bold** claim & <b>no tag</b>.")))
    nbformat.write(notebook("%%agent\nsay it"), tmp_path / "n.ipynb")
    done = jupyter(
        "jupyter", "nbconvert", "--execute", "--to", "html", "n.ipynb",
        folder=tmp_path, env=env_of(server),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "n.html").read_text()
    assert "<strong>bold</strong>" in page or "<b>bold</b>" in page
    assert "<b>no tag</b>" not in page


def test_papermill_runs_it(tmp_path, serve) -> None:
    server = serve(None, Script(says("From papermill.")))
    nbformat.write(notebook("%%agent\nsay it"), tmp_path / "n.ipynb")
    done = jupyter("papermill", "n.ipynb", "out.ipynb", folder=tmp_path, env=env_of(server))
    assert done.returncode == 0, done.stderr
    out = nbformat.read(tmp_path / "out.ipynb", 4)
    assert "From papermill." in turn_of(out.cells[-1]).data["text/plain"]


def test_the_sidecar_stands_beside_a_notebook_whose_path_is_known(tmp_path, serve) -> None:
    server = serve(None, Script(says("A")))
    path = tmp_path / "deep" / "n.ipynb"
    execute(notebook("%%agent\none"), tmp_path, server, JPY_SESSION_NAME=str(path))
    assert (tmp_path / "deep" / "n.agent.jsonl").is_file()
    first = json.loads((tmp_path / "deep" / "n.agent.jsonl").read_text().splitlines()[0])
    assert first["notebook"] == "n.ipynb"
