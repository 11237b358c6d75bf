"""Install: the kernelspec of this Python, written where Jupyter finds it.

May not touch any other kernelspec; the wheel ships the same one as a data file.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.resources import files
from pathlib import Path

from agent_kernel.core.messages import Json

NAME = "agent-kernel"
SPEC: Json = {
    "argv": [
        "python",
        "-m",
        "ipykernel_launcher",
        "--IPKernelApp.kernel_class=agent_kernel.kernel.kernel.AgentKernel",
        "-f",
        "{connection_file}",
    ],
    "display_name": "Agent (Python 3)",
    "language": "python",
    "metadata": {"debugger": True},
    "kernel_protocol_version": "5.5",
}


def install(prefix: Path | None = None, *, user: bool = False) -> Path:
    """Write the kernelspec for this interpreter and return its folder.

    `prefix` is an environment's root (default: this one's), `user` the person's own Jupyter folder.
    """
    if user:
        from jupyter_core.paths import jupyter_data_dir

        base = Path(jupyter_data_dir())
    else:
        base = (prefix or Path(sys.prefix)) / "share" / "jupyter"
    folder = base / "kernels" / NAME
    folder.mkdir(parents=True, exist_ok=True)
    spec = {**SPEC, "argv": [sys.executable, *SPEC["argv"][1:]]}
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
    for logo in files("agent_kernel.kernel").joinpath("logos").iterdir():
        with logo.open("rb") as source, (folder / logo.name).open("wb") as target:
            shutil.copyfileobj(source, target)
    return folder
