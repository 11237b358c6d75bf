"""What is recorded: whose a request is, what it says anew, what came back, and no key."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import frames
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionEnd,
    RequestContext,
    RequestHeader,
    StepStart,
    StreamRetry,
    SurfaceEvent,
    TaskCreated,
    TaskFinished,
    ToolCall,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from agent_kernel.proxy import Proxy
from agent_kernel.testing import MessagesServer
from tests.proxy.kit import KEY, TOOL, asked, bodies, body_of, of, read_back, request_of, upstream

Serve = Callable[..., MessagesServer]
Message = dict[str, Any]


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def said(*content: Any) -> Message:
    return {"role": "assistant", "content": list(content)}


def text(words: str, **more: Any) -> Message:
    return {"type": "text", "text": words, **more}


def use(id: str, **given: Any) -> Message:
    return {"type": "tool_use", "id": id, "name": "read", "input": given}


def result(id: str, words: str, **more: Any) -> Message:
    return {"type": "tool_result", "tool_use_id": id, "content": words, **more}


class Harness:
    """Sends bodies through a proxy to a server that answers what it is told to."""

    def __init__(self, serve: Serve, log: Path, **env: str) -> None:
        self.log = log
        self.answers: list[Message] = []
        self.server = serve(answer=lambda _: self.answers.pop(0), strict=False)
        self.proxy = Proxy(self.server.base_url, log, env=env)

    def send(self, messages: list[Message], *answer: Message, **more: Any) -> bytes:
        """Send one request; the server answers with these blocks."""
        self.answers.append({"content": list(answer) or [text("Yes.")]})
        body = body_of(messages, **{"tools": [TOOL], **more})
        asked(self.proxy.base_url, body)
        return body

    def __enter__(self) -> Harness:
        self.proxy.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.stop()
        assert self.proxy.notices == []


@pytest.fixture
def harness(messages_server: Serve, tmp_path: Path) -> Callable[..., Harness]:
    """A function that starts a harness; its log is one file, gone on with each time."""
    return lambda **env: Harness(messages_server, tmp_path / "p.jsonl", **env)


A, B = user("Read both."), said(text("I look."), use("t1", path="a"), use("t2", path="b"))


def test_a_turn_of_two_requests_is_a_turn_of_two_steps(
    harness: Callable[..., Harness], tmp_path: Path
) -> None:
    results = [result("t2", "two"), result("t1", "one", cache_control={"type": "ephemeral"})]
    with harness() as h:
        sent = [h.send([A], *B["content"], system="You help.")]
        sent.append(h.send([A, B, user(results)], text("Done."), system="You help."))
    events, blobs, report = read_back(h.log)
    assert report.wire() == {"requests": 2, "verified": 2, "ok": True, "findings": []}
    assert bodies(events, blobs) == sent == [r.body for r in h.server.messages]
    assert [event.type for event in events] == [
        "session/header",
        *("turn/start", "user/message", "step/start", "request/header", "request/context"),
        *("assistant/message", "tool/call", "tool/call", "tool/result", "tool/result", "step/end"),
        *("step/start", "request/context", "assistant/message", "step/end", "turn/end"),
        "session/end",
    ]  # fmt: skip
    contexts = of(events, RequestContext)
    assert [c.digest for c in contexts] == [hashlib.sha256(b).hexdigest()[:32] for b in sent]
    assert contexts[1].cache_breakpoints == (("message", 2, 1, "5m"),)
    header = of(events, RequestHeader)[0]
    assert (header.provider, header.system[0]["text"]) == ("proxy", "You help.")
    assert [r.id for r in of(events, ToolResultEvent)] == ["t1", "t2"]
    assert of(events, TurnStart)[0].text == "Read both."
    assert [a.request_id for a in of(events, AssistantMessage)] == ["req_000000", "req_000001"]


def test_frames_count_what_the_server_sent(harness: Callable[..., Harness]) -> None:
    with harness() as h:
        h.send([A], *B["content"])
        h.send([A, B, user([result("t1", "1"), result("t2", "2")])], text("Done."))
        h.send([A, said(text("Another harness said this.")), user("And?")], text("Well."))
    table = frames.load(h.log)
    usages = [answer.usage for answer in answers_of(h) if answer.usage.known]
    assert len(table.calls) == len(usages) == 3
    for name, column in (("input", "input"), ("output", "output_recorded")):
        assert table.calls[column].sum() == sum(getattr(usage, name) for usage in usages)
    assert not len(table.issues)


def answers_of(h: Harness) -> list[AssistantMessage]:
    """All assistant messages of a harness's log."""
    return [e for e in read_back(h.log)[0] if isinstance(e, AssistantMessage)]


