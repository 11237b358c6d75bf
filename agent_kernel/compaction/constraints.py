"""Constraints: the sentences of a person that say what must, may not and need not be done.

May not shorten or merge a sentence: it is kept word for word, with its seq.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_kernel.core.events import Event, UserMessage
from agent_kernel.core.messages import Text

# By language; only the English ones were measured (compaction.md §5.1).
MARKERS: Mapping[str, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:must|never|don['’]?t|do not|always|only|should not|shouldn['’]t|make sure|"
        r"instead of|please keep|avoid|no need|not yet)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(r"必须|不要|不能|禁止|只|务必|一定|别|始终"),
}
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_BREAK = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？；])")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LEAD = re.compile(r"^(?:[-*•>#]+|\d+[.)])\s+")
WORDS, CHARACTERS = (5, 60), (6, 120)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One sentence of a person, word for word, and the event it stands in."""

    seq: int
    text: str


def constraints(
    events: Iterable[Event], markers: Mapping[str, re.Pattern[str]] = MARKERS
) -> list[Constraint]:
    """Return the constraint sentences of human messages in order; a repeated one keeps its last
    seq."""
    found: dict[str, Constraint] = {}
    for event in events:
        if not isinstance(event, UserMessage):
            continue
        for block in event.content:
            if isinstance(block, Text) and not block.text.lstrip().startswith("/"):
                for text in sentences(block.text, markers):
                    found.pop(text, None)
                    found[text] = Constraint(event.seq, text)
    return list(found.values())


def sentences(text: str, markers: Mapping[str, re.Pattern[str]] = MARKERS) -> list[str]:
    """Return the sentences of a text that constrain: of the right length, with a marker word.

    Blocks of code are left out: what they say was not said by the person.
    """
    out = []
    for part in _BREAK.split(_FENCE.sub("\n", text)):
        sentence = _LEAD.sub("", part.strip())
        if _fits(sentence) and any(marker.search(sentence) for marker in markers.values()):
            out.append(sentence)
    return out


def _fits(sentence: str) -> bool:
    if _is_unspaced(sentence):
        return CHARACTERS[0] <= len(sentence) <= CHARACTERS[1]
    return WORDS[0] <= len(sentence.split()) <= WORDS[1]


def _is_unspaced(text: str) -> bool:
    return 2 * len(_UNSPACED.findall(text)) > len(text.replace(" ", ""))


def _units(text: str, *, unspaced: bool) -> list[str]:
    return [c for c in text if c.isalnum()] if unspaced else re.findall(r"\w+", text.lower())


def survives(sentence: str, artefact: str, size: int = 5) -> bool:
    """Return whether at least half of a sentence's 5-grams stand in a text (compaction.md §10.2).

    Words are the units, characters where words are not spaced.
    """
    unspaced = _is_unspaced(sentence)
    units = _units(sentence, unspaced=unspaced)
    size = min(size, len(units))
    if not size:
        return True
    wanted = {tuple(units[at : at + size]) for at in range(len(units) - size + 1)}
    there = _units(artefact, unspaced=unspaced)
    held = {tuple(there[at : at + size]) for at in range(len(there) - size + 1)}
    return 2 * len(wanted & held) >= len(wanted)
