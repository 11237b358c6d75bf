"""Redaction beyond the case table: each format, known values in their forms, streams, JSON."""

from __future__ import annotations

import base64
import json
import time
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.guard.redact import RULES, WINDOW, Running, Secrets, Stream, redact, redact_json

A, D = "abcdefghij" * 8, "0123456789abcdef" * 8
U = "ABCDEFGHIJKLMNOP"
# Synthetic, and put together here so that no scanner takes them for real ones.
KEYS = {
    "anthropic-key": ["sk-" + "ant-api03-" + A],
    "openai-key": ["sk-" + A[:48], "sk-" + "svcacct-" + A, "sk-" + "or-v1-" + D[:64]],
    "aws-key-id": ["AK" + "IA" + U, "AS" + "IA" + U],
    "aws-secret": ["aws_secret_access_key=" + D[:40], '"SecretAccessKey": "' + D[:40] + '"'],
    "github-token": ["gh" + kind + "_" + A[:36] for kind in "pousr"] + ["github_" + "pat_" + A],
    "gitlab-token": ["gl" + "pat-" + A[:20]],
    "slack-token": ["xo" + "xp-1234567890-" + A, "xa" + "pp-1-A012-345-" + D],
    "slack-hook": ["https://hooks." + "slack.com/services/T00000000/B00000000/" + A[:24]],
    "google-key": ["AI" + "za" + A[:35]],
    "google-oauth": ["ya" + "29." + A, "GOC" + "SPX-" + A[:28]],
    "huggingface-token": ["hf" + "_" + A[:34]],
    "pypi-token": ["py" + "pi-AgEIcHlwaS5vcmc" + A],
    "npm-token": ["np" + "m_" + A[:36], "//registry.example/:_auth" + "Token=" + A[:20]],
    "stripe-key": ["sk" + "_live_" + A[:24], "rk" + "_test_" + A[:24], "wh" + "sec_" + A[:32]],
    "sendgrid-key": ["S" + "G." + A[:22] + "." + A[:43]],
    "twilio-key": ["S" + "K" + D[:32]],
    "databricks-token": ["da" + "pi" + D[:32]],
    "digitalocean-token": ["do" + "p_v1_" + D[:64]],
    "vault-token": ["hv" + "s." + A[:24]],
    "azure-key": ["Account" + "Key=" + A + "==", "https://x.example/?a=1&s" + "ig=" + A],
    "jwt": ["ey" + "JhbGciOiJI.ey" + "JzdWIiOiIx." + A],
    "private-key": [
        f"-----BEGIN {kind}PRIVATE KEY-----\n{A}\n{D}\n-----END {kind}PRIVATE KEY-----"
        for kind in ("", "RSA ", "EC ", "OPENSSH ")
    ],
    "url-password": ["postgres://me:" + "hunter2@db.example/x", "https://:" + "p%40ss@h.example"],
    "auth-header": [
        *(name + ": " + A[:20] for name in ("Private-Token", "X-Vault-Token", "x-api-key")),
        "Authorization: Bearer " + A[:20],
    ],
    "service-token": [
        *(prefix + "_" + D[:40] for prefix in ("shp" + "at", "g" + "sk", "r" + "8", "sb" + "p")),
        *(prefix + "-" + A for prefix in ("nv" + "api", "x" + "ai", "pp" + "lx", "tv" + "ly")),
        *(
            prefix + "_" + A
            for prefix in ("fi" + "gd", "lin_" + "api", "dckr_" + "pat", "gl" + "sa")
        ),
        "ATA" + "TT3xFf" + A,
        "PM" + "AK-" + D[:24] + "-" + D[:34],
        "dp" + ".st.prd." + A,
        "AGE-SECRET-" + "KEY-1" + U * 4,
        "sq0" + "csp-" + A,
        "fm" + "2_" + A,
    ],
}
ALL_KEYS = [(kind, key) for kind, keys in KEYS.items() for key in keys]


def test_every_format_has_an_example() -> None:
    assert {rule.kind for rule in RULES} == set(KEYS)


@pytest.mark.parametrize("kind, key", ALL_KEYS)
def test_a_key_is_masked_wherever_it_stands(kind: str, key: str) -> None:
    for text in (key, f"a {key} b", f'{{"k": "{key}"}}', f"x='{key}'", f"({key})\n", f">{key}<"):
        masked, found = redact(text)
        assert [one for one, _ in found] == [kind], (text, masked)
        assert A[:16] not in masked
        assert D[:16] not in masked
        assert "hunter2" not in masked
        assert redact(masked) == (masked, [])


@pytest.mark.parametrize(
    "form",
    [
        str.encode,
        lambda value: value.encode().hex(),
        lambda value: quote(value, safe="").replace("2F%2B", "2f%2b"),
    ],
)
def test_a_known_value_is_masked_in_hex_and_lower_case_percent_form(form: Any) -> None:
    value = "Synthetic-" + "value/+x"
    shown = form(value) if isinstance(form(value), str) else form(value).decode()
    assert redact(f"a {shown} b", Secrets.from_env({"MY_TOKEN": value}))[0] == (
        "a [redacted:env:MY_TOKEN] b"
    )


def test_a_key_inside_a_longer_word_is_no_key() -> None:
    for text in ("task-" + A[:48], "xAK" + "IA" + U, "AK" + "IA" + U + "XX", "desk_live_" + A[:5]):
        assert redact(text) == (text, [])


