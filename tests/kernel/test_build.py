"""The wiring of the roof: one provider for all turns, another when the key was mended."""

from __future__ import annotations

from pathlib import Path

from agent_kernel.core.session import Session
from agent_kernel.kernel.build import Kept, Options, built
from agent_kernel.kernel.settings import Settings


def provider(kept: Kept, folder: Path, key: str) -> object:
    """The provider a turn would use."""
    env = {"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    made = built(Session(), Settings(folder, env), Options(), services={}, providers=kept)
    return made.agent.provider


def test_turns_share_one_provider_and_its_connections(tmp_path: Path) -> None:
    kept: Kept = {}
    assert provider(kept, tmp_path, "a" * 9) is provider(kept, tmp_path, "a" * 9)


def test_a_mended_key_is_used_by_the_next_turn(tmp_path: Path) -> None:
    kept: Kept = {}
    assert provider(kept, tmp_path, "wrong") is not provider(kept, tmp_path, "right")
