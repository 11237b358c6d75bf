"""Doctor: what is wrong is named, and a repaired copy has none of it and all records."""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.cli import main
from agent_kernel.testing import shapes
from agent_kernel.testing.script import Buckets, Script, said, use
from agent_kernel.transcripts import doctor
from agent_kernel.transcripts.repair import CODES


def load(path):
    return frames.load(path, readers=transcripts.ALL, cache=False)


def run(capsys, *argv):
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    code = doctor.main(parser.parse_args([*argv, "--json"]), load=load)
    out = capsys.readouterr()
    return code, json.loads(out.out)["files"][0] if out.out else out.err


def claude_files(folder: Path) -> list[Path]:
    found = load(folder)
    sessions = found.columns("sessions")
    listed = zip(sessions["files"], sessions["harness"], strict=True)
    return sorted({Path(f) for files, harness in listed if harness == "claude_code" for f in files})


@pytest.mark.parametrize("name", shapes.ALL)
def test_a_repaired_copy_has_no_repairable_finding_and_every_record(name, tmp_path, capsys):
    shapes.ALL[name](tmp_path / "in")
    for path in claude_files(tmp_path / "in"):
        before = path.read_bytes()
        out = tmp_path / f"{path.stem}.repaired.jsonl"
        _, report = run(capsys, str(path), "--repair", str(out))
        assert path.read_bytes() == before
        assert report["repair"]["left"] == []
        assert report["repair"]["chain"]["official_lost"] == 0
        again = load(out)
        assert CODES.isdisjoint(again.columns("issues")["code"])
        done = report["repair"]
        readable = report["lines"] - done.get("set_aside", 0) - done.get("duplicates_removed", 0)
        assert len(again.columns("records")["seq"]) == readable + done.get("answered", 0)
        assert again.totals()["total"] == load(path).totals()["total"]


def test_an_existing_file_is_never_overwritten(tmp_path, capsys):
    shapes.ALL["torn-tail"](tmp_path)
    path = next(tmp_path.glob("*.jsonl"))
    code, said = run(capsys, str(path), "--repair", str(path))
    assert code == 2
    assert "exists" in said


def test_what_cannot_be_read_is_set_aside_beside_the_copy(tmp_path, capsys):
    shapes.ALL["undecodable-line-mid-file"](tmp_path)
    path = next(tmp_path.glob("*.jsonl"))
    out = tmp_path / "out"
    code, report = run(capsys, str(path), "--repair", str(out))
    assert code == 1
    assert report["findings"][0]["code"] == "bad_json"
    assert b"broken" in (tmp_path / "out.bad").read_bytes()


def test_our_own_log_is_examined_and_not_repaired(tmp_path, capsys):
    shapes.ALL["own-log"](tmp_path)
    path = next(tmp_path.glob("*.jsonl"))
    code, report = run(capsys, str(path))
    assert code == 0
    assert report["lines"] == 15
    code, said = run(capsys, str(path), "--repair", str(tmp_path / "x"))
    assert code == 2
    assert "only those are repaired" in said


def advised(capsys, folder, script):
    code, report = run(capsys, str(script.write(folder)))
    return code, {one["code"]: one for one in report["findings"] if one["severity"] == "advice"}


USED: Buckets = (3, 100, 200, 0, 1000)


@pytest.mark.parametrize(
    "query, better",
    [
        ("agent_kernel/core/log.py", "path"),
        ("how does session.py open a log", "path"),
        ("answer_open_calls", "symbol"),
        ("openLog()", "symbol"),
        ('"address already in use"', "text"),
    ],
)
def test_a_concept_search_for_what_was_known_is_a_misuse_of_tiers(query, better, tmp_path, capsys):
    s = Script()
    s.user("look")
    s.answer(1, [use("concept_search", 1, query=query)], USED)
    s.result(1, "found")
    s.answer(2, [said("done")], USED)
    code, found = advised(capsys, tmp_path, s)
    assert code == 1
    assert found["tier_misuse"]["evidence"] == ["toolu_000001"]
    assert better in found["tier_misuse"]["first"]


