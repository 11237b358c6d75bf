"""Own compactions: the events of one compaction of our log gathered into one mark.

May not judge a compaction: it says what the log says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_kernel.frames.values import clean

Event = Mapping[str, Any]
Row = dict[str, Any]
_LIGHT = ("budget", "snip", "micro")  # layers that clear results and hide no history


class Compactions:
    """What compactions are under way, by id."""

    def __init__(self) -> None:
        self._open: dict[str, Row] = {}

    def take(self, event: Event, session: str | None) -> Iterator[tuple[str, Row]]:
        """Yield (`boundary` or `micro`, data) when a compaction ends."""
        name = event.get("compaction_id")
        kind = event.get("type")
        if not isinstance(name, str):
            return
        if kind == "compaction/start":
            self._open[name] = _begun(event)
        held = self._open.setdefault(name, {"id": name})
        if kind == "compaction/summary":
            held["summary_chars"] = len(str(event.get("text") or ""))
            held["hidden"] = _length(event.get("hidden"))
            held.setdefault("calls", []).append(f"{session}:{event.get('seq')}")
        elif kind == "compaction/prune":
            held.setdefault("layers", []).append(event.get("layer"))
        elif kind == "compaction/end":
            yield from self._end(event, held, session)
            self._open.pop(name, None)

    def _end(self, event: Event, held: Row, session: str | None) -> Iterator[tuple[str, Row]]:
        tokens = _map(event.get("tokens"))
        layers = held.pop("layers", [])
        begun = held.pop("begun", None)
        if event.get("usage"):
            held.setdefault("calls", []).append(f"{session}:{event.get('seq')}")
        bill = _map(event.get("cost"))  # of another harness: the call that wrote its summary
        wrote = bill.get("calls")
        if isinstance(wrote, list):
            held.setdefault("calls", []).extend(f"{session}:{seq}" for seq in wrote)
            held.setdefault("summary_chars", bill.get("chars"))
            held.setdefault("hidden", bill.get("hidden"))
        time = clean("seconds", event.get("time"))
        took = time - begun if time is not None and begun is not None else None
        data = {
            **held,
            "status": event.get("status"),
            "post": tokens.get("post"),
            "dropped": tokens.get("freed"),
            "layer": layers[-1] if layers else None,
            "seconds": took,
        }
        committed = event.get("status") == "committed"
        light = bool(layers) and all(layer in _LIGHT for layer in layers)
        kept = {key: value for key, value in data.items() if value is not None}
        yield ("micro" if light else "boundary") if committed else "uncommitted", kept
        if committed:
            yield "commit", {"id": held["id"]}


def _begun(event: Event) -> Row:
    tokens = _map(event.get("tokens"))
    return {
        "id": event["compaction_id"],
        "trigger": event.get("trigger"),
        "pre": tokens.get("pre"),
        "begun": clean("seconds", event.get("time")),
        "first_seq": event.get("seq"),
    }


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
