"""Report: five sentences that the tables bear out, pictures with words, no text and no path."""

from __future__ import annotations

import argparse
import re
import time

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames import cli_report, metrics
from agent_kernel.frames.avoidable import costs
from agent_kernel.frames.report import page, sentences
from agent_kernel.testing import shapes
from agent_kernel.testing.script import Script, said, use

SECRET = "the words of a person that no report shows"


def load(path):
    return frames.load(path, readers=transcripts.ALL, cache=False)


@pytest.fixture
def sessions(tmp_path):
    for name in ("cache-events", "compaction-call-cold", "overlapping-checkpoints"):
        shapes.ALL[name](tmp_path / "in" / "team-a" / name)
    s = Script("secret-session")
    s.user(SECRET)
    blocks = [said(SECRET), use("Read", 1, file_path="/home/dev/project/app.py")]
    s.answer(1, blocks, (1, 2, 3, 4, 5))
    s.result(1, "x" * 50_000)
    s.answer(2, [said("b")], (1, 2, 3, 4, 20_000))
    s.line({"type": "summary", "summary": SECRET, "leafUuid": "x", "sessionId": s.session})
    s.write(tmp_path / "in" / "team-b")
    return tmp_path / "in"


def run(capsys, *argv):
    parser = argparse.ArgumentParser()
    cli_report.add_arguments(parser)
    code = cli_report.main(parser.parse_args([*argv, "--no-cache"]), readers=transcripts.ALL)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_page_opens_with_five_sentences_the_tables_bear_out(sessions):
    found = load(sessions)
    told = sentences(found, costs(found.load))
    assert len(told) == 5
    total = found.totals()["total"]
    assert told[0].startswith(f"${total['usd']:,.2f} was spent")
    assert f"gives ${total['usd']:,.2f}" in told[1]
    expired = found.calls[found.calls.cache_event == "expired"]
    dear = expired[expired.rewritten > 20_000].rewrite_usd.sum()
    assert any(one.startswith(f"${dear:,.2f}") and "ran out" in one for one in told)
    html = page(found)
    assert html.index("<li>") < html.index("<table")
    assert html.count("<li>") == 5


def test_no_text_and_no_full_path_unless_asked(sessions):
    found = load(sessions)
    closed = page(found)
    assert SECRET not in closed
    assert "/home/dev" not in closed
    assert str(sessions) not in closed
    opened = page(found, text=True)
    assert SECRET in opened
    assert "/home/dev/project" in opened


def test_the_page_loads_nothing_and_runs_nothing(sessions):
    html = page(load(sessions))
    assert not re.search(r"(?:src|href)='(?!data:)", html)
    assert "<script" not in html
    assert "http" not in re.sub(r"base64,[^']*", "", html)


def test_names_of_strangers_are_escaped(tmp_path):
    s = Script("<script>alert(1)</script>")
    s.user("go")
    s.answer(1, [said("a")], (1, 2, 3, 4, 5), model="<img src=x onerror=alert(1)>$x$")
    path = s.write(tmp_path, "a.jsonl")
    html = page(load(path), text=True)
    assert "<script>" not in html
    assert "<img src=x" not in html


def test_owners_are_the_first_folders_below_the_path(sessions, tmp_path, capsys):
    out = tmp_path / "page.html"
    code, told, _ = run(capsys, str(sessions), "-o", str(out), "--by", "owner")
    assert code == 0
    assert told.count("\n") == 6
    owners = re.search(r"<h2>By owner</h2>.*?</table>", out.read_text())[0]
    assert "<td>team-a</td>" in owners
    assert "<td>team-b</td>" in owners


def test_without_a_path_the_harness_folders_are_read(sessions, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    code, _, err = run(capsys, "-o", str(tmp_path / "x.html"))
    assert code == 2
    assert "no harness folder" in err
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    (tmp_path / "claude").mkdir()
    (tmp_path / "claude" / "projects").symlink_to(sessions)
    assert run(capsys, "-o", str(tmp_path / "x.html"))[0] == 0


def test_costs_name_causes_by_hand(tmp_path):
    shapes.ALL["cache-events"](tmp_path)
    found = {cost.code: cost for cost in costs(load(tmp_path).load)}
    assert found["cache_expired"].usd == pytest.approx(0.29325 + 0.5035)
    assert found["cache_prefix_change"].usd == pytest.approx(0.4845)
    assert found["cache_model_switch"].usd == pytest.approx(0.30475)


@pytest.mark.parametrize(
    "name,code", [("overlapping-checkpoints", "rewound"), ("compaction-call-cold", "cold_summary")]
)
def test_a_cost_is_named_for_its_cause(name, code, tmp_path):
    shapes.ALL[name](tmp_path)
    assert [cost.code for cost in costs(load(tmp_path).load)] == [code]


@pytest.mark.parametrize("name", ["waterfall", "carry", "compare"])
def test_a_picture_has_words_and_ink(name, sessions):
    plots = pytest.importorskip("agent_kernel.frames.plots")
    pytest.importorskip("matplotlib", reason="pictures need agent-kernel[plots]")
    figure = plots.PICTURES[name](load(sessions))
    assert len(figure.alt) > 20
    assert figure._repr_png_().startswith(b"\x89PNG")  # what a notebook shows without pyplot
    assert ink(figure) > 0.02


@pytest.mark.parametrize("name", ["context", "cache"])
def test_a_picture_of_a_session_has_words_and_ink(name, sessions):
    pytest.importorskip("matplotlib", reason="pictures need agent-kernel[plots]")
    from agent_kernel.frames import plots

    found = load(sessions)
    figure = plots.PICTURES[name](found, "fixture-session")
    assert "calls" in figure.alt
    assert ink(figure) > 0.02


def test_a_compaction_is_drawn_with_what_it_lost(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need agent-kernel[plots]")
    from agent_kernel.frames import plots

    shapes.ALL["facts-around-a-compaction"](tmp_path)
    found = load(tmp_path)
    figure = plots.compaction(found, found.compactions.compaction_id[0])
    assert "1 facts used later were lost" in figure.alt


def ink(figure):
    """The share of pixels that are not white."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = memoryview(canvas.buffer_rgba())
    flat = bytes(pixels)
    dark = sum(flat[at] < 250 for at in range(0, len(flat), 400))
    return dark / (len(flat) / 400)


def test_five_thousand_calls_draw_soon(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need agent-kernel[plots]")
    from agent_kernel.frames import plots

    s = Script()
    for number in range(5000):
        s.answer(number, [said("x" * 400)], (1, 2, 30, 0, number * 30))
    found = load(s.write(tmp_path))
    found.columns("calls")
    begin = time.perf_counter()
    plots.context(found, s.session)
    assert time.perf_counter() - begin < 10  # ten times the figure asked for


def test_metrics_costs_are_a_table(sessions):
    table = metrics.costs(load(sessions))
    names = "code usd count cause change sessions of_sessions".split()
    assert list(table.columns) == names
    assert table.usd.is_monotonic_decreasing
