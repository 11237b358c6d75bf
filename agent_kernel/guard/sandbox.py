"""Sandboxes: what confines a command on this machine, probed once, and the words that apply it.

A sandbox is no verdict: it never turns an ask into an allow.
"""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import agent_kernel.guard.launch as launch

Level = Literal["bubblewrap", "landlock", "none"]
Setting = Literal["auto", "required", "off"]
PROBE_SECONDS = 5.0
_RESOLVER = ("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/shm", "/dev/pts")  # noqa: S108


# Files that make programs run code, at the top of a workspace (guard.md, section 5).
FOLDERS = frozenset({".git", ".github", ".vscode", ".idea", ".claude", ".cursor", ".agent_kernel"})
FILES = (
    *(".git/hooks", ".git/config", ".git/info", ".git/worktrees", ".git/commondir"),
    *(".gitmodules", ".gitattributes", ".envrc", ".mcp.json", ".github/workflows", ".npmrc"),
    *(".pre-commit-config.yaml", "conftest.py", "sitecustomize.py", "usercustomize.py"),
)


def protected_in(workspace: Path) -> tuple[Path, ...]:
    """Return the paths below `workspace` a sandboxed command must not write, made or not yet."""
    names = [*FILES, *sorted(FOLDERS - {".git", ".github"})]
    return tuple(first_missing(workspace / name) for name in names)


def first_missing(path: Path) -> Path:
    """Return `path`, or its highest ancestor that does not exist, which then stands for it."""
    while not os.path.lexists(path.parent):
        path = path.parent
    return path


class SandboxUnavailable(OSError):
    """No sandbox works here although one is required."""


def _programs() -> list[str]:
    """Return the folders of this Python and of this package that a private /tmp would hide."""
    own = Path(__file__).resolve().parents[1]
    hidden = Path("/tmp")  # noqa: S108
    found = [Path(sys.prefix).resolve(), own]
    return [str(path) for path in found if path.is_relative_to(hidden)]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How one command is confined.

    `writable` folders and a private /tmp may be written, `protected` paths inside them may not,
    even when they do not exist yet; no network unless `network`. Level none confines nothing.
    """

    level: Level = "none"
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    network: bool = False

    def command(self, argv: Sequence[str], cwd: Path) -> list[str]:
        """Return the words that run `argv` in `cwd` under this sandbox."""
        if self.level != "bubblewrap":
            return list(argv)
        words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        # A private /tmp; no /run, for a service's socket there would act outside on our behalf.
        words += ["--tmpfs", "/tmp", "--tmpfs", "/run", *_RESOLVER]  # noqa: S108
        for program in _programs():  # an environment made below /tmp stays there to be run
            words += ["--ro-bind", program, program]
        for path in self.writable:
            words += ["--bind", str(path), str(path)]
        for path in self.protected:
            words += ["--ro-bind-try", str(path), str(path)]
        words += ["--unshare-pid", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        words += [] if self.network else ["--unshare-net"]
        return [*words, "--chdir", str(cwd), "--", *argv]

    def landlock_paths(self, cwd: Path) -> list[str] | None:
        """Return the paths Landlock leaves writable, None at any other level."""
        if self.level != "landlock":
            return None
        return [str(path) for path in self.writable] + [*DEVICES, os.environ.get("TMPDIR", "/tmp")]  # noqa: S108

    def gaps(self) -> tuple[str, ...]:
        """Return in words what this level does not confine; empty when nothing is left."""
        if self.level == "none":
            return ("commands run with all your rights: no sandbox",)
        if self.level == "landlock":
            return (
                "protected files inside the workspace can be changed",
                "temporary files are shared with other programs",
                "other processes are visible",
            )
        return ()


# ---------------------------------------------------------------- what works here
@functools.cache
def probe() -> Level:
    """Return the strongest level that really works here; a test run, once a process."""
    if sys.platform != "linux":
        return "none"
    if shutil.which("bwrap") and _runs(Sandbox("bubblewrap").command(["true"], Path("/"))):
        return "bubblewrap"
    return "landlock" if landlock_works() else "none"


@functools.cache
def landlock_works() -> bool:
    """Tell whether Landlock and the socket filter can be applied, tried in a process of its own."""
    if sys.platform != "linux" or launch.landlock_abi() < 1:
        return False
    folder, name = str(Path(launch.__file__).parent), Path(launch.__file__).stem
    code = (
        f"import sys; sys.path.insert(0, {folder!r}); import {name} as launch;"
        f"launch.landlock([], False); launch.deny_sockets()"
    )
    return _runs([sys.executable, "-I", "-S", "-c", code])


def _runs(argv: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def choose(
    setting: Setting,
    *,
    writable: Sequence[Path],
    protected: Sequence[Path] = (),
    network: bool = False,
    level: Level | None = None,
) -> Sandbox:
    """Return the sandbox for a command under the user's `setting`; `level` overrides the probe.

    Raises SandboxUnavailable when one is required and this machine has none: the call is denied.
    """
    if setting == "off":
        return Sandbox()
    found = probe() if level is None else level
    if found == "none" and setting == "required":
        raise SandboxUnavailable(
            "sandbox = required, but neither bubblewrap nor Landlock works here; "
            "install bubblewrap or set sandbox = auto"
        )
    roots = tuple(path.resolve() for path in writable)
    return Sandbox(found, roots, tuple(protected), network)


# ---------------------------------------------------------------- paths that do not exist yet
# bubblewrap can only bind on something that exists, so an empty stand-in is made for the time of
# the command. Its mode tells it from a file of the user's: nobody else makes empty 0400 files.
_FILE_MODE, _FOLDER_MODE = 0o400, 0o500
_stand_ins: dict[Path, int] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def stand_ins(sandbox: Sandbox) -> Iterator[None]:
    """Let every protected path exist while commands run; remove the stand-ins after the last one.

    A missing path becomes an empty folder when its name is in FOLDERS, else an empty file.
    """
    made = _make(sandbox.protected) if sandbox.level == "bubblewrap" else []
    try:
        yield
    finally:
        _remove(made)


def _make(paths: Sequence[Path]) -> list[Path]:
    made: list[Path] = []
    with _lock:
        for path in paths:
            if path not in _stand_ins and (os.path.lexists(path) and not _is_ours(path)):
                continue
            if not os.path.lexists(path):
                if not path.parent.is_dir():
                    continue
                if path.name in FOLDERS:
                    path.mkdir(mode=_FOLDER_MODE)
                else:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE))
            _stand_ins[path] = _stand_ins.get(path, 0) + 1
            made.append(path)
    return made


def _is_ours(path: Path) -> bool:
    """Tell a stand-in that a crash left behind."""
    info = path.lstat()
    mode = info.st_mode & 0o7777
    if path.is_symlink():
        return False
    if path.is_dir():
        return mode == _FOLDER_MODE and not any(path.iterdir())
    return mode == _FILE_MODE and info.st_size == 0


def _remove(made: Sequence[Path]) -> None:
    with _lock:
        for path in made:
            _stand_ins[path] -= 1
            if _stand_ins[path]:
                continue
            del _stand_ins[path]
            if os.path.lexists(path) and _is_ours(path):
                path.rmdir() if path.is_dir() else path.unlink()
