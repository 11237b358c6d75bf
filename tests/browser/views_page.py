"""Views page: hosts the widgets' own files, with a stand-in for the model of anywidget.

Run it by hand to look: `python -m tests.browser.views_page FOLDER` writes screenshots there.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent_kernel.widgets import anywidgets, html, turn
from agent_kernel.widgets.fold import fold_turn
from agent_kernel.widgets.turnview import Replayed, TurnView
from tests.widgets import turns

# JupyterLab's own variables: only what the views read, with the values of its two themes.
HOST = """
:root{--jp-ui-font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;
--jp-code-font-family:Menlo,Consolas,"DejaVu Sans Mono",monospace;--jp-border-radius:2px}
body{--jp-layout-color1:#fff;--jp-layout-color2:#eee;--jp-border-color1:#bdbdbd;
--jp-border-color2:#e0e0e0;--jp-ui-font-color1:rgba(0,0,0,.87);--jp-ui-font-color2:rgba(0,0,0,.54);
--jp-brand-color1:#1976d2;--jp-success-color1:#388e3c;--jp-warn-color1:#f57c00;
--jp-error-color1:#d32f2f;color-scheme:light;margin:0 auto;padding:12px 16px;
background:var(--jp-layout-color1);font:13px/1.5 var(--jp-ui-font-family)}
body[data-jp-theme-light=false]{--jp-layout-color1:#212121;--jp-layout-color2:#424242;
--jp-border-color1:#616161;--jp-border-color2:#424242;--jp-ui-font-color1:rgba(255,255,255,.87);
--jp-ui-font-color2:rgba(255,255,255,.54);--jp-brand-color1:#2196f3;--jp-success-color1:#4caf50;
--jp-warn-color1:#ff9800;--jp-error-color1:#f44336;color-scheme:dark}
.cell{margin:0 0 32px}.static{color:var(--jp-ui-font-color1)}
"""
SCRIPT = """
const sent = (window.sent = []);
const models = (window.models = {});
function model(state, alive) {
  const on = {};
  const fire = (name, ...args) => (on[name] || []).slice().forEach((f) => f(...args));
  return {
    get: (name) => state[name],
    on: (name, f) => (on[name] ||= []).push(f),
    off: (name, f) => (on[name] = (on[name] || []).filter((g) => g !== f)),
    send(message) {
      sent.push(message);
      const pong = () => fire("msg:custom", { type: "pong" });
      if (alive && message.type === "ping") setTimeout(pong, 0);
    },
    die() {
      alive = false;
      fire("comm_live_update");
    },
    change(next) {
      Object.assign(state, next);
      for (const name of Object.keys(next)) fire("change:" + name);
    },
  };
}
const query = new URLSearchParams(location.search);
document.body.dataset.jpThemeLight = String(query.get("theme") !== "dark");
for (const [name, cell] of Object.entries(await (await fetch("views.json")).json())) {
  if (query.get("only") && query.get("only") !== name) continue;
  const host = document.createElement("div");
  host.className = "cell";
  host.id = name;
  document.body.append(host);
  if (cell.html) { host.classList.add("static"); host.innerHTML = cell.html; continue; }
  const widget = await import("./" + cell.widget + ".js");
  models[name] = model(cell.state, cell.alive);
  widget.default.render({ model: models[name], el: host });
}
window.ready = true;
"""
ESMS = ("turn", "approval", "xray", "stepper", "compaction", "difference")
PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Views</title>'
    f'<link rel="stylesheet" href="ak.css"><style>{HOST}</style></head><body>'
    f'<script type="module">{SCRIPT}</script></body></html>'
)


def views() -> dict[str, TurnView]:
    """Return a folded turn of each kind."""
    fold = partial(fold_turn, price=turns.price, window=turns.WINDOW)
    events, live = turns.streaming()
    asked, asking = turns.asking()
    worked, working = turns.tasks()
    replayed = Replayed(missing=("per_order", "net"), changed=("src/app.py, 2 lines",), calls=2)
    return {
        "streaming": fold(events, live),
        "asking": fold(asked, asking),
        "tasks": fold(worked, working),
        "finished": fold(turns.finished()),
        "failed": fold(turns.failed()),
        "denied": fold(turns.denied()),
        "interrupted": fold(turns.interrupted()),
        "replayed": fold(turns.finished(), replayed=replayed),
        "demo": fold(turns.demo()),
        "restored": fold(asked),
        "unplugged": fold(worked, working),
    }


def cells() -> dict[str, Any]:
    """Return what the page shows: widgets with their state, then static twins."""
    out: dict[str, Any] = {}
    for name, view in views().items():
        alive = name not in ("restored", "unplugged")
        out[name] = {"widget": "turn", "alive": alive, "state": anywidgets.turn_state(view)}
    card = views()["asking"]["approvals"][2]
    out["card"] = {"widget": "approval", "alive": True, "state": {"view": card}}
    for name in ("finished", "restored"):
        out[f"static-{name}"] = {"html": html.html(turn.document(views()[name]))}
    return out


class _Handler(BaseHTTPRequestHandler):
    cells = staticmethod(cells)

    def do_GET(self) -> None:
        name = self.path.split("?")[0].lstrip("/")
        made = {
            "": ("text/html", lambda: PAGE),
            "ak.css": ("text/css", anywidgets.css),
            "views.json": ("application/json", lambda: json.dumps(self.cells())),
            **{f"{each}.js": ("text/javascript", partial(anywidgets.esm, each)) for each in ESMS},
        }.get(name)
        if made is None:
            self.send_error(404)
            return
        body = made[1]().encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{made[0]}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Say nothing: the test's own report is enough."""


@contextmanager
def serve(shown: Callable[[], dict[str, Any]] = cells) -> Iterator[str]:
    """Serve the page of these cells on a loopback port; gives its address."""
    handler = type("Handler", (_Handler,), {"cells": staticmethod(shown)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


CHROMIUM = "/usr/bin/chromium"
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def shoot(browser: Any, address: str, folder: Path) -> list[Path]:
    """Write one screenshot of the whole page for each theme and width; gives their paths."""
    out = []
    for theme in ("light", "dark"):
        for width in (900, 390):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(f"{address}?theme={theme}")
            page.wait_for_function("window.ready")
            page.wait_for_timeout(1700)
            path = folder / f"{theme}-{width}.png"
            page.screenshot(path=str(path), full_page=True)
            out.append(path)
            page.close()
    return out


def main(folder: Path) -> None:
    """Write the screenshots into `folder` and name them."""
    from playwright.sync_api import sync_playwright

    with serve() as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        for made in shoot(browser, address, folder):
            print(made)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
