"""Completer: after `@` an agent cell is offered paths of the workspace, in both forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.kernel import extension


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An IPython with the extension, in a workspace of a few files."""
    workspace = tmp_path / "w"
    for name in ("src/app.py", "src/api.py", "with space.py", ".git/api.py"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("x")
    (tmp_path / "api_secret.py").write_text("x")
    (workspace / "api_link.py").symlink_to(tmp_path / "api_secret.py")
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("AGENT_KERNEL_WARM", "0")
    made = InteractiveShell()
    extension.load_ipython_extension(made)
    yield made
    extension.unload_ipython_extension(made)


def offered(shell: Any, code: str, cursor: int | None = None) -> list[tuple[str, str]]:
    """What completing `code` gives: the whole text after taking each offer, and its kind."""
    at = len(code) if cursor is None else cursor
    with provisionalcompleter():
        found = list(shell.Completer.completions(code, at))
    return [(code[: c.start] + c.text + code[c.end :], c.type) for c in found]


def test_both_forms_are_offered_and_nothing_from_outside(shell: Any) -> None:
    assert offered(shell, "%%agent\nlook at @ap") == [
        ("%%agent\nlook at @src/api.py", "file"),
        ("%%agent\nlook at @src/app.py", "file"),
    ]
    assert offered(shell, '%%agent\n@"with') == [('%%agent\n@"with space.py"', "file")]
    assert offered(shell, "%agent add @sr")[0] == ("%agent add @src/", "folder")
    for outside in ("@../", "@/etc/", '@"../'):
        assert not [t for t, kind in offered(shell, f"%%agent\n{outside}") if kind == "file"]
    assert not [t for t, _ in offered(shell, "%%agent\n@api_") if "link" in t or "secret" in t]


def test_python_cells_and_mail_addresses_are_left_alone(shell: Any) -> None:
    assert not [t for t, kind in offered(shell, "@ap") if "api.py" in t and kind == "file"]
    assert not [t for t, _ in offered(shell, "%%agent\nmail me@ap") if "api.py" in t]


def test_unloading_takes_the_completer_back(shell: Any) -> None:
    extension.unload_ipython_extension(shell)
    assert not [t for t, _ in offered(shell, "%%agent\n@ap") if "api.py" in t]
    extension.load_ipython_extension(shell)
