"""Background work in a real kernel: told once, in order; detached, moved, asked, lost and found."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from agent_kernel.core.events import TaskLost, TaskStatus, TurnEnd
from tests.kernel import scenes
from tests.kernel.live import Live, calls, live, says, until

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(240)]
AGENTS = {"AGENT_KERNEL_ALLOW": '["Agent", "Bash"]', "AGENT_KERNEL_FRONT_WAIT": "30"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Any:
    """One kernel whose agents take 1.5 s; every test begins a session of its own."""
    with live(tmp_path_factory.mktemp("tasks"), dict(AGENTS)) as k:
        scenes.begin(k, 1.5)
        yield k


def test_an_agent_that_ends_while_the_main_agent_streams_is_told_at_the_next_step(shared) -> None:
    scenes.check_busy(scenes.busy(shared, 1.5))


def test_an_agent_that_ends_while_idle_wakes_one_turn_where_that_is_set(shared) -> None:
    scenes.check_idle(scenes.idle(shared, 1.5))


def test_a_message_and_a_notice_together_are_one_request_the_message_first(shared) -> None:
    scenes.check_both(scenes.both(shared, 1.5))


def test_an_idle_notebook_spends_nothing_unasked(shared) -> None:
    scenes.fresh(shared, "cell")
    shared.finish(shared.start("%%agent\nspawn one", "e1", stdin=True), [])
    session = scenes.newest(shared)
    assert len(scenes.of(session, scenes.TurnStart)) == 1
    scenes.check(session)  # the cell waited, and told it
    asked = len(scenes.of(session, scenes.RequestContext))
    time.sleep(1.0)
    assert len(scenes.of(scenes.newest(shared), scenes.RequestContext)) == asked


def test_a_busy_cell_stalls_no_background_turn_and_a_cell_joins_one(shared) -> None:
    scenes.fresh(shared, "off")
    shared.finish(shared.start("%%agent --background\ntell a story", "f1", stdin=True), [])
    began = time.time()
    shared.ok("import time; time.sleep(4)")
    (end,) = scenes.of(scenes.newest(shared), TurnEnd)
    assert end.reason == "completed" and began < end.time < began + 3.9
    shared.finish(shared.start("%%agent --background\nanother story", "f2", stdin=True), [])
    ran = shared.finish(shared.start("%%agent\nand this", "f3", stdin=True), [])
    session = scenes.newest(shared)
    assert ran.status == "ok" and "joins the turn that runs" in ran.text
    assert len(scenes.of(session, scenes.TurnStart)) == 2
    assert len([e for e in scenes.of(session, scenes.UserMessage) if e.turn == 2]) == 2
    assert len(scenes.of(session, TurnEnd)) == 2


class Widget:
    """A live widget of a cell as a front end has it: its state, and clicks on it."""

    def __init__(self, k: Live) -> None:
        self.k = k
        self.open: dict[str, dict[str, Any]] = {}

    def take(self, message: dict[str, Any]) -> None:
        """Take the kernel's messages: models opened and changed."""
        content = message["content"]
        if message["msg_type"] == "comm_open":
            self.open[content["comm_id"]] = dict(content["data"].get("state", {}))
        elif message["msg_type"] == "comm_msg" and content["data"].get("method") == "update":
            self.open.setdefault(content["comm_id"], {}).update(content["data"]["state"])

    def named(self, key: str, value: Any = None) -> str | None:
        """Return the model whose view has `key` (with that value), the newest first."""
        for ident, state in reversed(self.open.items()):
            view = state.get("view") or {}
            if view.get(key) and (value is None or value in json.dumps(view[key])):
                return ident
        return None

    def click(self, ident: str, **message: Any) -> None:
        """Send what a click sends."""
        content = {"comm_id": ident, "data": {"method": "custom", "content": message}}
        self.k.client.shell_channel.send(self.k.client.session.msg("comm_msg", content))


def clicked(k: Live, code: str, key: str, value: str, click: Any) -> Any:
    """Run a cell and click once in the widget whose view says `value` under `key`."""
    front, done = Widget(k), []

    def each(message: dict[str, Any]) -> None:
        front.take(message)
        ident = front.named(key, value)
        if message["msg_type"] == "comm_open":
            front.click(message["content"]["comm_id"], type="ping")
        if ident is not None and not done:
            done.append(ident)
            click(front, ident, front.open[ident]["view"])

    ran = k.finish(k.start(code, f"w{time.monotonic()}", stdin=True), [], each=each)
    assert done, f"nothing showed {value!r} under {key!r}: {front.open}"
    return ran


