"""Errors: what a host or the client raised, as one ProviderError that says what to do.

May not retry anything and may not show a key.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.core.model import ErrorKind, ProviderError, RequestRepair
from agent_kernel.providers.endpoints import is_loopback
from agent_kernel.providers.keys import Key

RETRYABLE: frozenset[ErrorKind] = frozenset(
    {"rate_limit", "overloaded", "server", "timeout", "conflict", "connection", "stall", "protocol"}
)
_SKEW = 300.0  # seconds of clock difference that are worth a word
# The API's error types that say more than a status; the two general ones come after the status.
_BY_TYPE: dict[str, ErrorKind] = {
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "timeout_error": "timeout",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "payment",
    "not_found_error": "not_found",
    "request_too_large": "overflow",
    "exceed_context_size_error": "overflow",
}
_BY_STATUS: dict[int, ErrorKind] = {
    401: "auth", 402: "payment", 403: "auth", 404: "not_found", 408: "timeout", 409: "conflict",
    413: "overflow", 429: "rate_limit", 529: "overloaded",
}  # fmt: skip
_BY_GENERAL_TYPE: dict[str, ErrorKind] = {"invalid_request_error": "request"}
# How hosts say that the input is longer than the window: the API's own two texts, then llama.cpp's,
# vLLM's and OpenAI-like hosts'.
_OVERFLOW = re.compile(
    r"prompt is too long|exceed(s|ed)? (the )?(model's )?(maximum |available )?context|"
    r"context (size|length|limit|window).{0,40}exceed|maximum context length",
    re.IGNORECASE,
)


_ORPHAN = re.compile(r"`?tool_use`? ids were found without `?tool_result`? blocks", re.IGNORECASE)
_IMAGE = re.compile(
    r"image.{0,80}(?:exceed|too large|too many|dimension|maximum|limit)|too many images|"
    r"(?:could not|unable to) process image|image.{0,60}(?:invalid|not supported|does not match)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Where:
    """The request an error belongs to: its host, its key (None = no key), its model."""

    base_url: str
    key: Key | None
    model: str = ""


def provider_error(
    error: BaseException, where: Where, partial: Json | None = None
) -> ProviderError:
    """Return the ProviderError of what the client raised; one inside its cause chain is kept."""
    for cause in _chain(error):
        if isinstance(cause, ProviderError):
            cause.partial = cause.partial or partial or {}
            return cause
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    if isinstance(status, int) and response is not None:
        made = _of_status(error, status, response.headers, where)
    elif isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        text = f"an event of the stream is not JSON: {error}"
        made = ProviderError("protocol", text, retryable=True)
    else:
        made = _of_transport(error, where)
    made.partial = partial or {}
    return made


def of_event(error: Mapping[str, Any], where: Where, request_id: str | None) -> ProviderError:
    """Return the ProviderError of an `error` event inside a stream that began well."""
    inner = error.get("error")
    inner = inner if isinstance(inner, Mapping) else {}
    kind = kind_of(200, _text(inner.get("type")), _text(inner.get("message")))
    return _made(kind, _text(inner.get("message")) or "an error event", where, 200, request_id, {})


def kind_of(status: int, type_: str, text: str) -> ErrorKind:
    """Return the kind of a host's error: by its type, then its status, then what is left."""
    if _OVERFLOW.search(text) and (status in (200, 400, 413, 422) or status >= 500):
        return "overflow"
    specific = _BY_TYPE.get(type_) or _BY_STATUS.get(status)
    if specific:
        return specific
    if status >= 500:
        return "server"
    return _BY_GENERAL_TYPE.get(type_, "request" if status >= 400 else "server")


def repair_of(text: str) -> RequestRepair | None:
    """Return what would mend a refused request, by the API's own sentences, else None."""
    if _ORPHAN.search(text):
        return "answer_open_calls"
    return "drop_images" if _IMAGE.search(text) else None


def _of_status(
    error: BaseException, status: int, headers: Mapping[str, str], where: Where
) -> ProviderError:
    type_ = _text(getattr(error, "type", None))
    text = _text(getattr(error, "api_message", None)) or str(error)
    kind = kind_of(status, type_, text)
    return _made(kind, text, where, status, headers.get("request-id"), headers)


def _made(
    kind: ErrorKind,
    text: str,
    where: Where,
    status: int,
    request_id: str | None,
    headers: Mapping[str, str],
) -> ProviderError:
    retryable = kind in RETRYABLE
    said = headers.get("x-should-retry")
    if said in ("true", "false"):
        retryable = said == "true"
    text = where.key.hide(text) if where.key else text
    text = _worded(kind, " ".join(text.split())[:500], where, headers)
    return ProviderError(
        kind,
        text,
        retryable=retryable,
        overflow=kind == "overflow",
        after=wait_of(headers, time.time()),
        status=status,
        request_id=request_id,
        repair=repair_of(text) if kind == "request" else None,
    )


def _worded(kind: ErrorKind, text: str, where: Where, headers: Mapping[str, str]) -> str:
    if kind == "auth":
        place = f"the key in {where.key.found_in}" if where.key else "a request without a key"
        text = f"{where.base_url} refused {place}: {text}; set another key and ask again"
        skew = _skew(headers)
        if skew is not None:
            text += (
                f". This machine's clock is {abs(skew) / 60:.0f} min "
                f"{'ahead of' if skew > 0 else 'behind'} the host's: set it right"
            )
    elif kind == "payment":
        text = f"{where.base_url} asks for payment: {text}"
    elif kind == "not_found":
        text = f"{where.base_url} has no model {where.model!r}: {text}"
    return text


def _skew(headers: Mapping[str, str]) -> float | None:
    """Seconds this machine's clock is ahead of the `Date` header, None when under 5 minutes."""
    there = _date(headers.get("date"))
    if there is None:
        return None
    ahead = time.time() - there
    return ahead if abs(ahead) > _SKEW else None


def wait_of(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait the host asks for, in seconds; None for none, 0, negative or garbage.

    `retry-after-ms` (the SDK's header) is read first, then `retry-after` in seconds or as an
    HTTP date (RFC 9110), which is compared with the host's own `date` where it sent one.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            when = _date(value)
            there = _date(headers.get("date"))
            seconds = -1.0 if when is None else when - (now if there is None else there)
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    return None


def _date(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _of_transport(error: BaseException, where: Where) -> ProviderError:
    """An error without an answer: matched by class names, so that no client need be loaded."""
    names = {cls.__name__ for cause in _chain(error) for cls in type(cause).__mro__}
    text = _last(error)
    if "ConnectError" in names and is_loopback(where.base_url):
        return ProviderError("connection", f"no server listens on {where.base_url}; start it first")
    if "TimeoutException" in names or "APITimeoutError" in names:
        return ProviderError("timeout", f"{where.base_url}: {text}", retryable=True)
    if names & {"DecodingError", "APIResponseValidationError"}:
        return ProviderError("protocol", f"the answer cannot be decoded: {text}", retryable=True)
    if names & {"HTTPError", "APIConnectionError", "OSError"}:
        return ProviderError("connection", f"{where.base_url}: {text}", retryable=True)
    return ProviderError("request", f"the client could not send the request: {text}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _last(error: BaseException) -> str:
    """The innermost words of a chain of errors: the outer ones say only that there was one."""
    said = [str(cause) for cause in _chain(error) if str(cause)]
    return (said[-1] if said else type(error).__name__)[:300]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
