"""Text of models, tools and files is nowhere live, in any mime of any view."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import mistune
import pytest

from agent_kernel.core.actions import RunBatch
from agent_kernel.core.events import (
    Attachment,
    Event,
    FileChanged,
    TaskCreated,
    TaskFinished,
    ToolAsk,
    ToolCall,
    ToolDecision,
    UserMessage,
)
from agent_kernel.core.messages import Message, Text, Thinking, ToolUse
from agent_kernel.core.model import Request, SystemText, ToolSchema
from agent_kernel.widgets import (
    compaction,
    context,
    logview,
    markdown,
    request,
    stepper,
    surface,
    tasks,
    tree,
)
from agent_kernel.widgets.bundle import Bundle, mime_bundle, of_blocks
from agent_kernel.widgets.fold import fold_turn
from agent_kernel.widgets.turnview import Ask, Live, Replayed
from tests.widgets.turns import Story

CASES = Path(__file__).resolve().parent.parent / "cases" / "render_injection_secrets.csv"
MORE = [
    "<script>alert(1)</script>",
    "</code></pre><img src=x onerror=alert(1)>",
    '"><a href="javascript:alert(1)">x</a>',
    "[x](javascript:alert(1)) [y]( JaVaScRiPt:alert(1)) ![z](data:text/html,x)",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)> <https://ok.test/<b>>",
    "`` ` `` ```\n<b>out</b>\n```\n````",
    "\x1b]8;;https://evil.test\x07click\x1b]8;;\x07\x1b[8mhidden\x1b[0m\x9b31m",
    "a\u202eb\u2066c\U000e0041\u200bd\ud800e",
    "$$\\href{javascript:alert(1)}{x}$$ \\(x\\) \\begin{x}",
    "| a | b |\n|--|--|\n| <i>x</i> | [y](javascript:1) |",
    "* \n<details open ontoggle=alert(1)>\n",
    "data-commandlinker-command=x <button data-commandlinker-command=y>",
    "\r\n# head <u>\n=====\n- [x](vbscript:1)\n    <b>indented</b>\n",
    "{{constructor}} &lt;b&gt; &#60;b&#62; &amp;",
]
TAGS = set(
    "div p b small code pre ul ol li table thead tbody tr th td details summary span a strong em "
    "del blockquote hr br h1 h2 h3 h4 h5 h6 input".split()
)
ATTRIBUTES = {
    "class",
    "style",
    "href",
    "rel",
    "target",
    "open",
    "start",
    "type",
    "checked",
    "disabled",
}


def cases() -> list[str]:
    """The inputs of the table's areas that a view shows, and more of the same kinds."""
    with CASES.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["area"] in ("render", "terminal")]
    return [json.loads(row["json"]) for row in rows if row["json"]] + MORE


