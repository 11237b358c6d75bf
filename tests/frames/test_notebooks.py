"""Notebooks: the log beside one, inside one, altered, or gone."""

from __future__ import annotations

import asyncio
import json

import pytest

from agent_kernel import frames
from agent_kernel.core.session import Session
from agent_kernel.kernel.notebook import embedded, fold_metadata
from tests.runs import agent, run


@pytest.fixture
def notebook(tmp_path):
    """A notebook with one agent turn, as the kernel writes it, and its log."""
    path = tmp_path / "analysis.agent.jsonl"
    session = Session.open(path)
    asyncio.run(run(session, agent([[[("look", 5)], []]]), 1))
    last = session.events[-1].seq
    record = {
        "schema": 1,
        "session": session.id,
        "turn": 1,
        "seq": [0, last],
        "head_h": session.log.hash_at(last),
        "sidecar": path.name,
        "steps": 2,
        "usage": {"input": 1, "output": 2},
        "cost": 0.1,
        "reason": "completed",
    }
    session.close()
    output = {"output_type": "display_data", "data": {}, "metadata": {"agent_kernel": record}}
    nb = fold_metadata({"cells": [{"outputs": [output]}], "metadata": {}, "nbformat": 4})
    return tmp_path / "analysis.ipynb", nb, path


def load(path):
    return frames.load(path, readers={}, cache=False)


def save(path, nb):
    path.write_text(json.dumps(nb))


def test_the_log_beside_a_notebook_is_read_once(notebook):
    path, nb, log = notebook
    save(path, nb)
    alone, both = load(path), load(path.parent)
    direct = load(log)
    for found in (alone, both):
        for table in ("calls", "records", "turns", "tools"):
            assert found.columns(table) == direct.columns(table)
        assert "sidecar_differs" not in found.columns("issues")["code"]


def test_an_altered_log_is_named_with_both_heads(notebook):
    path, nb, log = notebook
    nb["metadata"]["agent_kernel"]["head"]["h"] = "0" * 32
    save(path, nb)
    found = load(path)
    issues = found.columns("issues")
    assert issues["code"].count("sidecar_differs") == 1
    said = issues["message"][issues["code"].index("sidecar_differs")]
    assert "0" * 32 in said
    assert Session.open(log).log.head_hash.hex() in said


def test_an_embedded_log_stands_in_for_a_lost_one(notebook):
    path, nb, log = notebook
    direct = load(log)
    want = {name: direct.columns(name) for name in ("calls", "turns", "tools")}
    save(path, embedded(nb, log.read_bytes()))
    log.unlink()
    found = load(path)
    assert {name: found.columns(name) for name in want} == want
    assert "log_missing" not in found.columns("issues")["code"]


def test_without_any_log_the_turns_are_known_and_it_is_said(notebook):
    path, nb, log = notebook
    save(path, nb)
    log.unlink()
    found = load(path)
    assert found.columns("turns")["end"] == ["completed"]
    assert len(found.columns("sessions")["session_id"]) == 1
    assert found.columns("calls")["call_id"] == []
    assert found.columns("issues")["code"] == ["log_missing"]


def test_a_name_that_leaves_the_folder_is_not_followed(notebook, tmp_path):
    path, nb, log = notebook
    nb["metadata"]["agent_kernel"]["sidecar"] = f"../{tmp_path.name}/{log.name}"
    save(path, nb)
    assert load(path).columns("issues")["code"] == ["log_missing"]


def test_a_notebook_without_agent_turns_is_nobodys(tmp_path):
    save(tmp_path / "plain.ipynb", {"cells": [], "metadata": {}, "nbformat": 4})
    found = load(tmp_path / "plain.ipynb")
    assert found.columns("issues")["code"] == ["unknown_format"]


def test_a_damaged_embedded_log_is_no_log(notebook):
    path, nb, log = notebook
    made = embedded(nb, log.read_bytes())
    made["metadata"]["agent_kernel"]["log"]["data"] = "AAAA"
    save(path, made)
    log.unlink()
    assert load(path).columns("issues")["code"] == ["log_missing"]
