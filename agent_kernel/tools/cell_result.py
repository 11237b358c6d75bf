"""Cell result: what one run of Python gave, whoever ran it: the live kernel or a worker.

May not run anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_kernel.core.messages import Json


@dataclass(frozen=True)
class CellResult:
    """What one run of Python gave.

    `images` are (media type, bytes); `error` is `Name: text`, None when there was none; `seconds`
    of running; `namespace_diff` is {"added": {name: words}, "changed": {name: words}, "removed":
    [name]}: what names are now, never their values.
    """

    stdout: str = ""
    stderr: str = ""
    value_text: str | None = None
    images: tuple[tuple[str, bytes], ...] = ()
    error: str | None = None
    traceback: str = ""
    seconds: float = 0.0
    namespace_diff: Json = field(default_factory=dict)
