"""Ledger: the names a history leaves behind, ranked and printed within a few hundred tokens.

May not call a model, nor print what is not in the history word for word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agent_kernel.compaction.constraints import Constraint
from agent_kernel.compaction.facts import Fact, Kind, Said, facts_of, found_in, norm_of
from agent_kernel.compaction.ranking import ranks
from agent_kernel.core.usage import CHARS_PER_TOKEN

LEDGER_TOKENS = 500
CONSTRAINT_TOKENS = 450  # at most, of the above: what the person said goes before names
Rank = Callable[[Sequence[Fact], int], Sequence[float]]
_TITLES: tuple[tuple[Kind, str], ...] = (
    ("identifier", "names"),
    ("hash", "hashes"),
    ("url", "urls"),
    ("number", "numbers"),
)


@dataclass(frozen=True)
class Ledger:
    """Two texts and what they say: `facts` are those listed, of `of` there were."""

    constraints: str
    names: str
    facts: tuple[Fact, ...]
    of: int
    kept: int
    sentences: int

    @property
    def text(self) -> str:
        """Return both texts."""
        return "\n\n".join(part for part in (self.constraints, self.names) if part)


def ledger(
    blocks: Sequence[Said],
    sentences: Sequence[Constraint] = (),
    *,
    tokens: int = LEDGER_TOKENS,
    constraint_tokens: int = CONSTRAINT_TOKENS,
    lines: Sequence[str] = (),
    rank: Rank = ranks,
    known: Sequence[Fact] | None = None,
) -> Ledger:
    """Return the ledger of a history's blocks within `tokens` (characters / 2.75).

    `sentences` come first, up to `constraint_tokens` of them; `lines` (open errors, last commands)
    stand before the names; `known` = the facts of the blocks, where they were taken already. Equal
    whatever the order facts were found in.
    """
    room = int(tokens * CHARS_PER_TOKEN)
    said, kept = constraint_text(sentences, min(room, int(constraint_tokens * CHARS_PER_TOKEN)))
    room -= len(said) + (2 if said else 0)
    found = facts_of(blocks) if known is None else known
    end = max((m.block for f in found for m in f.places), default=0)
    page = _Page(found, [line for line in lines if line], room)
    scored = _merged(list(zip(rank(found, end), found, strict=True)))
    order = sorted(scored, key=lambda pair: (-pair[0], -pair[1].last_seq, pair[1].value))
    for score, fact in order:
        if score > 0:
            page.add(fact)
    return Ledger(said, page.text(), tuple(page.listed), len(found), kept, len(sentences))


def _merged(scored: list[tuple[float, Fact]]) -> list[tuple[float, Fact]]:
    """Return the facts with a file's bare name counted for its path, where there is one such."""
    named: dict[str, set[int]] = {}
    bare: dict[str, float] = {}
    for at, (score, fact) in enumerate(scored):
        if fact.kind == "path":
            name = fact.value.rsplit("/", 1)[-1]
            if name == fact.value:
                bare[name] = score
            else:
                named.setdefault(name, set()).add(at)
    alone = {name for name in bare if len(named.get(name, ())) == 1}
    more = {at: bare[name] for name in alone for at in named[name]}
    return [
        (score + more.get(at, 0.0), fact)
        for at, (score, fact) in enumerate(scored)
        if not (fact.kind == "path" and fact.value in alone)
    ]


def constraint_text(sentences: Sequence[Constraint], room: int) -> tuple[str, int]:
    """Return the person's constraints word for word with their seqs, and how many are in.

    When not all have room the newest are kept, in the order they were said.
    """
    if not sentences:
        return "", 0
    head = "Said by the person (seq: words):"
    rest = '{} more: recall_history(kind="constraint")'
    left = room - len(head)
    kept: list[str] = []
    for at, one in enumerate(reversed(sentences)):
        line = f"{one.seq}: {one.text}"
        last = at == len(sentences) - 1 and len(kept) == at
        reserve = 0 if last else len(rest) + 3
        if len(line) + 1 + reserve > left:
            continue
        kept.append(line)
        left -= len(line) + 1
    more = len(sentences) - len(kept)
    tail = [rest.format(more)] if more and room >= len(head) + len(rest) + 4 else []
    if not kept and not tail:
        return "", 0
    return "\n".join([head, *reversed(kept), *tail]), len(kept)


