"""Checks: what a strict Messages API refuses, with its own words.

May not answer a request it accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_kernel.core.model import ModelProfile
from agent_kernel.core.validate import Violation, validate_messages

Json = dict[str, Any]
# Body fields of POST /v1/messages (SDK 2.14), then those that need an anthropic-beta header.
_FIELDS = frozenset(
    {"model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "thinking"}
    | {"stop_sequences", "metadata", "service_tier", "output_config", "cache_control", "speed"}
    | {"container", "inference_geo", "diagnostics", "user_profile_id", "workspace_id"}
)
_BETA_FIELDS = frozenset(
    {"billing_policy", "compaction", "context_management", "fallback_credit_token", "fallbacks"}
    | {"mcp_servers", "thread"}
)
_SAMPLING = ("temperature", "top_p", "top_k")


def refusal(body: Any, headers: Mapping[str, str], profile: ModelProfile) -> str | None:
    """Return why a strict server answers 400 to `body`, or None when it accepts it."""
    if not isinstance(body, dict):
        return "request body is not a JSON object"
    return _fields(body, headers) or _messages(body, profile)


def _fields(body: Json, headers: Mapping[str, str]) -> str | None:
    for name in _SAMPLING:
        if name in body:
            return f"{name}: this model does not support sampling parameters"
    for name in ("model", "messages"):
        if name not in body:
            return f"{name}: Field required"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    beta = bool(headers.get("anthropic-beta"))
    for name in body:
        if name not in _FIELDS and not (beta and name in _BETA_FIELDS):
            return f"{name}: Extra inputs are not permitted"
    return None


def _messages(body: Json, profile: ModelProfile) -> str | None:
    messages = body["messages"]
    if not isinstance(messages, list):
        return "messages: Input should be a valid list"
    edits = body.get("context_management") or {}
    found = validate_messages(
        messages,
        profile,
        tools=[tool for tool in body.get("tools") or () if isinstance(tool, dict)],
        context_edits=edits.get("edits", ()) if isinstance(edits, dict) else (),
    )
    marks = sum("cache_control" in b for b in body.get("system") or () if isinstance(b, dict))
    api = [v for v in found if v.severity == "api"]
    if api:
        return said(api[0], api)
    return _marks(body, marks, profile.breakpoints)


def _marks(body: Json, system_marks: int, limit: int) -> str | None:
    """V8 once more with the marks of the system prompt, which the validator does not see."""
    count = system_marks + sum("cache_control" in t for t in body.get("tools") or ())
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, list):
            count += sum("cache_control" in block for block in content)
    if count <= limit:
        return None
    return f"A maximum of {limit} blocks with cache_control may be provided. Found {count}."


def said(first: Violation, found: list[Violation]) -> str:
    """Return the API's sentence for a violation; it names its place as the API does."""
    if first.repair == "answer_open_calls":
        ids = ", ".join(
            id
            for v in found
            if v.repair == first.repair and v.message == first.message
            for id in v.ids
        )
        return (
            f"messages.{first.message + 1}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {ids}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message."
        )
    place = f"messages.{first.message}"
    if first.block is not None:
        place += f".content.{first.block}"
    if first.repair == "drop_orphan_result":
        return (
            f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {first.ids[0]}. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous "
            "message."
        )
    if first.rule == "V5":
        return f"{place}: This model does not support assistant message prefill. {first.text}"
    return f"{place}: {first.text} ({first.rule})"