def test_a_private_key_that_was_cut_is_masked_as_far_as_it_goes() -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    assert redact(f"x\n{begin}\n{D}\n{D[:20]}")[0] == "x\n[redacted:private-key]"
    assert redact(f"[cut]{D}\n{D}\n{end}\ny")[0] == "[cut][redacted:private-key]\ny"
    assert (
        redact(f"the line {begin} opens a key")[0] == "the line [redacted:private-key] opens a key"
    )


SECRET = "synthetic$value/+ü" + "x\\"


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_a_known_value_is_masked_in_its_other_forms(offset: int) -> None:
    known = Secrets.from_env({"DB_PASSWORD": SECRET})
    inner = b"u:p"[:offset] + SECRET.encode() + b"!"
    for form in (
        base64.b64encode(inner).decode(),
        base64.urlsafe_b64encode(inner).decode(),
        quote(SECRET, safe=""),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
    ):
        masked, found = redact(f"<{form}>", known)
        assert found == [("env:DB_PASSWORD", 1)], form
        assert len(masked) < len(form) + 20


def test_the_longest_of_two_known_values_wins() -> None:
    known = Secrets.from_env({"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-ijkl", "C_KEY": "abcdefgh"})
    assert redact("abcdefgh-ijkl abcdefgh", known) == (
        "[redacted:env:B_KEY] [redacted:env:A_KEY]",
        [("env:B_KEY", 1), ("env:A_KEY", 1)],
    )


def test_values_are_never_shown_by_their_holder() -> None:
    assert SECRET not in repr(Secrets.from_env({"A_KEY": SECRET}))


def test_json_is_masked_in_values_and_keys_and_untouched_when_clean() -> None:
    key = KEYS["anthropic-key"][0]
    value = {"a": [1, None, {"b": key}], key: True, "Authorization": "x", "t": ("y", key)}
    assert redact_json(value) == {
        "a": [1, None, {"b": "[redacted:anthropic-key]"}],
        "[redacted:anthropic-key]": True,
        "Authorization": "[redacted:auth-header]",
        "t": ("y", "[redacted:anthropic-key]"),
    }
    clean = {"a": [1, "text", {"b": None}]}
    assert redact_json(clean) is clean


def test_two_keys_with_one_mask_lose_no_value() -> None:
    one, two = "sk-" + "ant-" + A, "sk-" + "ant-" + D
    assert sorted(redact_json({one: 1, two: 2}).values()) == [1, 2]


PARTS = [key for _, key in ALL_KEYS] + [SECRET, "text " * 300, "\n", D]


@given(st.integers(0, 2**32))
def test_no_border_of_a_stream_shows_a_secret(seed: int) -> None:
    random = Random(seed)
    parts = random.choices(PARTS, k=random.randint(1, 12))
    known = Secrets.from_env({"DB_PASSWORD": SECRET})
    text = " ".join(parts) + " " + "end " * 3000
    stream, at, shown = Stream(known), 0, ""
    while at < len(text):
        size = random.choice([1, 7, 100, 1000, 5000])
        shown += stream.feed(text[at : at + size])
        at += size
    shown += stream.close()
    assert shown == redact(text, known)[0]


@given(st.integers(0, 2**32))
def test_text_that_runs_shows_no_secret_growing(seed: int) -> None:
    random = Random(seed)
    words = "correct horse battery staple"
    parts = random.choices([*PARTS, words], k=random.randint(1, 12))
    known = Secrets.from_env({"DB_PASSWORD": SECRET, "A_PASSWD": words})
    text = " ".join(parts) + " end"
    running, at, shown = Running(known), 0, ""
    while at < len(text):
        size = random.choice([1, 7, 100, 1000, 5000])
        shown += running.feed(text[at : at + size])
        at += size
    shown += running.close()  # line ends of a key may be shown before its end is known
    assert shown.split() == redact(text, known)[0].split()


def test_text_that_runs_holds_back_its_last_word_alone() -> None:
    running = Running()
    assert running.feed("the answer is 42 and sk-") == "the answer is 42 and "
    assert running.feed("ordinary. So") == "sk-ordinary. "
    assert running.close() == "So"
    assert len(Running().feed("x" * 100_000)) == 100_000 - WINDOW


def test_a_stream_holds_back_no_more_than_a_window() -> None:
    stream = Stream()
    shown = "".join(stream.feed("word " * 100) for _ in range(100))
    assert 50_000 - len(shown) <= 2 * WINDOW + 256
    assert shown + stream.close() == "word " * 10_000


def test_an_endless_private_key_stays_masked_and_bounded() -> None:
    stream = Stream()
    begin = stream.feed("-----BEGIN PRIVATE KEY-----\n")
    shown = begin + "".join(stream.feed(D + "\n") for _ in range(3000))
    shown += stream.feed("-----END PRIVATE KEY-----\nafter\n") + stream.close()
    assert D[:32] not in shown
    assert shown.endswith("]\nafter\n")
    assert len(shown) < 500


def test_many_small_strings_are_quick() -> None:
    value = {"rows": [{"name": f"row {n}", "text": "some words here"} for n in range(10_000)]}
    began = time.process_time()
    redact_json(value)
    assert time.process_time() - began < 2
