"""Media: what kind of bytes a server sent, and their text when they are text.

It trusts neither the declared type nor the declared encoding, and never raises on either.
"""

import codecs
import re
from dataclasses import dataclass

import agent_kernel.guard.page as page

SNIFFED = 512  # bytes that decide
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-executable"),
    (b"RIFF", "audio or image (RIFF)"),
    (b"OggS", "application/ogg"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"wOF", "font/woff"),
    (b"SQLite format 3", "application/vnd.sqlite3"),
)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TEXTUAL = re.compile(
    r"text/.*|application/(?:[\w.-]+\+)?(?:json|xml|yaml|x-yaml|toml|javascript|xhtml\+xml)"
    r"|application/(?:x-sh|x-www-form-urlencoded|sql|graphql|ld\+json|x-ndjson|rtf)|message/.*"
)
_BYTES = re.compile(
    r"(?:image|audio|video|font|model)/.*|application/(?:pdf|zip|octet-stream|wasm)"
)
_HTML = re.compile(
    rb"\s{0,256}(?:<!--.{0,200}?-->\s{0,64})?<(?:!doctype html|html|head|body)",
    re.IGNORECASE | re.DOTALL,
)
_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s{0,4}=\s{0,4}["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE
)
# Encodings of documents; Python's codecs also hold others, some of which take quadratic time.
_ENCODINGS = re.compile(
    r"utf-?(?:8|16|32)(?:-sig|-[lb]e)?|ascii|iso8859-\d+|cp\d+|mac-.*|koi8-.|gb.*|big5.*|shift_jis.*"
    r"|euc_.*|johab|iso2022_.*|tis-620|hz"
)


@dataclass(frozen=True, slots=True)
class Page:
    """A document: its kind as found, its text (None: not text), and why it is not whole."""

    kind: str
    text: str | None
    cut: str = ""


def read(data: bytes, declared: str, *, raw: bool = False) -> Page:
    """Return the text of `data`, which came with the Content-Type header `declared`."""
    kind = declared.partition(";")[0].strip().lower()
    found = _binary(data[:SNIFFED])
    if found is not None:
        return Page(found, None)
    if _BYTES.fullmatch(kind):
        return Page(kind, None)
    encoding = _encoding(data, declared)
    if encoding is None and b"\0" in data[:SNIFFED]:
        return Page("application/octet-stream", None)
    text = (
        data.decode(encoding or "utf-8", "replace").removeprefix("\ufeff").replace("\0", "\ufffd")
    )
    is_html = "html" in kind or (not _TEXTUAL.fullmatch(kind) and _HTML.match(data) is not None)
    if not is_html or raw:
        return Page(kind or "text/plain", text)
    text, cut = page.text_of(text)
    reason = f"deeper than {page.DEPTH} elements or longer than {page.NODES:,} nodes"
    return Page(kind or "text/html", text, reason if cut else "")


def _binary(start: bytes) -> str | None:
    """Return the type that the first bytes prove, None when they prove none."""
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), None)


def _encoding(data: bytes, declared: str) -> str | None:
    """Return the encoding: by mark, by header, by meta element, by the pattern of NULs."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    header = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", declared, re.IGNORECASE)
    meta = _CHARSET.search(data[:1024])
    for name in (header[1] if header else "", meta[1].decode("ascii") if meta else ""):
        if name and _known(name):
            return name
    start = data[:SNIFFED]
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if max(even, odd) > len(start) // 8 and min(even, odd) <= len(start) // 32:
        return "utf-16-be" if even > odd else "utf-16-le"
    return None


def _known(name: str) -> bool:
    try:
        return _ENCODINGS.fullmatch(codecs.lookup(name).name) is not None
    except LookupError:
        return False
