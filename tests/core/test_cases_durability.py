"""Durability table: one test a row of durability_faults.csv, with the message each one gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SHARED
from tests.core import acts_content, acts_disk
from tests.core.acts import ACTS
from tests.guard.places import CASES, rows

ROWS = rows("durability_faults")
ACTORS = (acts_disk, acts_content)  # imported, they have named the rows they act out


@pytest.mark.parametrize("row", [row["id"] for row in ROWS])
async def test_durability_fault_is_survived(row: str, tmp_path: Path) -> None:
    await ACTS[row](tmp_path)


def test_every_row_is_acted_out() -> None:
    assert set(ACTS) == {row["id"] for row in ROWS}


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="no case tables beside this repository")
def test_the_table_equals_its_source() -> None:
    name = "durability_faults.csv"
    assert (CASES / name).read_bytes() == (SHARED / "cases" / name).read_bytes()
