"""The text run is the text judged: nothing of our environment changes how bash reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_kernel.guard.process import child_env
from tests.guard.places import build


def bash(text: str, folder: Path) -> str:
    words = ["bash", "--noprofile", "--norc", "-c", text]
    done = subprocess.run(
        words, cwd=folder, env=child_env(), capture_output=True, text=True, check=False
    )
    return done.stdout


def test_shell_options_of_our_environment_do_not_reach_bash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere/sub").mkdir(parents=True)
    (tmp_path / "work/sub").mkdir(parents=True)
    (tmp_path / "work/.hidden").write_text("")
    (tmp_path / "work/seen").write_text("")
    monkeypatch.setenv("CDPATH", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("BASHOPTS", "dotglob:extglob:nullglob")
    monkeypatch.setenv("GLOBIGNORE", "seen")
    assert bash("cd sub && pwd", tmp_path / "work").strip() == str(tmp_path / "work/sub")
    assert bash("ls -d *", tmp_path / "work").split() == ["seen", "sub"]


def test_an_eight_bit_locale_does_not_reach_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.GBK")
    assert child_env()["LC_ALL"] == "C.UTF-8"
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert child_env()["LC_ALL"] == "de_DE.UTF-8"


def test_git_that_reads_runs_no_configured_program(tmp_path: Path) -> None:
    work = build(tmp_path / "work")
    assert "README.md" in bash("git status --short", work)
    assert "changed x" in bash("git diff", work)
    bash("git status", work / "sub")  # its own configuration names a program
    assert not list(work.rglob("pwn"))
