"""Rendering beyond the case table: Markdown read by two renderers, terminal text, names, pages."""

from __future__ import annotations

import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.guard.fence import escape_tags
from agent_kernel.guard.page import text_of
from agent_kernel.guard.render import clip, hidden, html, markdown, plain, visible
from tests.guard.live_markup import live, live_in_markdown, rendered

PIECES = [
    *(
        "<img src=x onerror=1>",
        "<script>",
        "</",
        "<!--",
        "-->",
        "<http://c.d>",
        "<a href='javascript:1'>",
    ),
    *(
        "`",
        "``",
        "```",
        "````",
        "~~~",
        "~",
        "~~",
        "\\",
        "\\`",
        "\\[",
        "\\(",
        "[",
        "]",
        "(",
        ")",
        "](",
    ),
    *("![", "http://x.y/", "https://a.b", "javascript:a", "data:text/html,x", "www.e.f", "g@h.i"),
    *("$", "$$", "\\begin{a}", "\\end{a}", "\\href{javascript:1}{x}", "{", "}", "@@0@@"),
    *(
        "\n",
        "\n\n",
        "    ",
        "\t",
        "> ",
        "- ",
        "1. ",
        "10) ",
        "+ ",
        "- [ ] ",
        "|",
        "|---|---|\n",
        "=\n",
    ),
    *("---\n", "# ", "a", "b c", "*", "_", "**", "^", ":", "!", "'", '"', "&lt;", "&#60;", "[x]: "),
    *("[x]", "[^1]: ", "[^1]", "html\n", "\r", "\x0b", "\u2028", "\u00a0", "\x00", "\ud800"),
]


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_no_text_makes_live_markup_in_any_renderer(seed: int) -> None:
    random = Random(seed)
    text = "".join(random.choices(PIECES, k=random.randint(1, 25)))
    for math in (False, True):
        shown = markdown(text, math=math)
        assert live_in_markdown(shown) == [], (text, shown)


@given(st.text(max_size=200))
def test_any_text_is_shown_by_every_function(text: str) -> None:
    for show in (html, markdown, plain, visible, escape_tags):
        show(text).encode()
    assert live(f'<b title="{html(text)}">{html(text)}</b>') == ["<b>"]


def test_ordinary_markdown_looks_the_same() -> None:
    text = (
        "# Title\n\nSome **bold**, _italic_ and `a < b` with [a link](https://x.example/a_b).\n\n"
        "- one\n- two\n\n```python\nif a < b:\n    print('`')\n```\n\n> quoted `x`\n\n"
        "| a | b |\n|---|---|\n| 1 | `p|q` |\n"
    )
    one, two = rendered(markdown(text))
    for page in (one, two):
        for mark in ("<h1", "<strong>bold", "<em>italic", "<code>a &lt; b</code>", "<li>one"):
            assert mark in page
        assert 'href="https://x.example/a' in page
        assert "<blockquote>" in page
        assert "<td>1</td>" in page
    assert "<code>p|q</code>" in two
    assert "&lt; b:" in two


def test_code_in_a_list_stays_in_its_item() -> None:
    text = "1. do\n   ```sh\n   ls <x\n   ```\n2. then\n- ```\n  a<b\n  ```"
    for page in rendered(markdown(text)):
        assert page.count("<pre") == 2
        assert "ls" in page
        assert "&lt;x" in page or "&lt;</span>x" in page


def test_indented_code_becomes_a_fence() -> None:
    assert markdown("text\n\n    a <b>\n\nend") == "text\n\n```\na <b>\n```\n\nend"


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:x",
        "java&#115;cript:x",
        "&#106;avascript:x",
        "data:text/html,x",
        "vbscript:x",
        "//evil.example/",
        "/relative",
        "file:///etc/passwd",
        "https:evil",
        "http://",
        "mailto:a@b.example",
        "ftp://a.example/",
        "https:\\\\evil.example",
        "command:x",
    ],
)
def test_only_plain_web_links_stay_links(target: str) -> None:
    for text in (
        f"[x]({target})",
        f"[x](<{target}>)",
        f'[x]({target} "t")',
        f"[x][r]\n\n[r]: {target}",
    ):
        assert not any("<a" in page for page in rendered(markdown(text))), text


