"""Python: one lasting namespace a session, by a real worker or by what the roof hands in."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.messages import Image
from agent_kernel.core.session import Session
from agent_kernel.tools import worker
from agent_kernel.tools.python import PYTHON, CellResult
from tests.tools.conftest import Bench


async def test_names_stay_and_are_told(bench: Bench) -> None:
    answer = await bench.call(PYTHON, code="x = [1, 2]\ny = 'text'")
    assert answer.content[0].text == "[names: + x list (2); + y str (4)]"
    assert answer.meta["namespace"] == {
        "added": {"x": "list (2)", "y": "str (4)"},
        "changed": {},
        "removed": [],
    }
    assert await bench.text(PYTHON, code="x.append(3)\ndel y\nsum(x)") == (
        "6\n[names: ~ x list (3); - y]"
    )
    assert await bench.text(PYTHON, code="x") == "[1, 2, 3]"


async def test_printed_text_stderr_and_value(bench: Bench) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 + 1"
    assert await bench.text(PYTHON, code=code) == "out\n[stderr]\nerr\n2"
    assert await bench.text(PYTHON, code="1 + 1;") == "[no output]"
    assert await bench.text(PYTHON, code="import os\nos.system('echo child')") == "child\n0"


async def test_an_error_shows_its_lines_and_is_an_error(bench: Bench) -> None:
    answer = await bench.call(PYTHON, code="def f():\n    return 1 / 0\nf()")
    text = answer.content[0].text
    assert answer.is_error
    assert "    return 1 / 0" in text
    assert "ZeroDivisionError: division by zero" in text
    assert "worker_main" not in text
    assert answer.meta["error_kind"] == "ZeroDivisionError"
    assert (await bench.call(PYTHON, code="def g(:")).meta["error_kind"] == "SyntaxError"
    assert (await bench.call(PYTHON, code="exit()")).meta["error_kind"] == "SystemExit"
    assert await bench.text(PYTHON, code="f.__name__") == "'f'"


async def test_a_deep_traceback_is_cut_in_the_middle(bench: Bench) -> None:
    code = (
        "def f(n):\n    if n % 2:\n        return f(n - 1)\n    return g(n - 1) if n else 1 / 0\n"
    )
    text = await bench.text(PYTHON, code=code + "def g(n):\n    return f(n)\nf(201)")
    assert "frames left out]" in text
    assert text.count('File "') <= 31
    assert "ZeroDivisionError" in text


async def test_top_level_await_and_classes_that_pickle(bench: Bench) -> None:
    assert await bench.text(PYTHON, code="import asyncio\nawait asyncio.sleep(0, 'slept')") == (
        "'slept'"
    )
    code = "import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))) is A"
    assert (await bench.text(PYTHON, code=code)).startswith("True")


async def test_a_dataframe_is_told_by_shape_and_a_change_inside_is_seen(bench: Bench) -> None:
    code = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyz')})"
    assert await bench.text(PYTHON, code=code) == "[names: + df DataFrame 3 × 2]"
    assert await bench.text(PYTHON, code="df.loc[0, 'a'] = 9") == "[names: ~ df DataFrame 3 × 2]"


async def test_a_figure_comes_as_an_image(bench: Bench) -> None:
    pytest.importorskip("matplotlib")
    answer = await bench.call(PYTHON, code="import matplotlib.pyplot as p\np.plot([1, 2]);")
    assert isinstance(answer.content[1], Image)
    assert answer.content[1].media_type == "image/png"


async def test_a_protected_name_that_changed_is_named(bench: Bench) -> None:
    bench.services["protect"] = {"raw"}
    await bench.text(PYTHON, code="raw = {'a': [1]}")
    assert not (await bench.call(PYTHON, code="other = raw['a'] + [2]")).is_error
    answer = await bench.call(PYTHON, code="raw['a'].append(2)")
    assert answer.is_error
    assert "changed the protected raw" in answer.content[0].text
    assert answer.meta["protected"] == ["raw"]


async def test_a_timeout_interrupts_and_the_names_stay(bench: Bench) -> None:
    await bench.text(PYTHON, code="x = 1")
    answer = await bench.call(PYTHON, code="import time\ntime.sleep(60)", timeout=1)
    assert answer.content[0].text == "TimeoutError: stopped after 1 s"
    assert await bench.text(PYTHON, code="x") == "1"


async def test_what_does_not_stop_is_killed_and_that_is_said(bench: Bench) -> None:
    code = "import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass"
    answer = await bench.call(PYTHON, code=code, timeout=1)
    assert "names are gone" in answer.content[0].text
    assert await bench.text(PYTHON, code="1") == "1"
    text = await bench.text(PYTHON, code="import os\nos._exit(3)")
    assert "WorkerEnded" in text
    assert await bench.text(PYTHON, code="2") == "2"


async def test_a_cancelled_call_stops_the_code(bench: Bench) -> None:
    await bench.text(PYTHON, code="import time, pathlib")
    code = "pathlib.Path('begun').touch()\ntime.sleep(60)"
    running = asyncio.ensure_future(bench.call(PYTHON, code=code))
    while not (bench.workspace / "begun").exists():
        await asyncio.sleep(0.02)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 5
    assert await bench.text(PYTHON, code="'alive'") == "'alive'"


async def test_streams_directory_and_handlers_are_put_back(bench: Bench) -> None:
    code = "import os, sys, signal\nos.chdir('/')\nsys.stdout = None\n"
    code += "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    assert "put back" in await bench.text(PYTHON, code=code)
    code = "import os\nprint(os.getcwd())"
    assert await bench.text(PYTHON, code=code) == str(bench.workspace.resolve())


async def test_secrets_do_not_reach_the_worker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "not-a-real-one")
    assert await bench.text(PYTHON, code="import os\nos.environ.get('SOME_API_KEY')") == (
        "[no output]"
    )


async def test_a_flood_is_bounded(bench: Bench) -> None:
    text = await bench.text(
        PYTHON, code="for _ in range(400):\n    print('x' * 9999)\nprint('end')"
    )
    assert "bytes left out]" in text
    assert text.endswith("end")
    assert len(text) < 4 << 20


async def test_every_session_has_its_own_names_and_its_worker_ends_with_it(
    workspace: Path,
) -> None:
    one, two = Bench(Session(), workspace), Bench(Session(), workspace)
    await one.text(PYTHON, code="x = 1")
    assert (await two.call(PYTHON, code="x")).is_error
    process = worker.worker_of(one.session, workspace)
    assert process.alive
    del one
    gc.collect()
    assert not process.alive


async def test_output_is_shown_while_it_comes(bench: Bench) -> None:
    await bench.text(PYTHON, code="import time\nprint('one', flush=True)\ntime.sleep(.3)\nprint(2)")
    assert bench.progress[0] == "one\n"


async def test_the_roofs_namespace_is_used_when_it_hands_one_in(bench: Bench) -> None:
    seen: list[Any] = []

    async def run_cell(code: str, timeout: float, on_output: Any) -> CellResult:
        seen.append((code, timeout))
        on_output("live")
        diff = {"added": {}, "changed": {"df": "DataFrame 2 × 2"}, "removed": []}
        return CellResult(stdout="hi\n", value_text="7", namespace_diff=diff)

    bench.services |= {"run_cell": run_cell, "protect": {"df"}}
    answer = await bench.call(PYTHON, code="f(df)", timeout=5)
    assert seen == [("f(df)", 5)]
    assert bench.progress == ["live"]
    assert answer.content[0].text.startswith("hi\n7\n[error: this changed the protected df")
    assert answer.is_error
