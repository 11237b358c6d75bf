"""Web table: one test a row of web_ssrf.csv, with a real loopback server behind a stub resolver."""

from __future__ import annotations

import gzip
import json
import ssl
import time
from collections.abc import Awaitable, Callable

import pytest

from agent_kernel.guard.addresses import Refusal, check_answers, check_url
from agent_kernel.guard.batch import VERBS
from agent_kernel.guard.fetch import Limits, fetch
from tests.conftest import SHARED
from tests.guard.acting_server import (
    PUBLIC,
    Network,
    Server,
    Stage,
    drips,
    floods,
    ok,
    redirects,
    says,
)
from tests.guard.places import CASES, argument, rows

ROWS = rows("web_ssrf")
TEXT = [row for row in ROWS if row["probe"] in ("literal", "name")]
STUBBED = [row for row in ROWS if row["probe"] == "resolver-stub"]
ACTED = [row for row in ROWS if row["probe"] == "local-server"]


def ids(table: list[dict[str, str]]) -> list[str]:
    return [row["id"] for row in table]


def test_every_row_has_a_test() -> None:
    assert len(TEXT) + len(STUBBED) + len(ACTED) == len(ROWS)
    assert set(ACTS) == set(ids(ACTED))


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="no case tables beside this repository")
def test_the_table_equals_its_source() -> None:
    name = "web_ssrf.csv"
    assert (CASES / name).read_bytes() == (SHARED / "cases" / name).read_bytes()


@pytest.mark.parametrize("row", TEXT, ids=ids(TEXT))
def test_url_gets_its_verdict_without_a_lookup(row: dict[str, str]) -> None:
    found = check_url(argument(row))
    assert ("block" if isinstance(found, Refusal) else "allow") == row["expected"], found


STUBS: dict[str, list[list[str]]] = {
    "mixed.test": [[PUBLIC, "10.0.0.1"]],
    "flip.test": [[PUBLIC], ["127.0.0.1"]],
    "aaaa-mapped.test": [["::ffff:10.0.0.1"]],
}


@pytest.mark.parametrize("row", STUBBED, ids=ids(STUBBED))
async def test_answers_are_checked_before_the_dial(row: dict[str, str]) -> None:
    url = argument(row)
    host = url.split("/")[2]
    assert isinstance(check_answers(host, STUBS[host]), Refusal)
    line = json.dumps({"id": row["id"], "url": url, "answers": STUBS[host]})
    assert json.loads(next(VERBS["address"]([line])))["verdict"] == row["expected"]
    with Server({"/": says(ok(b"hello"))}).running() as server:
        network = Network({80: server.port}, {host: list(STUBS[host])})
        found = await fetch(url, resolve=network.resolve, connect=network.connect)
    if host == "flip.test":  # asked once, and the address that was checked is the one dialled
        assert network.lookups == [host]
        assert network.dials == [(PUBLIC, 80)]
    else:
        assert (found.verdict, network.dials) == ("block", [])


# ---------------------------------------------------------------- what servers do
Act = Callable[["Stage"], Awaitable[None]]
ACTS: dict[str, Act] = {}
SHORT = Limits(seconds=0.6, lookup_seconds=0.3)


def act(number: int) -> Callable[[Act], Act]:
    """Names the row that a function acts out."""

    def keep(function: Act) -> Act:
        ACTS[f"web_ssrf-{number:03}"] = function
        return function

    return keep


@pytest.mark.parametrize("row", ACTED, ids=ids(ACTED))
async def test_server_behaviour_is_survived(row: dict[str, str], stage: Stage) -> None:
    await ACTS[row["id"]](stage)


@act(78)
async def redirect_to_metadata(stage: Stage) -> None:
    found = await stage.get("https://ok.test/", redirects("http://169.254.169.254/latest"))
    assert found.verdict == "block"
    assert stage.network.dials == [(PUBLIC, 443)]


@act(79)
async def redirect_elsewhere(stage: Stage) -> None:
    found = await stage.get("https://ok.test/", redirects("http://other.test/x"))
    assert (found.verdict, found.redirect) == ("report", "http://other.test/x")
    assert len(stage.network.dials) == 1
    assert not found.text


@act(80)
async def redirect_upgrade(stage: Stage) -> None:
    stage.plain.scripts["/"] = redirects("https://ok.test/", "301 Moved Permanently")
    stage.secure.scripts["/"] = says(ok(b"safe", "Content-Type: text/plain"))
    found = await stage.get("http://ok.test/")
    assert (found.verdict, found.text, found.url) == ("allow", "safe", "https://ok.test/")
    assert stage.network.dials == [(PUBLIC, 80), (PUBLIC, 443)]


