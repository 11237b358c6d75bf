"""Record: requests kept in a cassette beside the notebook, and answered from it.

May not send anything: the next turn's provider records or replays.
"""

from __future__ import annotations

import re
from pathlib import Path

from agent_kernel.kernel import build, places
from agent_kernel.kernel.command import Command
from agent_kernel.kernel.parse import UsageError, nearest, parse
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.providers import Cassette
from agent_kernel.providers.cassette import MODES
from agent_kernel.providers.cassette_keys import texts

SESSION = re.compile(r"^session file: .+$", re.MULTILINE)
MORE = {"session": lambda body: texts(body, lambda t: SESSION.sub("session file: [session]", t))}
PLAIN = re.compile(r"[A-Za-z0-9_][\w.-]*")
DOES = {
    "record": "the next turns' requests are sent, and recorded anew in",
    "replay": "no request is sent: each is answered from",
    "auto": "what is recorded is answered, all else is sent and recorded in",
    "refresh": "requests are sent anew; off puts their answers in place of",
}


def record(bench: Workbench, words: list[str]) -> None:
    """Print the cassette in use, or use another in one of its modes; off = none."""
    _given, rest = parse(words, (), most=2)
    if not rest:
        print(_said(bench.cassette))
        return
    mode = next((each for each in MODES if each == rest[0]), None)
    if mode is None:
        raise UsageError(f"record has no mode {rest[0]!r}{nearest(rest[0], MODES)}")
    if bench.running is not None:
        raise UsageError("a turn runs; change the cassette when it has ended")
    path = _path(bench, rest[1] if len(rest) > 1 else "main")
    if mode == "replay" and not path.is_file():
        raise UsageError(f"there is no cassette {path.name!r} to replay; record it first")
    if bench.cassette is not None:
        bench.cassette.finish()
    try:
        made = None if mode == "off" else Cassette(path, mode, more=MORE, report=bench.notice)
    except (OSError, ValueError) as error:
        raise UsageError(f"the cassette cannot be used: {error}") from error
    bench.cassette = made
    print(_said(made))
    choice = build.choice_of(bench.session, bench.settings, build.Options())
    if made is not None and choice.provider == "demo":
        print("the demo answers without requests; choose a model: %agent model ID")


def _path(bench: Workbench, name: str) -> Path:
    """Return the file of a cassette: one folder a notebook, whatever session is open."""
    if not PLAIN.fullmatch(name):
        raise UsageError(f"a cassette cannot be named {name!r}; use letters, digits, '-' and '_'")
    log = places.log_path(bench.notebook, bench.settings.folder)
    return log.with_name(log.name.removesuffix(".jsonl")) / "cassettes" / f"{name}.jsonl"


def _said(cassette: Cassette | None) -> str:
    if cassette is None:
        return "off: requests are sent and not recorded"
    return f"{cassette.mode}: {DOES[cassette.mode]} {cassette.path.name}"


RECORD = (
    Command(
        "record",
        "evidence",
        "[off|record|replay|auto|refresh] [NAME]",
        "keep requests in a cassette, or answer from it",
        record,
    ),
)
