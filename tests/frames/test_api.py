"""API: tables by name, the way back to the text, SQL, files, and the frames command."""

from __future__ import annotations

import argparse
import csv
import io
import json

import pandas as pd
import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames import cli_frames
from agent_kernel.frames.columns import TABLES
from agent_kernel.frames.schema import schema
from agent_kernel.testing import shapes
from agent_kernel.testing.script import Script, said, use


def load(path, **how):
    return frames.load(path, readers=transcripts.ALL, cache=False, **how)


@pytest.fixture
def session(tmp_path):
    s = Script()
    s.user("=SUM(A1) of <b>it</b>")
    s.answer(1, [said("I look."), use("Bash", 1, command="=cmd|'/c calc'!A1")], (1, 2, 3, 4, 5))
    s.result(1, [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}])
    s.node("attachment", attachment={"type": "memory", "content": "be brief", "more": ["x"]})
    return s.write(tmp_path / "in")


def run(capsys, *argv):
    parser = argparse.ArgumentParser()
    cli_frames.add_arguments(parser)
    code = cli_frames.main(parser.parse_args([*argv]), readers=transcripts.ALL)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_every_documented_table_is_there(session):
    found = load(session)
    assert set(frames.ALL) == set(TABLES)
    for name in frames.ALL:
        assert list(getattr(found, name).columns) == [column.name for column in schema(name)]
    with pytest.raises(AttributeError, match="is no table; there are sessions"):
        _ = found.nothing


def test_an_empty_load_gives_all_tables_with_all_columns(tmp_path):
    (tmp_path / "empty").mkdir()
    found = load(tmp_path / "empty")
    for name in frames.ALL:
        assert list(found.table(name).columns) == [column.name for column in schema(name)]
        if name != "reconcile":
            assert len(found.table(name)) == 0


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="source 'x' is not known; there are agent_kernel"):
        load(tmp_path, source="x")


def test_text_leads_back_from_blocks_and_records(session):
    found = load(session)
    blocks = found.blocks
    assert found.text(blocks) == [
        "=SUM(A1) of <b>it</b>",
        "I look.",
        '{"command":"=cmd|\'/c calc\'!A1"}',
        "one two",
        "be brief\nx",
    ]
    assert found.text(found.records.head(1)) == ["=SUM(A1) of <b>it</b>"]
    assert found.raw(found.calls)[0]["message"]["id"] == found.calls["call_id"][0]


def test_text_of_a_changed_file_is_refused(session):
    found = load(session)
    blocks = found.blocks
    session.write_bytes(session.read_bytes().replace(b"I look.", b"I LOOK."))
    with pytest.raises(frames.StaleSource, match="changed at byte"):
        found.text(blocks)


def test_a_row_without_its_place_has_no_text(session):
    with pytest.raises(ValueError, match="no record_id"):
        load(session).text(pd.DataFrame({"x": [1]}))


def test_a_filter_keeps_rows_of_sessions_and_days(tmp_path):
    shapes.ALL["resumed-copy-of-another-session"](tmp_path)
    found = load(tmp_path)
    kept = found.filter(session_id=["newer-session"])
    assert list(kept["sessions"]["session_id"]) == ["newer-session"]
    assert len(kept["calls"]) == 1
    assert len(found.filter(since="2030-01-01")["calls"]) == 0


def test_own_prices_win_and_their_tiers_hold(session):
    row = {"model": "claude-opus-4-5-20251101", "input": 1, "output": 1, "cache_write_5m": 1}
    row |= {"cache_write_1h": 1, "cache_read": 1, "source": "contract"}
    found = load(session, prices=[row, {**row, "tier_above": 10, "output": 1000}])
    assert found.totals()["total"]["usd"] == pytest.approx((1 + 3 + 4 + 5 + 2 * 1000) / 1e6)
    assert list(found.prices["source"]) == ["contract"]


