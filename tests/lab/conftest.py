"""Fixtures of the lab: synthetic sessions, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.cli.lab import given
from agent_kernel.lab.given import Given
from agent_kernel.lab.histories import History, histories
from agent_kernel.lab.trajectory import Trajectory, price_table, trajectory
from agent_kernel.testing import working


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four synthetic sessions."""
    path = tmp_path_factory.mktemp("lab") / "projects"
    working.write(path, sessions=4, steps=110)
    return path


@pytest.fixture(scope="session")
def rooms() -> Given:
    """What the roof gives the lab."""
    return given()


@pytest.fixture(scope="session")
def told(folder: Path, rooms: Given) -> list[History]:
    """The sessions as events, requests and boundaries."""
    return histories(rooms.load(folder), rooms)


@pytest.fixture(scope="session")
def made(folder: Path, rooms: Given, told: list[History]) -> list[Trajectory]:
    """Their trajectories."""
    prices = price_table(rooms.load(folder).columns("prices"))
    return [trajectory(one, prices) for one in told]
