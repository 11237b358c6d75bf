"""Batch verbs on text and addresses: one line in, one line out, in order, nothing reached."""

from __future__ import annotations

import json
from typing import Any

from agent_kernel.guard.batch import VERBS


def answers(verb: str, *asked: Any) -> list[dict[str, Any]]:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in asked]
    return [json.loads(line) for line in VERBS[verb](lines)]


def test_addresses_are_judged_with_and_without_answers() -> None:
    found = answers(
        "address",
        {"id": 1, "url": "https://example.com/"},
        {"id": 2, "url": "http://127.0.0.1/"},
        {"id": 3, "url": "http://x.test/"},
        {"id": 4, "url": "http://x.test/", "answers": ["93.184.215.14", "1.1.1.1"]},
        {"id": 5, "url": "http://x.test/", "answers": [["1.1.1.1"], ["10.0.0.1"]]},
        {"id": 6, "url": "http://x.test/", "answers": []},
        {"id": 7, "url": "https://a.example/ -> 302 https://b.example/"},
        {"id": 8, "url": "https://a.example/ -> 302 https://a.example/b"},
        {"id": 9, "url": "https://a.example/ -> 302 http://10.0.0.1/"},
        {"id": 10, "url": "http://a.example/ -> 301 https://a.example/"},
        {"id": 11, "url": "http://8.8.8.8/"},
    )
    assert [one["verdict"] for one in found] == [
        *("allow", "block", "block", "allow", "block", "block"),
        *("report", "allow", "block", "allow", "allow"),
    ]
    assert [one["id"] for one in found] == list(range(1, 12))
    assert all(one["reason"] for one in found)
    assert found[3]["dial"] == ["93.184.215.14", "1.1.1.1"]
    assert found[10]["dial"] == ["8.8.8.8"]


def test_rendering_gives_every_form() -> None:
    (found,) = answers("render", {"id": "a", "text": "<b>\u202e"})
    assert found == {
        "id": "a",
        "html": "&lt;b&gt;\u202e",
        "markdown": "&lt;b&gt;\u202e",
        "plain": "<b>\\u{202e}",
        "visible": "<b>\\u{202e}",
    }


def test_redaction_counts_by_kind() -> None:
    text = "synthetic-value and synthetic-value and sk-" + "ant-" + "a" * 20
    (found,) = answers("redact", {"id": 1, "text": text, "env": {"MY_KEY": "synthetic-value"}})
    assert found["text"] == (
        "[redacted:env:MY_KEY] and [redacted:env:MY_KEY] and [redacted:anthropic-key]"
    )
    assert found["found"] == [
        {"kind": "env:MY_KEY", "count": 2},
        {"kind": "anthropic-key", "count": 1},
    ]


def test_a_bad_line_is_an_error_and_the_next_is_answered() -> None:
    for verb in ("address", "render", "redact"):
        found = answers(verb, "no json", "[1]", {"id": 3}, {"id": 4, "url": "x", "text": "x"})
        assert [one["id"] for one in found] == [None, None, 3, 4]
        assert ["error" in one for one in found] == [True, True, True, False]
    found = answers("address", {"id": 1, "url": "http://a.example/", "answers": "1.1.1.1"})
    assert "answers" in found[0]["error"]
    found = answers("redact", {"id": 1, "text": "x", "env": {"A": 1}})
    assert "env" in found[0]["error"]