def test_sql_reads_tables_and_nothing_else(session):
    pytest.importorskip("duckdb", reason="SQL needs agent-kernel[data]")
    found = load(session)
    assert found.sql("select count(*) as n from calls")["n"][0] == 1
    for text in (
        f"select * from read_csv('{session}')",
        "copy calls to '/tmp/x.csv'",
        "install httpfs",
    ):
        with pytest.raises(ValueError, match="SQL"):
            found.sql(text)


def test_markdown_and_html_escape_what_strangers_wrote(tmp_path):
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], (1, 2, 3, 4, 5), model="<img src=x>|y")
    s.write(tmp_path)
    found = load(tmp_path)
    assert "<img" not in found._repr_markdown_()
    assert "<img" not in found._repr_html_()
    assert "1 calls" in repr(found)


def test_saved_parquet_holds_dtypes_units_and_meanings(session, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs agent-kernel[parquet]")
    found = load(session)
    paths = found.save(tmp_path / "out")
    assert len(paths) == len(frames.ALL)
    again = pd.read_parquet(tmp_path / "out" / "calls.parquet")
    assert again["input"].dtype == "Int64"
    notes = json.loads(pq.read_schema(tmp_path / "out" / "calls.parquet").metadata[b"agent_kernel"])
    assert notes["input"] == "tokens: uncached input"


def test_csv_runs_no_formula_and_keeps_numbers(session, capsys):
    code, out, _ = run(capsys, "tools", str(session), "--no-cache")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    assert rows[0]["command"] == "'=cmd|'/c calc'!A1"
    assert rows[0]["started"].endswith("Z")
    assert out.count("\r\n") == 2


def test_json_lines_hold_iso_times_and_nulls(session, capsys):
    _, out, _ = run(
        capsys, "calls", str(session), "--format", "json", "--columns", "time_first,ttft"
    )
    assert json.loads(out) == {"time_first": "2026-02-01T12:00:02.000Z", "ttft": None}


def test_markdown_counts_what_it_leaves_out(tmp_path, capsys):
    s = Script()
    for number in range(60):
        s.user(f"a | b {number}")
    path = s.write(tmp_path)
    _, out, _ = run(capsys, "records", str(path), "--format", "md", "--columns", "seq")
    assert out.endswith("50 of 60 rows\n")


def test_where_and_limit_choose_rows(session, capsys):
    pytest.importorskip("duckdb", reason="SQL needs agent-kernel[data]")
    where = ("--where", "kind = 'text'", "--columns", "chars", "--limit", "1")
    code, out, _ = run(capsys, "blocks", str(session), *where)
    assert (code, out) == (0, "chars\r\n21\r\n")
    code, _, err = run(capsys, "blocks", str(session), "--where", "nothing = 1")
    assert code == 2
    assert "nothing" in err


@pytest.mark.parametrize(
    "argv,said_",
    [
        (["calls"], "at least one path"),
        (["holograms", "x"], "is no table; there are sessions"),
        (["all", "x"], "need --out DIR"),
        (["calls", "x", "--format", "parquet"], "parquet needs --out"),
        (["calls", "nowhere"], "is not there"),
        (["calls", "x", "--limit", "-1"], "give 0 or more rows"),
    ],
)
def test_a_usage_error_says_what_to_do(argv, said_, capsys):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert said_ in err


def test_all_tables_are_written_to_a_folder(session, tmp_path, capsys):
    code, _, _ = run(capsys, "all", str(session), "--out", str(tmp_path / "out"))
    assert code == 0
    assert {path.stem for path in (tmp_path / "out").iterdir()} == set(frames.ALL)


def test_the_list_names_every_column(capsys):
    code, out, _ = run(capsys, "--list")
    assert code == 0
    for name in TABLES:
        for column in schema(name):
            assert f"  {column.name} " in out


def test_an_issue_of_severity_wrong_is_exit_code_one(tmp_path, capsys):
    shapes.ALL["orphan-and-duplicate-results"](tmp_path)
    assert run(capsys, "calls", str(tmp_path))[0] == 1
