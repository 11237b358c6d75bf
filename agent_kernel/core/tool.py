"""Tool: a frozen value a model can call, and the `@tool` that makes one from a typed function.

May not decide what is allowed and may not log: `batch.py` runs calls, the guard judges them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from agent_kernel.core.messages import Block, Json, blocks_of
from agent_kernel.core.model import ToolSchema

if TYPE_CHECKING:
    from agent_kernel.core.agent import Agent
    from agent_kernel.core.session import Session


class ToolError(Exception):
    """The model's fault: its text becomes an error result the model reads; `meta` joins the
    result's."""

    def __init__(self, text: str, meta: Json | None = None) -> None:
        super().__init__(text)
        self.meta: Json = meta or {}


class Input(BaseModel):
    """Base of every tool's input: unknown fields are an error the model is told of."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Answer:
    """What a tool gives back: text or blocks for the model, `meta` for the log (log.md §2, tool
    meta)."""

    content: tuple[Block, ...]
    meta: Json = field(default_factory=dict)
    is_error: bool = False

    @classmethod
    def of(cls, value: Any) -> Answer:
        """Return `value` as an Answer: an Answer, a string, blocks, None, or anything's `str()`."""
        if isinstance(value, Answer):
            return value
        if value is None or value == "":
            return cls(blocks_of("(no output)"))
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, Block) for v in value):
            return cls(tuple(value))
        return cls(blocks_of(value if isinstance(value, str) else str(value)))


def text_answer(text: str, **meta: Any) -> Answer:
    """Return an Answer of one text block with `meta`."""
    return Answer(blocks_of(text), dict(meta))


@dataclass(frozen=True)
class ToolContext:
    """What a running call may use: its session and agent, its own id, where it works, who can be
    asked.

    `workspace` is the root files are relative to; `progress` takes text for people, not for the
    model; `services` are what the roof handed in by name (`run_cell`, `ask`, `spawn`, `notebook`,
    …).
    """

    session: Session
    agent: str
    call_id: str
    workspace: Path
    progress: Callable[[str], None] = lambda _text: None
    services: Mapping[str, Any] = field(default_factory=dict)
    headless: bool = True

    def service(self, name: str, need: str) -> Any:
        """Return the service `name`. Raises ToolError saying `need` when the roof gave none."""
        if name not in self.services:
            raise ToolError(need)
        return self.services[name]


Run = Callable[[Any, ToolContext], Awaitable[Any]]
Flag = bool | Callable[[Any], bool]


@dataclass(frozen=True)
class Tool:
    """A callable of the model: a value, not a class to inherit.

    `input` is a pydantic model (or a JSON Schema, then `run` gets the plain dict). `concurrent`
    calls share a batch with their neighbours; `read_only` ones have no side effect: both may be
    functions of the validated input. `timeout` in seconds, None = no limit of ours. `spill` False =
    never cut to a blob. `owner` names the package it came from; `when` tells of an agent whether
    the tool has a use now (None = always): what has none is not sent. A read-only `early` one,
    which logs nothing itself, may start while the answer that calls it still streams.
    """

    name: str
    description: str
    input: type[BaseModel] | Json
    run: Run
    concurrent: Flag = False
    read_only: Flag = False
    deferred: bool = False
    timeout: float | None = None
    spill: bool = True
    owner: str = "agent_kernel"
    when: Callable[[Agent], bool] | None = None
    early: bool = False

    @property
    def schema(self) -> ToolSchema:
        """What the model is told."""
        return ToolSchema(self.name, self.description, input_schema(self.input), self.deferred)

    def parse(self, value: Mapping[str, Any]) -> Any:
        """Return the validated input. Raises ToolError listing each field that does not fit."""
        if not isinstance(self.input, type):
            return dict(value)
        try:
            return self.input.model_validate(dict(value))
        except ValidationError as error:
            raise ToolError(_field_errors(self.name, error)) from None

    def is_concurrent(self, value: Any) -> bool:
        """Tell whether the call may run beside its neighbours."""
        return self.concurrent(value) if callable(self.concurrent) else self.concurrent

    def is_read_only(self, value: Any) -> bool:
        """Tell whether the call has no side effect."""
        return self.read_only(value) if callable(self.read_only) else self.read_only


