"""Write: a new file, or one that was read; never half of it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_kernel.tools.read import READ
from agent_kernel.tools.write import WRITE
from tests.tools.conftest import Bench

KILLED = """
import sys
from agent_kernel.guard import paths
target = paths.resolve("a", sys.argv[1], [sys.argv[1]])
print("ready", flush=True)
while True:
    for fill in b"AB":
        paths.write_target(target, bytes([fill]) * (4 << 20))
"""


async def test_a_new_file_is_made_with_its_folders(bench: Bench) -> None:
    answer = await bench.call(WRITE, path="src/new/a.py", content="x = 1\ny = 2\n")
    assert (bench.workspace / "src/new/a.py").read_bytes() == b"x = 1\ny = 2\n"
    assert answer.content[0].text == "created src/new/a.py (+2 -0 lines)"
    assert answer.meta["diff"] == "+x = 1\n+y = 2"


async def test_writing_over_needs_a_read_and_keeps_mode_and_line_ends(bench: Bench) -> None:
    path = bench.file("a.txt", b"one\r\ntwo\r\n")
    path.chmod(0o640)
    said = await bench.error(WRITE, path="a.txt", content="new\n")
    assert "have not read" in said
    assert path.read_bytes() == b"one\r\ntwo\r\n"
    await bench.text(READ, path="a.txt")
    answer = await bench.call(WRITE, path="a.txt", content="one\nthree\n")
    assert path.read_bytes() == b"one\r\nthree\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (answer.meta["added"], answer.meta["removed"]) == (1, 1)


async def test_the_own_new_file_may_be_written_again(bench: Bench) -> None:
    await bench.text(WRITE, path="a", content="1\n")
    await bench.text(WRITE, path="a", content="2\n")
    assert "already holds" in await bench.text(WRITE, path="a", content="2\n")
    assert bench.kinds().count("file/changed") == 2


async def test_a_file_changed_since_is_refused(bench: Bench) -> None:
    path = bench.file("a", "1\n")
    await bench.text(READ, path="a")
    path.write_text("by a person\n")
    assert "read it again" in await bench.error(WRITE, path="a", content="2\n")
    assert path.read_text() == "by a person\n"


async def test_a_notebook_and_a_folder_are_refused(bench: Bench) -> None:
    (bench.workspace / "d").mkdir()
    assert "notebook tool" in await bench.error(WRITE, path="a.ipynb", content="{}")
    assert "folder" in await bench.error(WRITE, path="d", content="x")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
async def test_a_folder_without_rights_is_an_error_in_words(bench: Bench) -> None:
    (bench.workspace / "d").mkdir(mode=0o500)
    assert "cannot be written" in await bench.error(WRITE, path="d/a", content="x")


def test_a_kill_in_the_middle_leaves_the_old_file_or_the_new(workspace: Path) -> None:
    path = workspace / "a"
    path.write_bytes(b"A" * (4 << 20))
    for delay in (0.01, 0.03, 0.05):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(workspace)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        data = path.read_bytes()
        assert len(data) == 4 << 20
        assert len(set(data)) == 1
