"""Places: the folder the case tables speak of, and a bubblewrap run inside a copy of it."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parent.parent / "cases"
EVIL = "#!/bin/sh\ntouch pwn\n"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one case table."""
    with (CASES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def exists(test: str) -> bool:
    """Whether a test of that name (`path::function`) stands in this repository."""
    path, _, name = test.partition("::")
    file = CASES.parent.parent / path
    return (
        file.is_file()
        and re.search(rf"^(?:async )?def {name}\(", file.read_text(), re.MULTILINE) is not None
    )


def argument(row: dict[str, str]) -> str:
    """The exact input of a row."""
    value: Any = json.loads(row["json"])
    assert isinstance(value, str)
    return value


def build(folder: Path) -> Path:
    """The fixture of guard.md section 1: evil programs, a victim, two repositories."""
    folder.mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / "src").mkdir()
    for name in ("evil", "ls", "sub/evil"):
        (folder / name).write_text(EVIL)
        (folder / name).chmod(0o755)
    (folder / "evil.sed").write_text("1w pwn\n")
    (folder / "evil.awk").write_text('BEGIN{print "x" > "pwn"}\n')
    (folder / "victim").write_text("a line with x\nanother\n")
    (folder / "big").write_text("line\n" * 10_000)
    (folder / "src/a.py").write_text("x = 1\n")
    (folder / "README.md").write_text("# x\n\nfoo\n")
    (folder / "package.json").write_text('{"name": "fixture"}\n')
    for place in (folder, folder / "sub"):
        git(place, "init", "-q")
        git(place, "add", "evil", *(["README.md", "victim"] if place == folder else []))
        git(place, "commit", "-q", "-m", "start")
    (folder / "README.md").write_text("# x\n\nfoo\nchanged x\n")
    git(folder / "sub", "config", "core.fsmonitor", "./evil")
    return folder


def git(folder: Path, *words: str) -> None:
    """Runs git in the folder as nobody in particular."""
    who = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def bubblewrap() -> str | None:
    """The path of bubblewrap when it works here, else None."""
    found = shutil.which("bwrap")
    if found is None:
        return None
    probe = [found, "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "true"]
    return (
        found if subprocess.run(probe, capture_output=True, check=False).returncode == 0 else None
    )


def run_confined(text: str, folder: Path, seconds: float = 5) -> None:
    """Runs the text with bash in `folder`, where it may write and nowhere else."""
    words = [
        *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),
        *("--bind", str(folder), str(folder), "--chdir", str(folder)),
        *("--unshare-pid", "--unshare-net", "--die-with-parent", "--new-session"),
        *("bash", "--noprofile", "--norc", "-c", text),
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
    try:
        subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return  # what it did by then is looked at


def shown(canary: str, folder: Path, inode: int) -> bool:
    """Whether the canary of a row appeared in the folder."""
    victim = folder / "victim"
    if canary == "victim":
        return not victim.exists() or victim.read_text() != "a line with x\nanother\n"
    if canary == "victim-inode":
        return victim.stat().st_ino != inode
    pattern = "pwn" if canary == "1" else canary
    return any(folder.rglob(pattern))
