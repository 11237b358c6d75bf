"""Fixtures every test shares: a home, a workspace and a browser of the tests' own.

May not touch the user's files: HOME and every folder Jupyter, IPython and git know are temporary.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# A key or an address of the person who runs the tests must never reach a test.
PRIVATE = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CONFIG_DIR",
    "AGENT_KERNEL_NONINTERACTIVE",
    "PYTHONPATH",
)

settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


def folders_of(home: Path) -> dict[str, str]:
    """The variables that send every tool's files into `home`."""
    return {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "JUPYTER_CONFIG_DIR": str(home / "jupyter/config"),
        "JUPYTER_DATA_DIR": str(home / "jupyter/data"),
        "JUPYTER_RUNTIME_DIR": str(home / "jupyter/runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "jupyter/lab/settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "jupyter/lab/workspaces"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "IPYTHONDIR": str(home / "ipython"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        "MPLBACKEND": "agg",
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def make_home(home: Path) -> dict[str, str]:
    """Makes `home` with a git identity; returns the variables that make it the home."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(
        "[user]\nname = A Tester\nemail = tester@example.invalid\n[init]\ndefaultBranch = main\n"
    )
    return folders_of(home)


@pytest.fixture(scope="session", autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The whole run, and every process it starts, lives in a home of its own, without keys."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in make_home(tmp_path_factory.mktemp("home")).items():
            patch.setenv(name, value)
        for name in PRIVATE:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh, empty home for this test alone (the run's own home is shared by its tests)."""
    place = tmp_path / "home"
    for name, value in make_home(place).items():
        monkeypatch.setenv(name, value)
    return place


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current directory of this test."""
    place = tmp_path / "workspace"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def corpus() -> Path:
    """The folder of real transcripts; skips where it is not: it is no part of the repository."""
    place = SHARED / "corpus"
    if not place.is_dir():
        pytest.skip("no real transcripts beside this repository")
    return place


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; without one the test skips, or fails when AK_REQUIRE_BROWSER=1."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None and os.environ.get("AK_REQUIRE_BROWSER") == "1":
        pytest.fail("AK_REQUIRE_BROWSER=1 but there is no Chromium on PATH: install chromium")
    if found is None:
        pytest.skip("no Chromium on PATH")
    return str(found)