def test_detach_frees_the_cell_and_the_end_joins_the_next_one(kernel) -> None:
    k = kernel(**AGENTS)
    scenes.begin(k, 600)

    def detach(front: Widget, ident: str, view: Any) -> None:
        front.click(ident, type="detach")

    ran = clicked(k, "%%agent\nspawn one", "head", "Waiting for 1 of 1 task", detach)
    assert ran.status == "ok"
    session = k.session()
    assert session.state().turn_end.reason == "completed"
    assert len(session.running_tasks("main", "agent")) == 1
    assert "running" in k.ok("%agent tasks").plain
    task = next(iter(session.tasks))
    assert "stopped" in k.ok(f"%agent cancel {task[-6:]}").text
    k.finish(k.start("%%agent\nand now", "z1", stdin=True), [])
    notices = [e for e in k.session().events if getattr(e, "kind", "") == "notification"]
    assert len(notices) == 1 and notices[0].turn == 2


def test_a_question_is_answered_by_a_click_by_a_line_or_by_nobody(kernel, serve) -> None:
    ask = {"question": "Which **one**?", "options": ["red", "blue"]}
    answers = (calls(("ask", ask)), says("So be it."))
    server = serve(None, Turns(*answers))
    k = kernel(server, AGENT_KERNEL_FRONT_WAIT="30")

    def pick(front: Widget, ident: str, view: Any) -> None:
        (card,) = view["questions"]
        assert card["options"] == ["red", "blue"] and card["nonce"]
        front.click(
            ident, type="answer", id=card["id"], nonce="0" * 32, picks=[0]
        )  # not this card's
        front.click(ident, type="answer", id=card["id"], nonce=card["nonce"], picks=[1])

    ran = clicked(k, "%%agent\npick", "questions", "Which", pick)
    assert ran.status == "ok" and not ran.prompts
    assert "The person answered: blue" in server.messages[1].body.decode()
    k.ok("%agent config front_wait 0.2")
    ran = k.ok("%%agent\npick again", "q2", stdin=["1"])
    assert "1. red" in ran.prompts[0]
    assert "The person answered: red" in server.messages[3].body.decode()
    k.ok("%%agent\npick alone", "q3")
    assert "nobody to ask" in server.messages[5].body.decode()


