"""Import cost: what a fresh process loads and touches when it imports the package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = [
    "anthropic",
    "pandas",
    "numpy",
    "nbformat",
    "httpx",
    "httpx2",
    "IPython",
    "ipykernel",
    "ipywidgets",
    "anywidget",
    "matplotlib",
    "mcp",
    "duckdb",
    "pyarrow",
    "dask",
]
PUBLIC = ["Agent", "Session", "query", "Log", "tool"]

# The audit hook sees every file opened, process started and socket used, whoever does it.
WATCHED = """
import json, os, sys
touched = []
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND
SEEN = ("socket.", "subprocess.", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate",
        "os.utime", "os.link", "os.symlink", "os.chmod", "os.system", "os.exec", "os.posix_spawn",
        "os.fork", "shutil.", "tempfile.", "sqlite3.")
def watch(name, args):
    if name == "open" and ((isinstance(args[2], int) and args[2] & WRITING)):
        touched.append(f"open {args[0]!r}")
    elif name.startswith(SEEN):
        touched.append(f"{name} {args!r}")
%s
sys.addaudithook(watch)
%s
print(json.dumps({"loaded": sorted(sys.modules), "touched": touched}))
"""


def fresh(statement: str, before: str = "") -> dict[str, list[str]]:
    """What a fresh process has loaded and touched after one statement (`before` is not watched)."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED % (before, statement)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_the_watch_itself_sees_a_write_and_a_socket() -> None:
    seen = fresh("import socket; socket.socket().close(); open(os.devnull, 'w').close()")["touched"]
    assert any("socket" in one for one in seen)
    assert any("open" in one for one in seen)


def test_importing_the_package_loads_no_heavy_package() -> None:
    loaded = fresh("import agent_kernel")["loaded"]
    assert not set(HEAVY) & set(loaded)


def test_importing_the_package_writes_nothing_and_opens_no_connection() -> None:
    assert fresh("import agent_kernel")["touched"] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_loads_no_heavy_package_and_touches_nothing(name: str) -> None:
    seen = fresh(f"from agent_kernel import {name}")
    assert not set(HEAVY) & set(seen["loaded"])
    assert seen["touched"] == []


SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
"""
LATER = [
    "anthropic",
    "pandas",
    "numpy",
    "nbformat",
    "matplotlib",
    "mcp",
    "duckdb",
    "pyarrow",
    "dask",
]


def test_loading_the_extension_writes_nothing_opens_nothing_and_loads_nothing_heavy(
    workspace: Path,
) -> None:
    seen = fresh("shell.run_line_magic('load_ext', 'agent_kernel')", before=SHELL)
    assert "agent_kernel.kernel.extension" in seen["loaded"]
    assert not set(LATER) & set(seen["loaded"])
    assert seen["touched"] == []
    assert not list(workspace.iterdir())


def test_the_status_line_loads_nothing_heavy(workspace: Path) -> None:
    before = f"{SHELL}shell.run_line_magic('load_ext', 'agent_kernel')"
    seen = fresh("shell.run_line_magic('agent', '')", before=before)
    assert not set(LATER) & set(seen["loaded"])
    assert not list(workspace.iterdir())
