from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from agent_kernel.widgets import anywidgets
from agent_kernel.widgets.fold import fold_turn
from tests.widgets import turns


def test_importing_the_room_loads_no_widget_package() -> None:
    code = (
        "import sys, agent_kernel.widgets, agent_kernel.widgets.anywidgets, "
        "agent_kernel.widgets.bundle\n"
        "heavy = {'anywidget', 'ipywidgets', 'traitlets', 'IPython', 'pandas', 'anthropic'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def sent_by(widget: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Collect the names of the traits each later update sends."""
    updates: list[list[str]] = []
    send = widget._send

    def note(message: Any, buffers: Any = None) -> None:
        updates.append(sorted(message.get("state", {})))
        send(message, buffers=buffers)

    monkeypatch.setattr(widget, "_send", note)
    return updates


def test_streaming_text_sends_the_last_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    events, live = turns.streaming()
    widget = anywidgets.turn_widget(fold_turn(events, live), lambda _message: None)
    updates = sent_by(widget, monkeypatch)
    from dataclasses import replace

    widget.show(fold_turn(events, replace(live, text=live.text + " green.")))
    assert updates == [["items"]]
    widget.show(fold_turn(events, replace(live, text=live.text + " green.")))
    assert updates == [["items"]]


def test_a_ping_is_answered_and_every_message_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[dict[str, Any]] = []
    widget = anywidgets.turn_widget(fold_turn(turns.finished()), heard.append)
    answers: list[Any] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: answers.append(content))
    for content in ({"type": "ping"}, {"type": "stop"}, "noise", {"no": "type"}):
        widget._handle_custom_msg(content, [])
    assert answers == [{"type": "pong"}]
    assert heard == [{"type": "ping"}, {"type": "stop"}]


def test_a_widget_says_in_one_word_what_it_is() -> None:
    widget = anywidgets.turn_widget(fold_turn(turns.finished()), lambda _message: None)
    assert repr(widget) == "TurnWidget('done')"
    card = fold_turn(*turns.asking())["approvals"][2]
    assert repr(anywidgets.approval_widget(card, lambda _message: None)) == (
        "ApprovalWidget('Run Python in this kernel?')"
    )


def test_a_widget_s_state_holds_no_secret_of_the_model_s_text_twice() -> None:
    state = anywidgets.turn_state(fold_turn(turns.finished()))
    assert "answer" not in state["view"]
    assert all("md" not in row for row in [*state["past"], *state["items"]])


@pytest.mark.parametrize("name", ["turn", "approval"])
def test_a_module_writes_data_as_text_only(name: str) -> None:
    source = anywidgets.esm(name)
    code = re.sub(r"^\s*//.*$", "", source, flags=re.MULTILINE)
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in code
    assert "import " not in code
    assert source.count("export default") == 1


def test_the_style_sheet_stays_inside_our_own_root() -> None:
    css = re.sub(r"/\*.*?\*/", "", anywidgets.css(), flags=re.DOTALL)
    css = re.sub(r'url\("[^"]*"\)', "url()", css)
    css = re.sub(r"@keyframes akb\{[^}]*\}\}", "", css)
    for selectors in re.findall(r"([^{}]+)\{", css):
        if selectors.strip().startswith("@"):
            continue
        for selector in re.split(r",(?![^(]*\))", selectors):
            assert ".ak" in selector, selector
