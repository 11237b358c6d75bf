"""Prompt: named sections make the system text, which never changes, and the context, which may.

May not put text into a request: context enters as attachments in the log, and only when it changed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_kernel.core.events import Attachment, AttachmentKind
from agent_kernel.core.messages import Block, Json, Text, blocks_of
from agent_kernel.core.model import SystemText
from agent_kernel.core.surface import Surface

GONE = "(no longer set)"
WAIT = 0.3  # seconds a request waits for its context (features.md F3.7, setting prefetch_wait)
_VARIABLE = re.compile(r"\{\{([^{}]*)\}\}")


Late = dict[str, "asyncio.Future[Rendered]"]


class PromptError(ValueError):
    """A duplicate or undefined name in a prompt: names it and both owners; nothing was sent."""


@dataclass(frozen=True)
class PromptContext:
    """What a section may read: the workspace, the mode, and what the roof handed in by name."""

    workspace: Path
    agent: str = "main"
    mode: str = "ask"
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One of several things a section says, attached on its own; None = no longer."""

    text: str | None
    meta: Json = field(default_factory=dict)


# A text, several parts by name, or nothing to say.
Rendered = str | Mapping[str, Part] | None
Render = Callable[[PromptContext], Rendered | Awaitable[Rendered]]


@dataclass(frozen=True)
class Section:
    """One named part of the prompt.

    `static` ones are the system text, the same bytes for a whole session; the others become
    attachments of `kind`. `render` gives None when it has nothing to say, or parts that are
    attached one by one; it may be a coroutine, which a request waits a moment for. `owner` names
    the package it came from.
    """

    name: str
    static: bool
    render: Render
    kind: AttachmentKind = "context"
    owner: str = "agent_kernel"


@dataclass(frozen=True)
class ContextItem:
    """What one dynamic section, or one part of it, says now; None = nothing.

    `whole` marks the section of parts: those that are not there any more are gone.
    """

    name: str
    kind: AttachmentKind
    text: str | None
    meta: Json = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True)
class Prompt:
    """An assembled prompt: `system` is static, `dynamic` is compared with the surface each step."""

    system: tuple[SystemText, ...]
    dynamic: tuple[ContextItem, ...]


def check_names(kind: str, owned: Iterable[tuple[str, str]]) -> None:
    """Raise PromptError naming both owners when two (name, owner) pairs have one name."""
    seen: dict[str, str] = {}
    for name, owner in owned:
        if name in seen:
            owners = f"{seen[name]!r} and {owner!r}"
            raise PromptError(f"{kind} {name!r} comes from {owners}; rename one of them")
        seen[name] = owner


def check_sections(sections: Sequence[Section]) -> None:
    """Raise PromptError naming both owners when two sections have one name."""
    check_names("section", ((each.name, each.owner) for each in sections))


