"""Settings: which source wins, what a project's file may not do, and what a wrong key is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.kernel.settings import KEYS, Settings, SettingsError, read_budget


@pytest.fixture
def made(tmp_path: Path):
    """Settings of a folder with the given project and user files and environment."""

    def make(project=None, user=None, **env: str) -> Settings:
        folder = tmp_path / "project"
        (folder / ".agent_kernel").mkdir(parents=True, exist_ok=True)
        if project is not None:
            (folder / ".agent_kernel" / "settings.json").write_text(json.dumps(project))
        config = tmp_path / "config"
        (config / "agent_kernel").mkdir(parents=True, exist_ok=True)
        if user is not None:
            (config / "agent_kernel" / "settings.json").write_text(json.dumps(user))
        return Settings(folder, {"XDG_CONFIG_HOME": str(config), **env})

    return make


def test_every_key_has_a_default_that_its_own_reader_takes() -> None:
    for key in KEYS.values():
        assert key.read(key.default) == key.default, key.name


def test_option_session_environment_user_and_default_win_in_this_order(made) -> None:
    found = made(user={"max_steps": 40}, AGENT_KERNEL_MAX_STEPS="30")
    assert found.get("max_steps", option=10) == 10
    assert found.get("max_steps") == 30
    found.set("max_steps", "20")
    assert found.get("max_steps") == 20
    assert made(user={"max_steps": 40}).get("max_steps") == 40
    assert made(user={}).get("max_steps") == 50


@pytest.mark.parametrize(
    "project,key,wanted",
    [
        ({"max_steps": 5}, "max_steps", 5),
        ({"max_steps": 500}, "max_steps", 50),
        ({"mode": "plan"}, "mode", "plan"),
        ({"mode": "bypass"}, "mode", "ask"),
        ({"base_url": "https://elsewhere.example"}, "base_url", None),
        ({"model": "other"}, "model", None),
        ({"order": "append"}, "order", "append"),
    ],
)
def test_a_projects_file_narrows_and_never_widens(made, project, key, wanted) -> None:
    found = made(project=project)
    assert found.get(key) == wanted
    (inert,) = [
        f for f in found.explain(key) if f.source.endswith("project/.agent_kernel/settings.json")
    ]
    assert bool(inert.why) == (wanted != project[key])


@pytest.mark.parametrize(
    "wrong,words",
    [
        ({"max_step": 5}, "did you mean 'max_steps'"),
        ({"max_steps": 0}, "above 0"),
        ({"mode": "bypas"}, "did you mean 'bypass'"),
        ([], "holds no object"),
    ],
)
def test_a_wrong_key_or_value_names_its_file_and_the_nearest(made, wrong, words) -> None:
    with pytest.raises(SettingsError, match=words):
        made(user=wrong).get("max_steps"), made(user=wrong).get("mode")


def test_a_file_that_is_no_json_is_an_error_with_its_name(made, tmp_path: Path) -> None:
    found = made(user={})
    found.user_file.write_text("{")
    with pytest.raises(SettingsError, match="is no JSON"):
        found.get("mode")


@pytest.mark.parametrize(
    "text,limit",
    [
        ("0.50", {"dollars": 0.5}),
        ("$2", {"dollars": 2.0}),
        ("40k", {"tokens": 40_000}),
        ("1.5M", {"tokens": 1_500_000}),
        ("40,000 tokens", {"tokens": 40_000}),
        ("none", {}),
    ],
)
def test_a_budget_is_read_as_dollars_or_tokens(text, limit) -> None:
    assert read_budget(text) == limit


@pytest.mark.parametrize("text", ["-1", "much", "1.2.3", ""])
def test_what_is_no_budget_says_what_one_is(text) -> None:
    with pytest.raises(ValueError, match=r"dollars like 0\.50"):
        read_budget(text)
