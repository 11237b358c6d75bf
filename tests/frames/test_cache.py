"""Cache: a second load and a refresh give what a first load gives, reading only what is new."""

from __future__ import annotations

import random
import stat

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames.store import Store
from agent_kernel.testing import shapes
from agent_kernel.testing.script import Script, said, use

pytest.importorskip("pyarrow", reason="the cache is Parquet: install agent-kernel[parquet]")
LONG = "the text of a message that no cache may hold"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_KERNEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load(path, **how):
    return frames.load(path, readers=transcripts.ALL, **how)


def tables(found):
    return {name: found.columns(name) for name in frames.ALL}


def session(folder):
    s = Script()
    s.user(LONG)
    for number in range(20):
        s.answer(number, [use("Bash", number, command=LONG)], (1, 2, 3, 4, 5))
        s.result(number, LONG)
    s.answer(99, [said(LONG)], (5, 4, 3, 2, 1))
    return s, s.write(folder)


@pytest.mark.parametrize("name", shapes.ALL)
def test_a_second_load_gives_the_same_tables(name, tmp_path):
    shapes.ALL[name](tmp_path / "in")
    plain = load(tmp_path / "in", cache=False)
    load(tmp_path / "in").table("calls")
    warm = load(tmp_path / "in")
    assert repr(tables(warm)) == repr(tables(plain))
    for table in ("calls", "records", "compactions"):
        load(tmp_path / "in").table(table)
        again = load(tmp_path / "in").table(table)
        assert again.equals(plain.table(table)), table
        assert list(again.dtypes) == list(plain.table(table).dtypes)


def test_no_text_is_in_the_cache_and_nobody_else_may_read_it(tmp_path, place):
    session(tmp_path / "in")
    found = load(tmp_path / "in")
    for table in frames.ALL:
        found.table(table)
    files = [path for path in place.rglob("*") if path.is_file()]
    assert len(files) > 5
    import pyarrow.parquet as pq

    held = "".join(str(pq.read_table(p).to_pydict()) for p in files if p.suffix == ".parquet")
    assert "claude_code" in held or "fixture-session" in held
    assert LONG not in held
    assert stat.S_IMODE((place / "frames").glob("v*").__next__().stat().st_mode) == 0o700


def test_without_the_cache_nothing_is_written(tmp_path, place):
    session(tmp_path / "in")
    load(tmp_path / "in", cache=False).table("calls")
    assert not place.exists()


def test_a_refresh_reads_on_where_the_file_ended(tmp_path, monkeypatch):
    s, path = session(tmp_path / "in")
    found = load(tmp_path / "in")
    before = found.columns("calls")
    assert found.refresh() is False
    whole = path.read_bytes()
    s.answer(100, [said("new")], (7, 7, 7, 7, 7))
    added = b"".join(s.lines)[len(whole) :]
    path.write_bytes(whole + added[:-30])  # the writer is in the middle of a line
    assert found.refresh() is True
    assert "torn_tail" in found.columns("issues")["code"]
    with path.open("ab") as file:
        file.write(added[-30:])
    starts = []
    read = Store._grow
    monkeypatch.setattr(Store, "_grow", lambda *a: starts.append(a[2].stamp.whole) or read(*a))
    assert found.refresh() is True
    assert starts == [len(whole)]
    assert len(found.columns("calls")["call_id"]) == len(before["call_id"]) + 1
    assert repr(tables(found)) == repr(tables(load(tmp_path / "in", cache=False)))


def test_a_changed_file_is_read_again(tmp_path):
    _, path = session(tmp_path / "in")
    found = load(tmp_path / "in")
    found.table("calls")
    path.write_bytes(path.read_bytes().replace(b'"output_tokens": 2', b'"output_tokens": 9'))
    assert found.refresh() is True
    assert repr(tables(found)) == repr(tables(load(tmp_path / "in", cache=False)))
    again = load(tmp_path / "in")
    assert sum(again.columns("calls")["output_recorded"]) == 20 * 9 + 4


def test_a_grown_file_of_an_earlier_process_is_read_on(tmp_path):
    s, _ = session(tmp_path / "in")
    load(tmp_path / "in").table("calls")
    s.answer(100, [said("new")], (7, 7, 7, 7, 7))
    s.write(tmp_path / "in")
    assert repr(tables(load(tmp_path / "in"))) == repr(tables(load(tmp_path / "in", cache=False)))


def test_a_damaged_pack_is_dropped_and_named(tmp_path, place):
    session(tmp_path / "in")
    load(tmp_path / "in").table("calls")
    pick = random.Random(3)
    for path in place.rglob("*.parquet"):
        path.write_bytes(bytes(pick.randrange(256) for _ in range(400)))
    found = load(tmp_path / "in")
    assert len(found.table("calls")) == 21
    assert "stale_cache" in found.columns("issues")["code"]


def test_clearing_the_cache_leaves_the_next_load_whole(tmp_path, place):
    from agent_kernel.frames.cache import clear

    session(tmp_path / "in")
    load(tmp_path / "in").table("calls")
    assert clear() > 4
    assert len(load(tmp_path / "in").table("calls")) == 21


def test_several_processes_give_what_one_gives(tmp_path):
    names = list(shapes.ALL)[:12]
    for name in names:
        shapes.ALL[name](tmp_path / "in" / name)
    one = load(tmp_path / "in", cache=False, workers=1)
    two = load(tmp_path / "in", cache=False, workers=2)
    assert repr(tables(one)) == repr(tables(two))