def variables_of(owned: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Return the variables of several owners, (owner, values by name), in the order of names.

    Raises PromptError naming both owners when two of them define one name.
    """
    given = [(name, owner, text) for owner, values in owned for name, text in values.items()]
    check_names("variable", ((name, owner) for name, owner, _ in given))
    return {name: text for name, _, text in sorted(given)}


async def assemble(
    sections: Sequence[Section],
    variables: Mapping[str, str],
    context: PromptContext,
    late: Late | None = None,
) -> Prompt:
    """Return the prompt of the sections in their order.

    Coroutines start together and are waited for WAIT seconds; what is late stays in `late`, is
    left out now, and joins when it is asked for again. Raises PromptError on a duplicate section
    or an undefined variable.
    """
    check_sections(sections)
    system: list[SystemText] = []
    dynamic: list[ContextItem] = []
    made = await _rendered(sections, context, {} if late is None else late)
    for section in sections:
        if section.name not in made:
            continue
        said = made[section.name]
        if not section.static:
            dynamic += items_of(section, said)
        elif isinstance(said, str) and said:
            system.append(SystemText(section.name, fill(said, variables, section)))
    return Prompt(tuple(system), tuple(dynamic))


async def _rendered(
    sections: Sequence[Section], context: PromptContext, late: Late
) -> dict[str, Rendered]:
    made: dict[str, Rendered] = {}
    fresh: list[asyncio.Future[Rendered]] = []
    for name in [name for name, task in late.items() if task.cancelled()]:
        del late[name]  # its loop ended
    for section in sections:
        if section.name in late:
            continue
        said = section.render(context)
        if isinstance(said, Awaitable) and section.static:
            made[section.name] = await said
        elif isinstance(said, Awaitable):
            task: asyncio.Future[Rendered]
            late[section.name] = task = asyncio.ensure_future(said)
            fresh.append(task)  # what was late before is not waited for again
        else:
            made[section.name] = said
    if fresh:
        await asyncio.wait(fresh, timeout=WAIT)
    for name in [name for name, task in late.items() if task.done()]:
        made[name] = late.pop(name).result()
    return made


def items_of(section: Section, said: Rendered) -> list[ContextItem]:
    """Return what a dynamic section says as items: one, or one a part."""
    if not isinstance(said, Mapping):
        return [ContextItem(section.name, section.kind, said)]
    whole = ContextItem(section.name, section.kind, None, whole=True)
    parts = [
        ContextItem(f"{section.name}:{name}", section.kind, part.text, part.meta)
        for name, part in said.items()
    ]
    return [whole, *parts]


def fill(text: str, variables: Mapping[str, str], section: Section) -> str:
    """Return `text` with each `{{name}}` replaced. Raises PromptError naming an undefined one."""

    def value(found: re.Match[str]) -> str:
        name = found[1].strip()
        if name not in variables:
            where = f"section {section.name!r} of {section.owner!r}"
            raise PromptError(
                f"variable {name!r} in {where} is not defined; define it or remove it"
            )
        return variables[name]

    return _VARIABLE.sub(value, text)


def attachments_due(surface: Surface, items: Iterable[ContextItem]) -> list[Attachment]:
    """Return the attachments that bring the surface up to date: none for what stands there
    unchanged.

    Keeps no state: what a compaction hid is due again, and a resume adds nothing twice (F2.4).
    """
    there, given = surface.sections, list(items)
    names = {item.name for item in given}
    for item in [item for item in given if item.whole]:
        gone = [n for n in there if n.startswith(f"{item.name}:") and n not in names]
        given += [ContextItem(name, item.kind, None) for name in gone]
    return [due for item in given if (due := _due(there.get(item.name), item)) is not None]


def _due(there: str | None, item: ContextItem) -> Attachment | None:
    gone = framed(item.name, GONE, item.kind)
    if item.text is None and there in (None, gone):
        return None
    content = gone if item.text is None else framed(item.name, item.text, item.kind)
    if there == content:
        return None
    meta = {"section": item.name, **item.meta}
    return Attachment(kind=item.kind, label=item.name, content=blocks_of(content), meta=meta)


TAGS = ("runtime-context", "memory-attachment", "task-notification", "system-reminder", "untrusted")
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_INNER = re.compile(r"<(?=/?(?:file-path|content)\b)")


def escaped(text: str) -> str:
    """Return text without look-alikes of the tags that only we write: they lose their bracket."""
    return _TAG.sub("&lt;", text)


def spoken(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return a person's blocks as they are sent: their words open and close no tag of ours."""
    return tuple(Text(escaped(each.text)) if isinstance(each, Text) else each for each in blocks)


def reminder(text: str) -> str:
    """Return what the runtime reminds the model of, in its own tag."""
    return f"<system-reminder>\n{escaped(text)}\n</system-reminder>"


def framed(name: str, text: str, kind: AttachmentKind = "context") -> str:
    """Return context text in our own tags; look-alikes of them inside are escaped."""
    inner = escaped(text)
    if kind == "memory":
        inner = _INNER.sub("&lt;", inner)
        path = _INNER.sub("&lt;", escaped(name.partition(":")[2]))
        told = f"<file-path>{path}</file-path><content>\n{inner}\n</content>"
        return f"<memory-attachment>{told}</memory-attachment>"
    return f'<runtime-context name="{name}">\n{inner}\n</runtime-context>'
