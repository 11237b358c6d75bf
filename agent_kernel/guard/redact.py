"""Redaction: which strings are secrets, and the mask that replaces them.

It guesses nothing from entropy: git hashes, UUIDs and base64 pictures stay as they are.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from agent_kernel.guard.secret_kinds import PEM_END, RULES, Span

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
SHORTEST = 8  # characters of an environment value that is masked wherever it appears
WINDOW = 4096  # characters a stream holds back, so that no border cuts a secret
PIECE = 1 << 20  # characters of a long text that are looked at together
HELD = 1 << 16  # characters of one unfinished secret a stream holds back at most
T = TypeVar("T")


_HEADER_NAMES = re.compile(
    r"(?:proxy-)?authorization|(?:x-(?:goog-)?|anthropic-)?api-key"
    r"|(?:private|job|x-(?:vault|auth|access|gitlab|amz-security))-token"
    r"|(?:aws_)?secret_?access_?key|(?:aws_)?session_?token",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values known to be secret, in every form they are looked for; never shown by `repr`."""

    forms: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Secrets":
        """Return the values of `env` whose name is a secret's, of 8 characters or more.

        A value that is the path of something that exists is not one. Each value is also known in
        base64 (at the three offsets it can have inside other base64), percent and JSON form.
        """
        forms: dict[str, str] = {}
        for name in sorted(env):
            value = env[name]
            known = SECRET_NAME.search(name) or name == "ANTHROPIC_CUSTOM_HEADERS"
            if known and len(value) >= SHORTEST and not _exists(value):
                for form in _forms(value):
                    forms.setdefault(form, f"env:{name}")
        return cls(forms)

    def begun(self, text: str) -> int:
        """Return how many characters at the end of `text` may begin a value that holds a blank."""
        held = 0
        for form in self.forms:
            if any(mark in form for mark in " \n\t"):
                sizes = range(min(len(form) - 1, len(text)), held, -1)
                held = next((size for size in sizes if text.endswith(form[:size])), held)
        return held

    def find(self, text: str) -> Iterator[Span]:
        """Yield the place of each known value, the longest where several begin."""
        present = [form for form in self.forms if form in text]
        if present:
            present.sort(key=len, reverse=True)
            for match in re.finditer("|".join(map(re.escape, present)), text):
                yield *match.span(), self.forms[match[0]]


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):  # too long, or a NUL: no path
        return False


def _forms(value: str) -> Iterator[str]:
    yield value
    raw = value.encode("utf-8", "surrogateescape")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            # The characters that hold nothing but bits of the value, wherever it stands.
            first, last = -(-offset * 8 // 6), (offset + len(raw)) * 8 // 6
            form = encode(b"\0" * offset + raw).decode()[first:last]
            if len(form) >= SHORTEST:
                yield form
    for percent in (quote(value, safe="", errors="surrogateescape"), quote(value, errors="ignore")):
        yield percent
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), percent)
    yield raw.hex()
    yield raw.hex().upper()
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    yield quote_plus(value, errors="surrogateescape")
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]


def _orphan_ends(text: str) -> Iterator[Span]:
    """Yield the rest of a private key whose beginning was cut off before it came to us."""
    if "PRIVATE" in text:
        for match in re.finditer(PEM_END, text):
            start = max(0, match.start() - HELD)
            body = text[start : match.start()].rstrip(_PEM_BODY)
            if match.start() - start - len(body) >= 32:
                yield start + len(body), match.end(), "private-key"


_PEM_BODY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n"


def spans(text: str, secrets: Secrets | None = None) -> list[Span]:
    """Return (start, end, kind) of each secret, in order, none overlapping; in linear time."""
    lower = text.lower() if len(text.lower()) == len(text) else text
    found = list(secrets.find(text)) if secrets is not None else []
    for rule in RULES:
        found += rule.find(text, lower)
    found += _orphan_ends(text)
    found.sort(key=lambda span: span[0])  # stable: of several at one place the first rule names it
    merged: list[Span] = []
    for start, end, kind in found:
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], end), before[2])
        else:
            merged.append((start, end, kind))
    return merged


def _masked(text: str, found: list[Span]) -> str:
    pieces, at = [], 0
    for start, end, kind in found:
        pieces += [text[at:start], f"[redacted:{kind}]"]
        at = end
    return "".join([*pieces, text[at:]])