class _Page:
    """The page as it fills: each fact is added only with what it costs there."""

    def __init__(self, found: Sequence[Fact], lines: Sequence[str], room: int) -> None:
        self.root = common_root([f.value for f in found if f.kind == "path"])
        self.heads = [f"root {self.root}"] if self.root else []
        self.room = room
        self.lines: list[str] = []
        self.groups: dict[str, list[str]] = {}
        self.others: dict[Kind, list[str]] = {}
        self.listed: list[Fact] = []
        self.said: set[tuple[Kind, str]] = set()
        self.names: set[str] = set()
        self.used = len(self.heads[0]) + 1 if self.heads else 0
        if self.used > room // 4:
            self.heads, self.root, self.used = [], "", 0
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        if self.used + len(line) + 1 <= self.room // 2:
            self.lines.append(line)
            self.used += len(line) + 1
            self.said |= {(kind, norm_of(kind, value)) for kind, value in found_in(line)}

    def add(self, fact: Fact) -> None:
        """List a fact if it has room; one that stands there already costs nothing."""
        if (fact.kind, fact.norm) in self.said or fact.value in self.names:
            self.listed.append(fact)
        elif fact.kind == "path":
            self._path(fact)
        else:
            title = dict(_TITLES)[fact.kind]
            head = 0 if fact.kind in self.others else len(title) + 1
            if self._pay(len(fact.value) + 1 + head):
                self.others.setdefault(fact.kind, []).append(fact.value)
                self._list(fact)

    def _path(self, fact: Fact) -> None:
        group, item = parted(relative(fact.value, self.root))
        mark = "!" if fact.changed else ""
        head = 0 if group in self.groups else len(group) + 2
        if self._pay(len(item) + len(mark) + 1 + head):
            self.groups.setdefault(group, []).append(item + mark)
            name = fact.value.rsplit("/", 1)[-1]
            self.names |= {name, *re.findall(r"\w+", item)}
            self._list(fact)

    def _pay(self, size: int) -> bool:
        if self.used + size > self.room:
            return False
        self.used += size
        return True

    def _list(self, fact: Fact) -> None:
        self.said.add((fact.kind, fact.norm))
        self.listed.append(fact)

    def text(self) -> str:
        """Return the page: lines, then paths by folder, then the other kinds."""
        paths = [f"{group}: {' '.join(items)}" if group else " ".join(items)
                 for group, items in self.groups.items()]  # fmt: skip
        rest = [f"{title} {' '.join(self.others[k])}" for k, title in _TITLES if k in self.others]
        return "\n".join([*self.lines, *(self.heads if paths else []), *paths, *rest])


def parted(path: str) -> tuple[str, str]:
    """Return a path as the folder it is grouped under and `parent/name`, or ("", path) when short.

    The last two parts stay together: they are what two spellings of a path share.
    """
    parts = path.split("/")
    if len(parts) < 4 or len(parts[-1]) <= 5:
        return "", path
    return "/".join(parts[:-2]), "/".join(parts[-2:])


def relative(path: str, root: str) -> str:
    """Return a path under `root` without it; a file right in it as `../folder/name`."""
    if not root or not path.startswith(root + "/"):
        return path
    rest = path[len(root) + 1 :]
    return rest if "/" in rest else f"../{root.rsplit('/', 1)[-1]}/{rest}"


def common_root(paths: Iterable[str]) -> str:
    """Return the deepest folder that is above the last two parts of half of the absolute paths.

    "" when there is none: a path's last two parts stay together, they are what names it.
    """
    rooted = [path.split("/") for path in paths if path.startswith("/")]
    counts: Counter[tuple[str, ...]] = Counter()
    for parts in rooted:
        counts.update(tuple(parts[:at]) for at in range(3, len(parts) - 1))
    common = [folder for folder, count in counts.items() if 2 * count >= len(rooted) > 1]
    deepest = max(common, key=lambda folder: (len(folder), folder), default=())
    return "/".join(deepest)


def holds(artefact: str) -> Callable[[Fact], bool]:
    """Return the test whether a text names a fact: equal by norm, or as a whole word.

    The same test for a ledger, a summary and a whole surface (compaction.md §10.2).
    """
    there = {(kind, norm_of(kind, value)) for kind, value in found_in(artefact)}

    def found(fact: Fact) -> bool:
        if (fact.kind, fact.norm) in there:
            return True
        if fact.value not in artefact:
            return False
        return re.search(rf"(?<!\w){re.escape(fact.value)}(?!\w)", artefact) is not None

    return found
