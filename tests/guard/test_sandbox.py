"""Sandboxes: what a confined command can and cannot touch, with the real ones of this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.guard import sandbox
from agent_kernel.guard.process import Child, Finished, child_env, run
from agent_kernel.guard.sandbox import Level, Sandbox, choose, protected_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux confines, others do not")
ROOT = Path(__file__).resolve().parents[2]
LEVELS: list[Level] = ["bubblewrap", "landlock"]
INET = (
    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))"
)
UNIX = "import socket; socket.socket(socket.AF_UNIX).connect('/run/x.sock')"


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Level:
    found: Level = request.param
    if found == "bubblewrap" and sandbox.probe() != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    if found == "landlock" and not sandbox.landlock_works():
        pytest.skip("Landlock does not work here")
    return found


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that is in no workspace and in no temporary folder of a sandbox."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        yield Path(place)


async def confined(text: str, cwd: Path, level: Level, *, network: bool = False) -> Finished:
    box = choose("auto", writable=[cwd], protected=protected_in(cwd), network=network, level=level)
    return await run(["bash", "-c", text], cwd=cwd, timeout=20, env=child_env(), sandbox=box)


async def test_it_writes_in_the_workspace_and_temp_only(
    workspace: Path, outside: Path, level: Level
) -> None:
    text = f"echo a > in; echo b > /tmp/ak-$$ && rm /tmp/ak-$$ && echo temp; echo c > {outside}/c"
    done = await confined(text, workspace, level)
    assert (workspace / "in").read_text() == "a\n"
    assert done.head.startswith(b"temp\n")
    assert not list(outside.iterdir())
    assert done.exit_code != 0


async def test_it_cannot_delete_or_rename_outside(
    workspace: Path, outside: Path, level: Level
) -> None:
    (outside / "kept").write_text("x")
    text = f"rm -f {outside}/kept; mv {outside}/kept {outside}/moved; truncate -s 0 {outside}/kept"
    await confined(text, workspace, level)
    assert (outside / "kept").read_text() == "x"


async def test_it_has_no_network_unless_granted(workspace: Path, level: Level) -> None:
    done = await confined(f'{sys.executable} -c "{INET}" 2>&1 | tail -1', workspace, level)
    assert b"Error" in done.head
    text = f"{sys.executable} -c 'import socket; socket.socket(socket.AF_INET); print(1)'"
    done = await confined(text, workspace, level, network=True)
    assert done.head == b"1\n"


async def test_it_cannot_signal_processes_outside(workspace: Path, level: Level) -> None:
    other = Child.start(["sleep", "86601"], cwd=workspace, env=child_env())
    await confined(f"kill -9 {other.pid}; kill -9 {os.getppid()} 2>&1", workspace, level)
    if level == "bubblewrap":
        assert other.status() == "running"
    await other.stop(0)


async def test_services_behind_sockets_are_out_of_reach(workspace: Path, level: Level) -> None:
    done = await confined(f'{sys.executable} -c "{UNIX}" 2>&1 | tail -1', workspace, level)
    assert b"Error" in done.head


async def test_nothing_of_it_lives_after_a_stop(workspace: Path, level: Level) -> None:
    box = choose("auto", writable=[workspace], level=level)
    text = "(setsid sleep 86602 &); trap '' TERM; sleep 86602; sleep 86602"
    child = Child.start(["bash", "-c", text], cwd=workspace, env=child_env(), sandbox=box)
    await asyncio.sleep(0.5)
    done = await child.stop(0.2)
    assert done.stopped
    listed = await run(["ps", "-eo", "stat,args"], cwd="/", timeout=10, env=child_env())
    assert not [
        x for x in listed.text()[0].splitlines() if x.endswith("sleep 86602") and x[0] != "Z"
    ]


async def test_protected_paths_are_read_only_even_when_missing(workspace: Path) -> None:
    if sandbox.probe() != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / ".envrc").write_text("kept\n")
    tries = [
        ".git/hooks/pre-commit",
        ".git/config",
        ".envrc",
        ".vscode/x",
        "conftest.py",
        ".mcp.json",
    ]
    text = "; ".join(f"mkdir -p $(dirname {t}); echo evil > {t}" for t in tries)
    await confined(f"{text}; echo fine > README.md", workspace, "bubblewrap")
    assert (workspace / "README.md").read_text() == "fine\n"
    assert (workspace / ".envrc").read_text() == "kept\n"
    assert sorted(path.name for path in workspace.iterdir()) == [".envrc", ".git", "README.md"]
    assert sorted(path.name for path in (workspace / ".git").iterdir()) == ["hooks"]


async def test_stand_ins_stay_until_the_last_command_ends(workspace: Path) -> None:
    if sandbox.probe() != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    long = asyncio.ensure_future(
        confined(
            "while [ ! -e go ]; do sleep 0.02; done; echo evil > .envrc", workspace, "bubblewrap"
        )
    )
    await asyncio.sleep(0.3)
    await confined("true", workspace, "bubblewrap")
    assert (workspace / ".envrc").exists()
    (workspace / "go").touch()
    assert (await long).exit_code != 0
    assert not (workspace / ".envrc").exists()


def test_a_stand_in_left_by_a_crash_is_taken_for_one(workspace: Path) -> None:
    box = Sandbox("bubblewrap", (workspace,), (workspace / ".envrc", workspace / ".vscode"))
    (workspace / ".envrc").touch(0o400)
    (workspace / ".vscode").mkdir(0o500)
    with sandbox.stand_ins(box):
        assert (workspace / ".envrc").exists()
    assert not list(workspace.iterdir())


def test_what_the_user_wrote_is_never_removed(workspace: Path) -> None:
    box = Sandbox("bubblewrap", (workspace,), (workspace / ".envrc", workspace / ".npmrc"))
    (workspace / ".envrc").write_text("")
    with sandbox.stand_ins(box):
        (workspace / ".npmrc").chmod(0o600)
        (workspace / ".npmrc").write_text("written meanwhile")
    assert sorted(path.name for path in workspace.iterdir()) == [".envrc", ".npmrc"]


CLONE = """
import asyncio, sys
from pathlib import Path
from agent_kernel.guard.process import child_env, run
from agent_kernel.guard.sandbox import choose, protected_in
work = Path(sys.argv[1])
box = choose("auto", writable=[work], protected=protected_in(work), level=sys.argv[2])
words = [sys.executable, "-c", "open('made', 'w').write('x'); print('ran')"]
done = asyncio.run(run(words, cwd=work, timeout=20, env=child_env(), sandbox=box))
print(done.text()[0].strip(), done.exit_code)
"""


def test_an_interpreter_of_a_clone_below_tmp_runs_inside(level: Level) -> None:
    """As in a fresh clone: workspace and environment both lie in the folder that is private."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        work = Path(place) / "clone"
        work.mkdir()
        venv.create(work / ".venv", symlinks=True)
        path = os.pathsep.join([str(ROOT), *(p for p in sys.path if p.endswith("site-packages"))])
        done = subprocess.run(
            [work / ".venv/bin/python", "-c", CLONE, work, level],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.strip() == "ran 0", done.stdout + done.stderr
        assert (work / "made").exists()


def test_required_never_falls_back() -> None:
    with pytest.raises(sandbox.SandboxUnavailable, match="install bubblewrap"):
        choose("required", writable=[], level="none")
    assert choose("auto", writable=[], level="none").gaps() == Sandbox().gaps()
    assert choose("off", writable=[]).level == "none"
    assert "no sandbox" in Sandbox().gaps()[0]
    assert Sandbox("bubblewrap").gaps() == ()
