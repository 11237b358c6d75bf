"""Hostile strings in Chromium: nothing runs, nothing is asked for, everything can be read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames.report import page as report
from agent_kernel.testing.script import Script, said, use
from agent_kernel.widgets import anywidgets
from agent_kernel.widgets.fold import fold_turn
from tests.browser import views_page
from tests.long import hostile
from tests.widgets.test_hostile import hostile_turn

pytestmark = [pytest.mark.browser, pytest.mark.slow]
STRINGS = 300  # `dev.py long hostile --steps 10000` shows them all
SEED = 1


def strings(count: int) -> dict[int, str]:
    return {n: hostile.string(random.Random(f"{SEED}:{n}"), n) for n in range(count)}


@pytest.mark.timeout(300)
def test_no_string_runs_or_asks_for_anything_in_any_static_view(chromium: str) -> None:
    counts = hostile.run(seed=SEED, steps=STRINGS, chromium=chromium)
    print(counts)
    assert counts["steps"] == STRINGS
    assert counts["violations"] == 0


def test_the_page_sees_markup_that_is_live(chromium: str) -> None:
    """The guard of the guard: the same strings unescaped are found, each kind by itself."""
    raw = [("raw", -1, payload) for payload in hostile.PAYLOADS if payload.startswith("<")]
    with hostile.Browser(chromium) as opened:
        seen = [list(opened([view], {})) for view in raw]
    missed = [view[2] for view, wrong in zip(raw, seen, strict=True) if not wrong]
    assert missed == []
    assert any("a script ran" in one for wrong in seen for one in wrong)
    assert any("asked for" in one for wrong in seen for one in wrong)


def test_the_report_of_hostile_sessions_shows_them_as_text(chromium: str, tmp_path: Path) -> None:
    given = strings(40)
    for number, text in given.items():
        clean = text.encode("utf-8", "replace").decode().replace("\0", "")
        s = Script(f"session-{number}")
        s.user(clean)
        s.answer(
            1, [said(clean), use(clean, 1, file_path=clean, **{clean: clean})], (1, 2, 3, 4, 5)
        )
        s.result(1, clean)
        s.answer(2, [said(clean)], (1, 2, 3, 4, 20))
        s.line({"type": "summary", "summary": clean, "leafUuid": "x", "sessionId": s.session})
        s.write(tmp_path / "in" / f"team{number}")
    found = frames.load(tmp_path / "in", readers=transcripts.ALL, cache=False)
    made = report(found, text=True, by_owner=True, root=str(tmp_path / "in"))
    tables = [table.head(40)._repr_html_() for table in (found.calls, found.tools)]
    views: list[hostile.View] = [("report", -1, made), *(("frame", -1, one) for one in tables)]
    with hostile.Browser(chromium) as opened:
        wrong = list(opened(views, {}))
    assert [one for one in wrong if one != "style"] == []


def test_no_string_runs_in_a_live_widget(chromium: str) -> None:
    given = strings(60)

    def cells() -> dict[str, Any]:
        made: dict[str, Any] = {}
        for number, text in given.items():
            view = fold_turn(*hostile_turn(text))
            state = anywidgets.turn_state(view)
            made[f"turn{number}"] = {"widget": "turn", "alive": True, "state": state}
            for card in view["approvals"][:1]:
                state = {"view": card}
                made[f"card{number}"] = {"widget": "approval", "alive": True, "state": state}
        return made

    with views_page.serve(cells) as address, hostile.Browser(chromium) as opened:
        page = opened.args[0].new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        page.goto(address)
        page.wait_for_function("window.ready")
        page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        page.wait_for_timeout(200)
        found = page.evaluate(hostile.LOOK)
        texts = page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('.cell')]"
            ".map((e) => [e.id, e.textContent]))"
        )
    assert [url for url in asked if not url.startswith(address)] == []
    bad = [one for one in found["bad"] if one != "element svg"]  # the icons are ours
    assert (bad, found["ran"]) == ([], 0)
    assert [n for n in given if f"mk{n}" not in texts[f"turn{n}"]] == []