class Turns:
    """The same answers for each turn: by how many results the last message brings."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.at = 0

    def __call__(self, _body: Any) -> Any:
        """Return the next, round and round, ids made unique."""
        made = json.loads(json.dumps(self.answers[self.at % len(self.answers)]))
        for block in made["content"]:
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{self.at:04d}_{block['name']}"
        self.at += 1
        return made


def test_after_a_restart_a_live_command_is_taken_up_and_the_rest_is_lost_and_told(
    kernel, serve
) -> None:
    live_one = {"command": "sleep 301", "background": True}
    dead_one = {"command": "sleep 302", "background": True}
    child = {"prompt": "CHILD", "description": "count things"}

    def model(body: Any) -> Any:
        text = json.dumps(body["messages"])
        if "CHILD" in json.dumps(body["messages"][0]):
            return calls(("bash", {"command": "sleep 303"}))
        if "tool_result" in text:
            return says("They run.")
        return calls(("bash", live_one), ("bash", dead_one), ("agent", child))

    server = serve(None, model)
    k = kernel(server, AGENT_KERNEL_KEEP_TASKS="on", AGENT_KERNEL_WAKE="off", **AGENTS)
    k.finish(k.start("%%agent\nstart three", "r1", stdin=True), [])
    pids = until(lambda: [e.pid for e in k.session().events if isinstance(e, TaskStatus)][1:], 30)
    k.kill()
    os.kill(pids[-1], signal.SIGKILL)
    again = kernel(server, AGENT_KERNEL_WAKE="off", **AGENTS)
    shown = again.ok("%agent tasks")
    lost = [e for e in again.session().events if isinstance(e, TaskLost)]
    assert {e.id[0] for e in lost} == {"a", "b"} and len(lost) == 2
    assert "lost with the former kernel" in shown.text
    running = again.session().running_tasks("main")
    assert len(running) == 1 and running[0].startswith("b")
    again.finish(again.start("%%agent\nwhat is left?", "r2", stdin=True), [])
    body = server.messages[-1].body.decode()
    assert body.count("<task-notification>") == 2 and body.count("<status>lost</status>") == 2
    assert "stopped" in again.ok(f"%agent cancel {running[0][-6:]}").text
    assert [e.reason for e in again.session().events if isinstance(e, TurnEnd)][-1] == "completed"


def test_what_a_background_agent_asks_is_answered_in_the_cell_that_waits(kernel, serve) -> None:
    def model(body: Any) -> Any:
        said = json.dumps(body["messages"])
        if "CHILD" in json.dumps(body["messages"][0]):
            asks = calls(("python", {"code": "x = 6 * 7"}))
            return says("It is 42.") if "tool_result" in said else asks
        if "task-notification" in said:
            return says("42, it says.")
        started = calls(("agent", {"prompt": "CHILD", "description": "compute"}))
        return says("It runs.") if "tool_result" in said else started

    k = kernel(serve(None, model), **AGENTS)

    def allow(front: Widget, ident: str, view: Any) -> None:
        (card,) = view["approvals"]
        press = {"id": card["id"], "nonce": card["nonce"], "hash": card["hash"]}
        front.click(ident, type="approve", scope="once", **press)

    ran = clicked(k, "%%agent\ncompute it", "approvals", "Run Python", allow)
    assert ran.status == "ok" and "42, it says." in ran.plain
    assert k.ok("print(x)").text.strip() == "42"
    decisions = [e for e in k.session().events if e.type == "tool/decision" and e.by == "person"]
    assert [e.agent[0] for e in decisions] == ["a"]


def test_an_approval_is_stale_once_its_file_changed(kernel, serve) -> None:
    write = ("write", {"path": "a.txt", "content": "the model's\n"})
    server = serve(None, Turns(calls(write), says("So.")))
    k = kernel(server, AGENT_KERNEL_FRONT_WAIT="0.2")
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            (k.folder / "a.txt").write_text("the person's\n")
        return ["y", "n not now"][len(prompts) - 1]

    k.ok("%%agent\nwrite it", "s1", stdin=answer)
    assert len(prompts) == 2 and prompts[1].startswith("a.txt was made since you were asked.")
    assert (k.folder / "a.txt").read_text() == "the person's\n"
    k.ok("%agent config front_wait 30")
    (k.folder / "a.txt").unlink()
    seen: list[dict[str, Any]] = []
    front = Widget(k)

    def each(message: dict[str, Any]) -> None:
        front.take(message)
        if message["msg_type"] == "comm_open":
            front.click(message["content"]["comm_id"], type="ping")
        ident = front.named("approvals")
        card = front.open[ident]["view"]["approvals"][0] if ident else None
        if card is None or (seen and seen[-1] == card):
            return
        seen.append(card)
        press = {"id": card["id"], "nonce": card["nonce"], "hash": card["hash"]}
        if len(seen) == 1:  # changed just before the click: the click decides nothing
            (k.folder / "a.txt").write_text("theirs\n")
            front.click(ident, type="approve", scope="once", **press)
        elif card["stale"]:
            (k.folder / "a.txt").unlink()
            front.click(ident, type="rediff", **press)
        elif card["nonce"] != seen[0]["nonce"]:
            front.click(ident, type="approve", scope="once", **press)

    k.finish(k.start("%%agent\nwrite it again", "s2", stdin=True), [], each=each)
    assert any("a.txt was made since you were asked." in card["stale"] for card in seen)
    assert (k.folder / "a.txt").read_text() == "the model's\n"


def test_an_overloaded_model_offers_the_other_one_in_the_cell(kernel, serve) -> None:
    replies: list[dict[str, Any]] = [{"fault": "overloaded"}] * 3
    server = serve({"replies": [*replies, says("Here.")]})
    k = kernel(server, AGENT_KERNEL_FALLBACK_MODEL="claude-haiku-5-5", AGENT_KERNEL_FRONT_WAIT="30")

    def yes(front: Widget, ident: str, view: Any) -> None:
        (card,) = view["questions"]
        front.click(ident, type="answer", id=card["id"], nonce=card["nonce"], picks=[0])

    ran = clicked(k, "%%agent\nhello", "questions", "is overloaded", yes)
    assert ran.status == "ok", ran.error
    assert json.loads(server.messages[-1].body)["model"] == "claude-haiku-5-5"
    (chosen,) = [e for e in k.session().events if e.type == "model/selected"]
    assert chosen.fallback and chosen.model == "claude-haiku-5-5"
