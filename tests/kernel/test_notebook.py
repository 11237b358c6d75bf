"""Notebook: outputs fold into metadata, the log travels in it, the server's hook folds on save."""

from __future__ import annotations

import copy
import json

import pytest

from agent_kernel.kernel.notebook import KEY, bare_name, embedded, extracted, fold_metadata


def record(turn: int, **more) -> dict:
    return {
        "schema": 1, "session": "S", "turn": turn, "seq": [turn * 10, turn * 10 + 5],
        "head_h": f"h{turn}", "model": "m", "steps": 2, "cost": 0.5, "reason": "completed",
        "usage": {"input": 10, "output": 5, "cache_read": 1, "cache_write_5m": None},
        "replayed": False, "time": float(turn), "sidecar": "a.agent.jsonl", "compactions": [],
        **more,
    }  # fmt: skip


def nb_of(*records: dict, **metadata) -> dict:
    cells = [
        {"cell_type": "code", "outputs": [{"output_type": "display_data", "metadata": {KEY: r}}]}
        for r in records
    ]
    return {"cells": [{"cell_type": "markdown"}, *cells], "metadata": metadata}


def test_turns_totals_and_head_are_folded_from_the_outputs() -> None:
    compaction = {"seq": 21, "kind": "c21", "before": 900, "after": 400}
    nb = nb_of(record(1), record(2, compactions=[compaction]), other={"kept": 1})
    before = copy.deepcopy(nb)
    own = fold_metadata(nb)["metadata"][KEY]
    assert nb == before
    assert own["session"] == "S" and own["sidecar"] == "a.agent.jsonl"
    assert own["head"] == {"seq": 25, "h": "h2"}
    assert [t["turn"] for t in own["turns"]] == [1, 2]
    assert own["totals"]["usage"]["input"] == 20 and own["totals"]["cost"] == 1.0
    assert own["compactions"] == [compaction] and own["log"] is None
    assert fold_metadata(nb)["metadata"]["other"] == {"kept": 1}


def test_folding_twice_changes_nothing_and_unknown_keys_stay() -> None:
    nb = nb_of(record(1), **{KEY: {"mine": 1, "log": {"data": "x"}}})
    once = fold_metadata(nb)
    assert fold_metadata(once) == once
    assert once["metadata"][KEY]["mine"] == 1
    assert once["metadata"][KEY]["log"] == {"data": "x"}


def test_a_replayed_turn_counts_once_and_an_unknown_price_is_unknown() -> None:
    own = fold_metadata(nb_of(record(1), record(1, replayed=True), record(2, cost=None)))
    totals = own["metadata"][KEY]["totals"]
    assert totals["turns"] == 2 and totals["cost"] is None


@pytest.mark.parametrize(
    "nb",
    [
        {},
        {"cells": [], "metadata": {}},
        {"cells": [{"outputs": None}, {"outputs": ["?"]}, {}]},
        nb_of({"session": 1, "turn": "x", "seq": [1, 2]}),
    ],
)
def test_a_notebook_without_turns_comes_back_as_it_is(nb) -> None:
    assert fold_metadata(nb) is nb


@pytest.mark.parametrize("name", ["../x.jsonl", "/etc/x.jsonl", "a\\b.jsonl", "x.txt", "", None, 3])
def test_a_sidecar_that_leaves_the_folder_is_no_name(name) -> None:
    assert bare_name(name) is None
    own = fold_metadata(nb_of(record(1, sidecar=name)))["metadata"][KEY]
    assert own["sidecar"] is None


def test_an_embedded_log_comes_out_as_it_went_in() -> None:
    log = b'{"type":"session/header"}\n' * 1_000
    nb = embedded(nb_of(record(1)), log)
    assert len(json.dumps(nb)) < len(log)
    assert extracted(json.loads(json.dumps(nb))) == ("a.agent.jsonl", log)


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda held: held.update(sha256="0" * 64), "was changed"),
        (lambda held: held.update(bytes=10), "is not the 10 bytes"),
        (lambda held: held.clear(), "no log is embedded"),
    ],
)
def test_a_changed_embedded_log_is_refused(change, words) -> None:
    nb = embedded(nb_of(record(1)), b"line\n" * 100)
    change(nb["metadata"][KEY]["log"])
    with pytest.raises(ValueError, match=words):
        extracted(nb)


def test_the_server_folds_on_save_beside_other_hooks(tmp_path) -> None:
    from jupyter_server.services.contents.filemanager import FileContentsManager

    from agent_kernel.kernel.server import _load_jupyter_server_extension

    manager = FileContentsManager(root_dir=str(tmp_path))
    seen: list[str] = []
    manager.register_pre_save_hook(lambda model, path, **_: seen.append(path))

    class Loop:
        def __init__(self) -> None:
            self.later: list = []

        def add_callback(self, callback) -> None:
            self.later.append(callback)

    class App:
        contents_manager = FileContentsManager(root_dir=str(tmp_path))
        io_loop = Loop()

    app = App()
    _load_jupyter_server_extension(app)
    app.contents_manager = manager  # as jupytext does while extensions load
    for callback in app.io_loop.later:
        callback()
    nb = {**nb_of(record(1), record(2)), "nbformat": 4, "nbformat_minor": 5}
    for at, cell in enumerate(nb["cells"]):
        cell.update(id=f"c{at}", source="", metadata={})
        if cell["cell_type"] == "code":
            cell["execution_count"] = 1
            cell["outputs"][0]["data"] = {"text/plain": "x"}
    manager.save({"type": "notebook", "format": "json", "content": nb}, "n.ipynb")
    written = json.loads((tmp_path / "n.ipynb").read_text())
    assert seen == ["n.ipynb"]
    assert [t["turn"] for t in written["metadata"][KEY]["turns"]] == [1, 2]
    assert written["metadata"][KEY]["sidecar"] == "a.agent.jsonl"
