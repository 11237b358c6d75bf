"""Walk-through: the page that adds a tool is followed in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "add_a_tool.md").read_text(encoding="utf-8")
FILE = re.compile(r"\*\*The file\*\*, `(?P<path>[^`]+)`:\n\n```python\n(?P<text>.*?)```", re.DOTALL)
LINE = re.compile(r"\*\*The line\*\* in `(?P<path>[^`]+)`.*?```text\n(?P<text>.*?)```", re.DOTALL)

SHOWS = """
import asyncio, json
from agent_kernel import Agent, Session, query
from agent_kernel.core.messages import ToolUse
from agent_kernel.providers.scripted import scripted
from agent_kernel.tools import ALL
call = ToolUse("call_1", "words", {"text": "one two"})
agent = Agent(scripted([call, "done"]), "scripted", tools=ALL)
session = Session()
asyncio.run(query(session, agent, "count"))
result = next(e for e in session.log.events if e.type == "tool/result")
print(json.dumps({"tools": [t.name for t in ALL], "result": result.content[0].text}))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and of the tests that hold its rooms."""
    ours = ("agent_kernel", "tests/test_rooms.py", "tests/__init__.py", "pyproject.toml")
    for name in ours:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    return tmp_path


def run(place: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Python in the copy, which comes before the installed package."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def add_the_file(place: Path) -> None:
    """The page's first step."""
    step = FILE.search(PAGE)
    assert step
    (place / step["path"]).write_text(step["text"])


def add_the_line(place: Path) -> None:
    """The page's second step: the import, and the line under the one the page shows before it."""
    step = LINE.search(PAGE)
    assert step
    opening, line = step["text"].splitlines()
    path = place / step["path"]
    text = path.read_text()
    assert text.count(opening) == 1
    text = text.replace("from agent_kernel.tools.write", f"{IMPORT}\nfrom agent_kernel.tools.write")
    path.write_text(text.replace(opening, f"{opening}\n{line}"))


IMPORT = "from agent_kernel.tools.words import WORDS"


def test_one_file_and_one_line_make_a_tool_the_loop_runs(copy: Path) -> None:
    add_the_file(copy)
    add_the_line(copy)
    done = run(copy, "-c", SHOWS)
    assert done.returncode == 0, done.stderr
    assert '"result": "2 words in 1 lines"' in done.stdout
    assert '"tools": ["words", "read"' in done.stdout


def test_a_file_without_its_line_fails_the_rooms_test(copy: Path) -> None:
    add_the_file(copy)
    rooms = ("-m", "pytest", "tests/test_rooms.py", "-q", "-p", "no:cacheprovider", "-k")
    rule = "has_its_line and tools"
    without = run(copy, *rooms, rule)
    assert without.returncode == 1, without.stdout
    assert "no line in tools.ALL and used by no other file: ['tools/words.py']" in without.stdout
    add_the_line(copy)
    assert run(copy, *rooms, rule).returncode == 0
