"""Ranking: BM25 over words and the parts of identifiers; the same bytes give the same order.

May not claim meaning: a text that shares no word with the query is not found.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

K1, B = 1.2, 0.75  # Robertson and Zaragoza 2009, the usual constants
_WORD = re.compile(r"[A-Z]+(?![a-z\u00df-\u00ff])|[A-Z]?[a-z\u00df-\u00ff]+|[0-9]+|[^\W\d_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_COMMON = frozenset(
    "a an and are as at be by can do does for from how i in is it of on or that the this to was we "
    "what when where which who why with".split()
)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case: identifiers split by case and `_`, plurals cut.

    Runs of Chinese, Japanese and Korean characters give their neighbouring pairs.
    """
    found: list[str] = []
    for raw in _WORD.findall(text):
        if _CJK.fullmatch(raw):
            found += [raw[i : i + 2] for i in range(len(raw) - 1)] or [raw]
            continue
        word = raw.lower()
        if word in _COMMON or (len(word) == 1 and not word.isdigit()):
            continue
        found.append(word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word)
    return found


def counted(parts: Iterable[tuple[str, int]]) -> Counter[str]:
    """Return how often each word is in texts, each text counted by its weight."""
    found: Counter[str] = Counter()
    for text, weight in parts:
        for word in words(text):
            found[word] += weight
    return found


def rank(query: str, documents: Sequence[Iterable[tuple[str, int]]]) -> list[float]:
    """Return one score a document, given as (text, weight) pairs; 0 where no word is shared."""
    return Index([counted(each) for each in documents]).scores(words(query))


class Index:
    """Documents as word counts; `scores` ranks them all for a query."""

    def __init__(self, documents: Sequence[Counter[str]]) -> None:
        self.documents = documents
        self.sizes = [sum(each.values()) for each in documents]
        self.mean = (sum(self.sizes) / len(documents) if documents else 0.0) or 1.0
        self.spread: Counter[str] = Counter()
        for each in documents:
            self.spread.update(each.keys())

    def weight(self, word: str) -> float:
        """Return a word's inverse document frequency, never below 0."""
        seen = self.spread[word]
        return math.log(1 + (len(self.documents) - seen + 0.5) / (seen + 0.5))

    def scores(self, query: Iterable[str]) -> list[float]:
        """Return one score a document, 0 where no word of the query is in it."""
        wanted = [(word, self.weight(word)) for word in dict.fromkeys(query)]
        found = []
        for document, size in zip(self.documents, self.sizes, strict=True):
            score = 0.0
            norm = K1 * (1 - B + B * size / self.mean)
            for word, weight in wanted:
                if count := document.get(word, 0):
                    score += weight * count * (K1 + 1) / (count + norm)
            found.append(score)
        return found
