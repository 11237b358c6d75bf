"""The widgets' own files in Chromium: what a person sees, presses and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.widgets import anywidgets
from agent_kernel.widgets.fold import fold_turn
from tests.browser import views_page
from tests.widgets import turns

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the views page."""
    with views_page.serve() as address:
        yield address


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """One Chromium for the module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=chromium, args=views_page.ARGS)
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any, site: str) -> Iterator[Any]:
    """Open one view of the page; any error of its script fails the test."""
    pages: list[Any] = []
    errors: list[str] = []

    def open_view(name: str, query: str = "", width: int = 900) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{site}?only={name}{query}")
        page.wait_for_function("window.ready")
        pages.append(page)
        return page

    yield open_view
    for page in pages:
        page.close()
    assert errors == []


def sent(page: Any) -> list[dict[str, Any]]:
    """What the front end sent, pings left out."""
    return [message for message in page.evaluate("window.sent") if message["type"] != "ping"]


def card(page: Any, at: int) -> Any:
    """The approval card number `at`."""
    return page.locator(".card").nth(at)


def change(page: Any, name: str, view: Any) -> None:
    """Send a new view to the widget, as the kernel does."""
    state = anywidgets.turn_state(view)
    page.evaluate("([name, state]) => window.models[name].change(state)", [name, state])


def test_a_view_sends_a_ping_when_it_is_shown(opened: Any) -> None:
    page = opened("streaming")
    assert page.evaluate("window.sent")[0] == {"type": "ping"}


def test_allow_once_sends_id_nonce_and_hash_and_is_sent_once(opened: Any) -> None:
    page = opened("asking")
    once = card(page, 0).get_by_role("button", name="Allow once")
    once.click()
    bound = {"id": "toolu_077f21", "nonce": "n-1", "hash": "h-1"}
    assert sent(page) == [{"type": "approve", **bound, "scope": "once"}]
    assert once.is_disabled()
    assert "Sent." in card(page, 0).inner_text()


def test_deny_sends_the_reason_that_was_typed(opened: Any) -> None:
    page = opened("asking")
    card(page, 0).get_by_label("Reason, the model reads it").fill("use the mirror")
    card(page, 0).get_by_role("button", name="Deny").click()
    bound = {"id": "toolu_077f21", "nonce": "n-1", "hash": "h-1"}
    assert sent(page) == [{"type": "deny", **bound, "reason": "use the mirror"}]


def test_a_long_command_is_allowed_only_after_its_middle_was_opened(opened: Any) -> None:
    page = opened("asking")
    once = card(page, 1).get_by_role("button", name="Allow once")
    assert once.is_disabled()
    assert card(page, 1).get_by_role("button", name="Deny").is_enabled()
    card(page, 1).get_by_role("button", name="Show 1,494 more characters").click()
    assert turns.LONG in "".join(card(page, 1).locator(".code pre").all_text_contents())
    assert once.is_enabled()
    once.click()
    assert sent(page)[0]["id"] == "toolu_0781c0"


def test_a_rule_is_allowed_by_its_own_button(opened: Any) -> None:
    page = opened("asking")
    card(page, 0).get_by_role("button", name="Allow rule…").click()
    card(page, 0).get_by_role("button", name="Allow", exact=True).click()
    assert sent(page)[0]["scope"] == "rule"
    assert sent(page)[0]["rule"] == "Bash(curl -fsSL *)"


def test_an_edit_sends_the_field_and_its_text(opened: Any) -> None:
    page = opened("asking")
    card(page, 2).get_by_role("button", name="Edit…").click()
    area = card(page, 2).get_by_label("The text that would run")
    assert area.input_value() == turns.CODE
    area.fill("net = 1")
    card(page, 2).get_by_role("button", name="Use this text").click()
    edited = {"field": "code", "text": "net = 1"}
    bound = {"id": "toolu_0790aa", "nonce": "n-3", "hash": "h-3"}
    assert sent(page) == [{"type": "edit", **bound, **edited}]


def test_python_is_allowed_for_the_turn_by_the_one_filled_button(opened: Any) -> None:
    page = opened("asking")
    assert page.locator("button.pri").all_inner_texts() == ["Allow Python for this turn"]
    page.locator("button.pri").click()
    assert sent(page)[0]["scope"] == "turn"


def test_a_stale_card_can_only_be_made_again_or_denied(opened: Any) -> None:
    page = opened("asking")
    assert card(page, 3).get_by_role("button", name="Allow once").is_disabled()
    card(page, 3).get_by_role("button", name="Make the diff again").click()
    assert sent(page)[0]["type"] == "rediff"


def test_hidden_characters_are_boxed_names(opened: Any) -> None:
    page = opened("asking")
    boxed = card(page, 0).locator("pre .ctl").all_inner_texts()
    assert boxed == ["ESC", "CR", "U+202E right-to-left", "U+202C end"]


def test_the_tab_order_of_a_card_is_its_reading_order(opened: Any) -> None:
    page = opened("card")
    names = []
    for _ in range(5):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent || 'reason'"))
    assert names == ["Allow Python for this turn", "Allow once", "Edit…", "reason", "Deny"]
    page.keyboard.press("Enter")
    assert sent(page)[0]["type"] == "deny"


def test_escape_leaves_a_text_field_and_decides_nothing(opened: Any) -> None:
    page = opened("card")
    page.get_by_label("Reason, the model reads it").focus()
    page.keyboard.type("why")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")
    assert sent(page) == []
    assert page.get_by_label("Reason, the model reads it").input_value() == "why"


def test_a_row_folds_by_keyboard_and_stays_as_the_person_left_it(opened: Any) -> None:
    page = opened("streaming")
    row = page.locator("details.row").nth(1)
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    assert row.evaluate("(node) => node.open")
    events, live = turns.streaming()
    change(page, "streaming", fold_turn(events, replace(live, text="new text")))
    assert row.evaluate("(node) => node.open")
    assert page.evaluate("document.activeElement.textContent").startswith("readsrc/app.py") or (
        page.evaluate("document.activeElement.tagName") == "SUMMARY"
    )


def test_an_update_keeps_rows_and_what_was_typed(opened: Any) -> None:
    page = opened("streaming")
    page.evaluate("document.querySelectorAll('.row')[1].dataset.mine = '1'")
    page.get_by_label("Add to this turn").fill("in euro")
    events, live = turns.streaming()
    text = live.text + " **green**."
    change(page, "streaming", fold_turn(events, replace(live, text=text)))
    assert page.locator(".ans strong").inner_text() == "green"
    assert page.locator(".row[data-mine='1']").count() == 1
    assert page.get_by_label("Add to this turn").input_value() == "in euro"


def test_a_reason_and_an_opened_middle_survive_an_update(opened: Any) -> None:
    page = opened("asking")
    card(page, 1).get_by_role("button", name="Show 1,494 more characters").click()
    card(page, 1).get_by_label("Reason, the model reads it").fill("no")
    events, live = turns.asking()
    change(page, "asking", fold_turn(events, replace(live, now=live.now + 9)))
    assert card(page, 1).get_by_role("button", name="Allow once").is_enabled()
    assert card(page, 1).get_by_label("Reason, the model reads it").input_value() == "no"


def test_steering_stop_and_detach_send_their_messages(opened: Any) -> None:
    page = opened("tasks")
    page.get_by_label("Add to this turn").fill("in euro")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Detach").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Cancel").click()
    assert sent(page) == [
        {"type": "steer", "text": "in euro"},
        {"type": "detach"},
        {"type": "stop"},
        {"type": "cancel", "task": "a41e07"},
    ]


def test_a_failed_and_a_replayed_turn_offer_what_goes_on(opened: Any) -> None:
    failed = opened("failed")
    failed.get_by_role("button", name="Retry from step 3").click()
    assert sent(failed) == [{"type": "retry"}]
    replayed = opened("replayed")
    replayed.get_by_role("button", name="Re-run 2 Python calls").click()
    replayed.get_by_role("button", name="Run anew").click()
    assert sent(replayed) == [{"type": "replay_python"}, {"type": "fresh"}]


def test_a_restored_view_is_dead_and_says_so(opened: Any) -> None:
    page = opened("restored")
    page.wait_for_timeout(1700)
    assert page.locator("button[data-live]:enabled").count() == 0
    assert card(page, 0).get_by_role("button", name="Allow once").is_disabled()


def test_a_view_without_a_kernel_says_that_its_buttons_do_nothing(opened: Any) -> None:
    page = opened("unplugged")
    page.wait_for_timeout(1700)
    assert "No kernel answers it, so its buttons do nothing." in page.inner_text("body")
    assert page.locator("button[data-live]:enabled").count() == 0


def test_a_kernel_that_goes_away_takes_the_buttons_with_it(opened: Any) -> None:
    page = opened("asking")
    assert card(page, 0).get_by_role("button", name="Allow once").is_enabled()
    page.evaluate("window.models.asking.die()")
    assert page.locator("button[data-live]:enabled").count() == 0
    page.wait_for_timeout(1700)
    assert "No kernel answers it" in page.inner_text("body")


def test_a_new_card_takes_no_focus_and_is_announced_once(opened: Any) -> None:
    page = opened("streaming")
    page.get_by_label("Add to this turn").focus()
    change(page, "streaming", fold_turn(*turns.asking()))
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Add to this turn"
    assert page.locator("[aria-live=polite].vh").inner_text() != ""


def test_silence_is_said_after_thirty_seconds(opened: Any) -> None:
    assert re.search(r"quiet for 3\d s", opened("tasks").inner_text("body"))


def test_hostile_text_becomes_no_element(opened: Any) -> None:
    page = opened("finished")
    text = "<img src=x onerror=window.bad=1> [x](javascript:window.bad=1) <b>no</b>"
    story = turns.Story().begin().say(text, turns.use("1", text, command=text))
    story.ran("toolu_1", text, diff=f"@@ -1 +1 @@\n-{text}")
    change(page, "finished", fold_turn(story.end()))
    assert page.locator("#finished img, #finished b b, #finished a").count() == 0
    assert page.evaluate("window.bad") is None
    assert "<img src=x" in page.inner_text("#finished")


def test_a_narrow_view_does_not_overflow(opened: Any) -> None:
    for name in ("streaming", "asking", "tasks", "finished", "failed", "replayed", "card"):
        page = opened(name, width=390)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{name} is {wide} px wide"


def test_a_screenshot_of_each_theme_and_width_can_be_taken(
    browser: Any, site: str, tmp_path: Path
) -> None:
    made = views_page.shoot(browser, site, tmp_path)
    assert [path.stem for path in made] == ["light-900", "light-390", "dark-900", "dark-390"]
    assert all(path.stat().st_size > 20_000 for path in made)
