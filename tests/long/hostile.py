"""Hostile: strings that want to run, load or hide, through every view, in a real Chromium.

May not trust the escaping it looks at: the browser says what ran, what was asked for and what is
readable. A step is one string in every static view; each hundredth page is opened once.
"""

from __future__ import annotations

import html as stdlib_html
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import mistune
import pandas as pd

from agent_kernel.core.actions import RunBatch
from agent_kernel.core.events import ToolCall
from agent_kernel.core.messages import Message, Text
from agent_kernel.core.model import Request, SystemText, ToolSchema
from agent_kernel.guard import render
from agent_kernel.widgets import (
    compaction,
    context,
    logview,
    request,
    stepper,
    surface,
    tasks,
    tree,
)
from agent_kernel.widgets.bundle import mime_bundle, of_blocks
from agent_kernel.widgets.fold import fold_turn
from tests.browser import views_page
from tests.widgets.test_hostile import cases, hostile_turn

SLICE = 1_000
PAGE = 50  # strings of one page
EVIL = "https://evil.test"
RUN = "window.pwned=(window.pwned||0)+1"
PAYLOADS = (
    f"<script>{RUN}</script>", f"<img src=x onerror={RUN}>", f"<img src={EVIL}/i.png>",
    f"<svg onload={RUN}>", f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<iframe src={EVIL}></iframe>", f"<link rel=stylesheet href={EVIL}/c.css>",
    f"<style>@import '{EVIL}/s.css'</style>", f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>", f"<input autofocus onfocus={RUN}>", f"<video src={EVIL}>",
    f"<object data={EVIL}></object>", f"<embed src={EVIL}>", f"<base href={EVIL}/>",
    f"<meta http-equiv=refresh content='0;url={EVIL}'>", f"<form action={EVIL}><button>",
    f"<a href='javascript:{RUN}'>x</a>", f"[x](javascript:{RUN})", f"![x]({EVIL}/p.png)",
    f"[![x]({EVIL}/q.png)]({EVIL})", f"<x style='background:url({EVIL}/b.png)'>",
    f"$\\\\href{{javascript:{RUN}}}{{x}}$", f"<math><mtext><img src=x onerror={RUN}>",
    f"<button data-commandlinker-command=x onclick={RUN}>",
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>", f"<template>{RUN}</template>",
    f"<marquee onstart={RUN}>", f"&lt;img src=x onerror={RUN}&gt;", f"\\x3cscript\\x3e{RUN}",
)  # fmt: skip
BREAKERS = (
    "", "\"", "'", "</pre>", "</code></pre>", "-->", "]]>", "</textarea>", "</title>", "</style>",
    "</script>", "\"'>", "`", "```\n", "\n\n", "\n    ", "\x1b[8m", "\x1b]8;;x\x07", "\u202e",
    "\u2066", "\u200b", "\x00", "\ud800", "\r", "|", "\\", "<!--", "<![CDATA[", "&", "%3C",
    "\U000e0041",
)  # fmt: skip


def string(rng: random.Random, number: int) -> str:
    """One hostile string; it holds `mk<number>`, which must be readable wherever it is shown."""
    inner = "".join(rng.choice(BREAKERS) for _ in range(rng.randrange(3)))
    payload = rng.choice(PAYLOADS) if rng.random() < 0.9 else rng.choice(cases())
    parts = [inner, payload, rng.choice(BREAKERS), f" mk{number} "]
    if rng.random() < 0.3:
        rng.shuffle(parts)
    if rng.random() < 0.1:
        parts[0] += "".join(char.swapcase() for char in payload)
    return "".join(parts)


def run(
    seed: int = 1,
    start: int = 0,
    steps: int = 1_000,
    until: float = 0.0,
    chromium: str = views_page.CHROMIUM,
) -> dict[str, int]:
    """Counts over strings `start` to `start + steps`: `views` shown, `violations` of all kinds."""
    counts = dict.fromkeys(("steps", "views", "violations"), 0)
    with Browser(chromium) as open_page:
        while counts["steps"] < steps and not (until and time.monotonic() > until):
            size = min(PAGE, steps - counts["steps"])
            first = start + counts["steps"]
            numbers = range(first, first + size)
            strings = {n: string(random.Random(f"{seed}:{n}"), n) for n in numbers}
            views = list(shown(strings))
            for problem in open_page(views, strings):
                counts["violations"] += 1
                print(f"strings {first} to {first + size}: {problem}", file=sys.stderr)
            counts["views"] += len(views)
            counts["steps"] += size
    return counts


View = tuple[str, int, str]  # which view, which string (-1: all of them), its HTML


def shown(strings: dict[int, str]) -> Iterator[View]:
    """Every static view of every string."""
    for number, text in strings.items():
        for name, make in VIEWS.items():
            yield name, number, make(text)
    values = list(strings.values())
    safe = [value.encode("utf-8", "replace").decode() for value in values]
    frame = pd.DataFrame({"text": safe, "n": range(len(safe))}, index=safe)
    with pd.option_context("display.max_rows", None, "display.max_colwidth", None):
        yield "frame", -1, frame._repr_html_()
    yield "frame columns", -1, pd.DataFrame([safe[:20]], columns=safe[:20])._repr_html_()


def _turn(text: str) -> str:
    return mime_bundle(fold_turn(*hostile_turn(text)))["text/html"]


def _turn_markdown(text: str) -> str:
    made = mime_bundle(fold_turn(hostile_turn(text)[0]))["text/markdown"]
    return str(_MARKDOWN(made))


