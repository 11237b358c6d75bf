"""Load: everything one load derives, each thing once, when it is first asked for.

May not build a table: builders are given by the room's table ALL and ask here for what they need.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from agent_kernel.frames.assemble import LOGS, Assembled, Rec, assemble
from agent_kernel.frames.chain import Chain, Tools, walk
from agent_kernel.frames.ledger import Call
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.store import Store
from agent_kernel.frames.surface import fold
from agent_kernel.frames.totals import Priced, priced

T = TypeVar("T")
Builder = Callable[["Load"], Columns]
Block = dict[str, Any]
CHARS_PER_TOKEN = 2.75  # analysis.md §3, estimator fallback


class Load:
    """The files of one load and what is derived from them."""

    def __init__(
        self,
        store: Store,
        builders: Mapping[str, Builder],
        prices: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.store = store
        self.prices = prices
        self._builders = builders
        self._tables: dict[str, Columns] = {}
        self._made: dict[Any, Any] = {}

    def renewed(self) -> Load:
        """Return a load over the same store that has derived nothing yet."""
        return Load(self.store, self._builders, self.prices)

    def table(self, name: str) -> Columns:
        """Return the columns of one table, built at first use and kept."""
        if name not in self._tables:
            self._tables[name] = self._builders[name](self)
        return self._tables[name]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of one table as mappings."""
        columns = self.table(name)
        keys = list(columns)
        return [
            dict(zip(keys, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]

    def once(self, make: Callable[[Load], T]) -> T:
        """Return `make(self)`, made at first use and kept."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    @cached_property
    def priced(self) -> Priced:
        """The calls of the load with their dollars."""
        return priced(self.store, self.prices)

    @cached_property
    def blocks(self) -> list[Block]:
        """The content blocks that count once: no copies, no second sight of a sub-agent's."""
        part = self.store.part("blocks")
        names = list(part)
        rows = []
        own: set[tuple[str, str]] = set()
        for values in zip(*part.values(), strict=True):
            row = dict(zip(names, values, strict=True))
            rec = self.assembled.places.get((row["file"], row["offset"]))
            if rec is None or rec.copy_of is not None:
                continue
            row["rec"] = rec
            row["agent"] = row["agent"] or "main"
            rows.append(row)
            if not row["nested"] and row["uuid"]:
                own.add((rec.session, row["uuid"]))
        return [
            row for row in rows if not (row["nested"] and (row["rec"].session, row["uuid"]) in own)
        ]

    @cached_property
    def assembled(self) -> Assembled:
        """The records of the load, by session."""
        return assemble(self.store.part("lines"), self.store.part("marks"), self.store.files)

    @cached_property
    def chains(self) -> dict[str, Chain]:
        """The walk of every session; sets `chain` and `active` of its records."""
        asks: dict[int, list[str]] = defaultdict(list)
        answers: dict[int, list[str]] = defaultdict(list)
        for block in self.blocks:
            if block["tool_use_id"] and not block["nested"]:
                if block["kind"] == "tool_use":
                    asks[block["rec"].id].append(block["tool_use_id"])
                elif block["kind"] == "tool_result":
                    answers[block["rec"].id].append(block["tool_use_id"])
        owner = {rec.uuid: rec.session for rec in self.assembled.records if rec.uuid}
        tools = Tools(asks, answers, owner)
        sessions = self.assembled.sessions
        return {
            name: fold(session, sessions) if session.harness in LOGS else walk(session, tools)
            for name, session in sessions.items()
        }

    @cached_property
    def records(self) -> list[Rec]:
        """The records in file order, with their place on the chain."""
        self.chains  # noqa: B018 - sets what the records say
        return self.assembled.records

    @cached_property
    def by_id(self) -> dict[int, Rec]:
        """The records by id."""
        return {rec.id: rec for rec in self.assembled.records}

    @cached_property
    def tool_seqs(self) -> dict[tuple[str, str], int]:
        """The seq of the record that asks for each tool call, by (session, tool_use_id)."""
        found: dict[tuple[str, str], int] = {}
        for block in self.blocks:
            if block["kind"] == "tool_use" and block["tool_use_id"]:
                rec = block["rec"]
                found.setdefault((rec.session, block["tool_use_id"]), rec.seq or 0)
        return found

    @cached_property
    def calls(self) -> list[Placed]:
        """The calls with their record, agent, epoch, turn and step, by session and order."""
        self.records  # noqa: B018 - the chain must be known
        placed = [
            Placed(call, self.assembled.places[call.row["file"], call.row["offset"]])
            for call in self.priced.ledger.calls
            if (call.row["file"], call.row["offset"]) in self.assembled.places
        ]
        order = {name: number for number, name in enumerate(self.assembled.sessions)}
        placed.sort(key=lambda one: (order[one.session], one.rec.seq or 0, one.call.key))
        return placed


class Placed:
    """A call and where it stands in its session."""

    __slots__ = ("agent", "call", "rec", "session")

    def __init__(self, call: Call, rec: Rec) -> None:
        self.call = call
        self.rec = rec
        self.session = rec.session
        self.agent = call.row["agent"] or "main"

    @property
    def kind(self) -> str:
        """Return main, subagent, acompact, fork, title or compaction."""
        return str(self.call.row["agent_kind"] or "main")


def estimate(chars: int) -> int:
    """Return the estimated tokens of `chars` code points."""
    return round(chars / CHARS_PER_TOKEN)
