"""Live markup: what a page made of rendered text would still run, load or lead to."""

from __future__ import annotations

from html.parser import HTMLParser

from markdown_it import MarkdownIt
from nbconvert.filters.markdown_mistune import markdown2html_mistune

# What Markdown itself makes; anything else came from the text.
TAGS = frozenset(
    "p h1 h2 h3 h4 h5 h6 em strong code pre ul ol li blockquote a hr br table thead tbody tr th td "
    "del s dl dt dd div span input section sup".split()
)
ATTRIBUTES = frozenset("href class id align style title start type checked disabled".split())


class Live(HTMLParser):
    """Collects every tag, attribute and link that no plain document has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name not in ATTRIBUTES:
                self.found.append(f"{tag}[{name}={value}]")
            if name == "href" and not (value or "").startswith(("http://", "https://", "#")):
                self.found.append(f"{tag}[href={value}]")
            if name == "style" and (value or "").partition(":")[0] != "text-align":
                self.found.append(f"{tag}[style={value}]")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def live(page: str) -> list[str]:
    """What is live in a piece of HTML."""
    reader = Live()
    reader.feed(page)
    reader.close()
    return reader.found


def rendered(markdown: str) -> list[str]:
    """What two renderers make: nbconvert's, and CommonMark with tables and raw HTML."""
    common = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return [markdown2html_mistune(markdown), common.render(markdown)]


def live_in_markdown(markdown: str) -> list[str]:
    """What is live after either renderer."""
    return [found for page in rendered(markdown) for found in live(page)]
