"""Doctor: what is wrong is named, and a repaired copy has none of it and all records."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.testing import shapes
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
