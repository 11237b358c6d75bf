"""Panels page: the x-ray, stepper, compaction and difference as the mock has them.

Run it by hand to look: `python -m tests.browser.panels_page FOLDER` writes screenshots there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agent_kernel.core.actions import RunBatch
from agent_kernel.core.events import ToolCall
from agent_kernel.core.replay import requests
from agent_kernel.widgets import compaction, html, request, stepper, xray, xray_view
from tests.browser import views_page
from tests.widgets import sessions

CALL = ToolCall(
    id="toolu_8c", name="bash", input={"command": "python -m pytest tests/test_refunds.py -q"},
    input_hash="x",
)  # fmt: skip


def states() -> dict[str, dict[str, Any]]:
    """The state of each panel."""
    session, _agent = sessions.worked()
    made = sessions.following()
    sent = [each for _context, each in requests(session.events)]
    nodes = session.surface().nodes
    layer = {node.seq: "micro" for node in nodes if node.type == "tool/result"}
    following = xray.Next(made, nodes, layer)
    rays = xray.state(session.events, following=following, window=20_000, soft=12_000, hard=16_000)
    stepped = stepper.state(
        RunBatch((CALL.id,)), {CALL.id: CALL}, key="k1", next_request=made, label="3.4",
        stopped_by="break tool:bash", price=(0.019, 0.142), cached=3_891,
    )  # fmt: skip
    return {
        "xray": {**rays, "selected": len(rays["rows"]) - 4},
        "stepper": stepped,
        "compaction": compaction.state(session.events),
        "difference": request.difference_state(
            sent[8], sent[9], labels=("3.3", "4.1"), cause="a compaction (seq 75)", dollars="$0.006"
        ),
    }


def cells() -> dict[str, Any]:
    """What the page shows: the panels, then their static twins."""
    made = states()
    out: dict[str, Any] = {
        name: {"widget": name, "alive": True, "state": {"view": state}}
        for name, state in made.items()
    }
    out["dead"] = {"widget": "stepper", "alive": False, "state": {"view": made["stepper"]}}
    out["static-xray"] = {"html": html.html(xray_view.view(made["xray"]))}  # type: ignore[arg-type]
    out["static-compaction"] = {"html": html.html(compaction.view(sessions.worked()[0].events))}
    return out


def main(folder: Path) -> None:
    """Write the screenshots into `folder` and name them."""
    from playwright.sync_api import sync_playwright

    with views_page.serve(cells) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=views_page.CHROMIUM, args=views_page.ARGS)
        for made in views_page.shoot(browser, address, folder):
            print(made)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