def redact(text: str, secrets: Secrets | None = None) -> tuple[str, list[tuple[str, int]]]:
    """Return `text` with every secret replaced by `[redacted:KIND]`, and how many of each kind.

    Redacting twice changes nothing more.
    """
    if len(text) > 2 * PIECE:  # all findings at once would cost more than linear time
        stream = Stream(secrets)
        pieces = [stream.feed(text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
        return "".join([*pieces, stream.close()]), list(stream.found.items())
    found = spans(text, secrets)
    if not found:
        return text, []
    return _masked(text, found), list(Counter(kind for _, _, kind in found).items())


def redact_json(value: T, secrets: Secrets | None = None) -> T:
    """Return the JSON value with every string in it redacted, keys too; the same object if clean.

    The string under a key that names a credential header is a secret whatever it looks like.
    """
    result: Any = _walk(value, secrets)
    return result  # type: ignore[no-any-return]


def _walk(value: Any, secrets: Secrets | None) -> Any:
    if isinstance(value, str):
        return redact(value, secrets)[0] if len(value) >= SHORTEST else value
    if isinstance(value, dict):
        pairs: dict[Any, Any] = {}
        for key, item in value.items():
            name = _walk(key, secrets)
            while name in pairs:  # two secrets with one mask: neither may hide the other's value
                name = f"{name}'"
            pairs[name] = _under(key, item, secrets)
        same = all(pairs.get(key, pairs) is item for key, item in value.items())
        return value if same else pairs
    if isinstance(value, list | tuple):
        items = [_walk(item, secrets) for item in value]
        return (
            value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
        )
    return value


def _under(key: Any, item: Any, secrets: Secrets | None) -> Any:
    if isinstance(key, str) and isinstance(item, str) and _HEADER_NAMES.fullmatch(key):
        if item and not item.startswith("[redacted:"):
            return "[redacted:auth-header]"
        return item
    return _walk(item, secrets)


class Stream:
    """Redaction of text that comes in pieces: no border between two pieces cuts a secret.

    The last 4 KiB are held back until `close`; an unfinished private key is held back whole.
    """

    def __init__(self, secrets: Secrets | None = None) -> None:
        """Hold nothing yet."""
        self.found: Counter[str] = Counter()
        self._secrets = secrets
        self._text = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; the redacted text that is safe to show, possibly none."""
        self._text += piece
        if len(self._text) < 2 * WINDOW:
            return ""
        found = spans(self._text, self._secrets)
        cut = self._cut(found)
        shown = _masked(self._text[:cut], [span for span in found if span[1] <= cut])
        self.found.update(kind for _, end, kind in found if end <= cut)
        self._text = self._text[cut:]
        return shown

    def close(self) -> str:
        """Return the rest, redacted."""
        shown, found = redact(self._text, self._secrets)
        self.found.update(dict(found))
        self._text = ""
        return shown

    def _cut(self, found: list[Span]) -> int:
        """Choose how much is safe: before a secret that may go on, else at a blank."""
        cut = len(self._text) - WINDOW
        blank = max(self._text.rfind(mark, max(0, cut - 256), cut) for mark in " \n")
        cut = blank + 1 if blank > 0 else cut
        for start, end, _ in found:
            if start < cut < end:
                if len(self._text) - start <= HELD:
                    return start
                # Longer than any key: keep its first line and its newest part, so it stays one.
                self._text = self._text[: start + 128] + self._text[-WINDOW:]
                return start
        return cut


class Running:
    """Redaction of text that is shown while it comes: only its last word is held back.

    What a secret may begin with is not shown before it is known whether it is one; where its
    beginning was shown all the same, the rest is not.
    """

    def __init__(self, secrets: Secrets | None = None) -> None:
        """Hold nothing yet."""
        self._secrets = secrets
        self._text = ""  # the last of what was shown, for what a secret begins with, and the rest
        self._shown = 0  # how much of it was shown
        self._last = -1  # where the secret begins whose mask was shown last

    def feed(self, piece: str) -> str:
        """Take the next piece; return the redacted text up to its last blank, possibly none."""
        self._text += piece
        return self._show(self._cut())

    def close(self) -> str:
        """Return the rest, redacted."""
        return self._show(len(self._text))

    def _cut(self) -> int:
        text = self._text
        cut = max(text.rfind(mark, self._shown) for mark in " \n\t") + 1
        if self._secrets is not None:
            cut = min(cut, len(text) - self._secrets.begun(text))
        key = text.rfind("-----", max(0, cut - 80), cut)  # a line of a PEM block holds blanks
        cut = key if key >= 0 and "\n" not in text[key:cut] else cut
        return max(cut, self._shown, len(text) - WINDOW)

    def _show(self, cut: int) -> str:
        text, at, pieces, keep = self._text, self._shown, [], cut - WINDOW
        for start, end, kind in spans(text, self._secrets):
            if end <= at or start >= cut:
                continue
            pieces.append(text[at : max(start, at)])
            if start != self._last:
                pieces.append(f"[redacted:{kind}]")
                self._last = start
            at = min(end, cut)
            if end >= cut and cut - start < HELD:  # it may go on: remember how it began
                keep = min(keep, start)
        pieces.append(text[at:cut])
        keep = max(0, keep)
        self._text, self._shown, self._last = text[keep:], cut - keep, self._last - keep
        return "".join(pieces)
