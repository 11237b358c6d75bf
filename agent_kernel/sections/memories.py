"""Memories: small files of `.agent_kernel/memory/`, those that fit the prompt best, ranked.

May not be used before the folder exists; a file is attached once, until it is hidden or changed.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

from agent_kernel.core.prompt import Part, PromptContext, Section

FOLDER = ".agent_kernel/memory"
TOP, FILE, MOST = 5, 4 << 10, 1_000  # files a prompt; bytes of one; files of the folder
NAME = "memories"


async def render(context: PromptContext) -> dict[str, Part]:
    """Return the files that fit the prompt and those attached before, as they are now."""
    lent, session = context.facts.get("lent"), context.facts.get("session")
    folder = context.workspace / FOLDER
    if lent is None or session is None or not folder.is_dir():
        return {}
    start = session.state(context.agent).turn_start
    prefix = f"{NAME}:"
    there = [n.removeprefix(prefix) for n in session.surface(context.agent).sections
             if n.startswith(prefix)]  # fmt: skip
    return await asyncio.to_thread(read, folder, start.text if start else "", there, lent)


def read(folder: Path, prompt: str, there: list[str], lent: Any) -> dict[str, Part]:
    """Return the memory files `there` are and the TOP that fit the prompt, by name."""
    files = found(folder)
    chosen = ranked(files, prompt, lent)[:TOP]
    names = [name for name in there if name in files]
    names += [name for name in chosen if name not in names]
    return {name: Part(files[name], {"path": name}) for name in names}


def found(folder: Path) -> dict[str, str]:
    """Return the memory files by name from the workspace, each cut to 4 KiB, in path order."""
    out: dict[str, str] = {}
    real = os.path.realpath(folder)
    for path in sorted(folder.glob("*.md"))[:MOST]:
        if os.path.realpath(path) != os.path.join(real, path.name):  # noqa: PTH118
            continue  # a link may lead anywhere
        data = path.read_bytes()
        text = data[:FILE].decode("utf-8", "ignore")
        cut = f"\n[{len(data):,} bytes; the first {FILE:,} are here]" if len(data) > FILE else ""
        out[f"{FOLDER}/{path.name}"] = text + cut
    return out


def ranked(files: dict[str, str], prompt: str, lent: Any) -> list[str]:
    """Return the names of the files that share a word with the prompt, best first, ties by
    path."""
    names = list(files)
    documents = []
    for name in names:
        head, body = lent.split(files[name])
        title = f"{head.get('name', '')} {Path(name).stem}"
        documents.append(((title, 3), (str(head.get("description", "")), 2), (body, 1)))
    scores = lent.rank(prompt, documents)
    order = sorted(range(len(names)), key=lambda at: (-scores[at], names[at]))
    return [names[at] for at in order if scores[at] > 0]


# ---- what a person does with them ----------------------------------------------------------------


def add(workspace: Path, text: str, session: Any, day: str | None = None) -> Path:
    """Write a memory file for `text` and return its path; the file names its session and seq.

    Raises ValueError when there is nothing to remember.
    """
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        raise ValueError('nothing to remember; write %agent memory add "TEXT"')
    folder = workspace / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    slug = "-".join(re.findall(r"\w+", first.lower())[:6])[:60] or "memory"
    path = next(p for p in (folder / f"{slug}{n}.md" for n in ("", *range(2, 1_000)))
                if not p.exists())  # fmt: skip
    one_line = " ".join(first.split())[:200].replace('"', "'")
    head = {
        "name": slug,
        "description": f'"{one_line}"',
        "session": session.id or "none",
        "seq": max(session.log.next_seq - 1, 0),
        "day": day or time.strftime("%Y-%m-%d"),
    }
    lines = "\n".join(f"{key}: {value}" for key, value in head.items())
    path.write_text(f"---\n{lines}\n---\n{text.strip()}\n", encoding="utf-8")
    return path


def forget(workspace: Path, name: str) -> Path:
    """Remove a memory file by its name and return where it was. Raises KeyError naming those
    there are."""
    folder = workspace / FOLDER
    stem = name.removesuffix(".md")
    path = folder / f"{stem}.md"
    if "/" in stem or not path.is_file():
        known = ", ".join(p.stem for p in sorted(folder.glob("*.md"))) or "none"
        raise KeyError(f"no memory is called {name!r}; there are: {known}")
    path.unlink()
    return path


MEMORIES = Section(NAME, False, render, kind="memory")
