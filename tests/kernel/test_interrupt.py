"""Interrupts: idle at once, the log valid, the next turn works; a busy cell stalls no stream."""

from __future__ import annotations

import json
import time

import pytest

from agent_kernel.core.model import ModelProfile
from agent_kernel.core.validate import validate_messages
from tests.kernel.live import Script, calls, says, until

pytestmark = pytest.mark.kernel
AT_ONCE = 10.0  # seconds: ten times what is asked for; the figure itself is printed by the bench


def interrupted(k, msg_id: str, ready) -> float:
    """Interrupt once `ready()` holds and return the seconds until the cell was idle."""
    until(ready, 40)
    began = time.monotonic()
    k.interrupt()
    ran = k.finish(msg_id)
    took = time.monotonic() - began
    assert ran.status == "error" and ran.error.startswith("TurnInterrupted: "), ran.error
    assert took < AT_ONCE
    return took


def check_log_and_next_turn(k, where: str) -> None:
    """The turn is closed as interrupted, and another one can be sent."""
    session = k.session()
    end = [e for e in session.events if e.type == "turn/end"][-1]
    assert (end.reason, end.detail) == ("interrupted", where)
    k.ok("%%agent\nand now?", "next")
    session = k.session()
    assert session.state().turn_end.reason == "completed"
    assert not validate_messages(session.surface().messages(), ModelProfile("m"), sendable=False)


def test_a_stalled_stream_is_left_at_once_and_its_text_kept(kernel, serve) -> None:
    server = serve(
        {
            "scenario": "stall",
            "replies": [{"fault": "stall", "after": 3, "seconds": 600, **says("Half a sentence")}],
            "otherwise": "answer",
        },
        Script(says("Fine.")),
    )
    k = kernel(server)
    msg = k.start("%%agent\ngo", "c1")
    interrupted(k, msg, lambda: server.messages and time.sleep(0.5) is None)
    check_log_and_next_turn(k, "stream")


def test_a_running_bash_command_is_killed(kernel, serve) -> None:
    command = "touch began; sleep 300; touch ended"
    server = serve(None, Script(calls(("bash", {"command": command})), says("Fine.")))
    k = kernel(server)
    k.ok("%agent mode bypass")
    msg = k.start("%%agent\ngo", "c1")
    interrupted(k, msg, (k.folder / "began").exists)
    check_log_and_next_turn(k, "tools")
    assert not (k.folder / "ended").exists()
    result = next(e for e in k.session().events if e.type == "tool/result")
    assert result.is_error and "outcome unknown" in result.content[0].text


def test_python_run_for_the_agent_is_interrupted_like_a_cell(kernel, serve) -> None:
    code = "import time, pathlib\npathlib.Path('began').touch()\ntime.sleep(300)"
    server = serve(None, Script(calls(("python", {"code": code})), says("Fine.")))
    k = kernel(server)
    k.ok("%agent mode bypass")
    msg = k.start("%%agent\ngo", "c1")
    interrupted(k, msg, (k.folder / "began").exists)
    check_log_and_next_turn(k, "tools")
    assert k.ok("print(6 * 7)").text.strip() == "42"


def test_a_plain_cell_still_gets_its_keyboard_interrupt(kernel) -> None:
    k = kernel()
    msg = k.start("import time, pathlib\npathlib.Path('began').touch()\ntime.sleep(300)")
    until((k.folder / "began").exists)
    k.interrupt()
    assert k.finish(msg).error.startswith("KeyboardInterrupt")


def test_an_interrupt_at_the_approval_prompt_ends_the_turn(kernel, serve) -> None:
    server = serve(None, Script(calls(("bash", {"command": "touch x"})), says("Fine.")))
    k = kernel(server)
    msg = k.start("%%agent\ngo", "c1", stdin=True)
    asked: list[str] = []

    def each(message) -> None:
        if message["msg_type"] == "input_request":
            asked.append(message["content"]["prompt"])
            k.interrupt()

    ran = k.finish(msg, lambda _prompt: "", each=each)
    assert asked and ran.error.startswith("TurnInterrupted")
    assert not (k.folder / "x").exists()


def test_a_busy_python_cell_does_not_stall_a_background_agents_stream(kernel) -> None:
    """A stream goes on in the runtime while the main thread is blocked by a Python cell."""
    k = kernel()
    k.ok("%agent")
    k.ok(
        "bench = get_ipython().agent_front.workbench\n"
        "from agent_kernel.kernel import build\n"
        "from agent_kernel.core.query import query\n"
        "from agent_kernel.providers import scripted\n"
        "stream = []\n"
        "made = bench.built(build.Options())\n"
        "import time\n"
        "made.agent.provider = scripted(['word ' * 400], delay=0.1)\n"
        "made.agent.on_stream = lambda event: stream.append(time.monotonic())\n"
        "job = bench.runtime.submit(query(bench.session, made.agent, 'go'))"
    )
    blocked = k.ok("began = time.monotonic()\ntime.sleep(4)\nended = time.monotonic()")
    assert blocked.seconds >= 4
    gap = k.ok(
        "at = [t for t in stream if began < t < ended]\n"
        "print(len(at), max(b - a for a, b in zip([began, *at], [*at, ended])))"
    )
    count, widest = gap.text.split()
    assert int(count) > 10 and float(widest) < 2.0, gap.text
    assert "word" in k.ok("print(job.done.result(60).answer[:20])").text


def test_code_of_the_agent_leaves_the_process_as_it_was(kernel, serve) -> None:
    code = (
        "import os, sys, signal, io\nos.chdir('/')\nsys.stdout = io.StringIO()\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nkept = 1"
    )
    server = serve(None, Script(calls(("python", {"code": code})), says("Fine.")))
    k = kernel(server)
    k.ok("%agent mode bypass")
    k.ok("import os, signal\nbefore = (os.getcwd(), signal.getsignal(signal.SIGTERM))")
    k.ok("%%agent\ngo", "c1")
    after = k.ok("print(kept, (os.getcwd(), signal.getsignal(signal.SIGTERM)) == before)")
    assert after.text.strip() == "1 True"
    msg = k.start("import time, pathlib\npathlib.Path('b2').touch()\ntime.sleep(300)")
    until((k.folder / "b2").exists)
    k.interrupt()
    assert k.finish(msg).error.startswith("KeyboardInterrupt")
    assert json.loads((k.folder / "session.agent.jsonl").read_bytes().splitlines()[-1])
