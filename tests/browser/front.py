"""Front: JupyterLab and Notebook 7 in Chromium, driven as a person drives them.

May not reach into the page's program: it clicks, types and reads.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.kernel.live import PACKAGE

SLOW = 40_000  # milliseconds: a loaded machine is no failure
PATHS = {"lab": "lab/workspaces/{name}/tree/{file}", "notebook": "notebooks/{file}"}


@contextmanager
def jupyter(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """Serve `folder` with both front ends; gives the address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}",
        "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password=",
        f"--ServerApp.root_dir={folder}", "--ServerApp.disable_check_xsrf=True",
    ]  # fmt: skip
    given = {**os.environ, "PYTHONPATH": str(PACKAGE), **env}
    log = folder.parent / f"jupyter-{port}.log"
    with (
        log.open("w") as out,
        subprocess.Popen(command, cwd=folder, env=given, stdout=out, stderr=out) as process,
    ):
        address = f"http://127.0.0.1:{port}"
        try:
            _wait(f"{address}/api", log)
            yield address
        finally:
            process.terminate()


def _wait(url: str, log: Path) -> None:
    end = time.monotonic() + 90
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).read()
            return
        except OSError:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook of code cells for our kernel."""
    made: dict[str, Any] = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {
                "name": "agent-kernel", "display_name": "Agent (Python 3)", "language": "python"
            }
        },
        "cells": [
            {
                "cell_type": "code", "id": f"cell{at}", "source": text, "metadata": {},
                "outputs": [], "execution_count": None,
            }
            for at, text in enumerate(cells)
        ],
    }  # fmt: skip
    path.write_text(json.dumps(made))


class Front:
    """One open notebook in one front end."""

    def __init__(self, page: Page, address: str, kind: str, file: Path) -> None:
        expect.set_options(timeout=SLOW)
        self.page = page
        self.file = file
        self.address = address
        name = re.sub(r"\W", "", file.stem)
        self.url = f"{address}/{PATHS[kind].format(name=name, file=file.name)}"
        page.set_default_timeout(SLOW)
        self.open()

    def open(self) -> None:
        """Open, or open again as after closing the browser, and wait for the kernel."""
        self.page.goto(self.url)
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.idle()

    def idle(self) -> None:
        """Wait until the kernel is idle and the page is connected to it."""
        end = time.monotonic() + SLOW / 1000
        while not self._connected():
            assert time.monotonic() < end, "no idle kernel"
            self.page.wait_for_timeout(100)
        found = self.page.locator(".jp-Notebook-ExecutionIndicator").first
        expect(found).to_have_attribute("data-status", "idle")
        self.page.wait_for_timeout(500)

    def _connected(self) -> bool:
        with urllib.request.urlopen(f"{self.address}/api/sessions", timeout=10) as answer:
            sessions = json.loads(answer.read())
        return any(
            one["path"] == self.file.name
            and one["kernel"]["execution_state"] == "idle"
            and one["kernel"]["connections"] > 0
            for one in sessions
        )

    def cell(self, at: int) -> Locator:
        """Return one cell."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(at)

    def output(self, at: int) -> Locator:
        """Return one cell's output area."""
        return self.cell(at).locator(".jp-Cell-outputArea")

    def start(self, at: int) -> None:
        """Run a cell without waiting for it; a press the page lost while connecting is repeated."""
        prompt = self.cell(at).locator(".jp-InputPrompt")
        before = prompt.inner_text()
        for _ in range(3):
            self.cell(at).locator(".cm-content").click()
            self.page.keyboard.press("Control+Enter")
            for _ in range(25):
                self.page.wait_for_timeout(200)
                if self.output(at).inner_text().strip() or prompt.inner_text() != before:
                    return
        raise AssertionError(f"cell {at} did not start: its prompt stayed {before!r}")

    def run(self, at: int) -> None:
        """Run a cell and wait until it is done."""
        self.start(at)
        self.done(at)

    def done(self, at: int) -> None:
        """Wait until a cell is done."""
        prompt = self.cell(at).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"))

    def interrupt(self) -> None:
        """Press the interrupt keys in command mode."""
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("i")
        self.page.keyboard.press("i")

    def save(self) -> dict[str, Any]:
        """Save and return the notebook as it lies on the disk."""
        before = self.file.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        end = time.monotonic() + 30
        while self.file.stat().st_mtime_ns == before:
            assert time.monotonic() < end, "not saved"
            self.page.wait_for_timeout(100)
        self.page.wait_for_timeout(300)
        return dict(json.loads(self.file.read_text()))