def test_an_answer_in_one_piece_is_the_message_too(harness: Callable[..., Harness]) -> None:
    with harness() as h:
        h.send([A], *B["content"], stream=False)
    events, _, report = read_back(h.log)
    assert report.ok
    (answer,) = of(events, AssistantMessage)
    assert [call.id for call in of(events, ToolCall)] == ["t1", "t2"]
    assert answer.usage.known
    assert answer.stop_reason == "tool_use"


def test_the_exact_answer_is_kept_beside_the_message(harness: Callable[..., Harness]) -> None:
    with harness() as h:
        h.send([A], text("Yes."))
    events, blobs, _ = read_back(h.log)
    kept = of(events, AssistantMessage)[0].meta["response"]
    assert b'"message_stop"' in blobs.get(kept["blob"])
    assert kept["status"] == 200


def test_a_retry_is_an_attempt_of_the_same_step(messages_server: Serve, tmp_path: Path) -> None:
    replies = [{"fault": "overloaded", "retry_after": "1"}, {"fault": "truncate"}, {}]
    server = messages_server({"replies": replies}, strict=False)
    body = body_of([A])
    with Proxy(server.base_url, tmp_path / "p.jsonl", env={}) as proxy:
        for _ in range(3):
            asked(proxy.base_url, body)
    events, _, report = read_back(tmp_path / "p.jsonl")
    assert (report.requests, report.ok) == (3, True)
    assert [(e.n, e.error, e.status, e.wait) for e in of(events, StreamRetry)] == [
        (1, "overloaded", 529, 1.0),
        (2, "protocol", 200, 0.0),
    ]
    assert len(of(events, StepStart)) == 1
    assert [e.reason for e in of(events, TurnEnd)] == ["completed"]


def test_a_failed_turn_ends_when_the_next_begins_or_the_harness(
    messages_server: Serve, tmp_path: Path
) -> None:
    server = messages_server({"replies": [{"fault": "auth"}], "otherwise": "repeat"})
    with Proxy(server.base_url, tmp_path / "p.jsonl", env={}) as proxy:
        asked(proxy.base_url, body_of([A]))
        asked(proxy.base_url, body_of([A, user("Please.")]))
    events, _, report = read_back(tmp_path / "p.jsonl")
    assert report.ok
    assert [e.reason for e in of(events, TurnEnd)] == ["error", "error"]
    assert [e.text for e in of(events, TurnStart)] == ["Read both.", "Please."]


def test_two_conversations_at_once_are_two_agents(harness: Callable[..., Harness]) -> None:
    one, two = user("First of them."), user("Second of them.")
    with harness() as h:
        h.send([one], use("x1", path="a"))
        h.send([two], use("x2", path="a"))
        h.send([two, said(use("x2", path="a")), user([result("x2", "b")])])
        h.send([one, said(use("x1", path="a")), user([result("x1", "a")])])
        h.send([one, said(use("x1", path="a")), user([result("x1", "a")]), said(text("Yes.")), two])
    events, _, report = read_back(h.log)
    assert (report.requests, report.ok) == (5, True)
    assert len(of(events, RequestContext)) == 3
    assert len(of(events, RequestContext, "a1")) == 2
    assert [e.text for e in of(events, TurnStart)] == ["First of them.", "Second of them."]


