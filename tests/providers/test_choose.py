"""Which model wins: a table over all subsets of the sources; keys are named, never shown."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from agent_kernel.core.model import ModelInfo
from agent_kernel.providers import (
    BY_NAME,
    DEFAULT_MODEL,
    Cassette,
    Choice,
    Demo,
    Gate,
    Key,
    Retrying,
    Watchdog,
    Wish,
    build,
    choose,
    endpoint_of,
    find_key,
    look_local,
    profile_of,
)
from agent_kernel.providers.anthropic import Anthropic
from agent_kernel.testing import MessagesServer

SECRET = "sk-" + "synthetic-key-of-a-test"
SOURCES: dict[str, Any] = {
    "option": Wish("from-option"),
    "session": Wish("from-session", "http://127.0.0.1:8080"),
    "settings": Wish("from-settings"),
    "key": {"ANTHROPIC_API_KEY": SECRET},
    "token": {"ANTHROPIC_AUTH_TOKEN": SECRET + "-token"},
    "base_url": {"ANTHROPIC_BASE_URL": "https://proxy.example.invalid"},
    "model": {"ANTHROPIC_MODEL": "from-env"},
}
SUBSETS = [
    set(names)
    for size in range(len(SOURCES) + 1)
    for names in itertools.combinations(SOURCES, size)
]


def chosen(names: set[str]) -> Choice:
    env: dict[str, str] = {}
    for name in names - {"option", "session", "settings"}:
        env |= SOURCES[name]
    wishes = {n: SOURCES[n] for n in ("option", "session", "settings") if n in names}
    return choose(**wishes, env=env)


def expected(names: set[str]) -> tuple[str, str, str | None]:
    """Provider, model and base_url by the six rules, written out once more by hand."""
    proxy = "https://proxy.example.invalid" if "base_url" in names else None
    host = proxy or "https://api.anthropic.com"
    if "option" in names:
        return ("anthropic", "from-option", host)
    if "session" in names:
        return ("anthropic", "from-session", "http://127.0.0.1:8080")
    if "settings" in names:
        return ("anthropic", "from-settings", host)
    if names & {"key", "token"}:
        return ("anthropic", "from-env" if "model" in names else DEFAULT_MODEL, host)
    return ("demo", "demo", None)


@pytest.mark.parametrize("names", SUBSETS, ids=lambda names: "+".join(sorted(names)) or "nothing")
def test_the_first_match_wins(names: set[str]) -> None:
    choice = chosen(names)
    assert (choice.provider, choice.model, choice.base_url) == expected(names)
    wanted = "ANTHROPIC_API_KEY" if "key" in names else "ANTHROPIC_AUTH_TOKEN"
    has = bool(names & {"key", "token"}) and choice.provider != "demo"
    assert choice.key_found is has
    assert choice.key_from == (wanted if has else None)
    assert choice.why
    assert choice.looked
    shown = json.dumps(choice.wire()) + repr(choice)
    assert SECRET not in shown
    assert SECRET[-6:] not in shown


def test_the_json_form_has_the_documented_keys() -> None:
    wire = chosen({"key"}).wire()
    assert list(wire) == ["provider", "model", "endpoint", "base_url", "key", "why", "looked"]
    assert wire["key"] == {"found": True, "from": "ANTHROPIC_API_KEY"}


def test_a_local_server_needs_no_key_and_a_far_one_does() -> None:
    near = choose(env={"ANTHROPIC_BASE_URL": "http://localhost:11434"})
    assert (near.provider, near.endpoint) == ("anthropic", "ollama")
    far = choose(env={"ANTHROPIC_BASE_URL": "https://proxy.example.invalid"})
    assert far.provider == "demo"
    assert "proxy.example.invalid" in far.why


def test_the_demo_can_be_asked_for_although_there_is_a_key() -> None:
    choice = choose(option=Wish("demo"), env={"ANTHROPIC_API_KEY": SECRET})
    assert (choice.provider, choice.key_found) == ("demo", False)


def test_blank_variables_are_not_set() -> None:
    assert choose(env={"ANTHROPIC_API_KEY": "  ", "ANTHROPIC_MODEL": "x"}).provider == "demo"
    assert find_key({"ANTHROPIC_API_KEY": ""}) is None


def test_a_key_shows_only_where_it_was_found() -> None:
    key = find_key({"ANTHROPIC_API_KEY": SECRET})
    assert key is not None
    assert SECRET not in repr(key)
    assert key.hide(f"bad key {SECRET}!") == "bad key [key]!"


def test_the_wrappers_lie_in_their_one_order() -> None:
    env = {"ANTHROPIC_API_KEY": SECRET}
    provider = build(choose(env=env), env)
    assert isinstance(provider, Retrying)
    gate = provider.inner
    assert isinstance(gate, Gate)
    assert isinstance(gate.inner, Watchdog)
    assert isinstance(gate.inner.inner, Anthropic)
    assert provider.name == "anthropic"
    assert provider.endpoint == BY_NAME["anthropic"]
    assert SECRET not in repr(vars(gate.inner.inner))
    assert isinstance(build(choose(), {}), Demo)


def test_fields_of_an_endpoint_are_set_by_hand(tmp_path: Any) -> None:
    env = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    provider = build(choose(env=env), env, endpoint={"cache_control": True, "gap": 5.0})
    assert (provider.endpoint.name, provider.endpoint.gap) == ("loopback", 5.0)
    assert provider.endpoint.cache_control
    tape = Cassette(tmp_path / "a.jsonl", "replay")
    assert build(choose(env=env), env, cassette=tape).endpoint.name == "loopback"


@pytest.mark.parametrize(
    "url,name",
    [
        (None, "anthropic"),
        ("https://api.anthropic.com/", "anthropic"),
        ("https://API.Anthropic.com.:443", "anthropic"),
        ("https://api.anthropic.com.evil.invalid", "compatible"),
        ("http://127.0.0.1:8080", "llamacpp"),
        ("http://localhost:11434", "ollama"),
        ("http://[::1]:1234", "lmstudio"),
        ("http://127.0.0.9:8000", "vllm"),
        ("http://127.0.0.1:39999", "loopback"),
        ("https://api.deepseek.com/anthropic", "deepseek"),
        ("https://notdeepseek.com", "compatible"),
        ("http://192.168.1.5:11434", "compatible"),
    ],
)
def test_an_endpoint_is_chosen_by_its_address(url: str | None, name: str) -> None:
    found = endpoint_of(url)
    assert found.name == name
    assert found.betas is (name == "anthropic")


def test_a_wrong_endpoint_setting_is_named() -> None:
    with pytest.raises(ValueError, match="unknown endpoint fields \\['bets'\\]"):
        endpoint_of(None, {"bets": True})
    with pytest.raises(ValueError, match="unknown endpoint 'olama'"):
        endpoint_of(None, {"name": "olama"})


def test_limits_come_from_the_host_then_the_price_table_then_are_assumed() -> None:
    host = BY_NAME["anthropic"]
    said = profile_of("claude-sonnet-5-5", host, [ModelInfo("claude-sonnet-5-5", 500_000, 64_000)])
    assert (said.window, said.max_output, said.assumed) == (500_000, 64_000, False)
    assert (said.thinking, said.prefill) == ("adaptive", False)
    old = profile_of("claude-sonnet-4-5", host)
    assert (old.prefill, old.thinking, old.assumed) == (True, "none", False)
    unknown = profile_of("tiny-model-of-mine", BY_NAME["ollama"])
    assert (unknown.window, unknown.max_output, unknown.assumed) == (200_000, 8_192, True)
    assert unknown.thinking == "none"
    assert profile_of("demo", BY_NAME["demo"]).name == "demo"


async def test_local_servers_are_found_when_asked_for() -> None:
    with MessagesServer() as server:
        port = int(server.base_url.rpartition(":")[2])
        found = await look_local((1, port), seconds=2)
    assert [(f.base_url, f.models[-1]) for f in found] == [(server.base_url, "demo")]


def test_a_key_given_by_hand_is_no_part_of_a_repr() -> None:
    assert "secret" not in repr(Key("secret", "here"))
