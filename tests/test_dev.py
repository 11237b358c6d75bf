"""Dev: the door opens on a bare machine, says what lacks; long runs go on where they stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import dev
from tests.long import __main__ as long
from tests.test_import_cost import HEAVY

ROOT = Path(__file__).resolve().parent.parent
WITHOUT_VENV = """
import runpy, sys
sys.modules["ensurepip"] = None
sys.argv = ["dev.py", "setup"]
runpy.run_path({path!r}, run_name="__main__")
"""


def copied(place: Path) -> Path:
    """dev.py alone in an empty folder, as on a fresh clone without `.venv`."""
    path = place / "dev.py"
    path.write_text((ROOT / "dev.py").read_text())
    return path


def test_a_python_without_venv_is_told_what_to_install(tmp_path: Path) -> None:
    code = WITHOUT_VENV.format(path=str(copied(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == dev.BAD_MACHINE
    assert "apt-get install python3-venv" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_unknown_verb_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    command = [sys.executable, str(copied(tmp_path)), "tset"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'tset'" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_interrupt_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dev, "install", interrupted)
    assert dev.main(["demo"]) == dev.INTERRUPTED
    assert capsys.readouterr().out == "dev: demo: interrupted\n"


def test_help_describes_every_verb() -> None:
    command = [sys.executable, str(ROOT / "dev.py"), "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name, verb in dev.VERBS.items():
        assert f"  {name:6} {verb.__doc__}" in said


def test_ci_runs_what_dev_knows() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert script.rstrip().endswith("python3 dev.py test")
    assert script.index("python3 dev.py check") < script.index("python3 dev.py test")


def counted(violations: int = 0) -> ModuleType:
    """A long run that counts its steps and remembers which it did."""
    module = ModuleType("counted")
    module.done = []  # type: ignore[attr-defined]

    def run(seed: int, start: int, steps: int, until: float) -> dict[str, int]:
        module.done += range(start, start + steps)
        return {"steps": steps, "violations": violations, "seeds": seed}

    module.run = run  # type: ignore[attr-defined]
    module.SLICE = 4  # type: ignore[attr-defined]
    return module


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test's own."""
    monkeypatch.setattr(long, "STATE", tmp_path / "long")
    return tmp_path / "long"


def test_a_long_run_goes_on_where_it_stopped_and_adds_up(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = counted()
    monkeypatch.setattr(long, "runs", lambda: {"counted": module})
    assert long.main(["--steps", "10", "--seed", "7"]) == 0
    assert long.main(["--steps", "5", "--seed", "7"]) == 0
    assert module.done == list(range(15))
    assert "counted: seed=7 steps=15 violations=0" in capsys.readouterr().out
    assert [p.name for p in state.iterdir()] == ["counted.7.json"]


def test_a_long_run_begins_again_when_told_and_keeps_seeds_apart(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = counted()
    monkeypatch.setattr(long, "runs", lambda: {"counted": module})
    long.main(["--steps", "3"])
    long.main(["--steps", "2", "--seed", "2"])
    long.main(["--steps", "1", "--new"])
    assert module.done == [0, 1, 2, 0, 1, 0]


def test_a_violation_fails_the_long_run(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "runs", lambda: {"counted": counted(violations=1)})
    assert long.main(["--steps", "1"]) == 1


def test_minutes_bound_a_long_run(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "runs", lambda: {"counted": counted()})
    start = time.monotonic()
    assert long.main(["--minutes", "0.005"]) == 0
    assert time.monotonic() - start < 3


def test_dev_installs_every_extra_and_the_linter_knows_every_heavy_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(dev.EXTRAS.split(",")) == set(settings["project"]["optional-dependencies"])
    tidy = settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]
    # httpx is nobody's to import here: anthropic brings httpx2
    assert set(HEAVY) - {"httpx"} <= set(tidy["banned-module-level-imports"])


def test_the_wheel_ships_the_kernelspec_that_install_writes(tmp_path: Path) -> None:
    from agent_kernel.kernel.install import SPEC, install

    shipped = ROOT / "share" / "jupyter" / "kernels" / "agent-kernel"
    assert json.loads((shipped / "kernel.json").read_text()) == SPEC
    written = json.loads((install(tmp_path) / "kernel.json").read_text())
    assert written["argv"][0] == sys.executable
    assert written["argv"][1:] == SPEC["argv"][1:]
