"""Fleet: the tables of a fleet are those of one load, whatever the filesystem."""

from __future__ import annotations

import pandas as pd
import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames import fleet
from agent_kernel.testing import corpus, shapes

pytest.importorskip("dask.dataframe", reason="a fleet needs agent-kernel[fleet]")
fsspec = pytest.importorskip("fsspec", reason="a fleet needs agent-kernel[fleet]")


def load(path):
    return frames.load(path, readers=transcripts.ALL, cache=False)


def plain(table):
    """Rows as text, in one order, unknowns alike."""
    return sorted(str([None if pd.isna(v) is True else v for v in row]) for row in table.values)


def same(whole, one, table, but=()):
    left, right = one.table(table), whole.compute()
    assert list(left.columns) == list(right.columns)
    kept = [column for column in left if column not in but]
    assert plain(left[kept]) == plain(right[kept])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    names = ["one-response-over-four-lines", "subagent-in-progress-and-file", "own-log"]
    names += [
        "compaction-call-warm",
        "codex-repeats",
        "deepseek-v4",
        "orphan-and-duplicate-results",
    ]
    for name in names:
        shapes.ALL[name](tmp_path / "in" / name)
    for path in sorted((tmp_path / "in").rglob("*.jsonl")):  # one session a folder
        text = path.read_text().replace("fixture-session", path.relative_to(tmp_path).parts[1])
        text = text.replace("msg_01Fixture", "msg_" + path.relative_to(tmp_path).parts[1][:12])
        path.write_text(text)
    monkeypatch.setattr(fleet, "TASK", 2_000)  # several tasks
    return tmp_path / "in"


@pytest.mark.parametrize("table", ["calls", "records", "blocks", "tools", "turns", "compactions"])
def test_a_fleet_gives_the_tables_of_a_load(table, folder):
    whole = fleet.load(str(folder), readers=transcripts.ALL)
    assert len(whole.groups) > 3
    same(getattr(whole, table), load(folder), table)


def test_sums_over_all_files_are_rows(folder):
    whole, one = fleet.load(str(folder), readers=transcripts.ALL), load(folder)
    assert whole.reconcile["usd"].tolist() == pytest.approx(one.reconcile["usd"].tolist())
    assert whole.reconcile["delta_usd"].tolist()[1:] == pytest.approx(
        one.reconcile["delta_usd"].tolist()[1:]
    )
    assert sorted(whole.prices["calls"].fillna(0)) == sorted(one.prices["calls"].fillna(0))


def test_another_filesystem_reads_the_same(folder):
    memory = fsspec.filesystem("memory")
    for path in folder.rglob("*.jsonl"):
        memory.pipe_file(f"/bucket/{path.relative_to(folder)}", path.read_bytes())
    whole = fleet.load("memory://bucket", readers=transcripts.ALL)
    same(whole.calls, load(folder), "calls", but={"record_id"})
    assert set(whole.records["path"].compute()) == {
        f"/bucket/{path.relative_to(folder)}" for path in folder.rglob("*.jsonl")
    }


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fleet.load(str(tmp_path / "nowhere"))


def test_an_empty_folder_has_all_columns(tmp_path):
    whole = fleet.load(str(tmp_path))
    assert list(whole.calls.compute().columns) == list(load(tmp_path).calls.columns)


def test_a_synthetic_corpus_has_the_totals_it_was_written_with(tmp_path, monkeypatch):
    made = corpus.write(tmp_path, megabytes=2, session_kb=100)
    monkeypatch.setattr(fleet, "TASK", 300_000)
    assert made.files > 10
    total = load(tmp_path).totals()["total"]
    assert (total["calls"], total["usd"]) == (made.calls, pytest.approx(made.usd))
    calls = fleet.load(str(tmp_path), readers=transcripts.ALL).calls
    assert calls["usd_recorded"].sum().compute() == pytest.approx(made.usd)
    names = ("input", "output_recorded", "cache_write_5m", "cache_write_1h", "cache_read")
    assert tuple(calls[list(names)].sum().compute()) == made.buckets
