"""Prompt: named sections make the system text, which never changes, and the context, which may.

May not put text into a request: context enters as attachments in the log, and only when it changed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_kernel.core.events import Attachment, AttachmentKind
from agent_kernel.core.messages import blocks_of
from agent_kernel.core.model import SystemText
from agent_kernel.core.surface import Surface

GONE = "(no longer set)"
_VARIABLE = re.compile(r"\{\{([^{}]*)\}\}")


class PromptError(ValueError):
    """A duplicate or undefined name in a prompt: names it and both owners; nothing was sent."""


@dataclass(frozen=True)
class PromptContext:
    """What a section may read: the workspace, the mode, and what the roof handed in by name."""

    workspace: Path
    agent: str = "main"
    mode: str = "ask"
    facts: Mapping[str, Any] = field(default_factory=dict)


Rendered = str | None
Render = Callable[[PromptContext], Rendered | Awaitable[Rendered]]


@dataclass(frozen=True)
class Section:
    """One named part of the prompt.

    `static` ones are the system text, the same bytes for a whole session; the others become
    attachments
    of `kind`. `render` gives None when it has nothing to say; it may be a coroutine. `owner` names
    the
    package it came from.
    """

    name: str
    static: bool
    render: Render
    kind: AttachmentKind = "context"
    owner: str = "agent_kernel"


@dataclass(frozen=True)
class ContextItem:
    """What one dynamic section says now; None = nothing."""

    name: str
    kind: AttachmentKind
    text: Rendered


@dataclass(frozen=True)
class Prompt:
    """An assembled prompt: `system` is static, `dynamic` is compared with the surface each step."""

    system: tuple[SystemText, ...]
    dynamic: tuple[ContextItem, ...]


def check_sections(sections: Sequence[Section]) -> None:
    """Raise PromptError naming both owners when two sections have one name."""
    seen: dict[str, str] = {}
    for section in sections:
        if section.name in seen:
            owners = f"{seen[section.name]!r} and {section.owner!r}"
            raise PromptError(f"section {section.name!r} comes from {owners}; rename one of them")
        seen[section.name] = section.owner


async def assemble(
    sections: Sequence[Section], variables: Mapping[str, str], context: PromptContext
) -> Prompt:
    """Return the prompt of `sections` in the given order, `{{name}}` filled from `variables`.

    Raises PromptError on a duplicate section or an undefined variable.
    """
    check_sections(sections)
    system: list[SystemText] = []
    dynamic: list[ContextItem] = []
    for section in sections:
        made = section.render(context)
        text = await made if isinstance(made, Awaitable) else made
        if text is not None:
            text = fill(text, variables, section) if section.static else text
        if not section.static:
            dynamic.append(ContextItem(section.name, section.kind, text))
        elif text:
            system.append(SystemText(section.name, text))
    return Prompt(tuple(system), tuple(dynamic))


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
    there = surface.sections
    due: list[Attachment] = []
    for item in items:
        text = item.text
        if text is None:
            if there.get(item.name) in (None, framed(item.name, GONE)):
                continue
            text = GONE
        content = framed(item.name, text)
        if there.get(item.name) != content:
            meta = {"section": item.name}
            made = Attachment(
                kind=item.kind, label=item.name, content=blocks_of(content), meta=meta
            )
            due.append(made)
    return due


def framed(name: str, text: str) -> str:
    """Return context text in our own tag; look-alikes of the closing tag inside are escaped."""
    inner = text.replace("</runtime-context", "&lt;/runtime-context")
    return f'<runtime-context name="{name}">\n{inner}\n</runtime-context>'
