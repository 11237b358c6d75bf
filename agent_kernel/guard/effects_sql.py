"""Effects of SQL: statements that lose or expose data, found in any text.

It reads statements by their first words; it may not decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FOREVER = "; it cannot be undone"
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_NAME = r"([\w.`\"\[\]$-]+)"
_STATEMENTS = (
    (
        r"drop\s+(?:external\s+)?(table|database|schema|view|column|partition|index|keyspace|"
        r"materialized\s+view|user|role)\s+(?:if\s+exists\s+)?" + _NAME,
        "drops the {0} {1}",
    ),
    (
        r"truncate\s+(?:table\s+)?(?!-)" + _NAME + r"\s*(?:;|$|cascade|partition|restart)",
        "empties the table {0}",
    ),
    (r"delete\s+from\s+" + _NAME + r"(?![^;]*\bwhere\b)", "deletes every row of {0} (no WHERE)"),
    (r"update\s+" + _NAME + r"\s+set\s(?![^;]*\bwhere\b)", "changes every row of {0} (no WHERE)"),
    (
        r"insert\s+overwrite\s+(?:local\s+)?directory\s+['\"]?([^'\"\s]+)",
        "exports data to the folder {0}",
    ),
    (r"insert\s+overwrite\s+(?:table\s+|into\s+)?" + _NAME, "overwrites the table {0}"),
    (r"create\s+or\s+replace\s+table\s+" + _NAME, "overwrites the table {0}"),
    (r"alter\s+table\s+" + _NAME + r"\s+drop\s", "drops a part of the table {0}"),
    (
        (
            r"(?:select\b[^;]*\binto\s+(?:outfile|dumpfile)|copy\b[^;]*\bto\s+(?!stdout)|unload\s*\()"
            r"\s*['\"]?([^'\"\s;]*)"
        ),
        "exports data to {0}",
    ),
    (
        (
            r"call\s+(?:\w+\.)*(?:delete_|rollback|clean|archive|run_clean|run_compaction|run_clustering)"
            r"(\w*)"
        ),
        "changes a table's files or timeline by a procedure ({0})",
    ),
)
_COMPILED = tuple(
    (re.compile(r"(?:^|[;\s(\"'])" + shape, re.IGNORECASE), words) for shape, words in _STATEMENTS
)
_QUICK = re.compile(
    r"drop|truncate|delete\s+from|\bset\s|overwrite|or\s+replace|outfile|dumpfile|copy|unload|call",
    re.IGNORECASE,
)


def sql_effects(text: str) -> Iterator[str]:
    """What SQL statements in `text` destroy or export, in words; comments hide nothing."""
    if len(text) < 8 or not _QUICK.search(text):
        return
    plain = " ".join(_COMMENT.sub(" ", text).split())
    for regex, words in _COMPILED:
        match = regex.search(plain)
        if match:
            effect = words.format(*(group.strip("`\"'") for group in match.groups()))
            yield effect + ("" if effect.startswith("exports") else _FOREVER)