def test_a_side_question_before_the_first_is_not_the_main_conversation(
    harness: Callable[..., Harness],
) -> None:
    with harness() as h:
        h.send([user("quota")], tools=[], max_tokens=1)
        shape = {"format": {"type": "json_schema", "schema": {}}}
        h.send([user("Find a title for: Read both.")], tools=[], output_config=shape)
        h.send([A])
    events, _, _ = read_back(h.log)
    assert [e.text for e in of(events, TurnStart)] == ["Read both."]


def test_a_sub_agent_hangs_on_the_call_that_made_it(harness: Callable[..., Harness]) -> None:
    call = use("p1", prompt="Count the errors in a.log", description="Count")
    child = user([text("<system-reminder>x</system-reminder>"), text("Count the errors in a.log")])
    with harness() as h:
        h.send([A], call)
        h.send([child], text("Three."), system="You are an agent.")
        h.send([A, said(call), user([result("p1", "Three.")])])
    events, _, report = read_back(h.log)
    assert report.ok
    made = of(events, TaskCreated)[0]
    assert (made.id, made.tool_use_id, made.label, made.depth) == ("a1", "p1", "Count", 1)
    assert of(events, TaskFinished)[0].summary == "Three."
    row = frames.load(h.log).subagents.iloc[0]
    assert (row.agent_id, row.parent_tool_use) == ("a1", "p1")


def test_what_a_harness_writes_itself_is_no_persons_word(harness: Callable[..., Harness]) -> None:
    first = user([text("<system-reminder>Be kind.</system-reminder>"), text("Go.")])
    system = {"role": "system", "content": "Skills: none."}
    notice = user("<task-notification>done</task-notification>")
    with harness() as h:
        h.send([first, system])
        h.send([first, system, said(text("Yes.")), notice])
    events, _, report = read_back(h.log)
    assert report.ok
    assert [(e.kind, e.role) for e in of(events, Attachment)] == [
        ("reminder", "user"),
        ("context", "system"),
        ("notification", "user"),
    ]
    assert [(e.text, e.source) for e in of(events, TurnStart)] == [
        ("Go.", "api"),
        ("", "notification"),
    ]


# ---- histories that are not what was recorded --------------------------------------------------


def replaced(events: list[Any]) -> list[tuple[str, int]]:
    """(type, how many events it hides) of each replacement."""
    return [
        (e.type, len(e.sources))
        for e in events
        if isinstance(e, SurfaceEvent) and e.replaces is not None
    ]


DONE = [A, B, user([result("t1", "one"), result("t2", "two")]), said(text("Done."))]


def recorded(h: Harness) -> None:
    """Records the conversation of DONE."""
    h.send(DONE[:1], *B["content"])
    h.send(DONE[:3], *DONE[3]["content"])