def _field_errors(name: str, error: ValidationError) -> str:
    lines = [f"input of {name!r} does not fit:"]
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"]) or "input"
        lines.append(f"- {where}: {item['msg']} (got {item['input']!r:.80})")
    return "\n".join(lines)


class _Lean(GenerateJsonSchema):
    """JSON Schema without titles: they cost tokens and say nothing."""

    def generate(self, schema: Any, mode: Any = "validation") -> Json:
        """Return the schema without any `title`."""
        made = super().generate(schema, mode=mode)
        _drop_titles(made)
        return made


def _drop_titles(node: Any) -> None:
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for key, value in node.items():
            if key in ("properties", "$defs") and isinstance(value, dict):
                for each in value.values():
                    _drop_titles(each)
            else:
                _drop_titles(value)
    elif isinstance(node, list):
        for value in node:
            _drop_titles(value)


_SCHEMAS: dict[type[BaseModel], Json] = {}


def input_schema(model: type[BaseModel] | Json) -> Json:
    """Return the JSON Schema of a tool's input, without titles and without the model's
    docstring."""
    if not isinstance(model, type):
        return model
    if model not in _SCHEMAS:
        made = model.model_json_schema(schema_generator=_Lean)
        made.pop("description", None)
        _SCHEMAS[model] = made
    return _SCHEMAS[model]


def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    concurrent: bool = False,
    read_only: bool = False,
    deferred: bool = False,
    timeout: float | None = 120.0,
) -> Any:
    """Return a `Tool` made of a function's name, docstring and type hints; a plain function runs
    in a thread.

    A parameter annotated `ToolContext` is given the context and hidden from the model. Raises
    TypeError when a parameter has no type hint or is `*args`/`**kwargs`.
    """

    def make(target: Callable[..., Any]) -> Tool:
        model, context_name = _model_of(target)
        description = inspect.getdoc(target) or f"Call {target.__name__}."

        async def run(value: BaseModel, ctx: ToolContext) -> Any:
            given = {key: getattr(value, key) for key in type(value).model_fields}
            if context_name:
                given[context_name] = ctx
            if inspect.iscoroutinefunction(target):
                return await target(**given)
            return await asyncio.to_thread(target, **given)

        return Tool(
            name or target.__name__,
            description,
            model,
            run,
            concurrent,
            read_only,
            deferred,
            timeout,
            owner=target.__module__.partition(".")[0],
        )

    return make if function is None else make(function)


def _model_of(target: Callable[..., Any]) -> tuple[type[BaseModel], str | None]:
    names = {"ToolContext": ToolContext}
    hints = get_type_hints(target, localns=names, include_extras=True)  # bounds are extras
    fields: dict[str, Any] = {}
    context_name: str | None = None
    for each in inspect.signature(target).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise TypeError(
                f"{target.__name__!r} takes *{each.name}; a tool's input needs named fields"
            )
        if each.name not in hints:
            raise TypeError(f"{target.__name__!r} has no type hint for {each.name!r}; add one")
        if hints[each.name] is ToolContext:
            context_name = each.name
            continue
        default = ... if each.default is each.empty else each.default
        fields[each.name] = (hints[each.name], default)
    return create_model(f"{target.__name__}_input", __base__=Input, **fields), context_name


def partition(calls: Sequence[tuple[str, bool]]) -> list[list[str]]:
    """Return call ids in batches: neighbouring concurrent calls together, every other alone
    (greedy)."""
    batches: list[list[str]] = []
    open_batch = False
    for call_id, concurrent in calls:
        if concurrent and open_batch:
            batches[-1].append(call_id)
        else:
            batches.append([call_id])
        open_batch = concurrent
    return batches