def test_a_concept_looked_for_as_a_concept_and_a_text_by_grep_are_no_misuse(tmp_path, capsys):
    s = Script()
    s.user("look")
    s.answer(1, [use("concept_search", 1, query="where are requests retried")], USED)
    s.result(1, "found")
    s.answer(2, [use("Grep", 2, pattern="open_log"), use("Read", 3, file_path="/a.py")], USED)
    s.result(2, "x")
    s.result(3, "x")
    s.answer(3, [use("Bash", 4, command="cat a.py | wc -l; make test")], USED)
    s.result(4, "3")
    code, found = advised(capsys, tmp_path, s)
    assert code == 0
    assert found == {}


@pytest.mark.parametrize(
    "command, tool",
    [
        ("cat a.py", "read"),
        ("head -20 a.py", "read"),
        ("sed -n 1,9p a.py", "read"),
        ("sed -i s/a/b/ a.py", "edit"),
        ("awk '{print}' a.py", "edit"),
        ("cat > a.py << 'E'\nx\nE", "write"),
        ("find . -name x", "glob"),
        ("ls src", "glob"),
        ("grep -r x .", "grep"),
        ("rg x", "grep"),
    ],
)
def test_a_shell_command_that_a_tool_does_is_flagged(command, tool, tmp_path, capsys):
    s = Script()
    s.user("look")
    s.answer(1, [use("Bash", 1, command=command)], USED)
    s.result(1, "x")
    _, found = advised(capsys, tmp_path, s)
    assert f"the {tool} tool" in found["shell_for_tool"]["first"]


def test_a_call_repeated_three_times_is_flagged_unless_something_was_written(tmp_path, capsys):
    s = Script()
    s.user("look")
    for number in (1, 2, 3):
        s.answer(number, [use("Read", number, file_path="/a.py")], USED)
        s.result(number, "x")
    _, found = advised(capsys, tmp_path / "same", s)
    assert found["repeated_call"]["evidence"] == ["toolu_000003"]
    s = Script()
    s.user("look")
    for number in (1, 3, 5):
        s.answer(number, [use("Read", number, file_path="/a.py")], USED)
        s.result(number, "x")
        s.answer(number + 1, [use("Edit", number + 1, file_path="/a.py", new=number)], USED)
        s.result(number + 1, "x")
    _, found = advised(capsys, tmp_path / "edited", s)
    assert "repeated_call" not in found


@pytest.mark.parametrize(
    "shape, code",
    [
        ("cache-events", "cache_break"),
        ("thrash-of-prefixes", "thrash"),
        ("silent-drop", "silent_drop"),
        ("parallel-results-as-siblings", "lost_siblings"),
    ],
)
def test_what_costs_more_than_it_must_is_named(shape, code, tmp_path, capsys):
    shapes.ALL[shape](tmp_path)
    path = next(tmp_path.rglob("*.jsonl"))
    main(["doctor", str(path), "--json"])
    report = json.loads(capsys.readouterr().out)["files"][0]
    assert code in {one["code"] for one in report["findings"]}


def test_every_code_of_damage_has_its_shape():
    known = {code for build in shapes.ALL.values() for code in issues_of(build)}
    assert known >= CODES
    assert len(shapes.ALL) >= 30


def issues_of(build):
    with tempfile.TemporaryDirectory() as folder:
        return build(Path(folder)).issues


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_packed_file_is_repaired_like_its_bytes(ending, tmp_path, capsys):
    shapes.ALL["parallel-results-as-siblings"](tmp_path)
    path = next(tmp_path.glob("**/*.jsonl"))
    packed = tmp_path / f"packed.jsonl{ending}"
    pack = gzip.compress if ending == ".gz" else pytest.importorskip("zstandard").compress
    packed.write_bytes(pack(path.read_bytes()))
    made = []
    for source, out in ((path, tmp_path / "plain.out"), (packed, tmp_path / "packed.out")):
        main(["doctor", str(source), "--repair", str(out)])
        made.append(out.read_bytes())
    assert made[0] == made[1] != b""
    assert not (tmp_path / "packed.out.bad").exists()


def test_a_report_that_cannot_be_written_is_one_line(tmp_path, capsys):
    shapes.ALL["parallel-results-as-siblings"](tmp_path / "in")
    code = main(["report", str(tmp_path / "in"), "-o", str(tmp_path / "none" / "x.html")])
    said = capsys.readouterr()
    assert code == 2
    assert "cannot be written" in said.err
    assert said.err.count("\n") == 1
