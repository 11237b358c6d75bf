"""Shell driver: runs bash texts with every command a stub that writes down its words.

Reads one JSON object {"programs": [[text, status of each stub], ...], "folder": where} and prints,
as JSON, the argvs each text dispatched. It runs alone, inside bubblewrap where that works.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FILES = ("a.py", "b.py", "c d", ".hidden", "in")
# Runs before each text; `builtin` and `command` stay what they are.
STUBS = r"""
ulimit -t 1; ulimit -f 400
command_not_found_handle() {
    builtin local word record="$#|"
    for word; do record+="${#word}:$word"; done
    builtin printf '%s' "${record//$'\n'/$'\x01'}" >&9  # a line end would be a second write
    (( ++ak_calls > 12 )) && builtin exit 0
    [[ $AK_STATUS == any ]] && builtin return $(( RANDOM & 1 ))  # so that loops end
    builtin return "$AK_STATUS"
}
PATH=/no-such-folder
"""
BUILTINS = (
    ". : [ alias bg bind break caller cd compgen complete compopt continue declare dirs disown "
    "echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local "
    "logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt source "
    "suspend test times trap true type typeset ulimit umask unalias unset wait"
).split()


def stubs() -> str:
    """What bash reads first: the handler, and a function of it for every builtin."""
    lines = [f'function {name} {{ command_not_found_handle {name} "$@"; }}' for name in BUILTINS]
    return STUBS + "\n".join(lines) + "\n"


def furnish(place: Path) -> None:
    """Makes the folder a text starts in."""
    place.mkdir()
    for name in FILES:
        (place / name).write_text("x\n")
    (place / "s").mkdir()


def run(text: str, status: str, folder: Path, number: int) -> list[list[str]]:
    """The argvs that bash dispatched for one text."""
    place = folder / str(number)
    furnish(place)
    log = folder / f"{number}.log"
    with log.open("wb") as file:
        os.dup2(file.fileno(), 9)
    environment = {
        "BASH_ENV": str(folder / "stubs.sh"),
        "AK_STATUS": status,
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(folder),
        "PATH": "/no-such-folder",
    }
    words = ["/bin/bash", "--noprofile", "--norc", "-c", text]
    try:
        subprocess.run(
            words,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(9,),
            timeout=10,
            check=False,
        )
    except (subprocess.TimeoutExpired, ValueError):  # ValueError: a NUL cannot be run at all
        return []
    return list(records(log.read_bytes().decode("utf-8", "surrogateescape")))


def records(text: str) -> list[list[str]]:
    """The argvs in a log: a count, then for each word its length and itself."""
    found: list[list[str]] = []
    at = 0
    while at < len(text):
        bar = text.index("|", at)
        count, at = int(text[at:bar]), bar + 1
        words: list[str] = []
        for _ in range(count):
            colon = text.index(":", at)
            size = int(text[at:colon])
            words.append(text[colon + 1 : colon + 1 + size].replace("\x01", "\n"))
            at = colon + 1 + size
        found.append(words)
    return found


def main() -> None:
    asked = json.load(sys.stdin)
    folder = Path(asked["folder"])
    (folder / "stubs.sh").write_text(stubs())
    answers = [
        run(text, status, folder, number) for number, (text, status) in enumerate(asked["programs"])
    ]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
