"""Long-lived history: dialogue is compacted, the log replays, the fixed rules stay (F8.9)."""

from __future__ import annotations

from agent_kernel import compaction
from agent_kernel.core.calling import compact
from agent_kernel.core.messages import Message, ToolUse
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from tests.sections.conftest import Desk, text

RULE = "Never touch the folder of the auditors."


async def test_after_five_compactions_the_fixed_memory_is_sent_and_every_request_replays(
    desk: Desk, tmp_path
) -> None:
    desk.file("AGENTS.md", RULE)
    desk.session = Session.open(tmp_path / "s.agent.jsonl")
    desk.changes = {"strategies": compaction.ALL}
    for turn in range(5):
        desk.file(f"big{turn}.txt", f"line of {turn}\n" * 900)
        read = Message("assistant", (ToolUse(f"r{turn}", "read", {"path": f"big{turn}.txt"}),))
        await desk.say(f"Question {turn}", read, f"Answer {turn}")
        agent = desk.agent()
        await agent.refresh(desk.session)
        span = (desk.session.surface().seqs[0], desk.session.surface().seqs[-1])
        done = await compact(desk.session, agent, "manual", span=span, use_model=False)
        assert done.committed, done.error
    before = [request.body for _context, request in requests(desk.session.events)]
    await desk.say("And now?", "Now.")
    last = desk.sent()[-1]
    assert text(last).count(RULE) == 1 and RULE not in str(last.system)
    assert "line of 0\nline of 0\nline of 0" not in text(last), "the dialogue was shortened"
    ends = [e for e in desk.session.events if e.type == "compaction/end"]
    assert len(ends) == 5
    report = verify(desk.session.events)
    assert report.ok and report.verified == len(before) + 1
    desk.session.log.sync()
    reopened = Session.open(tmp_path / "s.agent.jsonl")
    again = [request.body for _context, request in requests(reopened.events)]
    assert again[:-1] == before and again[-1] == last.body
    desk.session.close()
