"""What a denied person or model reads: the effect in words, before how a rule missed it."""

from __future__ import annotations

from agent_kernel.guard import Call, Context, Rules, evaluate


def test_a_denied_high_risk_call_says_its_effect_whatever_stage_asked_first() -> None:
    where = Context(cwd="/srv/app", roots=("/srv/app",), headless=True)
    found = evaluate(Call("bash", {"command": "rm -rf data"}), Rules(), "ask", where)
    assert found.verdict == "deny"
    assert "cannot be undone" in found.reason
    assert found.stage == "headless"
