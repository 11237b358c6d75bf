"""Edit: exactly the piece that was meant, and not one byte beside it."""

from __future__ import annotations

import stat

import pytest

from agent_kernel.core.events import FileChanged
from agent_kernel.tools.edit import EDIT
from agent_kernel.tools.read import READ
from tests.tools.conftest import Bench


async def edited(bench: Bench, content: bytes, old: str, new: str, **more: bool) -> bytes:
    path = bench.file("a.txt", content)
    await bench.text(READ, path="a.txt")
    await bench.text(EDIT, path="a.txt", old=old, new=new, **more)
    return path.read_bytes()


@pytest.mark.parametrize(
    "before,old,new,after",
    [
        (b"a\r\nb\r\nc", "b", "B", b"a\r\nB\r\nc"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nb2", b"a\r\nb\r\nb2\r\n"),
        (b"\tif x:\n\t\ty\n", "\t\ty", "\t\tz", b"\tif x:\n\t\tz\n"),
        (b"no final newline", "final", "last", b"no last newline"),
        ("naïve – 世界\n".encode(), "世界", "мир", "naïve – мир\n".encode()),
        (b"caf\xe9 latin-1 one\n", "one", "two", b"caf\xe9 latin-1 two\n"),
        (b"\xef\xbb\xbfbom\n", "bom", "BOM", b"\xef\xbb\xbfBOM\n"),
        (b"a\x0cb\nc\n", "c", "d", b"a\x0cb\nd\n"),
        (b"one\n", "one\n", "", b""),
    ],
)
async def test_untouched_bytes_stay(
    bench: Bench, before: bytes, old: str, new: str, after: bytes
) -> None:
    assert await edited(bench, before, old, new) == after


async def test_the_result_is_a_unified_diff_and_so_is_the_meta(bench: Bench) -> None:
    bench.file("a.py", "".join(f"line {n}\n" for n in range(1, 21)))
    await bench.text(READ, path="a.py")
    answer = await bench.call(EDIT, path="a.py", old="line 10\n", new="ten\nand a half\n")
    text = answer.content[0].text
    assert text == (
        "edited a.py (+2 -1 lines)\n@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+ten\n"
        "+and a half\n line 11\n line 12\n line 13"
    )
    assert answer.meta["added"] == 2
    assert answer.meta["removed"] == 1
    assert answer.meta["diff"] in text


async def test_a_long_diff_stops_at_200_lines(bench: Bench) -> None:
    bench.file("a", "x\n" * 500)
    await bench.text(READ, path="a")
    answer = await bench.call(EDIT, path="a", old="x", new="y", all=True)
    lines = answer.meta["diff"].split("\n")
    assert len(lines) == 201
    assert lines[-1] == "[801 more lines of the diff left out]"
    assert answer.meta["added"] == answer.meta["removed"] == 500


async def test_several_places_are_named_by_line_and_all_takes_them(bench: Bench) -> None:
    path = bench.file("a", "x = 1\ny\nx = 1\n")
    await bench.text(READ, path="a")
    said = await bench.error(EDIT, path="a", old="x = 1", new="x = 2")
    assert "2 times, at lines 1, 3;" in said
    assert path.read_text() == "x = 1\ny\nx = 1\n"
    await bench.text(EDIT, path="a", old="x = 1", new="x = 2", all=True)
    assert path.read_text() == "x = 2\ny\nx = 2\n"


@pytest.mark.parametrize(
    "old,words",
    [
        ("return valu", "2\t    return value"),
        ("  return value", "2\t    return value"),
        ("1\tdef f():", "leave out the line numbers"),
        ("something else entirely", "read the file again"),
    ],
)
async def test_no_match_shows_where_to_look(bench: Bench, old: str, words: str) -> None:
    bench.file("a.py", "def f():\n    return value\n")
    await bench.text(READ, path="a.py")
    if old.strip() in "def f():\n    return value\n" and "\t" not in old:
        old += " # not there"
    assert words in await bench.error(EDIT, path="a.py", old=old, new="x")


async def test_an_edit_needs_a_read_of_the_file_as_it_is_by_the_same_agent(bench: Bench) -> None:
    path = bench.file("a", "one\n")
    assert "have not read" in await bench.error(EDIT, path="a", old="one", new="two")
    await bench.text(READ, path="a")
    path.write_text("one!\n")
    assert "read it again" in await bench.error(EDIT, path="a", old="one", new="two")
    await bench.text(READ, path="a")
    bench.agent = "a0"
    assert "have not read" in await bench.error(EDIT, path="a", old="one", new="two")
    bench.agent = "main"
    await bench.text(EDIT, path="a", old="one", new="two")
    await bench.text(EDIT, path="a", old="two", new="three")  # its own edit counts as seen
    assert path.read_text() == "three!\n"


async def test_a_file_replaced_by_a_link_is_another_file(bench: Bench) -> None:
    path = bench.file("a", "one\n")
    bench.file("b", "one\n")
    await bench.text(READ, path="a")
    path.unlink()
    path.symlink_to("b")
    assert "have not read 'b'" in await bench.error(EDIT, path="a", old="one", new="two")
    assert (bench.workspace / "b").read_text() == "one\n"


async def test_a_partly_read_file_may_be_edited(bench: Bench) -> None:
    path = bench.file("a", "".join(f"{n}\n" for n in range(9000)))
    await bench.text(READ, path="a", limit=5)
    await bench.text(EDIT, path="a", old="8999\n", new="end\n")
    assert path.read_text().endswith("8998\nend\n")


async def test_mode_bits_stay_and_both_states_are_kept(bench: Bench) -> None:
    path = bench.file("run.sh", "echo 1\n")
    path.chmod(0o754)
    await bench.text(READ, path="run.sh")
    await bench.text(EDIT, path="run.sh", old="1", new="2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    change = next(e for e in bench.session.events if isinstance(e, FileChanged))
    assert bench.session.blobs.get(change.before or "") == b"echo 1\n"
    assert bench.session.blobs.get(change.after or "") == b"echo 2\n"
    assert change.tool_call == "toolu_2"
    assert [each.name for each in bench.workspace.iterdir()] == ["run.sh"]


async def test_equal_texts_and_notebooks_are_refused(bench: Bench) -> None:
    bench.file("a", "x")
    await bench.text(READ, path="a")
    assert "equal" in await bench.error(EDIT, path="a", old="x", new="x")
    assert "notebook tool" in await bench.error(EDIT, path="a.ipynb", old="x", new="y")


async def test_a_big_file_with_a_small_change_is_quick(bench: Bench) -> None:
    bench.file("a", "".join(f"line {n}\n" for n in range(300_000)))
    await bench.text(READ, path="a")
    answer = await bench.call(EDIT, path="a", old="line 150000\n", new="changed\n")
    assert answer.meta["diff"].startswith("@@ -149998,7 +149998,7 @@")
