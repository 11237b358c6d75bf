"""Workers: a script without a guard, with threads, reads with processes and runs once."""

from __future__ import annotations

import subprocess
import sys

from agent_kernel.testing import corpus

SCRIPT = """
import sys, threading
print("ran", flush=True)
stop = threading.Event()
threading.Thread(target=stop.wait, daemon=True).start()
from agent_kernel import frames, transcripts
f = frames.load(sys.argv[1], readers=transcripts.ALL, cache=False, workers=2)
print(f.totals()["total"]["calls"])
stop.set()
"""


def test_a_script_without_a_guard_runs_once(tmp_path):
    made = corpus.write(tmp_path / "in", megabytes=0.5, session_kb=100)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "in")],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-600:]
    assert done.stdout.split() == ["ran", str(made.calls)]
