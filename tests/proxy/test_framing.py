"""Framing: messages are found wherever the stream is cut, and no byte is lost."""

from __future__ import annotations

import pytest

from agent_kernel.proxy.framing import End, Framing, FramingError, Head, Piece

REQUESTS = (
    b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n"
    b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nt: 1\r\n\r\n"
)
ANSWERS = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    b"HTTP/1.1 204 No Content\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end"
)


def cut(framing: Framing, data: bytes, size: int) -> tuple[list[bytes], list[bytes]]:
    """The bodies found, and the raw bytes of each message."""
    found: list[bytes] = []
    raws = [b""]
    for at in range(0, len(data), size):
        for part in framing.feed(data[at : at + size]):
            raws[-1] += part.raw
            match part:
                case Head():
                    found.append(b"")
                case Piece():
                    found[-1] += part.data
                case End():
                    raws.append(b"")
    return found, raws


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 16])
def test_requests_are_found_however_they_are_cut(size: int) -> None:
    found, raws = cut(Framing("request"), REQUESTS, size)
    assert found == [b"hello", b"", b"abcde"]
    assert b"".join(raws) == REQUESTS


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 16])
def test_answers_are_found_by_what_was_asked(size: int) -> None:
    framing = Framing("response")
    for method in (b"POST", b"POST", b"HEAD", b"POST"):
        framing.expect(method)
    found, raws = cut(framing, ANSWERS, size)
    assert found == [b"", b"ok", b"", b"", b"until the end"]
    assert b"".join(raws) == ANSWERS
    assert framing.eof()


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\r\n\r\n",
        b"POST / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"x" * ((1 << 20) + 1),
    ],
)
def test_bytes_that_are_no_http_are_named(data: bytes) -> None:
    with pytest.raises(FramingError):
        list(Framing("request").feed(data))
