"""Secrets: a planted key is in no file, output, widget, request or argv of a real kernel."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from urllib.parse import quote

import nbformat
import pytest

from agent_kernel.cli import main
from tests.kernel.live import Script, calls, says, until

pytestmark = pytest.mark.kernel
VALUE = "planted-" + "value/of+no=use"
KEY = "sk-" + "ant-api03-" + "Zz9" * 20
ENV = {"AK_PLANTED_TOKEN": VALUE}
FORMS = {
    VALUE, KEY, quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode(),
    json.dumps(VALUE)[1:-1], VALUE.replace("/", "\\/"),
}  # fmt: skip
LINES = f'for n in $(seq 9000); do echo "$n"; printf %s "$got"; echo " {KEY}"; done'
FLOOD = f"printf '{VALUE}' > got; got=$(cat got); {LINES}"


def shown(text: str) -> list[str]:
    """The forms of the secret that stand in a text."""
    return [form for form in FORMS if form in text]


def kept(folder: Path) -> list[str]:
    """The files of the session that hold the secret in any form."""
    files = [p for p in folder.rglob("*") if p.is_file() and ".agent" in str(p.relative_to(folder))]
    assert files
    return [p.name for p in files if shown(p.read_bytes().decode("latin-1"))]


def told(ran) -> str:
    """All that a front end was sent, widget messages too, but for the cell the person typed."""
    own = "execute_input"
    return json.dumps([m["content"] for m in ran.messages if m["msg_type"] != own], default=str)


def test_a_planted_key_is_kept_and_shown_nowhere(kernel, serve, tmp_path) -> None:
    python = f"from IPython.display import HTML\nprint(open('got').read())\nHTML('<b>{KEY}</b>')"
    server = serve(
        None,
        Script(
            calls(("bash", {"command": FLOOD}), text=f"With {VALUE} I begin. "),
            calls(("python", {"code": python})),
            calls(("write", {"path": "made.txt", "content": f"token = {VALUE}\n"})),
            calls(("bash", {"command": f"echo '{KEY}' | wc -c; false"})),
            says("You gave me " + "a word " * 800 + f"{VALUE} and {KEY} in the end."),
        ),
    )
    k = kernel(server, **ENV)
    k.ok("%agent mode bypass")
    ran = k.finish(k.start(f"%%agent\ngo, the token is {VALUE}", "c1", stdin=True), [])
    assert ran.status == "ok", ran.error
    assert (tmp_path / "got").read_text() == VALUE  # the command ran with the true input
    assert (tmp_path / "made.txt").read_text() == f"token = {VALUE}\n"
    assert "[redacted:env:AK_PLANTED_TOKEN]" in ran.plain
    assert shown(told(ran)) == []
    assert kept(tmp_path) == []
    assert not any(shown(r.body.decode()) for r in server.messages)
    assert shown(Path(f"/proc/{k.pid}/cmdline").read_bytes().decode()) == []
    assert shown(k.ok("%agent log\n%agent status\n%agent config").text) == []
    notebook = tmp_path / "session.ipynb"
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%%agent\ngo")])
    outputs = [nbformat.v4.new_output("display_data", d["data"], metadata=d["metadata"])
               for d in ran.displays]  # fmt: skip
    nb.cells[0].outputs = outputs
    nbformat.write(nb, notebook)
    k.close()
    assert main(["embed", str(notebook)]) == 0
    saved = json.loads(notebook.read_text())
    log = saved["metadata"]["agent_kernel"]["log"]["data"]
    assert shown(notebook.read_text()) == []
    assert shown(gzip.decompress(base64.b64decode(log)).decode()) == []


def test_a_masked_input_runs_once_and_never_after_a_restart(kernel, serve, tmp_path) -> None:
    once = calls(
        ("bash", {"command": f"echo '{VALUE}' >> ran"}), ("bash", {"command": "echo x >> ran"})
    )
    server = serve(None, Script(once, once, says("Done."), once, says("Then not.")))
    k = kernel(server, **ENV)
    asked = k.finish(k.start("%%agent\ngo", "c0", stdin=True), ["y", "y", "y", "y"])
    assert shown("".join(asked.prompts)) == []
    assert "[redacted:env:AK_PLANTED_TOKEN]" in asked.prompts[0]
    assert (tmp_path / "ran").read_text().split() == [VALUE, "x"] * 2
    (tmp_path / "ran").unlink()
    k.ok("%%agent --step\nagain", "c1")
    k.ok("%agent step model")
    k.kill()
    k = kernel(server, **ENV)
    k.ok("%agent mode bypass")
    k.ok("%agent continue")
    assert (tmp_path / "ran").read_text() == "x\n"
    results = [e for e in k.session().events if e.type == "tool/result"][-2:]
    assert "its input held a secret that was not kept" in results[0].content[0].text
    assert results[0].is_error and not results[1].is_error
    assert kept(tmp_path) == []


def test_a_crash_leaves_no_key_in_a_file(kernel, serve, tmp_path) -> None:
    command = f"{FLOOD}; printf '{VALUE}'; touch began; sleep 300"
    server = serve(None, Script(calls(("bash", {"command": command, "background": True}))))
    k = kernel(server, **ENV)
    k.ok("%agent mode bypass")
    k.start("%%agent\ngo", "c1")
    until((tmp_path / "began").exists, 40)
    until(lambda: list(tmp_path.glob("session.agent/tasks/*.out")))
    k.kill()
    assert kept(tmp_path) == []
    assert VALUE in (tmp_path / "got").read_text()


def test_a_secret_put_into_the_history_is_warned_of(kernel) -> None:
    k = kernel()
    said = k.run("%set_env MY_API_KEY=" + "abcdefgh1234").text
    assert "warning: MY_API_KEY: the value stands in this cell" in said
    assert "warning" not in k.run("%set_env EDITOR=vi").text
    k.ok("%%agent\nwhat is " + "abcdefgh1234?", "c1")  # from now on it is a secret
    assert b"abcdefgh1234" not in (k.folder / "session.agent.jsonl").read_bytes()
