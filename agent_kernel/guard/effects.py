"""Effects: the high-risk acts found in a call, in words of what they do and to what.

It may not decide: an effect makes a call ask in every mode (features F12.2 and F12.3).
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from agent_kernel.guard.calls import Call
from agent_kernel.guard.effects_platform import platform_effect
from agent_kernel.guard.effects_programs import FOREVER, program_effect
from agent_kernel.guard.effects_sql import sql_effects
from agent_kernel.guard.paths import key_name, system_path
from agent_kernel.guard.shell_find import Found, find
from agent_kernel.guard.writes import all_written

_CI = re.compile(
    r"(?:.*/)?(?:\.github/(?:workflows|actions)(?:/.*)?|\.gitlab-ci\.ya?ml|Jenkinsfile\w*|"
    r"\.circleci(?:/.*)?|azure-pipelines[\w.-]*\.ya?ml|\.travis\.ya?ml|\.drone\.ya?ml|"
    r"bitbucket-pipelines\.ya?ml|\.buildkite(?:/.*)?|appveyor\.ya?ml|cloudbuild\.ya?ml)",
    re.IGNORECASE,
)
_PRODUCTION = re.compile(
    r"(?:.*[/._\-])?(?:prod|production|deploy|deployment)(?:[/._\-].*)?", re.IGNORECASE
)
_CONFIG = re.compile(r".*\.(?:ya?ml|json|toml|ini|conf|cfg|env|tf|tfvars|properties|hcl|xml)")
_NAMES_ONLY: Final = frozenset(
    "echo printf test [ ls find stat which type basename dirname realpath readlink file touch "
    "chmod du df tree".split()
)
_SHELL_LINES = re.compile(r"(?m)^\s*(?:\w+\s*=\s*)?(?:!+|%sx |%system )(.*)$")
_SHELL_CELL = re.compile(r"(?s)^\s*%%(?:bash|sh|script\s+\w+|system|sx)[^\n]*\n(.*)$")
_SQL_CELL = re.compile(r"(?s)^\s*%%?sql\b(.*)$")
_SQL_CLIENTS: Final = frozenset(
    "psql mysql mariadb sqlite3 duckdb hive beeline spark-sql impala-shell presto trino bq snowsql "
    "clickhouse-client clickhouse sqlcmd sqlplus usql cqlsh".split()
)


def effects(found: Found, text: str = "", roots: Sequence[str] = ()) -> list[str]:
    """The effects of a bash text, each once, in the order they are found.

    `text` is looked through for SQL when an SQL client is among the programs, since a statement
    may come by a pipe or a here-document; `roots` are the workspace's folders.
    """
    seen: dict[str, None] = {}
    if found.names & _SQL_CLIENTS:
        seen.update(dict.fromkeys(sql_effects(text)))
    for argv in found.argvs:
        seen.update(dict.fromkeys(argv_effects(argv)))
    for path in all_written(found):
        seen.update(dict.fromkeys(write_effects(path, roots)))
    return list(seen)


def argv_effects(argv: Sequence[str]) -> Iterator[str]:
    """The effects of one program with its words."""
    name = posixpath.basename(argv[0])
    words = list(argv[1:])
    yield from filter(None, [program_effect(name, words), platform_effect(name, words)])
    for word in words:
        if name not in ("echo", "printf", "grep", "rg", "git"):
            yield from sql_effects(word)
    if name in ("python", "python3") and "-c" in words[:-1]:
        yield from python_effects(words[words.index("-c") + 1])
    if name not in _NAMES_ONLY:
        for word in words:
            piece = re.split(r"[=:@]", word)[-1]
            if key_name(piece) and not word.startswith("-"):
                yield f"reads {piece!r}, which by its name holds keys"


def write_effects(path: str, roots: Sequence[str] = ()) -> Iterator[str]:
    """The effects of writing one path, by what the path is."""
    if _CI.fullmatch(path):
        yield f"changes {path!r}, which the build server runs"
    if _PRODUCTION.fullmatch(path) and _CONFIG.fullmatch(path):
        yield f"changes {path!r}, which by its name is production or deployment configuration"
    if system_path(path, roots):
        yield f"changes {path!r}, which belongs to the machine"
    if "/.hoodie/" in f"/{path}/":
        yield f"changes {path!r}, a Hudi table's timeline{FOREVER}"


def python_effects(code: str) -> list[str]:
    """The effects written in Python code: deletes, shell commands, SQL, overwritten tables."""
    found: dict[str, None] = {}
    for node in python_nodes(code):
        if isinstance(node, ast.Call):
            found.update(dict.fromkeys(_call_effects(node)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(dict.fromkeys(sql_effects(node.value)))
    for text in _SHELL_LINES.findall(code) + _SHELL_CELL.findall(code):
        found.update(dict.fromkeys(effects(find(text), text)))
    for text in _SQL_CELL.findall(code):
        found.update(dict.fromkeys(sql_effects(text)))
    return list(found)


def python_nodes(code: str) -> Iterator[ast.AST]:
    """Every node of Python code without its magics and shell lines; none when it is broken."""
    try:
        yield from ast.walk(ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", code)))
    except (SyntaxError, ValueError, RecursionError):
        return


def input_effects(call: Call) -> list[str]:
    """The SQL effects in any text of a tool's input, and what the tool's own name promises."""
    found: dict[str, None] = {}
    for text in _texts(call.input):
        found.update(dict.fromkeys(sql_effects(text)))
    verb = re.search(
        r"(?:^|_)(delete|drop|purge|truncate|publish|deploy|rollback|kill|pause|terminate|"
        r"send|upload|export)(?:_|$)",
        call.tool.casefold(),
    )
    if verb:
        found[f"calls {call.tool!r}, which by its name can {verb[1]} things"] = None
    return list(found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


_PYTHON_CALLS: Final = {
    "shutil.rmtree": "deletes a folder and everything in it" + FOREVER,
    "rmtree": "deletes a folder and everything in it" + FOREVER,
    "saveAsTable": "overwrites a table" + FOREVER,
    "insertInto": "overwrites a table" + FOREVER,
    "smtplib.SMTP": "sends mail to others",
    "requests.post": "sends data to another service",
    "requests.put": "sends data to another service",
    "requests.delete": "deletes at another service" + FOREVER,
    "httpx.post": "sends data to another service",
}
_SHELL_CALLS: Final = frozenset(
    "system popen run call check_call check_output Popen getoutput".split()
)


def _call_effects(node: ast.Call) -> Iterator[str]:
    name = _dotted(node.func)
    last = name.rsplit(".", 1)[-1]
    effect = _PYTHON_CALLS.get(name) or (_PYTHON_CALLS.get(last) if last == "rmtree" else None)
    if last in ("saveAsTable", "insertInto", "to_sql", "save", "mode", "parquet", "write_table"):
        words = [_constant(arg) for arg in (*node.args, *(k.value for k in node.keywords))]
        if last != "insertInto" and not {"overwrite", "replace"} & {str(w) for w in words}:
            effect = None
        elif last != "insertInto":
            effect = f"overwrites what {last}() names{FOREVER}"
    if effect:
        yield f"{effect} ({name})" if effect == _PYTHON_CALLS.get(name) else effect
    if last in _SHELL_CALLS and node.args:
        yield from _shell_argument(node.args[0])


def _shell_argument(argument: ast.expr) -> Iterator[str]:
    if isinstance(argument, ast.List | ast.Tuple):
        words = [str(_constant(item) or "?") for item in argument.elts]
        if words:
            yield from effects(find(" ".join(map(_quote, words))))
    elif isinstance(_constant(argument), str):
        text = str(_constant(argument))
        yield from effects(find(text), text)


def _quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None
