"""Shapes: every fixture gives the calls, tokens, dollars, tables and issues it was made for."""

from __future__ import annotations

import collections

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames.schema import schema
from agent_kernel.frames.unpack import opened
from agent_kernel.testing import shapes

BUCKETS = ("input", "output_recorded", "cache_write_5m", "cache_write_1h", "cache_read")


@pytest.fixture(params=shapes.ALL)
def shape(request, tmp_path):
    expected = shapes.ALL[request.param](tmp_path)
    return frames.load(tmp_path, readers=transcripts.ALL, cache=False), expected


def test_calls_tokens_and_dollars_are_what_the_shape_holds(shape):
    found, expected = shape
    total = found.totals()["total"]
    assert total["calls"] == expected.calls
    calls = found.columns("calls")
    assert tuple(sum(one or 0 for one in calls[name]) for name in BUCKETS) == expected.buckets
    if expected.usd is None:
        assert total["usd"] is None
    else:
        assert total["usd"] == pytest.approx(expected.usd, abs=1e-9)


def test_issues_are_the_shapes_and_no_other(shape):
    found, expected = shape
    codes = collections.Counter(found.columns("issues")["code"])
    assert codes == expected.issues


def test_tables_say_what_the_shape_says(shape):
    found, expected = shape
    for table, columns in expected.tables.items():
        for name, values in columns.items():
            assert found.columns(table)[name] == pytest.approx(values), f"{table}.{name}"


def test_ours_loses_no_result_that_the_file_holds(shape):
    found, expected = shape
    walks = [found.walk(name) for name in found.columns("sessions")["session_id"]]
    assert sum(walk.official_lost for walk in walks) == expected.official_lost
    assert sum(walk.ours_lost for walk in walks) == expected.ours_lost == 0


def test_every_table_has_its_columns_and_dtypes(shape):
    found, _ = shape
    for name in frames.ALL:
        made = found.table(name)
        assert [str(dtype) for dtype in made.dtypes] == [c.pandas for c in schema(name)]


def test_every_line_is_a_record(shape):
    found, _ = shape
    records = found.columns("records")
    lines = 0
    for file in found.files_read():
        stream, _ = opened(file)
        with stream:
            lines += sum(1 for line in stream if line.strip(b"\xef\xbb\xbf \t\r\n"))
    assert len(records["record_id"]) == lines


def test_light_calls_equal_calls_of_a_full_pass(shape, tmp_path):
    found, _ = shape
    found.columns("records")
    light = frames.load(tmp_path, readers=transcripts.ALL, cache=False)
    a, b = light.totals()["total"], found.totals()["total"]
    assert a == b