@act(81)
async def redirect_loop(stage: Stage) -> None:
    stage.plain.scripts["/b"] = redirects("/")
    found = await stage.get("http://ok.test/", redirects("/b"))
    assert found.verdict == "block"
    assert len(stage.network.dials) == 6


@act(82)
async def redirect_chain(stage: Stage) -> None:
    for n in range(11):
        stage.plain.scripts[f"/{n}"] = redirects(f"/{n + 1}")
    stage.plain.scripts["/11"] = says(ok(b"end"))
    found = await stage.get("http://ok.test/0")
    assert found.verdict == "block"
    assert "5 redirects" in found.reason
    assert (await stage.get("http://ok.test/7")).verdict == "allow"


@act(83)
async def redirect_to_a_file(stage: Stage) -> None:
    found = await stage.get("http://ok.test/", redirects("file:///etc/passwd"))
    assert (found.verdict, found.text) == ("block", "")


@act(84)
async def credentials_stay(stage: Stage) -> None:
    found = await stage.get("http://ok.test/", redirects("http://other.test/", "307 Temporary"))
    assert stage.network.lookups == ["ok.test"]
    assert found.text == ""
    assert "authorization" not in stage.plain.requests[0].lower()
    assert "cookie" not in stage.plain.requests[0].lower()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
MEGABYTE = b"x" * (1 << 20)


@act(85)
async def endless_body(stage: Stage) -> None:
    found = await stage.get("http://ok.test/", floods(HEAD + b"\r\n", MEGABYTE, 10 << 30))
    assert (found.verdict, found.size) == ("truncate", 5 << 20)
    assert len(found.text) < 101_000
    assert "[cut: longer than" in found.text


@act(86)
async def huge_content_length(stage: Stage) -> None:
    start = HEAD + b"Content-Length: 10737418240\r\n\r\n"
    found = await stage.get("http://ok.test/", floods(start, MEGABYTE, 10 << 30))
    assert (found.verdict, found.text, found.size) == ("block", "", 0)


@act(87)
async def lying_content_length(stage: Stage) -> None:
    start = HEAD + b"Content-Length: 10\r\n\r\n"
    found = await stage.get("http://ok.test/", floods(start, MEGABYTE, 1 << 30))
    assert found.verdict == "truncate"
    assert found.text.startswith("x" * 10 + "\n[cut")


@act(88)
async def gzip_bomb(stage: Stage) -> None:
    bomb = gzip.compress(bytes(1 << 20), 9) * 1024
    reply = ok(bomb, "Content-Type: text/plain", "Content-Encoding: gzip")
    found = await stage.get("http://ok.test/", says(reply))
    assert (found.verdict, found.size) == ("truncate", 5 << 20)


