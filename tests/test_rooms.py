"""Rooms: every file has its line, every package its place, none is larger than allowed."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agent_kernel"
ROOMS = ("tools", "providers", "sections", "compaction", "transcripts", "frames", "lab", "widgets")
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE, MAX_FUNCTION, MAX_CORE = 400, 45, 10_000
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = SETTINGS["tool"]["importlinter"]["contracts"]


def named(path: Path) -> str:
    """A file as people name it: relative to the package."""
    return path.relative_to(PACKAGE).as_posix()


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree(path: Path) -> ast.Module:
    """A file, parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module and name a file imports, at any depth, dotted."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def used(path: Path) -> frozenset[str]:
    """What a file imports, and what its strings name: modules of a table, scripts it starts."""
    found = set(imported(path))
    for node in ast.walk(tree(path)):
        text = str(node.value) if isinstance(node, ast.Constant) else ""
        if text.startswith("agent_kernel."):
            found.add(text.partition(":")[0])
        elif re.fullmatch(r"\w+\.py", text):
            found.add(module_of(path.with_name(text)))
    return frozenset(found)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, nested ones too."""
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def rooms() -> list[str]:
    """The rooms that stand."""
    return [room for room in ROOMS if (PACKAGE / room / "__init__.py").exists()]


def packages() -> set[str]:
    """What stands directly under the package: folders with Python in them, and single files."""
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.glob("*.py"))}
    return folders | {p.stem for p in PACKAGE.glob("*.py") if p.stem != "__init__"}


def layer_names(contract: str) -> set[str]:
    """The names in the layers of the contract whose name begins so."""
    found = next(c for c in CONTRACTS if c["name"].startswith(contract))
    return {name for layer in found["layers"] for name in re.findall(r"\w+", layer)}


@pytest.mark.parametrize("room", rooms())
def test_a_room_has_a_table_called_all(room: str) -> None:
    module = importlib.import_module(f"agent_kernel.{room}")
    assert isinstance(module.ALL, (tuple, dict)), f"{room}.ALL is {type(module.ALL).__name__}"
    assert module.ALL


@pytest.mark.parametrize("room", rooms())
def test_every_file_of_a_room_has_its_line_or_serves_one_that_has(room: str) -> None:
    users = {path: used(path) for path in FILES}
    orphans = [
        named(path)
        for path in (PACKAGE / room).rglob("*.py")
        if path.stem not in ("__init__", "__main__")
        and not any(module_of(path) in names for user, names in users.items() if user != path)
    ]
    assert not orphans, f"no line in {room}.ALL and used by no other file: {orphans}"


def floor_of(name: str) -> str:
    """core, guard, roof, or the name of a room."""
    part = name.split(".")[1]
    return part if part in ("core", "guard", *ROOMS) else "roof"


def test_even_an_annotation_comes_from_a_floor_below() -> None:
    wrong = {}
    for path in FILES:
        mine = floor_of(f"{module_of(path)}.")
        allowed = {"core": {"core"}, "guard": {"core", "guard"}}.get(mine, {"core", "guard", mine})
        names = {n for n in imported(path) if n.startswith("agent_kernel.")}
        above = sorted(n for n in names if floor_of(n) not in allowed)
        if above and mine != "roof":
            wrong[named(path)] = above
    assert not wrong


def test_every_package_stands_in_the_import_contract() -> None:
    assert packages() <= layer_names("Floors:")


def test_every_file_of_the_core_stands_in_the_reading_order() -> None:
    files = {p.stem for p in (PACKAGE / "core").glob("*.py")} - {"__init__"}
    assert files == layer_names("Core:")


def test_a_file_is_short_enough_to_read_in_one_sitting() -> None:
    lines = {named(p): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    long = {name: count for name, count in lines.items() if count > MAX_FILE}
    assert not long, f"over {MAX_FILE} lines, split by meaning: {long}"


def test_a_function_is_short_enough_to_see_whole() -> None:
    long = {
        f"{named(path)}:{f.name}": length
        for path in FILES
        for f in functions(path)
        if (length := (f.end_lineno or f.lineno) - f.lineno + 1) > MAX_FUNCTION
    }
    assert not long, f"over {MAX_FUNCTION} lines: {long}"


def test_the_core_does_not_grow_without_a_decision() -> None:
    lines = sum(len(p.read_text().splitlines()) for p in (PACKAGE / "core").glob("*.py"))
    assert lines <= MAX_CORE


def test_a_module_says_what_it_owns_and_what_it_may_not_do() -> None:
    wrong = []
    for path in FILES:
        first, _, rest = (ast.get_docstring(tree(path)) or "").partition("\n")
        if not re.match(r"`?\w[^:]{0,60}: \S", first) or not rest.strip():
            wrong.append(named(path))
    assert not wrong, f"a docstring of two lines, 'Noun: what it owns' and what it may not: {wrong}"


def test_nothing_inside_the_package_imports_its_front_door() -> None:
    wrong = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                front = node.module == "agent_kernel" and names - packages() - {"__version__"}
                if node.level or front:
                    wrong.append(f"{named(path)}:{node.lineno}")
    assert not wrong, f"a relative import, or one from the package's front door: {wrong}"


def test_our_readers_join_by_the_same_entry_points_as_a_strangers() -> None:
    from agent_kernel import transcripts

    listed = SETTINGS["project"]["entry-points"]["agent_kernel.transcripts"]
    assert set(listed) == set(transcripts.ALL)
    for name, reader in transcripts.ALL.items():
        module, _, attribute = listed[name].partition(":")
        assert type(reader) is getattr(importlib.import_module(module), attribute)
        assert reader.name == name
