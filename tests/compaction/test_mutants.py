"""Mutants: each guard broken on purpose, and the named test that then fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.compaction import background, facts
from agent_kernel.core import compaction, session, surface, transaction
from agent_kernel.core.events import AssistantMessage, SurfaceEvent, ToolResultEvent
from agent_kernel.core.messages import ToolUse
from agent_kernel.core.surface import cut_positions
from tests.compaction import test_background, test_ledger, test_transaction
from tests.compaction.kit import Talk


def cuts_of_strays() -> None:
    """A result of a foreign call must not make up for one that is missing."""
    talk = Talk()
    talk.user("go")
    one, two = talk.ask(("read", {"path": "a"}), ("read", {"path": "b"}))
    talk.result(one, "a")
    talk.result(two, "b")
    nodes = list(talk.session.surface().nodes)
    foreign = ToolResultEvent(id="toolu_other", content="stray")
    shown: list[SurfaceEvent] = [*nodes[:3], foreign, *nodes[3:]]
    assert not cut_positions_of(shown) & {2, 3, 4}


def cut_positions_of(nodes: Sequence[SurfaceEvent]) -> frozenset[int]:
    return surface.cut_positions(nodes)


def test_cuts_count_ids_not_results() -> None:
    cuts_of_strays()


def test_counters_instead_of_id_sets_fail_the_stray_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(nodes: Sequence[SurfaceEvent], strict: bool = True) -> frozenset[int]:
        legal, open_calls = set(), 0
        for at, node in enumerate(nodes):
            if open_calls <= 0:
                legal.add(at)
            if isinstance(node, AssistantMessage):
                open_calls += sum(isinstance(b, ToolUse) for b in node.content)
            elif isinstance(node, ToolResultEvent):
                open_calls -= 1
        return frozenset({*legal, len(nodes)})

    monkeypatch.setattr(surface, "cut_positions", counted)
    with pytest.raises(AssertionError):
        cuts_of_strays()
    assert cut_positions is not counted


def test_single_appends_instead_of_one_fail_the_full_disk_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = session.Session.append

    def single(self: Any, *events: Any, agent: str | None = None) -> tuple[Any, ...]:
        return tuple(whole(self, event, agent=agent)[-1] for event in events)

    monkeypatch.setattr(session.Session, "append", single)
    with pytest.raises(AssertionError):
        test_transaction.test_a_disk_that_fails_at_the_commit_leaves_the_old_surface(tmp_path)


def test_a_replacement_that_acts_at_once_fails_the_crash_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_once(self: Any, event: SurfaceEvent) -> None:
        if event.replaces is not None:
            self._splice(event)
        else:
            self._nodes.append(event)
            self._track(event)

    monkeypatch.setattr(surface.Surface, "_join", at_once)
    with pytest.raises(AssertionError):
        test_transaction.test_every_event_of_a_run_as_the_last_one_is_one_of_the_two_states()


def test_no_digest_of_the_region_fails_the_candidates_digest_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "region_digest", lambda _nodes: "same")
    with pytest.raises(AssertionError):
        test_background.edited_bytes_are_dropped()


def test_keys_as_values_fail_the_keys_test(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = facts.values

    def keys_too(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from value
        yield from plain(value)

    monkeypatch.setattr(facts, "values", keys_too)
    with pytest.raises(AssertionError):
        test_ledger.keys_are_no_facts()


def test_no_check_of_the_result_fails_the_invalid_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "validate_messages", lambda *_a, **_k: [])
    with pytest.raises((AssertionError, TypeError)):
        test_transaction.test_a_result_that_breaks_the_rules_is_never_committed()


def test_a_taint_that_is_not_carried_fails_the_laundering_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from agent_kernel.core import entries

    monkeypatch.setattr(entries, "worst_taint", lambda _nodes: None)
    with pytest.raises(AssertionError):
        test_transaction.test_untrusted_text_stays_untrusted_through_two_compactions()


def test_no_breaker_fails_the_breaker_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "BREAKER", 99)
    with pytest.raises(AssertionError):
        test_transaction.test_three_bad_summaries_open_the_breaker_and_the_turn_still_completes()
