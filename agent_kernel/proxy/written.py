"""Written: what may be written of bytes that passed, with keys and a private field taken out.

May not change what is sent, and changes nothing but the secrets where that is possible.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from agent_kernel.guard.redact import SECRET_NAME, SHORTEST, Secrets, redact, redact_json

# DeepSeek Harness sends its whole session log to the model provider in this field.
PRIVATE_FIELDS = ("dsh_session_log",)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_SPACE = re.compile(r"\s*")
_HEADER_LIKE = re.compile(r"auth|key|secret|token", re.IGNORECASE)
_DECODER = json.JSONDecoder()


class Cleaner:
    """Takes secrets out of JSON values and of bodies; texts found clean are not read again.

    Known are the environment's secrets and every key that passed in a request's headers.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._named = {name: value for name, value in env.items() if SECRET_NAME.search(name)}
        self._secrets = Secrets.from_env(self._named)
        self._passed: set[str] = set()
        self._clean: set[bytes] = set()
        self._lock = threading.Lock()

    def learn(self, found: Mapping[str, str]) -> None:
        """Know these values as secrets from now on; each name must look like a secret's."""
        with self._lock:
            for name, value in found.items():
                if value in self._passed:
                    continue
                self._passed.add(value)
                self._named[name if name not in self._named else f"{name} {len(self._named)}"] = (
                    value
                )
                self._secrets = Secrets.from_env(self._named)
                self._clean = set()  # what was clean before may hold the new one

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets; the same object when there are none."""
        if all(self._is_clean(text) for text in _texts(value)):
            return value
        return redact_json(value, self._secrets)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return text if self._is_clean(text) else redact(text, self._secrets)[0]

    def body(self, raw: bytes) -> bytes:
        """Return a JSON body without secrets and private fields: the same bytes when it has none.

        Bytes that are no JSON are treated as one text.
        """
        try:
            text = raw.decode("utf-8")
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(raw.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        kept = _without_private(text, value)
        if kept is not text:
            value = json.loads(kept)
        clean = self.value(value)
        if clean is not value:
            cut = _STRING.sub(lambda found: self._token(found[0]), kept)
            kept = cut if json.loads(cut) == clean else json.dumps(clean, separators=(",", ":"))
        return raw if kept is text else kept.encode()

    def _token(self, token: str) -> str:
        text = json.loads(token)
        kept = self.text(text)
        return token if kept == text else json.dumps(kept)

    def _is_clean(self, text: str) -> bool:
        if len(text) < SHORTEST:
            return True
        mark = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if mark in self._clean:
            return True
        if redact(text, self._secrets)[1]:
            return False
        self._clean.add(mark)
        return True


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON value, keys too, and `key: text` where a key may name a secret."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            if isinstance(item, str) and _HEADER_LIKE.search(str(key)):
                yield json.dumps({str(key): item})
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _without_private(text: str, value: Any) -> str:
    """Return the text of a JSON object with its private fields' values replaced; the same text
    when it has none."""
    if not isinstance(value, dict) or not any(name in value for name in PRIVATE_FIELDS):
        return text
    pieces: list[str] = []
    at, done = text.index("{") + 1, 0
    while True:
        key, end = _DECODER.raw_decode(text, _skip(text, at))
        start = _skip(text, _skip(text, end) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        if key in PRIVATE_FIELDS:
            pieces += [text[done:start], json.dumps(f"[redacted:{key}]")]
            done = end
        at = _skip(text, end)
        if text[at] == "}":
            return "".join([*pieces, text[done:]])
        at += 1


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