@act(89)
async def cut_gzip(stage: Stage) -> None:
    body = gzip.compress("".join(f"line {n}\n" for n in range(5000)).encode())
    reply = ok(body[: len(body) // 2], "Content-Type: text/plain", "Content-Encoding: gzip")
    found = await stage.get("http://ok.test/", says(reply))
    assert found.verdict == "truncate"
    assert found.text.startswith("line 0\nline 1\n")


@act(90)
async def slow_headers(stage: Stage) -> None:
    began = time.monotonic()
    found = await stage.get("http://ok.test/", drips(HEAD * 9, 0.1), SHORT)
    assert found.verdict == "timeout"
    assert time.monotonic() - began < 3


@act(91)
async def slow_body(stage: Stage) -> None:
    began = time.monotonic()
    script = drips(b"abcdefghijklmnopqrstuvwxyz", 0.1)

    def send(sock: object) -> None:
        sock.sendall(HEAD + b"\r\n")  # type: ignore[attr-defined]
        script(sock)  # type: ignore[arg-type]

    found = await stage.get("http://ok.test/", send, SHORT)
    assert found.verdict == "timeout"
    assert found.text.startswith("a")
    assert time.monotonic() - began < 3


@act(92)
async def self_signed(stage: Stage) -> None:
    strict = ssl.create_default_context()
    found = await stage.get("https://ok.test/", says(ok(b"no")), trusted=strict)
    assert found.verdict == "block"
    assert "TLS" in found.reason
    assert not stage.secure.requests


@act(93)
async def certificate_of_another_name(stage: Stage) -> None:
    found = await stage.get("https://other.test/", says(ok(b"no")))
    assert found.verdict == "block"
    assert not stage.secure.requests


@act(94)
async def page_that_is_a_picture(stage: Stage) -> None:
    body = b"\x89PNG\r\n\x1a\n" + bytes(200)
    found = await stage.get("http://ok.test/", says(ok(body, "Content-Type: text/html")))
    assert (found.verdict, found.content_type, found.text) == ("report", "image/png", "")


@act(95)
async def picture_that_is_a_page(stage: Stage) -> None:
    reply = ok(b"<html><script>x</script>", "Content-Type: image/png")
    found = await stage.get("http://ok.test/", says(reply))
    assert (found.verdict, found.text) == ("report", "")


@act(96)
async def no_type(stage: Stage) -> None:
    found = await stage.get("http://ok.test/", says(ok(b"<html><p>hello <b>you</b>")))
    assert (found.verdict, found.text, found.content_type) == ("allow", "hello you", "text/html")
    found = await stage.get("http://ok.test/", says(ok(b"just text")))
    assert (found.verdict, found.text) == ("allow", "just text")


@act(97)
async def odd_charsets(stage: Stage) -> None:
    async def text(body: bytes, kind: str) -> str:
        found = await stage.get("http://ok.test/", says(ok(body, f"Content-Type: {kind}")))
        assert found.verdict == "allow"
        return found.text

    assert await text("héllo".encode("utf-16-le"), "text/plain; charset=utf-16-le") == "héllo"
    assert await text("hello there".encode("utf-16-le"), "text/plain") == "hello there"
    assert await text("é".encode(), "text/plain; charset=ascii") == "\ufffd\ufffd"
    assert await text(b"a\xff\xfeb", "text/plain; charset=no-such") == "a\ufffd\ufffdb"
    assert await text(b"abc", "text/plain; charset=zip") == "abc"


@act(98)
async def five_million_elements(stage: Stage) -> None:
    began = time.monotonic()
    found = await stage.get("http://ok.test/", says(ok(b"<div>" * 5_000_000)))
    assert found.verdict == "block"  # 25 MB are declared
    script = floods(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhi", b"<div>" * 9, 25 << 20)
    found = await stage.get("http://ok.test/", script)
    assert (found.verdict, found.text[:2]) == ("truncate", "hi")
    assert time.monotonic() - began < 10


@act(99)
async def proxy_in_the_environment(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            patch.setenv(name, "http://10.9.8.7:3128")
        found = await stage.get("http://ok.test/", says(ok(b"direct")))
    assert (found.verdict, found.text) == ("allow", "direct")
    assert stage.network.dials == [(PUBLIC, 80)]
    assert stage.plain.requests[0].startswith("GET / HTTP/1.1\r\n")


@act(100)
async def slow_lookup(stage: Stage) -> None:
    stage.network.delay = 3
    began = time.monotonic()
    found = await stage.get("http://ok.test/", says(ok(b"no")), SHORT)
    assert (found.verdict, stage.network.dials) == ("timeout", [])
    assert time.monotonic() - began < 2


@act(101)
async def thousand_answers(stage: Stage) -> None:
    many = [f"93.184.{n // 250}.{n % 250 + 1}" for n in range(1000)]
    stage.network.names["ok.test"] = [many]
    found = await stage.get("http://ok.test/", says(ok(b"first")))
    assert (found.verdict, stage.network.dials) == ("allow", [(many[0], 80)])
    checked = check_answers("ok.test", many)
    assert not isinstance(checked, Refusal)
    assert len(checked) == 8
    assert isinstance(check_answers("ok.test", [*many, "10.0.0.1"]), Refusal)


@act(102)
async def no_pool(stage: Stage) -> None:
    stage.network.names["ok.test"] = [[PUBLIC], ["93.184.215.99"]]
    await stage.get("http://ok.test/", says(ok(b"one")))
    found = await stage.get("http://ok.test/")
    assert found.verdict == "allow"
    assert stage.network.dials == [(PUBLIC, 80), ("93.184.215.99", 80)]
    assert all("Connection: close" in request for request in stage.plain.requests)


@act(103)
async def alternative_service(stage: Stage) -> None:
    reply = ok(b"here", 'Alt-Svc: h2="127.0.0.1:443"', "Content-Type: text/plain")
    assert (await stage.get("http://ok.test/", says(reply))).text == "here"
    assert (await stage.get("http://ok.test/")).verdict == "allow"
    assert set(stage.network.dials) == {(PUBLIC, 80)}
