"""The bundled skills: found, ranked first for their requests, their scripts right on samples."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_kernel.sections import skill_hints
from agent_kernel.tools import LENT, skills
from tests.data.logs import LOGS

NAMES = (
    "export-task", "hudi-diagnosis", "job-log-diagnosis", "pipeline-draft", "table-design",
    "table-drop-risk",
)  # fmt: skip
REQUESTS = [  # the four of 003 §24.1, in its words and in English
    ("帮我创建一个实时 Hudi 表", "table-design"),
    ("帮我排查这个 Flink 任务为什么 checkpoint 变慢", "job-log-diagnosis"),
    ("帮我生成一条 SparkSQL 导出任务", "export-task"),
    ("帮我分析这张表能不能删除", "table-drop-risk"),
    ("Design a wide table of orders and users with quality rules.", "table-design"),
    ("Why has the checkpoint of this Flink job become slow? Here is the log.", "job-log-diagnosis"),
    ("Draft a SparkSQL job that exports the orders as csv to SFTP.", "export-task"),
    ("Drop the table orders_wide and clean its files.", "table-drop-risk"),
    ("Find duplicate fileIds in the Hudi timeline of this table.", "hudi-diagnosis"),
    (
        "Bring the orders in, aggregate by user each minute and export for risk control.",
        "pipeline-draft",
    ),
]


def script(skill: str, name: str) -> Path:
    return skills.BUNDLED / skill / "scripts" / name


def ran(path: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a bundled script as the bash tool would: with nothing but the standard library."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(path), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_six_skills_ship_and_a_projects_one_of_the_same_name_wins(tmp_path: Path) -> None:
    found = skills.find(tmp_path, tmp_path)
    assert tuple(found.found) == NAMES and not found.problems
    for skill in found.found.values():
        assert len(skill.description) < 160 and len(skill.body.split("\n")) > 10
        assert skill.when_to_use
    own = tmp_path / ".agent_kernel" / "skills" / "table-design"
    own.mkdir(parents=True)
    (own / "SKILL.md").write_text("---\nname: table-design\ndescription: ours\n---\nours\n")
    again = skills.find(tmp_path, tmp_path / "home")
    assert again.found["table-design"].description == "ours"
    assert [each.origin for each in again.hidden] == ["bundled"]


@pytest.mark.parametrize("prompt,skill", REQUESTS)
def test_a_request_ranks_its_skill_first(tmp_path: Path, prompt: str, skill: str) -> None:
    found = skills.find(tmp_path, tmp_path).found
    assert skill_hints.fitting(found, prompt, LENT) == skill


@pytest.mark.parametrize("prompt", ["Fix the failing test.", "What is in a.txt?", "Hello"])
def test_an_ordinary_request_hints_at_none(tmp_path: Path, prompt: str) -> None:
    found = skills.find(tmp_path, tmp_path).found
    assert skill_hints.fitting(found, prompt, LENT) is None


def test_the_catalog_grows_by_one_line(tmp_path: Path) -> None:
    from agent_kernel.sections.skills import catalog

    text = catalog(tmp_path, LENT, {"skill"}) or ""
    assert text.count("\n") == 0 and len(text) < 160 and "table-drop-risk" in text


@pytest.fixture(scope="module")
def read_logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("logs")
    out = {}
    for name, (_kind, _text, log) in LOGS.items():
        (folder / f"{name}.log").write_text(log)
        code, said, error = ran(
            script("job-log-diagnosis", "joblog.py"), str(folder / f"{name}.log")
        )
        assert code == 0, error
        out[name] = json.loads(said)
    return out


def test_the_right_first_error_is_found_in_at_least_eleven_of_twelve_logs(read_logs) -> None:
    assert len(LOGS) == 12
    wrong = {}
    for name, (_kind, text, _log) in LOGS.items():
        first = read_logs[name]["first_error"]
        if first is None or text not in first["text"]:
            wrong[name] = first
    assert len(wrong) <= 1, wrong


def test_kind_cause_and_stack_are_told(read_logs) -> None:
    kinds = {name: read_logs[name]["kind"] == kind for name, (kind, _t, _l) in LOGS.items()}
    assert sum(kinds.values()) >= 11, kinds
    cast = read_logs["spark_cast"]
    assert cast["root_cause"]["text"].startswith("java.lang.NumberFormatException")
    assert any("Export.scala:14" in line for line in cast["last_stack"])
    assert read_logs["flink_checkpoint"]["near"] and read_logs["flink_checkpoint"]["phases"]
    code, _said, error = ran(script("job-log-diagnosis", "joblog.py"), "/nowhere.log")
    assert code == 2 and "/nowhere.log" in error


def hudi_table(folder: Path) -> Path:
    """A bucket table with five faults: hanging, duplicate, missing, double bucket, orphan."""
    table = folder / "orders"
    hoodie = table / ".hoodie"
    hoodie.mkdir(parents=True)
    for instant in ("20261101000000000", "20261102000000000", "20261104000000000"):
        for end in (".commit.requested", ".commit.inflight", ".commit"):
            (hoodie / f"{instant}{end}").write_text("{}")
    (hoodie / "20261103000000000.commit.requested").write_text("")
    (hoodie / "20261103000000000.commit.inflight").write_text("")
    (hoodie / "20261102120000000.rollback").write_text("")
    (hoodie / "20261102130000000.compaction.requested").write_text("")
    (hoodie / "20261102130000000.compaction").write_text("")
    files = [
        ("dt=1", "00000000-aaaa", "20261101000000000"),
        ("dt=1", "00000001-bbbb", "20261101000000000"),
        ("dt=1", "00000001-cccc", "20261102000000000"),  # bucket 1 twice
        ("dt=2", "00000000-dddd", "20261102000000000"),  # bucket 1 of dt=2 is missing
        ("dt=3", "00000000-eeee", "20261102000000000"),
        ("dt=3", "00000001-ffff", "20261102000000000"),
    ]
    stats: dict[str, dict[str, list]] = {}
    for partition, file_id, instant in files:
        (table / partition).mkdir(exist_ok=True)
        name = f"{file_id}_0-1-2_{instant}.parquet"
        (table / partition / name).write_bytes(b"PAR1")
        stats.setdefault(instant, {}).setdefault(partition, []).append(
            {"path": f"{partition}/{name}"}
        )
    for instant, each in stats.items():
        (hoodie / f"{instant}.commit").write_text(json.dumps({"partitionToWriteStats": each}))
    for token in ("0-1-2", "0-9-9"):  # one file id twice in one instant
        name = f"00000000-eeee_{token}_20261102000000000.parquet"
        (table / "dt=3" / name).write_bytes(b"PAR1")
    (table / "dt=1" / "00000000-aaaa_0-7-7_20261103000000000.parquet").write_bytes(b"PAR1")
    return table


def test_the_faults_of_a_hudi_table_are_found_and_nothing_is_changed(tmp_path: Path) -> None:
    table = hudi_table(tmp_path)

    def state() -> list[tuple[str, int, str]]:
        return [
            (str(p), p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest())
            for p in sorted(table.rglob("*"))
            if p.is_file()
        ]

    before = state()
    code, said, error = ran(script("hudi-diagnosis", "hudi.py"), str(table))
    assert code == 0, error
    found = json.loads(said)
    assert found["hanging"] == ["20261103000000000"]
    assert found["duplicate_files"] == ["00000000-eeee has two base files of 20261102000000000"]
    assert found["buckets"]["missing"] == ["dt=2: bucket 1"]
    assert found["buckets"]["double"] == ["dt=1: bucket 1 has 2 file ids"]
    assert found["orphans"] == [
        "dt=1/00000000-aaaa_0-7-7_20261103000000000.parquet",
        "dt=3/00000000-eeee_0-9-9_20261102000000000.parquet",
    ]
    assert len(found["faults"]) == 6 and found["rollbacks"] and found["compactions"]
    assert state() == before
    code, _said, error = ran(script("hudi-diagnosis", "hudi.py"), str(tmp_path))
    assert code == 2 and "has no .hoodie folder" in error
