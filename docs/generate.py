"""Generate: the tables in docs/*.md that come from code, so that they cannot drift from it.

May not write a word of its own: each cell of a table is a name, a field or a docstring of the code.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agent_kernel"
BLOCK = re.compile(
    r"<!-- generated: (?P<name>[\w-]+) -->\n(?P<text>.*?)<!-- /generated: (?P=name) -->",
    re.DOTALL,
)
OPENING = re.compile(r"<!-- generated: ([\w-]+) -->")


def first_sentence(doc: str | None) -> str:
    """The first line of a docstring, as one cell of a table."""
    return cell((doc or "").strip().partition("\n")[0])


def cell(text: str) -> str:
    """`text` on one line, with what Markdown would take for the end of a cell escaped."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, ending in a newline."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def load(name: str) -> Any:
    """A module of ours by name, or None when the house does not have it yet."""
    parent, _, _ = name.rpartition(".")
    if parent and importlib.util.find_spec(parent) is None:
        return None
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def core_files() -> str:
    """Core's files in the order they may be read: each imports only those before it."""
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c for c in contracts["contracts"] if c["name"].startswith("Core:"))["layers"]
    names = [n for layer in reversed(layers) for n in re.findall(r"\w+", layer)]
    rows = []
    for name in names:
        path = PACKAGE / "core" / f"{name}.py"
        if path.exists():
            text = path.read_text(encoding="utf-8")
            owns = re.match(r'"""(.*)', text)
            rows.append((f"`{name}.py`", cell(owns[1]) if owns else ""))
    return table(("file", "what it owns"), rows)


def events() -> str | None:
    """Every type a log may hold, in the order of the union, with its own fields."""
    module = load("agent_kernel.core.events")
    if module is None:
        return None
    envelope = {*module.Event.model_fields, "replaces"}
    rows = []
    for kind in module.ALL:
        own = [f"`{name}`" for name in kind.model_fields if name not in envelope]
        joins = "yes" if issubclass(kind, module.SurfaceEvent) else ""
        rows.append(
            (
                f"`{kind.model_fields['type'].default}`",
                first_sentence(kind.__doc__),
                " ".join(own),
                joins,
            )
        )
    return table(("type", "what happened", "its own fields", "may join the surface"), rows)


def dev_verbs() -> str:
    """The verbs of dev.py."""
    import dev

    rows = [(f"`{name}`", first_sentence(verb.__doc__)) for name, verb in dev.VERBS.items()]
    return table(("`python3 dev.py …`", "what it does"), rows)


def flag(value: Any) -> str:
    """A tool's flag as one word; a function of the input reads "by input"."""
    return "by input" if callable(value) else "yes" if value else ""


def tools() -> str | None:
    """Every tool of ours in the documented order; an optional parameter is in italics."""
    module = load("agent_kernel.tools")
    if module is None:
        return None
    rows = []
    for tool in module.ALL:
        schema = tool.schema.schema
        required = set(schema.get("required", ()))
        names = [f"`{n}`" if n in required else f"*`{n}`*" for n in schema.get("properties", {})]
        flags = (flag(tool.concurrent), flag(tool.read_only))
        rows.append((f"`{tool.name}`", cell(tool.description), " ".join(names), *flags))
    return table(("tool", "what the model is told", "parameters", "concurrent", "read-only"), rows)


def columns() -> str | None:
    """Every table of `frames` with its columns, one Markdown table each."""
    module = load("agent_kernel.frames.schema")
    if module is None:
        return None
    parts = []
    for name in module.TABLES:
        rows = [
            (f"`{c.name}`", f"`{c.pandas}`", "" if c.unit == "-" else cell(c.unit), cell(c.meaning))
            for c in module.schema(name)
        ]
        parts.append(f"### {name}\n\n{table(('column', 'dtype', 'unit', 'meaning'), rows)}")
    return "\n".join(parts)


def magics() -> str | None:
    """Every `%agent` command by area, in the documented order."""
    module = load("agent_kernel.kernel.commands")
    if module is None:
        return None
    rows = [
        (f"`%agent {cell(f'{c.name} {c.usage}'.strip())}`", cell(c.doc), c.area)
        for c in module.ALL.values()
    ]
    return table(("command", "what it does", "area"), rows)


def cell_options() -> str | None:
    """Every option of a `%%agent` cell."""
    module = load("agent_kernel.kernel.cell")
    if module is None:
        return None
    rows = [
        (" ".join(f"`{name}`" for name in option.names), "yes" if option.read else "", option.doc)
        for option in module.OPTIONS
    ]
    return table(("option", "takes a value", "what it does"), rows)


def argument(action: argparse.Action) -> str:
    """One argument as it is typed: `--json`, `--model M`, `PATH…`."""
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices:
        name = "\\|".join(map(str, action.choices))
    if not action.option_strings:
        return f"`{name}…`" if action.nargs in ("*", "+") else f"`{name}`"
    flags = ", ".join(action.option_strings)
    return f"`{flags}`" if action.nargs == 0 else f"`{flags} {name}`"


def cli_verbs() -> str | None:
    """Every verb of `agent-kernel` with its arguments, an argument's help in the second column."""
    module = load("agent_kernel.cli")
    if module is None:
        return None
    rows = []
    for verb in module.ALL:
        rows.append((f"**`agent-kernel {verb.name}`**", f"**{cell(verb.summary)}**"))
        parser = argparse.ArgumentParser(add_help=False)
        load(verb.module).add_arguments(parser)
        rows += [(argument(action), cell(action.help or "")) for action in parser._actions]
    return table(("verb and arguments", "what it does"), rows)


GENERATORS: dict[str, Callable[[], str | None]] = {
    "core-files": core_files,
    "events": events,
    "tools": tools,
    "columns": columns,
    "cli-verbs": cli_verbs,
    "magics": magics,
    "cell-options": cell_options,
    "dev-verbs": dev_verbs,
}


def documents(root: Path = ROOT) -> list[Path]:
    """Every document that may hold a generated block."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def regenerated(text: str) -> str:
    """`text` with every generated block as the code has it now."""

    def block(match: re.Match[str]) -> str:
        made = GENERATORS[match["name"]]()
        body = match["text"] if made is None else made
        return f"<!-- generated: {match['name']} -->\n{body}<!-- /generated: {match['name']} -->"

    return BLOCK.sub(block, text)


def problems(root: Path = ROOT) -> list[str]:
    """What is wrong with the documents: stale, unknown or unclosed blocks, tables never shown."""
    found: list[str] = []
    shown: set[str] = set()
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        opened, closed = OPENING.findall(text), [m["name"] for m in BLOCK.finditer(text)]
        shown.update(closed)
        name = path.relative_to(root)
        found += [f"{name}: block {n!r} is not closed" for n in opened if n not in closed]
        unknown = sorted(set(closed) - set(GENERATORS))
        found += [f"{name}: no generator is called {n!r}" for n in unknown]
        if not unknown and regenerated(text) != text:
            found.append(f"{name}: stale; run `python3 dev.py check --fix docs`")
    missing = [n for n, make in GENERATORS.items() if n not in shown and make() is not None]
    return found + [f"docs: the table {n!r} is shown nowhere" for n in missing]


def write() -> None:
    """Brings every generated block up to date; a document that has none is left as it is."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        fresh = regenerated(text)
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


def main(argv: Sequence[str]) -> int:
    """--check prints what is stale and returns 1 when something is; --write mends it."""
    if list(argv) not in (["--check"], ["--write"]):
        print("usage: docs/generate.py --check | --write", file=sys.stderr)
        return 2
    if argv[0] == "--write":
        write()
    found = problems()
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