class Live_(HTMLParser):
    """What of a page is markup: tags, attributes and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.bad.append(tag)
        for name, value in attrs:
            link = name == "href" and not re.match(r"(https?://|#)", value or "")
            if name not in ATTRIBUTES or link:
                self.bad.append(f"{tag} {name}={value}")

    def handle_comment(self, data: str) -> None:
        self.bad.append(f"comment {data}")


def live_in(bundle: Bundle) -> list[str]:
    """Everything live in a bundle: HTML as it stands, Markdown as a lenient renderer shows it."""
    found = Live_(bundle["text/html"]).bad
    render = mistune.create_markdown(escape=False, plugins=["table", "strikethrough", "url"])
    found += [f"markdown {bad}" for bad in Live_(str(render(bundle["text/markdown"]))).bad]
    for mime in ("text/plain", "text/html", "text/markdown"):
        found += re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", bundle[mime])
        bundle[mime].encode("utf-8")
    return found


def hostile_turn(text: str) -> tuple[list[Event], Live]:
    """A turn that holds `text` wherever a model, a tool, a file or a person may put it."""
    story = Story().begin(text)
    given = {"path": text, "command": text, "old": text, "new": text + text, text: text}
    uses = [
        ToolUse(f"id-{name}", name, given)
        for name in ("bash", "edit", "read", text or "x", "python")
    ]
    story.say(Thinking(text + ".", "s"), Text(text + "."), *uses)
    for use in uses[:3]:
        story.ran(use.id, text, diff=f"@@ -1 +1 @@ {text}\n-{text}\n+{text}", exit_code=text)
    story.add(FileChanged, path=text, before=text, after=None, tool_call="id-edit")
    story.add(ToolAsk, id=uses[3].id, rule=text, reason=text, risk=text or "x", parts=(text,))
    story.add(ToolAsk, id="id-python", rule=text, reason=text)
    story.add(TaskCreated, id=text, kind="bash", label=text, tool_use_id="id-bash")
    story.add(TaskFinished, id=text, status="failed", summary=text)
    story.add(Attachment, kind="notification", label=text, content=text)
    story.add(UserMessage, content=text)
    asks = {uses[3].id: Ask(text, text, rules=(text,), stale=text, bullets=(text,))}
    return story.events, Live(now=story.now, text=text, writing=text, asks=asks, stopped_by=text)


@pytest.mark.parametrize("text", cases(), ids=lambda text: repr(text)[:40])
def test_nothing_of_a_turn_is_live_in_any_mime(text: str) -> None:
    events, live = hostile_turn(text)
    replayed = Replayed(missing=(text,), changed=(text,), calls=1)
    for view in (fold_turn(events, live), fold_turn(events, replayed=replayed)):
        assert live_in(mime_bundle(view)) == []
    story = Story().begin()
    for reason in ("error", "budget", "refused"):
        events = Story().begin(text).end(reason, {"text": text})
        assert live_in(mime_bundle(fold_turn(events))) == []
    assert story.events


@pytest.mark.parametrize("text", cases(), ids=lambda text: repr(text)[:40])
def test_nothing_of_a_command_s_view_is_live_in_any_mime(text: str) -> None:
    events, live = hostile_turn(text)
    schema = {"type": "object", "title": text}
    made = Request(
        model=text or "m",
        messages=(Message("user", text + "."), Message("assistant", [Text(text + ".")])),
        system=(SystemText(text, text),),
        tools=(ToolSchema(text, text, schema),),
        params={text: text},
    )
    other = Request(model="m", messages=(Message("user", text + "!"),))
    nodes = [event for event in events if hasattr(event, "replaces")]
    call = ToolCall(id="c1", name=text, input={"command": text}, input_hash="0")
    parts = context.parts_of(made, nodes)  # type: ignore[arg-type]
    views = [
        tasks.view(events, live),
        request.view(made, label=text),
        request.difference(made, other, labels=(text, text), cause=text),
        context.view(parts, label=text),
        surface.view(nodes),  # type: ignore[arg-type]
        logview.view(events, path=text),
        stepper.view(RunBatch(("c1",)), {"c1": call}, next_request=made, stopped_by=text),
        compaction.view(events),
        tree.view([tree.Node(text, text, here=True, children=(tree.Node(text),))]),
        tree.view([tree.agents(events)]),
    ]
    for blocks in views:
        assert live_in(of_blocks(blocks)) == []


@pytest.mark.parametrize("text", cases(), ids=lambda text: repr(text)[:40])
def test_the_tree_a_widget_builds_holds_no_unsafe_link(text: str) -> None:
    tree_ = json.dumps(markdown.blocks(text))
    for href in re.findall(r'\["a", "((?:[^"\\]|\\.)*)"', tree_):
        assert re.match(r"https?://|#", href)


def test_a_person_s_denial_is_shown_as_text() -> None:
    story = Story().begin().say(ToolUse("a", "bash", {"command": "x"}))
    reason = "<b>no</b>"
    story.add(ToolDecision, id="a", verdict="deny", by="person", reason=reason, rule=reason)
    html = mime_bundle(fold_turn(story.end()))["text/html"]
    assert "<b>no</b>" not in html
    assert "&lt;b&gt;no&lt;/b&gt;" in html


def test_the_watch_itself_sees_live_markup() -> None:
    page = {"text/html": "<img src=x>", "text/markdown": "[x](javascript:a)", "text/plain": "\x1b"}
    assert len(live_in(page)) >= 3
