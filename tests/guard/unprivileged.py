"""Unprivileged: a program of ours run as a user with no rights, for limits that spare root.

Run as `python unprivileged.py FOLDER NAME`; it imports as it is started, then gives up its rights.
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

from agent_kernel.guard import child, launch, process

UID = 54_321  # nobody else's on any machine we know: its processes are all ours
BOMB = "bomb() { bomb | bomb & }; bomb; sleep 30"


def drop(folder: Path) -> None:
    """Become the user UID, with an interpreter and a launcher that this user may read."""
    if os.getuid() != 0:
        return
    launcher = folder / "launch.py"
    shutil.copy(child.LAUNCHER, launcher)
    folder.chmod(0o777)
    launcher.chmod(0o644)
    child.LAUNCHER = launcher
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)
    if not os.access(sys.executable, os.X_OK):
        sys.executable = next(
            path
            for name in ("python3.13", "python3.12", "python3.11", "python3")
            for path in [shutil.which(name, path="/usr/bin:/usr/local/bin:/bin")]
            if path
        )


async def bomb(folder: Path) -> dict[str, object]:
    """A fork bomb under a limit of 64 processes, stopped after a second."""
    done = await process.run(
        ["bash", "-c", BOMB],
        cwd=folder,
        timeout=1,
        env=process.child_env(),
        limits=process.Limits(processes=64),
    )
    left = [pid for pid in launch.pids() if owner(pid) == os.getuid() != 0]
    text, _ = done.text()
    return {
        "timed_out": done.timed_out,
        "seconds": done.seconds,
        "left": len(left) - 1,
        "limited": "Resource temporarily unavailable" in text,
    }


def owner(pid: int) -> int | None:
    """The user a process belongs to."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    place = Path(sys.argv[1])
    drop(place)
    print(json.dumps(asyncio.run(bomb(place))))
