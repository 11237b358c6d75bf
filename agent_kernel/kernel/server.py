"""Server: the Jupyter server extension whose pre-save hook keeps a notebook's session summary.

May not touch a cell or an output nor stop a save: what it cannot read is left as it is.
"""

from __future__ import annotations

from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.kernel.notebook import KEY, fold_metadata


def fold_before_save(model: Json | None = None, **_: Any) -> None:
    """Fold the metadata of the notebook in `model` just before it is written."""
    content = (model or {}).get("content")
    if (model or {}).get("type") != "notebook" or not isinstance(content, dict):
        return
    folded = fold_metadata(content)
    if folded is not content:
        content["metadata"][KEY] = _as_node(folded["metadata"][KEY], content["metadata"])


def _as_node(value: Json, like: Any) -> Any:
    """Return `value` in the mapping type the notebook uses, nbformat's own where that is loaded."""
    if type(like) is dict:
        return value
    from nbformat import from_dict

    return from_dict(value)  # type: ignore[no-untyped-call]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    """Join the contents manager's pre-save hooks, beside those of others.

    Another extension may put its own manager in the place of this one while all are loaded, as
    jupytext does; so it is looked at again once the server runs.
    """
    known = serverapp.contents_manager
    known.register_pre_save_hook(fold_before_save)

    def again() -> None:
        if serverapp.contents_manager is not known:
            serverapp.contents_manager.register_pre_save_hook(fold_before_save)

    serverapp.io_loop.add_callback(again)


def _jupyter_server_extension_points() -> list[Json]:
    """Return where Jupyter finds this extension."""
    return [{"module": "agent_kernel.kernel.server"}]
