"""Read: every kind of file, bounded, and noted as seen."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from agent_kernel.core.messages import Image
from agent_kernel.tools.read import READ
from tests.tools.conftest import Bench

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_lines_are_numbered_and_the_file_counts_as_seen(bench: Bench) -> None:
    path = bench.file("src/a.py", "import os\r\n\tx = 1\nlast")
    answer = await bench.call(READ, path="src/a.py")
    assert answer.content[0].text == "1\timport os\n2\t\tx = 1\n3\tlast"
    assert answer.meta["lines"] == [1, 3]
    assert answer.meta["total_lines"] == 3
    assert answer.meta["taint"] == "repo"
    assert (
        bench.session.observed("main", "src/a.py") == hashlib.sha256(path.read_bytes()).hexdigest()
    )


async def test_reading_again_notes_nothing_twice(bench: Bench) -> None:
    bench.file("a", "x\n")
    await bench.text(READ, path="a")
    await bench.text(READ, path="./a")
    assert bench.kinds().count("file/observed") == 1


async def test_a_window_says_how_to_go_on_and_the_call_it_names_does(bench: Bench) -> None:
    bench.file("a", "".join(f"line {n}\n" for n in range(1, 5001)))
    text = await bench.text(READ, path="a")
    assert text.startswith("1\tline 1\n")
    assert text.endswith("[lines 1-2000 of 5,000; read(path='a', offset=2001) goes on]")
    assert (await bench.text(READ, path="a", offset=2001)).startswith("2001\tline 2001\n")
    assert await bench.text(READ, path="a", offset=5000) == "5000\tline 5000"
    assert await bench.text(READ, path="a", offset=3, limit=1) == (
        "3\tline 3\n[lines 3-3 of 5,000; read(path='a', offset=4) goes on]"
    )
    assert "has 5000 lines: none at 5001" in await bench.error(READ, path="a", offset=5001)


async def test_an_answer_is_at_most_50_kib_and_ends_at_a_line(bench: Bench) -> None:
    bench.file("a", ("é" * 300 + "\n") * 500)
    text = await bench.text(READ, path="a")
    assert len(text.encode()) <= 51 << 10
    last = int(text.rsplit("\n", 2)[1].split("\t")[0])
    assert f"[lines 1-{last} of 500" in text


@pytest.mark.parametrize("size", [2000, 2001, 100_000, 3 << 20])
async def test_a_long_line_is_cut_at_2000_characters_and_said_so(bench: Bench, size: int) -> None:
    bench.file("a", "x" * size + "\nend\n")
    first, second = (await bench.text(READ, path="a")).split("\n")
    assert first.startswith("1\t" + "x" * 2000)
    assert ("[line cut: it has" in first) == (size > 2000)
    assert second == "2\tend"


async def test_a_gibibyte_answers_within_seconds_and_bounded(bench: Bench) -> None:
    path = bench.file("big.log")
    with path.open("wb") as file:
        file.write(b"first\n" * 100_000)
        file.truncate(1 << 30)
        file.seek((1 << 30) - 6)
        file.write(b"\nlast\n")
    began = time.monotonic()
    text = await bench.text(READ, path="big.log")
    assert time.monotonic() - began < 10  # asked for: 1 s
    assert text.startswith("1\tfirst\n")
    assert "offset=2001) goes on]" in text
    assert bench.session.observed("main", "big.log") is None


async def test_an_empty_file_says_so(bench: Bench) -> None:
    bench.file("a")
    assert await bench.text(READ, path="a") == "[the file is empty]"


@pytest.mark.parametrize("end", ["", "\n"])
async def test_the_last_line_is_there_with_and_without_its_newline(bench: Bench, end: str) -> None:
    bench.file("a", "x\n\ny" + end)
    answer = await bench.call(READ, path="a")
    assert answer.content[0].text == "1\tx\n2\t\n3\ty"
    assert answer.meta["total_lines"] == 3


async def test_a_picture_comes_as_an_image_by_its_bytes_not_its_name(bench: Bench) -> None:
    bench.file("plot.txt", PNG)
    answer = await bench.call(READ, path="plot.txt")
    assert answer.content[1] == Image.of("image/png", PNG)
    assert answer.meta["content_type"] == "image/png"
    bench.file("big.png", PNG + b"\0" * (5 << 20))
    assert "make it smaller" in await bench.error(READ, path="big.png")


async def test_binary_gives_kind_and_size_only(bench: Bench) -> None:
    bench.file("a.zip", b"PK\x03\x04\0\0secret")
    text = await bench.text(READ, path="a.zip")
    assert text == "a.zip: binary file, application/zip, 12 bytes; its content is not shown"


async def test_a_notebook_comes_as_cells_with_ids_and_short_outputs(bench: Bench) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": [f"{n}\n" for n in range(100)]},
        {"output_type": "display_data", "data": {"image/png": "aGk="}, "metadata": {}},
    ]
    cells = [
        {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "id": "c2",
            "metadata": {},
            "execution_count": 4,
            "outputs": outputs,
            "source": "print(1)",
        },
    ]
    bench.file(
        "a.ipynb", json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})
    )
    text = await bench.text(READ, path="a.ipynb")
    assert text.startswith(
        "[1] m1 · markdown\n# Title\ntext\n\n[2] c2 · code · In[4]\nprint(1)\n> 0"
    )
    assert "> [81 lines of output left out]" in text
    assert "> [image/png, 4 chars]" in text
    assert (await bench.text(READ, path="a.ipynb", limit=1)).endswith(
        "[cells 1-1 of 2; offset=2 goes on]"
    )
    assert bench.session.observed("main", "a.ipynb")


async def test_a_broken_notebook_is_an_error_the_model_can_read(bench: Bench) -> None:
    bench.file("a.ipynb", "{")
    assert "no valid JSON" in await bench.error(READ, path="a.ipynb")


async def test_a_missing_file_names_the_nearest(bench: Bench) -> None:
    bench.file("src/config.py")
    assert await bench.error(READ, path="src/confg.py") == (
        "no file 'src/confg.py' in 'workspace'; there is 'src/config.py'"
    )
    assert "its folder does not exist" in await bench.error(READ, path="no/such/file")
    assert "list it with glob" in await bench.error(READ, path="src")


async def test_devices_and_fifos_are_refused_at_once(bench: Bench) -> None:
    os.mkfifo(bench.workspace / "pipe")
    assert "no regular file" in await bench.error(READ, path="pipe")
    assert "device" in await bench.error(READ, path="/dev/zero")


async def test_a_link_is_read_under_the_name_of_what_it_leads_to(bench: Bench) -> None:
    bench.file("real.txt", "x\n")
    (bench.workspace / "link.txt").symlink_to("real.txt")
    answer = await bench.call(READ, path="link.txt")
    assert answer.meta["path"] == "real.txt"


async def test_a_spilled_result_is_read_by_its_hash(bench: Bench, filed: Bench) -> None:
    sha256 = bench.session.blobs.put(b"one\ntwo\n")
    assert await bench.text(READ, path=f"blob:{sha256}", offset=2) == "2\ttwo"
    assert "this session has no" in await bench.error(READ, path="blob:" + "0" * 64)
    sha256 = filed.session.blobs.put(b"three\n")
    assert await filed.text(READ, path=str(filed.session.blobs.path(sha256))) == "1\tthree"


async def test_undecodable_bytes_are_replaced_never_raised(bench: Bench) -> None:
    bench.file("a", b"caf\xe9\n")
    assert await bench.text(READ, path="a") == "1\tcaf�"


async def test_a_pdf_is_read_by_pages_or_says_what_is_missing(bench: Bench, tmp_path: Path) -> None:
    bench.file("a.pdf", b"%PDF-1.4\n%%EOF\n")
    assert "PDF" in await bench.error(READ, path="a.pdf")


def pdf(*pages: str) -> bytes:
    """A PDF by hand, one line of text a page."""
    count = len(pages)
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for n, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
        font = "/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {font} /Contents {5 + 2 * n} 0 R >>".encode())
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    out, at = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        at.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in at)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    root = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return out + head + table + root % (len(objects) + 1, len(out))


async def test_the_pages_of_a_pdf_are_read_by_range_twenty_at_most(bench: Bench) -> None:
    pytest.importorskip("pypdf")
    bench.file("a.pdf", pdf(*(f"words of page {n}" for n in range(1, 26))))
    first = await bench.text(READ, path="a.pdf")
    assert "[page 1]\nwords of page 1" in first
    assert "words of page 20" in first
    assert "words of page 21" not in first
    assert "[pages 1-20 of 25; offset=21 goes on]" in first
    assert await bench.text(READ, path="a.pdf", offset=25) == "[page 25]\nwords of page 25"
    two = await bench.text(READ, path="a.pdf", offset=2, limit=1)
    assert two == "[page 2]\nwords of page 2\n[pages 2-2 of 25; offset=3 goes on]"


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
async def test_what_is_no_path_is_refused(bench: Bench, path: str) -> None:
    assert await bench.error(READ, path=path)
