from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.core.events import Event, event_of
from agent_kernel.widgets.bundle import mime_bundle, of_blocks
from agent_kernel.widgets.fold import fold_turn
from agent_kernel.widgets.turn import approval_document
from agent_kernel.widgets.turnview import MIME, Replayed, TurnView
from tests.widgets import turns

GOLDEN = Path(__file__).parent / "golden"
SUFFIX = {"text/html": "html", "text/markdown": "md", "text/plain": "txt"}
ENDED = {
    "finished": turns.finished,
    "failed": turns.failed,
    "denied": turns.denied,
    "interrupted": turns.interrupted,
    "demo": turns.demo,
}


def folded(events: list[Event]) -> TurnView:
    """The view with the fixtures' price and window."""
    return fold_turn(events, price=turns.price, window=turns.WINDOW)


@pytest.mark.parametrize("name", ["finished", "failed"])
@pytest.mark.parametrize("mime", list(SUFFIX))
def test_a_static_twin_reads_as_its_golden_file(name: str, mime: str) -> None:
    made = mime_bundle(folded(ENDED[name]()))[mime]
    wanted = (GOLDEN / f"{name}.{SUFFIX[mime]}").read_text(encoding="utf-8")
    assert made.replace("><", ">\n<") + "\n" == wanted


@pytest.mark.parametrize("name", list(ENDED))
def test_rendering_live_equals_rendering_a_replay(name: str) -> None:
    live = ENDED[name]()
    lines = [json.dumps(event.wire()) for event in live]
    reopened = [event_of(json.loads(line)) for line in lines]
    assert mime_bundle(folded(live)) == mime_bundle(folded(reopened))


def test_every_prefix_of_a_turn_renders_in_all_four_mimes() -> None:
    events = turns.finished()
    for end in range(1, len(events) + 1):
        bundle = mime_bundle(folded(events[:end]))
        assert set(bundle) == {"text/html", "text/markdown", "text/plain", MIME}
        assert all(bundle.values())


def test_the_twin_says_when_it_was_saved_and_names_each_command_once() -> None:
    events, live = turns.asking()
    plain = mime_bundle(fold_turn(events, live))["text/plain"]
    assert plain.startswith("Saved view of 14 Nov 2026, 10:42 UTC.")
    assert plain.count("%agent approve 077f21") == 1
    assert plain.count('%agent deny 077f21 "why"') == 1
    assert plain.count("%agent stop") == 1


def test_a_running_call_reads_as_running_when_saved() -> None:
    plain = mime_bundle(fold_turn(*turns.streaming()))["text/plain"]
    assert "8.0 s · running when saved" in plain


def test_a_command_is_whole_in_every_mime() -> None:
    card = fold_turn(*turns.asking())["approvals"][1]
    for made in of_blocks(approval_document(card)).values():
        assert turns.LONG.split(" && ")[0] in made


def test_a_replayed_turn_says_so_in_every_mime() -> None:
    view = fold_turn(turns.finished(), replayed=Replayed(missing=("net",)))
    for mime in SUFFIX:
        assert "Replayed from the log" in mime_bundle(view)[mime]


def test_the_html_twin_needs_no_script_style_sheet_or_picture() -> None:
    html = mime_bundle(folded(turns.finished()))["text/html"]
    assert not any(tag in html for tag in ("<script", "<style", "<svg", "<img", "onclick"))


def test_the_view_in_the_bundle_is_the_one_it_was_made_from() -> None:
    view = folded(turns.finished())
    assert mime_bundle(view)[MIME] is view
    assert view["schema"] == 1
