"""Checkpoints: every file a call changed can be put back, and nobody else's work is overwritten."""

from __future__ import annotations

import asyncio
import hashlib
import time

import pytest

from agent_kernel.core.events import FileChanged
from agent_kernel.tools import checkpoints
from agent_kernel.tools.bash import BASH
from agent_kernel.tools.checkpoints import Keeper, plan, restore, watched
from agent_kernel.tools.edit import EDIT
from agent_kernel.tools.read import READ
from agent_kernel.tools.write import WRITE


@pytest.fixture
def kept(filed):
    """The bench, and what runs a watched tool on it."""
    keeper = Keeper(filed.workspace)

    def run(tool, **value):
        return asyncio.run(filed.call(watched(tool, keeper), **value))

    filed.run = run
    yield filed
    filed.session.close()


def back(bench, changed=None):
    """Plan and restore, as a person said yes."""
    found = checkpoints.changes(bench.session, -1) if changed is None else changed
    return restore(bench.session, plan(bench.session, found, bench.workspace), bench.workspace)


def verdicts(ways):
    return {way.path: way.verdict for way in ways}


def test_what_sed_made_of_a_file_is_put_back_byte_for_byte(kept) -> None:
    was = b"one\r\ntwo \xff\x00 three\n"
    file = kept.file("src/data.txt", was)
    file.chmod(0o640)
    kept.run(BASH, command="sed -i s/two/2/ src/data.txt; echo new > made.txt; rm -f src/none")
    assert file.read_bytes() != was
    (changed, made) = checkpoints.changes(kept.session, -1)
    assert (made.path, made.before) == ("src/data.txt", hashlib.sha256(was).hexdigest())
    assert changed.path == "made.txt" and changed.before is None
    ways = back(kept)
    assert verdicts(ways) == {"made.txt": "remove", "src/data.txt": "restore"}
    assert file.read_bytes() == was and not (kept.workspace / "made.txt").exists()
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_removed_file_comes_back_and_an_ignored_one_is_not_watched(kept) -> None:
    kept.file(".gitignore", "*.log\n")
    kept.file("a/gone.txt", "here")
    kept.file("noise.log", "1")
    kept.run(BASH, command="rm -r a; echo 2 > noise.log")
    assert [e.path for e in checkpoints.changes(kept.session, -1)] == ["a/gone.txt"]
    back(kept)
    assert (kept.workspace / "a/gone.txt").read_text() == "here"
    assert (kept.workspace / "noise.log").read_text() == "2\n"


def test_a_file_a_person_changed_since_is_shown_and_not_overwritten(kept) -> None:
    first, second = kept.file("a.txt", "a"), kept.file("b.txt", "b")
    kept.run(BASH, command="echo agent > a.txt; echo agent > b.txt")
    second.write_text("a person's work")
    (one, two) = plan(kept.session, checkpoints.changes(kept.session, -1), kept.workspace)
    assert (one.verdict, two.verdict) == ("restore", "kept")
    assert two.words() == ("not touched  b.txt: someone else changed it too; look at it yourself")
    back(kept)
    assert first.read_text() == "a" and second.read_text() == "a person's work"


def test_a_persons_edit_between_two_of_the_agent_is_not_lost(kept) -> None:
    file = kept.file("a.txt", "a")
    kept.run(BASH, command="echo agent > a.txt")
    file.write_text("a person's line\n")
    kept.run(BASH, command="echo agent >> a.txt")
    assert verdicts(back(kept)) == {"a.txt": "kept"}
    assert "a person's line" in file.read_text()


def test_edits_are_noted_once_and_several_lead_back_to_the_first_state(kept) -> None:
    file = kept.file("a.txt", "one\n")
    kept.run(READ, path="a.txt")
    kept.run(EDIT, path="a.txt", old="one", new="two")
    kept.run(EDIT, path="a.txt", old="two", new="three")
    kept.run(WRITE, path="new.txt", content="new")
    assert [e.path for e in checkpoints.changes(kept.session, -1)] == ["a.txt", "a.txt", "new.txt"]
    back(kept)
    assert file.read_text() == "one\n" and not (kept.workspace / "new.txt").exists()


def test_a_rewind_can_itself_be_taken_back(kept) -> None:
    file = kept.file("a.txt", "before")
    kept.run(BASH, command="printf after > a.txt; printf made > b.txt")
    back(kept)
    assert file.read_text() == "before"
    undone = back(kept, checkpoints.last_rewind(kept.session))
    assert verdicts(undone) == {"a.txt": "restore", "b.txt": "restore"}
    assert file.read_text() == "after" and (kept.workspace / "b.txt").read_text() == "made"


def test_a_log_cannot_lead_a_rewind_out_of_the_workspace(kept, tmp_path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (kept.workspace / "link").symlink_to(outside)
    want = kept.session.blobs.put(b"planted")
    now = hashlib.sha256(b"mine").hexdigest()
    paths = ("../outside.txt", str(outside), "link", ".git/hooks/pre-commit")
    for path in paths:
        kept.session.append(FileChanged(path=path, before=want, after=now))
    kept.session.append(FileChanged(path=".git/hooks/pre-push", before=want, after=None))
    assert set(verdicts(back(kept)).values()) == {"kept"}
    assert outside.read_text() == "mine" and not (kept.workspace / ".git").exists()


def test_a_workspace_too_large_is_not_watched_and_the_rewind_says_which_calls(kept) -> None:
    for n in range(checkpoints.FILES + 1):
        kept.file(f"many/{n}.txt", "x")
    answer = kept.run(BASH, command="echo changed > many/0.txt")
    assert "watched" not in answer.meta and not checkpoints.changes(kept.session, -1)
    keeper = Keeper(kept.workspace, whole=True)
    began = time.perf_counter()
    assert len(keeper.look() or ()) == checkpoints.FILES + 1
    again = time.perf_counter()
    keeper.look()
    print(f"first look {again - began:.3f} s, again {time.perf_counter() - again:.3f} s")


def test_a_failing_or_cancelled_call_is_noted_too(kept) -> None:
    kept.file("a.txt", "a")

    async def cancelled() -> None:
        tool = watched(BASH, Keeper(kept.workspace))
        context = kept.context()
        call = asyncio.ensure_future(
            tool.run(tool.parse({"command": "echo b > a.txt; sleep 60"}), context)
        )
        while (kept.workspace / "a.txt").read_text() != "b\n":
            await asyncio.sleep(0.02)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(cancelled())
    assert [e.path for e in checkpoints.changes(kept.session, -1)] == ["a.txt"]