def test_web_links_and_anchors_stay_links() -> None:
    for text in ("[x](https://a.example/b?c=d)", "[x](#top)", "[x][r]\n\n[r]: http://a.example/"):
        assert all("<a href=" in page for page in rendered(markdown(text))), text
    assert '"' not in markdown('[x](https://a.example/"onmouseover=alert`1`)').partition("](")[2]


def test_pictures_never_load() -> None:
    for text in (
        "![a](https://x.example/p.png)",
        "![a][r]\n\n[r]: https://x.example/",
        "[![a](u)](https://x.example)",
        "!\\[a](https://x.example)",
        "wow![a](https://x.example)",
    ):
        for page in rendered(markdown(text)):
            assert "<img" not in page
            assert ">a</a>" in page or "a" in page


def test_formulas_stay_text_unless_wanted() -> None:
    assert markdown("it costs $5") == "it costs \\$5"
    assert markdown("$5 or $6") == "\\\\\\$5 or \\\\\\$6"
    assert markdown("$a<b$", math=True) == "$a\\lt b$"
    assert markdown("\\(x\\) \\\\(y\\\\) \\\\[z\\\\]") == "(x) (y) \\[z\\]"


@pytest.mark.parametrize(
    "piece", ["[", "<", "`", "`` ` ", "$", "\\", "[a", "![", "> ", "```\n", "\x1b]0;", "\r", "~ "]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        began = time.process_time()
        markdown(text), plain(text), visible(text), escape_tags(text)
        return time.process_time() - began

    assert seconds(400_000) < max(5 * seconds(100_000), 1.0)


def test_names_show_every_hidden_character() -> None:
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("a\tb\nc", one_line=True) == "a\\u{9}b\\u{a}c"
    assert visible("\x00\x1b\r\x7f\x85\u00a0\u3164\u2800\ufeff\U000e0041") == (
        "\\u{0}\\u{1b}\\u{d}\\u{7f}\\u{85}\\u{a0}\\u{3164}\\u{2800}\\u{feff}\\u{e0041}"
    )
    assert visible("héllo 世界 ñ") == "héllo 世界 ñ"
    assert hidden("héllo\n") == 0


def test_emoji_and_scripts_stay_whole_in_plain_text() -> None:
    for text in ("👩‍💻", "❤️", "می‌خواهم", "e\u0301"):
        assert plain(text) == text


def test_colours_stay_and_other_sequences_go() -> None:
    kept = "\x1b[1;31mred\x1b[0m \x1b[3;4mi\x1b[24m \x1b[38;2;1;2;3mx\x1b[48;5;9my\x1b[m"
    assert plain(kept) == kept[:-3] + "\x1b[0m"
    for text in (
        "\x1b[2J",
        "\x1b[1A",
        "\x1b(B",
        "\x1b7",
        "\x1bc",
        "\x1b[?1049h",
        "\x1b",
        "\x9b2J",
        "\x1b[5m",
    ):
        assert plain(f"a{text}") == "a", text
    assert plain("\x1b[38;5;999mx") == "x"


def test_a_clipped_text_says_how_much_is_missing() -> None:
    assert clip("short") == ("short", 0)
    shown, left = clip("x" * 1000, 100)
    assert left == 900
    assert shown == "x" * 80 + "\n[900 characters left out]\n" + "x" * 20


def test_a_page_becomes_text() -> None:
    text, cut = text_of(
        "<!doctype html><title>T &amp; U</title><style>p{}</style><h2>Head</h2><p>one\n two"
        "<script>if (a < b) document.write('<p>no</p>')</script> <a href='https://x.example/?a&amp;b'>l</a>"
        "<ul><li>a<li>b</ul><pre> keep\n  this</pre><table><tr><td>1<td>2</table><!-- no --> a < b"
    )
    assert not cut
    assert text == (
        "# T & U\n\n## Head\n\none two l (https://x.example/?a&b)\n\n- a\n\n- b\n\n"
        "```\n keep\n  this\n```\n\n| 1 | 2\n\na < b"
    )


def test_a_deep_or_long_page_is_cut() -> None:
    assert text_of("<div>" * 201 + "deep")[1]
    assert text_of("<b>x</b>" * 100_000)[1]
    assert not text_of("<p>x<li>y" * 1000)[1]


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", '<a href="', "</", "<![", "<script>", "<?", "&#", "<p \"'", "<"]
)
def test_a_broken_page_takes_linear_time(piece: str) -> None:
    began = time.process_time()
    text_of(piece * (3_000_000 // len(piece)))
    assert time.process_time() - began < 3
