"""Demo makers: from the words a rule matched to one intent.

May not match a prompt: the rules do; a maker may say None to what is no intent after all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

QUOTE = r"[\"'`“”‘’「」『』]"
BARE_PATH = (
    r"@?(?:[A-Za-z0-9_.~-]+/)*[A-Za-z0-9_~-][A-Za-z0-9_.~-]*\.[A-Za-z][A-Za-z0-9]{0,7}"
    r"(?![A-Za-z0-9])|@?/?(?:[A-Za-z0-9_.~-]+/)+[A-Za-z0-9_.~-]*[A-Za-z0-9_/-]"
)
NAME = r"[A-Za-z_]\w*"
OPS = {
    "sum": r"totals?|sums?|sum up|add up|most|largest|合计|汇总|求和|总计|总和|总额|总量|统计",
    "mean": r"averages?|mean|平均值?",
    "count": r"count|number of|计数|数量",
    "max": r"max(?:imum)?|highest|最大值?|最高",
    "min": r"min(?:imum)?|lowest|最小值?|最低",
}
# Words that stand where a name could, and name nothing.
NO_NAMES = frozenset(
    {"the", "this", "it", "what", "how", "everything", "conversation", "session", "a", "an", "my"}
    | {"here", "folder", "workspace", "project", "directory", "repo", "repository", "code", "all"}
)
_PLACE = re.compile(
    r"\s+(?:in|of|from)\s+(?:the\s+|this\s+|all\s+)?"
    r"(?:project|workspace|folder|directory|repo(?:sitory)?|code(?:base)?|files)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing to do: its kind and the words it was given, "" where none.

    `a` and `b` are a kind's own (text, command, column, old and new); `by` a column, `name` a
    variable; `flag` means in the background.
    """

    kind: str
    a: str = ""
    b: str = ""
    path: str = ""
    by: str = ""
    name: str = ""
    flag: bool = False


Match = re.Match[str]
Maker = Callable[[Match], Intent | None]


def word(group: str, bare: str) -> str:
    """Return a pattern of a quoted text or of `bare`, read back by `take(match, group)`."""
    quoted = rf"{QUOTE}(?P<{group}_q>[^\"'`“”‘’「」『』\n]+){QUOTE}"
    return rf"(?:@?{quoted}|(?P<{group}>{bare}))"


def take(match: Match, group: str) -> str:
    """Return what `word(group, …)` matched, trimmed, "" when nothing."""
    groups = match.groupdict()
    return (groups.get(f"{group}_q") or groups.get(group) or "").strip()


def _path(match: Match) -> str:
    return take(match, "path").lstrip("@")


def _name(match: Match) -> str:
    name = take(match, "name")
    return "" if name.lower() in NO_NAMES else name


def op_of(text: str) -> str:
    """Return which of sum, mean, count, max, min a word asks for."""
    found = (op for op, w in OPS.items() if re.fullmatch(w, text.strip(), re.IGNORECASE))
    return next(found, "sum")


def simple(kind: str) -> Maker:
    """Return a maker of an intent with its first word alone; None when that is empty."""

    def make(match: Match) -> Intent | None:
        text = take(match, "a").strip(" :：,，.。")
        return Intent(kind, text) if text else None

    return make


def fixed(kind: str) -> Maker:
    """Return a maker of an intent without words."""
    return lambda match: Intent(kind)


_KINDS = {
    "python": "*.py", "markdown": "*.md", "csv": "*.csv", "notebook": "*.ipynb", "json": "*.json",
    "text": "*.txt",
}  # fmt: skip


def listing(match: Match) -> Intent:
    """List files: by a pattern, a kind of file, a folder."""
    said = match[0]
    pattern = re.search(r"\*{1,2}[\w./*-]*", said)
    kind = next((f"**/{glob}" for text, glob in _KINDS.items() if text in said.lower()), "**/*")
    folder = take(match, "path").rstrip("/")
    return Intent(
        "list", pattern[0] if pattern else kind, path="" if folder in NO_NAMES else folder
    )


def find(match: Match) -> Intent | None:
    """Find a text, in a file or everywhere."""
    text = _PLACE.sub("", take(match, "a"))
    if not text or text.lower() in ("it", "them", "out", "the file", "the files"):
        return None
    return Intent("find", text, path=_path(match))


def show(match: Match) -> Intent:
    """Read a file."""
    return Intent("show", path=_path(match))


def run(match: Match) -> Intent | None:
    """Run a command, in the background when the words after it say so."""
    command = take(match, "a")
    if command.lower() in ("the tests", "tests", "all tests", "测试"):
        command = "python3 -m pytest -q"
    command = re.sub(r"^(?:the|shell|command|this|a)\s+", "", command)
    after = match.string[match.end() :]
    behind = re.match(r"[\s\"'`”」,]*(?:in the background|在?后台)", after)
    flag = "后台" in match[0] or behind is not None
    return Intent("run", command, flag=flag) if command else None


def compute(match: Match) -> Intent | None:
    """Work out an expression of numbers; None without an operator."""
    text = take(match, "a").replace(",", "").replace("^", "**").replace("×", "*")
    text = re.sub(r"\s+", " ", text.replace("÷", "/")).strip(" .?=")
    return Intent("compute", text) if re.search(r"[\d)]\s*[-+*/%]", text) else None


_UNITS = {"行": "rows", "列": "columns", "字": "characters", "词": "words", "文件": "files"}


def count(match: Match) -> Intent:
    """Count rows, lines, words of a file or a variable."""
    unit = take(match, "a").lower()
    return Intent("count", _UNITS.get(unit, unit), path=_path(match), name=_name(match))


def most(match: Match) -> Intent:
    """Which one has the most: the sums, or the averages when that word is said."""
    intent = group(match)
    op = next((op_of(said) for said in intent.b.split() if op_of(said) == "mean"), "sum")
    return replace(intent, a=op)


def group(match: Match) -> Intent:
    """Add up one column by another."""
    measure = re.sub(QUOTE, "", take(match, "b"))
    return Intent(
        "group", op_of(take(match, "op")), measure, _path(match), take(match, "by"), _name(match)
    )


def describe(match: Match) -> Intent | None:
    """Describe a variable or a table; a quoted word without a dot is a variable."""
    path, name = _path(match), _name(match)
    if path and not re.fullmatch(BARE_PATH, path):
        path, name = "", path
    return Intent("describe", path=path, name=name) if path or name else None


def plot(match: Match) -> Intent | None:
    """Draw a column, perhaps by another."""
    column = take(match, "a")
    if column.lower() in ("the", "a", "an"):
        return None
    return Intent("plot", column, path=_path(match), by=take(match, "by"), name=_name(match))


def substitute(match: Match) -> Intent | None:
    """Replace one text by another in a file."""
    old, new = take(match, "a"), take(match, "b")
    return Intent("replace", old, new, _path(match)) if old else None


def wait(match: Match) -> Intent:
    """Wait some seconds."""
    number = float(take(match, "a"))
    seconds = number * 60 if take(match, "unit").lower().startswith(("m", "分")) else number
    return Intent("wait", f"{seconds:g}")


def write(match: Match) -> Intent:
    """Write a quoted text, or what was found, to a file."""
    return Intent("write", match.groupdict().get("a_q") or "", path=_path(match))


def with_path(intent: Intent, path: str) -> Intent:
    """Return an intent about "it" as one about the file named last."""
    wants = intent.kind in ("replace", "group", "count", "describe", "plot")
    if intent.path or intent.name or not wants or not path:
        return intent
    return replace(intent, path=path)
