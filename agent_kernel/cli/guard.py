"""Guard verb: the guard asked from outside, one JSON object a line in and out (guard.md §13).

May not execute, fetch or write anything it is asked about; `import --write` writes the settings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_kernel.guard.batch import VERBS
from agent_kernel.guard.claude import import_claude, to_settings
from agent_kernel.guard.render import visible
from agent_kernel.guard.rules import EFFECTS
from agent_kernel.guard.settings import USER_FILE, save


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("what", choices=[*VERBS, "import"])
    parser.add_argument("file", nargs="?", type=Path, help="import: a Claude Code settings.json")
    parser.add_argument("--jsonl", action="store_true", help="read lines from standard input")
    parser.add_argument("--json", action="store_true", help="import: as one JSON object")
    parser.add_argument("--write", action="store_true", help="import: add to your own settings")


def main(args: argparse.Namespace) -> int:
    """Answer each line; return 1 when a line was bad."""
    if args.what == "import":
        return _import(args)
    status = 0
    for line in VERBS[args.what](sys.stdin):
        status = 1 if '"error"' in line and "error" in json.loads(line) else status
        sys.stdout.write(line.rstrip("\n") + "\n")
    return status


def _import(args: argparse.Namespace) -> int:
    try:
        settings = json.loads(args.file.read_text(encoding="utf-8")) if args.file else None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else f"is no JSON: {error}"
        sys.stderr.write(f"agent-kernel guard import: '{args.file}': {why}\n")
        return 2
    if not isinstance(settings, dict):
        sys.stderr.write("agent-kernel guard import: give a settings.json that holds an object\n")
        return 2
    try:
        imported = import_claude(settings)
        made = to_settings(imported)
        written = _write(made) if args.write else ""
    except (OSError, ValueError) as error:
        sys.stderr.write(f"agent-kernel guard import: {error}\n")
        return 2
    if args.json:
        sys.stdout.write(json.dumps(made, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{visible(str(each))}\n" for each in imported)
    if written:
        sys.stderr.write(f"agent-kernel guard import: {written}\n")
    return 0


def _write(made: Mapping[str, Any]) -> str:
    """Add the rules to the person's own settings file, each once; return the line that says it.

    A mode the file already has stays. Raises ValueError when the file is not an object.
    """
    path = Path(USER_FILE).expanduser()
    text = path.read_text(encoding="utf-8") if path.exists() else "{}"
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no JSON ({error}); mend it first") from None
    own = data.setdefault("permissions", {}) if isinstance(data, dict) else None
    if not isinstance(own, dict):
        raise ValueError(f"{str(path)!r} holds no permissions object; mend it first")
    added = 0
    for effect in EFFECTS:
        kept = own.setdefault(effect, [])
        new = [rule for rule in made["permissions"][effect] if rule not in kept]
        kept += new
        added += len(new)
    own.setdefault("mode", made["permissions"].get("mode", "ask"))
    save(str(path), data)
    return f"{added} rules added to {str(path)!r}"
