#!/usr/bin/env python3
"""Dev: the one door to this repository; needs only python3 and makes everything else itself.

May not hold a rule of the product: it makes `.venv`, installs into it, and runs the verbs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "agent-kernel.stamp"
EXTRAS = "test,jupyter,mcp,lsp,parquet,plots,data,sql,fleet,zstd,pdf"
OLDEST = (3, 11)
OTHER_PYTHONS = ("python3.13", "python3.12", "python3.11", "python3.14")
BAD_MACHINE = 2
INTERRUPTED = 130
# All tests side by side: as many at once as there are cores, four at the most.
ALL_TESTS = ("-n", "auto", "--maxprocesses", "4", "--dist", "worksteal")

CHECKS: dict[str, tuple[str, ...]] = {
    "format": ("-m", "ruff", "format", "--check", "--quiet", "."),
    "lint": ("-m", "ruff", "check", "--quiet", "."),
    "types": ("-m", "mypy"),
    "imports": (
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        "--no-logo",
    ),
    "docs": ("docs/generate.py", "--check"),
}
FIXES: dict[str, tuple[str, ...]] = {
    "format": ("-m", "ruff", "format", "--quiet", "."),
    "lint": ("-m", "ruff", "check", "--fix", "--quiet", "."),
    "docs": ("docs/generate.py", "--write"),
}


def say(text: str) -> None:
    """Prints one line of what dev.py itself does, apart from the output of what it runs."""
    print(f"dev: {text}", flush=True)


def stop(text: str) -> SystemExit:
    """The exit of a machine that lacks something: prints `text` and ends with code 2."""
    print(f"dev: {text}", file=sys.stderr, flush=True)
    return SystemExit(BAD_MACHINE)


def venv_python() -> Path:
    """Where the interpreter of `.venv` stands, whether it is there yet or not."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def new_enough_python() -> str:
    """This interpreter, or another on PATH that is new enough; exits with 2 when none is."""
    if sys.version_info >= OLDEST:
        return sys.executable
    found = next((path for name in OTHER_PYTHONS if (path := shutil.which(name))), None)
    if found is None:
        mine = ".".join(map(str, sys.version_info[:3]))
        raise stop(f"Python {mine} is too old: install Python 3.11 or newer and run this again")
    return found


def make_venv() -> None:
    """Makes `.venv` when it is missing; exits with 2, saying what to install, when it cannot."""
    if venv_python().exists():
        return
    python = new_enough_python()
    if python == sys.executable and not importlib.util.find_spec("ensurepip"):
        raise stop(
            "this Python has no venv module: on Debian and Ubuntu run "
            "`apt-get install python3-venv` as root, then run this again"
        )
    say(f"making .venv with {Path(python).name}")
    made = subprocess.run([python, "-m", "venv", str(VENV)], cwd=ROOT, check=False)
    if made.returncode:
        raise stop(f"{Path(python).name!r} could not make .venv (its words stand above)")


def wanted_stamp() -> str:
    """What `.venv` must hold: a hash of pyproject.toml and of the extras."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + EXTRAS.encode()).hexdigest()


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Holds `lock` while the body runs, so that two runs never install over each other."""
    if os.name == "nt":
        yield
        return
    import fcntl  # noqa: PLC0415  not on Windows

    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def install() -> None:
    """Installs the package, editable, with every extra, once for each state of pyproject.toml."""
    with only_one(VENV / "agent-kernel.lock"):
        if STAMP.exists() and STAMP.read_text() == wanted_stamp():
            return
        say(f"installing agent-kernel[{EXTRAS}] into .venv (once; the first time takes minutes)")
        start = time.monotonic()
        pip = ("-m", "pip", "install", "-qq", "--disable-pip-version-check", "-e")
        if python(*pip, f".[{EXTRAS}]"):
            raise stop("pip could not install the package (its words stand above)")
        STAMP.write_text(wanted_stamp())
        say(f"installed in {time.monotonic() - start:.0f} s")


def python(*args: str) -> int:
    """Runs `.venv`'s python with these arguments in the repository; returns its exit code."""
    path = os.pathsep.join((str(venv_python().parent), os.environ.get("PATH", "")))
    environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(VENV)}
    return subprocess.run(
        [str(venv_python()), *args], cwd=ROOT, env=environment, check=False
    ).returncode


def demo(rest: Sequence[str]) -> int:
    """The first turn, without a key, in JupyterLab; --headless: no browser, prints the HTML."""
    return python("-m", "agent_kernel", "demo", *rest)


def test(rest: Sequence[str]) -> int:
    """The tests: every argument goes to pytest; without one, all of them, side by side."""
    return python("-m", "pytest", *(rest or ALL_TESTS))


def check(rest: Sequence[str]) -> int:
    """Format, lint, types, import contracts, generated docs; --fix mends what a tool can."""
    parser = argparse.ArgumentParser(prog="dev.py check", description=check.__doc__)
    parser.add_argument("--fix", action="store_true", help="format, fix and regenerate first")
    parser.add_argument("only", nargs="*", metavar="STEP", help=f"some of: {' '.join(CHECKS)}")
    options = parser.parse_args(rest)
    if unknown := set(options.only) - set(CHECKS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    names = options.only or list(CHECKS)
    if options.fix:
        for name in filter(FIXES.__contains__, names):
            say(f"fix {name}")
            python(*FIXES[name])
    failed = [name for name in names if not passes(name)]
    say(f"check: {'failed: ' + ', '.join(failed) if failed else 'all green'} ({len(names)} steps)")
    return 1 if failed else 0


def passes(name: str) -> bool:
    """Whether one step of `check` passes; prints its name, verdict and seconds."""
    start = time.monotonic()
    code = python(*CHECKS[name])
    say(f"{name:8} {'FAILED' if code else 'ok':7}{time.monotonic() - start:5.1f} s")
    return code == 0


def bench(rest: Sequence[str]) -> int:
    """The speed tables, measured side by side in one run: names, --repeat N, --json."""
    return python("-m", "bench", *rest)


def long(rest: Sequence[str]) -> int:
    """The long runs of tests/long, resumable: names, --steps N, --minutes M, --seed S, --new."""
    return python("-m", "tests.long", *rest)


def setup(rest: Sequence[str]) -> int:
    """Only makes `.venv` and installs into it, and says where it is."""
    if rest:
        raise stop(f"setup takes no argument, got {rest[0]!r}")
    say(f"ready: {venv_python().relative_to(ROOT)}")
    return 0


VERBS = {verb.__name__: verb for verb in (demo, test, check, bench, long, setup)}


def main(argv: Sequence[str]) -> int:
    """Makes `.venv` ready and runs the verb; returns its exit code, 2 when it could not."""
    parser = argparse.ArgumentParser(
        prog="dev.py",
        description="One door to this repository. Makes .venv when missing, then runs a verb.",
        epilog="\n".join(f"  {name:6} {verb.__doc__}" for name, verb in VERBS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=VERBS, metavar="verb", help="one of: " + " ".join(VERBS))
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="goes to the verb")
    options = parser.parse_args(argv)
    try:
        make_venv()
        install()
        return VERBS[options.verb](options.rest)
    except KeyboardInterrupt:
        say(f"{options.verb}: interrupted")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
