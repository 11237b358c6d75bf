"""Server: the Jupyter server's pre-save hook, which folds the turns of a notebook into its metadata.

May not change anything but the key `agent_kernel`, and never keeps a notebook from being saved.
"""

from __future__ import annotations

from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.kernel.notebook import fold_metadata


def pre_save(model: Json, path: str, contents_manager: Any = None, **_: Any) -> None:
    """Fold the records on the outputs of a notebook that is about to be saved; other files pass."""
    if model.get("type") != "notebook" or not isinstance(model.get("content"), dict):
        return
    try:
        fold_metadata(model["content"])
    except Exception as error:  # noqa: BLE001 - a notebook that cannot be folded is saved as it is
        log = getattr(contents_manager, "log", None)
        if log is not None:
            log.warning("agent_kernel: metadata of %r was not folded: %s", path, error)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Return where Jupyter finds this extension."""
    return [{"module": "agent_kernel.kernel.server"}]


def _load_jupyter_server_extension(app: Any) -> None:
    """Register the hook beside whatever hooks there are."""
    app.contents_manager.register_pre_save_hook(pre_save)
    app.log.info("agent_kernel: turns are folded into notebook metadata on save")