def _commands(text: str) -> str:
    """The views of the commands, one below the other."""
    events, live = hostile_turn(text)
    nodes: Any = [event for event in events if hasattr(event, "replaces")]
    made = _request(text)
    other = Request(model="m", messages=(Message("user", text + "!"),))
    call = ToolCall(id="c1", name=text, input={"command": text}, input_hash="0")
    views: Sequence[Any] = (
        tasks.view(events, live),
        request.view(made, label=text),
        request.difference(made, other, labels=(text, text), cause=text),
        context.view(context.parts_of(made, nodes), label=text),
        surface.view(nodes),
        logview.view(events, path=text),
        stepper.view(RunBatch(("c1",)), {"c1": call}, next_request=made, stopped_by=text),
        compaction.view(events),
        tree.view([tree.Node(text, text, here=True, children=(tree.Node(text),))]),
    )
    return "".join(of_blocks(blocks)["text/html"] for blocks in views)


def _request(text: str) -> Request:
    return Request(
        model=text,
        messages=(Message("user", text), Message("assistant", [Text(text)])),
        system=(SystemText(text, text),),
        tools=(ToolSchema(text, text, {"type": "object", "title": text}),),
        params={text: text},
    )


_MARKDOWN = mistune.create_markdown(escape=False, plugins=["table", "strikethrough", "url"])


def _attribute(text: str) -> str:
    return f'<p title="{render.html(text)}">{render.html(text)}</p>'


VIEWS: dict[str, Callable[[str], str]] = {
    "turn": _turn,
    "turn as Markdown": _turn_markdown,
    "commands": _commands,
    "html": _attribute,
    "markdown": lambda text: str(_MARKDOWN(render.markdown(text))),
    "plain": lambda text: f"<pre>{stdlib_html.escape(render.plain(text))}</pre>",
    "visible": lambda text: f"<pre>{render.html(render.visible(text))}</pre>",
}
LOOK = """() => {
  const bad = [];
  const live = "script iframe object embed form svg math link base video audio template marquee";
  for (const e of document.querySelectorAll("body *")) {
    const tag = e.localName;
    if (live.split(" ").includes(tag) && !(tag === "script" && e.type === "module"))
      bad.push("element " + tag);
    if (tag === "img" && !/^data:image.png;/.test(e.src)) bad.push("picture " + e.src);
    if (tag === "style" && !/dataframe/.test(e.textContent)) bad.push("style");
    for (const a of e.attributes) {
      if (/^on|^srcdoc$|^formaction$|commandlinker/i.test(a.name)) bad.push(tag + " " + a.name);
      if (a.name === "style" && /url|expression/i.test(a.value)) bad.push(tag + " style");
    }
    const href = e.getAttribute("href") || "#";
    if (tag === "a" && !/^(https?:|#)/i.test(href)) bad.push("link " + href);
  }
  const texts = {};
  for (const e of document.querySelectorAll("[data-view]")) {
    texts[e.dataset.view] = e.textContent.match(/mk\\d+/g) || [];
  }
  return { bad, ran: window.pwned || 0, texts };
}"""


class Browser:
    """Chromium without a network; entered, it gives what opens views and yields what is wrong."""

    def __init__(self, path: str = views_page.CHROMIUM) -> None:
        self._path = path

    def __enter__(self) -> partial[Iterator[str]]:
        from playwright.sync_api import sync_playwright

        self._play = sync_playwright().start()
        self._browser = self._play.chromium.launch(executable_path=self._path, args=views_page.ARGS)
        return partial(_opened, self._browser)

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._play.stop()


def _opened(chromium: Any, views: Sequence[View], strings: dict[int, str]) -> Iterator[str]:
    page = chromium.new_page()
    asked: list[str] = []
    said: list[str] = []

    def answer(route: Any) -> None:
        if route.request.url == "http://views.test/":
            route.fulfill(body=_page(views), content_type="text/html; charset=utf-8")
        else:
            asked.append(route.request.url)
            route.abort()

    page.route("**/*", answer)
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.goto("http://views.test/")
    page.wait_for_timeout(50)
    try:
        found = page.evaluate(LOOK)
    except Exception as problem:
        page.close()
        yield f"the page went away: {problem}"
        return
    wrong = [f"asked for {url}" for url in asked] + [f"said {one!r}" for one in said]
    wrong += found["bad"] + ([f"a script ran {found['ran']} times"] if found["ran"] else [])
    wrong += _unread(views, strings, found["texts"])
    if page.url != "http://views.test/":
        wrong.append(f"the page went to {page.url}")
    page.close()
    yield from wrong


def _page(views: Sequence[View]) -> str:
    body = "".join(
        f'<section data-view="{at}">{made}</section>' for at, (_, _, made) in enumerate(views)
    )
    made = f'<!doctype html><meta charset="utf-8"><title>Views</title><body>{body}'
    return made.encode("utf-8", "replace").decode()


_INFO = re.compile(r"^\s*(?:```|~~~)[^\n]*mk\d", re.MULTILINE)


def _unread(
    views: Sequence[View], strings: dict[int, str], texts: dict[str, list[str]]
) -> Iterator[str]:
    """The views whose string cannot be read in the page."""
    for at, (name, number, _made) in enumerate(views):
        got = texts.get(str(at))
        wanted = [f"mk{number}"] if number >= 0 else [f"mk{n}" for n in list(strings)[:20]]
        if name == "plain" and "\r" in strings.get(number, ""):
            continue  # a line that was written over is not shown, as on a terminal
        if "arkdown" in name and _INFO.search(strings.get(number, "")):
            continue  # the words behind a fence's opening are no text in Markdown
        missing = [mark for mark in wanted if got is None or mark not in got]
        if missing:
            yield f"{name}: {missing[0]} of {json.dumps(strings.get(number, ''))} is not readable"
