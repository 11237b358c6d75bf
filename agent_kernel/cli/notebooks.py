"""Notebooks: notebook files read and written for the verbs, and the log that stands beside one.

May not follow a path that leaves the notebook's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_kernel.core.files import DISK, write_whole
from agent_kernel.core.messages import Json
from agent_kernel.kernel.notebook import KEY, bare_name


class NotebookError(ValueError):
    """A notebook that cannot be used as asked: names the file, what is wrong and what to do."""


def read_notebook(path: Path) -> Json:
    """Return a notebook file's JSON. Raises NotebookError when it is none."""
    try:
        nb = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotebookError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise NotebookError(f"{str(path)!r} is no notebook: {error}") from None
    if not isinstance(nb, dict) or not isinstance(nb.get("cells"), list):
        raise NotebookError(f"{str(path)!r} is no notebook: it holds no cells")
    return nb


def write_notebook(path: Path, nb: Json) -> None:
    """Write a notebook file in one step, as Jupyter writes it."""
    text = json.dumps(nb, ensure_ascii=False, indent=1) + "\n"
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_whole(DISK, path, text.encode("utf-8", "surrogatepass"), mode)


def sidecar_of(path: Path, nb: Mapping[str, Any]) -> Path:
    """Return the log beside a notebook. Raises NotebookError when its name leaves the folder."""
    told = nb.get("metadata", {}).get(KEY) or {}
    name = told.get("sidecar") or f"{path.stem}.agent.jsonl"
    bare = bare_name(name)
    if bare is None:
        raise NotebookError(f"{path.name!r} names the sidecar {name!r}; only a bare name is used")
    return path.with_name(bare)
