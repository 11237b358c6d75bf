"""The panels in Chromium: slider, keys and buttons; hostile text stays text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.core.actions import RunBatch
from agent_kernel.core.events import ToolCall
from agent_kernel.widgets import stepper
from tests.browser import panels_page, views_page

pytestmark = pytest.mark.browser
HOSTILE = '<img src=x onerror="window.hit=1">\u202e${x}</script>'


def cells() -> dict[str, Any]:
    """The page's cells and a stepper whose call is hostile."""
    call = ToolCall(id="toolu_1", name="bash", input={"command": HOSTILE}, input_hash="x")
    state = stepper.state(
        RunBatch((call.id,)), {call.id: call}, key="k", stopped_by=f"break {HOSTILE}"
    )
    made = panels_page.cells()
    rays = made["xray"]["state"]["view"]
    blocks = [[each[0], HOSTILE, each[2], [["Source", HOSTILE]]] for each in rays["blocks"]]
    hostile = {**rays, "blocks": blocks}
    return {
        **made,
        "hostile": {"widget": "stepper", "alive": True, "state": {"view": state}},
        "rays": {"widget": "xray", "alive": True, "state": {"view": hostile}},
    }


@pytest.fixture(scope="module")
def page(chromium: str) -> Iterator[Any]:
    """One page for the module; any error of its scripts fails the last test."""
    from playwright.sync_api import sync_playwright

    errors: list[str] = []
    with views_page.serve(cells) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=views_page.ARGS)
        found = browser.new_page(viewport={"width": 900, "height": 900})
        found.on("pageerror", lambda error: errors.append(str(error)))
        found.goto(address)
        found.wait_for_function("window.ready")
        yield found
        browser.close()
    assert errors == []


def sent(page: Any) -> list[dict[str, Any]]:
    made = page.evaluate("window.sent")
    return [each for each in made if each["type"] != "ping"]


def test_the_slider_runs_through_past_requests(page: Any) -> None:
    view = page.locator("#xray")
    label = view.locator(".lbl")
    assert label.text_content() == "request 4.1, 10 of 12 sent"
    assert "first changed byte" in view.locator(".fb").text_content()
    slider = view.locator("input[type=range]")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert label.text_content() == "request 3.3, 9 of 12 sent"
    assert view.locator("tr.sum td").first.text_content() == "request 3.3"
    page.keyboard.press("End")
    assert label.text_content() == "next request, not sent"
    view.locator("[role=listbox]").focus()
    page.keyboard.press("Home")
    assert label.text_content() == "request 1.1, 1 of 12 sent"
    assert view.locator(".xrow.sel .lb").text_content() == "▸1.1"
    view.locator("[aria-label='Later request']").click()
    view.locator(".strip").focus()
    before = view.locator(".two .h3").first.text_content()
    page.keyboard.press("ArrowLeft")
    assert view.locator(".two .h3").first.text_content() != before
    assert view.locator(".strip .seg.on").count() == 1


def test_the_steppers_buttons_send_one_act_bound_to_their_stop(page: Any) -> None:
    view = page.locator("#stepper")
    assert (
        view.locator("pre.code").first.text_content() == "python -m pytest tests/test_refunds.py -q"
    )
    view.get_by_text("Answer…").click()
    area = view.locator("textarea")
    area.fill("12 passed")
    area.press("Escape")
    view.get_by_text("Use this answer").click()
    assert sent(page)[-1] == {
        "key": "k1",
        "type": "answer",
        "call": "toolu_8c",
        "text": "12 passed",
    }
    assert view.get_by_text("Run", exact=True).is_disabled(), "one act a stop"
    assert "Sent." in view.text_content()
    page.evaluate("models.stepper.change({view: {...models.stepper.get('view'), key: 'k2'}})")
    view.get_by_text("Run", exact=True).click()
    assert sent(page)[-1] == {"key": "k2", "type": "step"}
    dead = page.locator("#dead")
    dead.get_by_text("No kernel answers").wait_for()
    assert dead.get_by_text("Run", exact=True).is_disabled()


def test_a_compaction_is_undone_and_recalled_by_its_buttons(page: Any) -> None:
    view = page.locator("#compaction")
    view.get_by_text("Recall…").click()
    view.locator("input[type=text]").fill("refunds")
    view.get_by_text("Find", exact=True).click()
    last = sent(page)[-1]
    assert (last["type"], last["text"]) == ("recall", "refunds") and last["id"].startswith("c")
    view.get_by_text("Undo", exact=True).click()
    assert sent(page)[-1]["type"] == "undo"
    assert view.get_by_text("Undo", exact=True).is_disabled()
    assert view.locator(".ba .stack").count() == 2


def test_hostile_text_stays_text_in_every_panel(page: Any) -> None:
    for name in ("hostile", "rays"):
        view = page.locator(f"#{name}")
        assert view.locator("img").count() == 0 and "<img src=x" in view.text_content()
    assert page.locator("#hostile .ctl").first.text_content().startswith("U+202E")
    assert page.evaluate("window.hit") is None


def test_the_difference_shows_byte_cause_and_lines(page: Any) -> None:
    view = page.locator("#difference")
    text = view.text_content()
    assert "first changed byte" in text and "a compaction" in text
    assert view.locator(".diff .d").count() and view.locator(".diff .a").count()
