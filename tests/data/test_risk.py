"""The ten checks of data_risk over planted risks in real files; unknown is never a pass."""

from __future__ import annotations

import json
import os
import time

import pytest

from agent_kernel.tools import data_risk
from agent_kernel.tools.data_risk import DATA_RISK

ORDER = [
    "exists", "tier", "size", "downstream_views", "lineage", "schedule", "last_access",
    "storage_path", "hudi", "approval",
]  # fmt: skip


@pytest.fixture
def planted(data):
    """A source with everything that can be known, and a risk in most of it."""
    folder = data.workspace
    (folder / "jobs").mkdir()
    (folder / "jobs" / "daily.sql").write_text(
        "-- nightly\ninsert into out select * from orders;\n"
    )
    (folder / "jobs" / "other.sql").write_text("select * from reorders_old;\n")
    event = {"job": {"name": "etl.report"}, "inputs": [{"name": "shop.orders"}]}
    (folder / "lineage.jsonl").write_text("not json\n" + json.dumps(event) + "\n")
    for name in ("orders", "users"):
        (folder / "store" / name).mkdir(parents=True)
        (folder / "store" / name / "part-0").write_text("x")
    (folder / "store" / "orders" / ".hoodie").mkdir()
    (folder / "store" / "orders" / ".hoodie" / "20261101.commit.inflight").write_text("")
    (folder / "approvals.json").write_text('{"orders": "Ann, 2026-11-30, ticket 812"}')
    data.services["data"]["full"] = {
        "url": "duckdb:shop.duckdb",
        "jobs": "jobs",
        "lineage": "lineage.jsonl",
        "approvals": "approvals.json",
        "paths": {"orders": "store/orders", "users": "store/users"},
    }
    return data


async def report(bench, **given) -> dict:
    return (await bench.call(DATA_RISK, **{"source": "full", **given})).meta["data_risk"]


def results(found: dict) -> dict[str, str]:
    return {check["check"]: check["result"] for check in found["checks"]}


def evidence(found: dict, check: str) -> str:
    return "; ".join(next(c["evidence"] for c in found["checks"] if c["check"] == check))


async def test_ten_checks_stand_in_their_order_with_evidence(planted) -> None:
    found = await report(planted, object="orders")
    assert [check["check"] for check in found["checks"]] == ORDER
    assert all(check["evidence"] for check in found["checks"])
    assert found["verdict"] == "needs approval" and len(found["state"]) == 64
    said = await planted.text(DATA_RISK, object="orders", source="full")
    assert said.startswith("orders (full), drop: needs approval")


async def test_every_planted_risk_is_found(planted) -> None:
    found = await report(planted, object="orders")
    assert results(found) == {
        "exists": "pass", "tier": "pass", "size": "pass", "downstream_views": "risk",
        "lineage": "risk", "schedule": "risk", "last_access": "risk", "storage_path": "pass",
        "hudi": "risk", "approval": "pass",
    }  # fmt: skip
    assert evidence(found, "downstream_views") == "v_daily; v_weekly (through v_daily)"
    assert evidence(found, "lineage") == "job etl.report reads it"
    assert evidence(found, "schedule").startswith("jobs/daily.sql:2: insert into out")
    assert "inflight" in evidence(found, "hudi")


async def test_a_missing_object_a_wrong_path_and_prod_without_approval_stop(planted) -> None:
    missing = await report(planted, object="nope")
    assert missing["verdict"] == "stop" and "orders" in evidence(missing, "exists")
    wrong = await report(planted, object="orders", path="store/users", intent="clean")
    assert wrong["verdict"] == "stop" and "holds users too" in evidence(wrong, "storage_path")
    above = await report(planted, object="orders", path="store", intent="clean")
    assert above["verdict"] == "stop" and "holds users too" in evidence(above, "storage_path")
    elsewhere = await report(planted, object="orders", path="other", intent="clean")
    assert "is not the table's path" in evidence(elsewhere, "storage_path")
    assert elsewhere["verdict"] == "stop"
    prod = await report(planted, object="users", source="prod")
    assert prod["verdict"] == "stop" and results(prod)["tier"] == "risk"
    planted.services["data"]["full"]["tier"] = "prod"
    approved = await report(planted, object="orders")
    assert approved["verdict"] == "needs approval" and "ticket 812" in evidence(approved, "tier")


async def test_unknown_is_never_a_pass(planted) -> None:
    bare = await report(planted, object="users", source="duck")
    kinds = results(bare)
    unknown = ("lineage", "schedule", "last_access", "storage_path", "hudi", "approval")
    assert all(kinds[name] == "unknown" for name in unknown)
    assert bare["verdict"] == "needs approval"
    old = time.time() - 90 * 86_400
    for path in (
        planted.workspace / "store" / "users" / "part-0",
        planted.workspace / "store/users",
    ):
        os.utime(path, (old, old))
    (planted.workspace / "approvals.json").write_text('{"users": "Bo"}')
    (planted.workspace / "lineage.jsonl").write_text("")
    low = await report(planted, object="users")
    assert results(low) == dict.fromkeys(ORDER, "pass") and low["verdict"] == "low"


async def test_a_large_table_is_a_risk_and_a_view_that_does_not_parse_is_unknown(
    planted, monkeypatch
) -> None:
    monkeypatch.setattr(data_risk, "LARGE", 2)
    assert results(await report(planted, object="orders"))["size"] == "risk"


async def test_the_state_follows_the_table(planted) -> None:
    import duckdb

    before = (await report(planted, object="users"))["state"]
    assert (await report(planted, object="users"))["state"] == before
    with duckdb.connect(str(planted.workspace / "shop.duckdb")) as made:
        made.execute("UPDATE users SET name = 'x'")
    assert (await report(planted, object="users"))["state"] != before
