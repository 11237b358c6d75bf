"""Whole kernel: ours is still all of IPython's, from both ways in, and starts light."""

from __future__ import annotations

import json
from pathlib import Path

import jupyter_kernel_test
import pytest

from agent_kernel.kernel.install import SPEC
from tests.kernel.live import Script, live, says

pytestmark = pytest.mark.kernel
ROOT = Path(__file__).resolve().parents[2]


class TestMessages(jupyter_kernel_test.KernelTests):
    """The protocol tests every kernel must pass, run on ours."""

    kernel_name = "agent-kernel"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oops', file=sys.stderr)"
    code_page_something = "zip?"
    code_generate_error = "raise Exception"
    code_execute_result = [{"code": "6*7", "result": "42"}]
    code_display_data = [
        {"code": "from IPython.display import HTML; display(HTML('<b>x</b>'))", "mime": "text/html"}
    ]
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_inspect_sample = "zip"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2", "%%agent\nwhat is"]
    invalid_code_samples = ["import = 7q"]
    supported_history_operations = ("tail", "search")
    code_history_pattern = "6?7*"


def test_the_wheels_kernelspec_is_the_one_install_writes() -> None:
    shipped = json.loads((ROOT / "share/jupyter/kernels/agent-kernel/kernel.json").read_text())
    assert shipped == SPEC


def test_loading_imports_nothing_heavy_and_writes_nothing(tmp_path) -> None:
    """At once after the start: the warm-up begins only after a moment of quiet."""
    with live(tmp_path, {"AGENT_KERNEL_WARM": "0"}) as k:
        heavy = "['anthropic', 'pandas', 'nbformat', 'pydantic', 'agent_kernel.core']"
        ran = k.ok(f"import sys\nprint([m for m in {heavy} if m in sys.modules])")
        assert ran.text.strip() == "[]"
        assert list(tmp_path.iterdir()) == []


def test_the_extension_gives_a_plain_kernel_the_same(tmp_path, serve) -> None:
    from tests.kernel.conftest import env_of

    server = serve(None, Script(says("Hello from a plain kernel.")))
    with live(tmp_path, env_of(server), name="python3") as k:
        k.ok("%load_ext agent_kernel\n%load_ext agent_kernel")
        ran = k.ok("%%agent\nhello", "c1")
        assert "Hello from a plain kernel." in ran.plain
        k.ok("%unload_ext agent_kernel")
        assert k.run("%%agent\nhello").status == "error"
        assert k.ok("print(6 * 7)").text.strip() == "42"


def test_python_cells_magics_and_top_level_await_stay_ipythons(tmp_path) -> None:
    with live(tmp_path, {}) as k:
        assert "42" in k.ok("import asyncio\nawait asyncio.sleep(0)\nprint(42)").text
        assert "loop" in k.ok("%timeit -n1 -r1 pass").text
        assert k.ok("text = '''\n%agent not a command\n'''\nprint(text)").text.strip() == (
            "%agent not a command"
        )
        mixed = k.ok("n = 3\n%agent mode\nprint(n)")
        assert mixed.text.split() == ["ask", "3"]
        assert "session" in k.ok("for _ in range(1):\n    %agent session").text


def test_a_completing_question_mark_reaches_ipythons_help(tmp_path) -> None:
    with live(tmp_path, {}) as k:
        assert k.ok("%agent?").reply["content"]["payload"]


def test_every_command_is_in_help_and_runs_or_says_what_it_needs(tmp_path) -> None:
    from agent_kernel.kernel.commands import ALL

    with live(tmp_path, {}) as k:
        listed = k.ok("%agent help all").text
        for name in ALL:
            assert f"%agent {name}" in listed
        k.ok("%%agent\nhelp", "c1")
        for name in ALL:
            ran = k.run(f"%agent {name}")
            assert ran.status == "ok" or ran.error.startswith("UsageError: "), (name, ran.error)
