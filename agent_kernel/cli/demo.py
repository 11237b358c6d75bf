"""Demo verb: the tour, with whatever model is there: by fixed rules over real HTTP without a key.

May not write into the package: it works on a copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import agent_kernel
from agent_kernel.cli.run import run_notebook
from agent_kernel.kernel.build import Options, choice_of
from agent_kernel.kernel.settings import Settings

TOUR = "01_first_turn.ipynb"
# What the tour does is allowed by name; its one write outside these rules is denied on purpose.
ALLOW = '["Python", "Agent", "Edit(notes.md)"]'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--headless", action="store_true", help="no browser: writes the HTML")
    parser.add_argument("--out", type=Path, default=Path(".demo"), help="where the copy is made")
    parser.add_argument("--data", type=Path, help="another CSV in the place of the tour's")
    parser.add_argument("--notebook", default=TOUR, help="another of the shipped notebooks")


def main(args: argparse.Namespace) -> int:
    """Run the tour; headless, the path of the HTML is printed last."""
    source = notebooks()
    if not (source / args.notebook).is_file():
        names = ", ".join(sorted(p.name for p in source.glob("*.ipynb")))
        sys.stderr.write(f"agent-kernel demo: no notebook {args.notebook!r}; there are {names}\n")
        return 2
    copy = copied(source, args.out, args.data)
    choice = choice_of(None, Settings(), Options())
    with server(choice.provider == "demo") as env:
        if env is None:
            sys.stdout.write(f"model: {choice.model} ({choice.why})\n")
        else:
            sys.stdout.write("no key was found: the demo provider answers, by fixed rules\n")
        sys.stdout.flush()
        whole = {**os.environ, **(env or {}), "AGENT_KERNEL_ALLOW": ALLOW}
        if args.headless:
            return headless(copy / args.notebook, whole)
        return lab(copy, args.notebook, whole)


def notebooks() -> Path:
    """Return the folder of the shipped notebooks: in the wheel, else in the tree."""
    inside = Path(agent_kernel.__file__).parent / "notebooks"
    return inside if inside.is_dir() else inside.parent.parent / "notebooks"


def copied(source: Path, out: Path, data: Path | None) -> Path:
    """Copy the notebooks and their data to `out`, without what an earlier run left; return it."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("*.agent*"), *out.glob("*.html")]:
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    keep = shutil.ignore_patterns("*.agent*", ".ipynb_checkpoints", "*.html")
    shutil.copytree(source, out, dirs_exist_ok=True, ignore=keep)
    if data is not None:
        shutil.copyfile(data, out / "data" / "sales.csv")
    return out.absolute()


@contextmanager
def server(needed: bool) -> Iterator[dict[str, str] | None]:
    """Run the loopback Messages API as a process of its own while the tour runs."""
    if not needed:
        yield None
        return
    command = [sys.executable, "-m", "agent_kernel.testing", "--demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            yield {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_MODEL": "demo"}
        finally:
            process.terminate()


def headless(notebook: Path, env: dict[str, str]) -> int:
    """Run the notebook and write its HTML; the path is the last line."""
    from nbconvert import HTMLExporter

    status, told = run_notebook(notebook, env, timeout=300)
    exporter = HTMLExporter()  # type: ignore[no-untyped-call]
    html, _ = exporter.from_filename(str(notebook))
    page = notebook.with_suffix(".html")
    page.write_text(html, encoding="utf-8")
    usage = told["usage"] or {}
    sys.stdout.write(
        f"{told['turns']} turns, {told['steps']} steps, input {usage.get('input')}, output "
        f"{usage.get('output')} tokens, {told['seconds']} s\n"
    )
    if told["error"]:
        sys.stdout.write(f"failed: {told['error']}\n")
    sys.stdout.write(f"{page}\n")
    return status


def lab(folder: Path, notebook: str, env: dict[str, str]) -> int:
    """Open JupyterLab on the copy."""
    command = [sys.executable, "-m", "jupyterlab", str(folder / notebook)]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return subprocess.call(command, env=env, cwd=folder)