@pytest.mark.parametrize(
    "messages,hidden",
    [
        # a result was cleared in place
        ([A, B, user([result("t1", "[]"), result("t2", "two")]), DONE[3], A], [("tool/result", 1)]),
        # an answer was shortened in place
        ([*DONE[:3], said(text("D.")), A], [("assistant/message", 1)]),
        # an input got a default
        (
            [A, said(B["content"][0], use("t1", path="a", all=0), B["content"][2]), *DONE[2:], A],
            [("assistant/message", 1)],
        ),
        # the first prompt was edited, all else kept
        ([user("Read all."), *DONE[1:], A], [("user/message", 1)]),
        # the last answer was taken back, and another prompt given
        ([*DONE[:3], said(text("So?")), A], [("assistant/message", 1)]),
        # a text stands behind the results, the answer is gone
        ([A, B, user([*DONE[2]["content"], text("Go on.")])], [("user/message", 1)]),
        # the results are back, with nothing after them
        (DONE[:3], [("assistant/message", 4)]),
        # answers stand where one stood
        ([*DONE[:3], said(text("Done.")), user("x"), said(text("y")), user("z")], []),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_changed_history_is_a_logged_replacement(
    harness: Callable[..., Harness], messages: list[Message], hidden: list[tuple[str, int]]
) -> None:
    with harness() as h:
        recorded(h)
        h.send(messages)
    events, blobs, report = read_back(h.log)
    assert (report.requests, report.verified, report.ok) == (3, 3, True)
    assert not any("loose" in e.body for e in of(events, RequestContext))
    assert replaced(events) == hidden
    assert {event.agent for event in events} == {"main"}
    assert len(frames.load(h.log).calls) == 3
    assert bodies(events, blobs) == [r.body for r in h.server.messages]


def test_a_summary_before_a_kept_tail_is_a_compaction(harness: Callable[..., Harness]) -> None:
    tail = [said(use("t3", path="c")), user([result("t3", "three")])]
    with harness() as h:
        recorded(h)
        h.send([*DONE, user("And c?")], *tail[0]["content"])
        h.send([user("Summary: a and b are read."), *tail, said(text("All.")), user("Go on.")])
    events, _, report = read_back(h.log)
    assert (report.requests, report.ok) == (4, True)
    assert {event.agent for event in events} == {"main"}
    assert replaced(events) == [("attachment", 6)]
    assert [e.status for e in of(events, CompactionEnd)] == ["committed"]


def test_a_summary_put_to_use_is_a_compaction(harness: Callable[..., Harness]) -> None:
    summary = "1. The person wants both files read.\n2. a.py holds one, b.py holds two."
    asks = user("Write a detailed summary of this conversation.")
    later = user(f"This session goes on from an earlier one:\n{summary}\nGo on.")
    with harness() as h:
        recorded(h)
        h.send([*DONE, asks], text(f"<summary>\n{summary}\n</summary>"), tools=[])
        h.send([later], text("On it."))
        h.send([later, said(text("On it.")), A])
    events, _, report = read_back(h.log)
    assert (report.requests, report.ok) == (5, True)
    assert {event.agent for event in events} == {"main"}
    assert replaced(events) == [("attachment", 7)]
    assert [e.status for e in of(events, CompactionEnd)] == ["committed"]
    found = frames.load(h.log, cache=False)
    assert found.columns("compactions")["hidden"] == [7]
    wrote = found.columns("compactions")["call_id"]
    assert wrote == [found.columns("calls")["call_id"][2]]  # the request that asked for it


def test_a_log_is_gone_on_with(harness: Callable[..., Harness]) -> None:
    with harness() as h:
        recorded(h)
    with harness() as h:
        h.send([*DONE, user("And?")])
    events, blobs, report = read_back(h.log)
    assert (report.requests, report.ok) == (3, True)
    assert len(bodies(events, blobs)) == 3
    assert {event.agent for event in events} == {"main"}
    assert [e.text for e in of(events, TurnStart)] == ["Read both.", "And?"]
    assert replaced(events) == []


def test_bodies_that_are_no_requests_are_kept_all_the_same(tmp_path: Path) -> None:
    odd = [b"", b"[1]", b"{", b'{"messages":{}}', b'{"messages":[{"role":"tool"}]}', b"\xff\xfe{"]
    odd += [gzip.compress(b"{}"), b"[" * 100_000, b'{"messages":[]}', b'{"messages":[1]}']
    odd += [body_of([A, B, said(text("No results."))]), body_of([user([result("t9", "stray")])])]

    def serve(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}")

    with upstream(serve, len(odd)) as url, Proxy(url, tmp_path / "p.jsonl", env={}) as proxy:
        assert [asked(proxy.base_url, body)[:12] for body in odd] == [b"HTTP/1.1 400"] * len(odd)
    assert proxy.notices == []
    events, blobs, report = read_back(tmp_path / "p.jsonl")
    assert (report.requests, report.verified, report.ok) == (len(odd), len(odd), True)
    assert bodies(events, blobs) == odd


# ---- secrets -----------------------------------------------------------------------------------


def test_no_key_is_in_any_file_and_the_wire_is_untouched(
    harness: Callable[..., Harness], tmp_path: Path
) -> None:
    other, token = "ghp_" + "A1b2" * 9, "value-of-a-" + "hidden-token"
    words = f"env: A={KEY} B={other} C={token}"
    with harness(SOME_TOKEN=token) as h:
        sent = [h.send([user(words)], text(f"I saw {other} and {KEY}."))]
        sent.append(h.send([user(words), said(text(f"I saw {other} and {KEY}.")), A]))
    assert [r.body for r in h.server.messages] == sent
    events, blobs, report = read_back(h.log)
    assert (report.requests, report.verified, report.ok) == (2, 2, True)
    assert [c.digest for c in of(events, RequestContext)] == [
        hashlib.sha256(body).hexdigest()[:32] for body in sent
    ]
    assert all("written" in c.body for c in of(events, RequestContext))
    kept = bodies(events, blobs)
    assert len(kept[0].splitlines()) == len(sent[0].splitlines())  # nothing else was changed
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert not any(s.encode() in path.read_bytes() for s in (KEY, other, token)), path


def test_a_session_log_in_a_body_is_left_out_of_what_is_written(
    harness: Callable[..., Harness], tmp_path: Path
) -> None:
    private = [{"line": "of a person's own log", "n": [1, {"}": "]"}]}]
    with harness() as h:
        sent = h.send([A], dsh_session_log=private, temperature=1.0)
    events, blobs, report = read_back(h.log)
    assert h.server.messages[0].body == sent
    assert report.ok
    (kept,) = bodies(events, blobs)
    whole, left = json.loads(sent), json.loads(kept)
    assert left.pop("dsh_session_log") == "[redacted:dsh_session_log]"
    assert left == {k: v for k, v in whole.items() if k != "dsh_session_log"}
    assert kept.startswith(sent[: sent.index(b'"dsh_session_log"')])
    assert all(b"person's own" not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_a_changed_blob_or_event_is_found(harness: Callable[..., Harness]) -> None:
    with harness() as h:
        recorded(h)
    events, blobs, _ = read_back(h.log)
    path = blobs.path(of(events, RequestContext)[1].body["blob"])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"two", b"tow"))
    assert read_back(h.log)[2].wire()["verified"] == 1
    path.unlink()
    report = read_back(h.log)[2]
    assert [finding["code"] for finding in report.findings] == ["no_body"]
    path.write_bytes(whole)
    h.log.write_bytes(h.log.read_bytes().replace(b'"two"', b'"tow"'))
    report = read_back(h.log)[2]
    assert report.verified == 1
    assert not report.ok


def test_a_packed_answer_is_read(tmp_path: Path) -> None:
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }  # fmt: skip
    packed = gzip.compress(json.dumps(message).encode())

    def serve(connection: socket.socket) -> None:
        request_of(connection)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(packed)}"
        connection.sendall(f"{head}\r\ncontent-encoding: gzip\r\n\r\n".encode() + packed)

    with upstream(serve) as url, Proxy(url, tmp_path / "p.jsonl", env={}) as proxy:
        assert asked(proxy.base_url, body_of([A])).endswith(packed)
    (answer,) = of(read_back(tmp_path / "p.jsonl")[0], AssistantMessage)
    assert (answer.usage.input, answer.usage.output) == (3, 2)
    assert answer.meta["message_id"] == "msg_1"
    assert isinstance(of(read_back(tmp_path / "p.jsonl")[0], UserMessage)[0], UserMessage)
