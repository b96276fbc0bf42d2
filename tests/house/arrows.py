"""The rooms of `src/partita`, what each may import, and the walk that finds what breaks that.

    algebra, storage, process <- arrow <- spark, status <- picture <- formats <- sql, assets <- lake <- web <- cli

`status` knows `algebra` and `arrow` only, and `picture` no more than `status` besides. By it lakes, tables and plans
show themselves in notebooks, so it knows none of them (ADR 0050).

Every import counts: at the top, in a function, and under TYPE_CHECKING, for a type is knowledge too. Imports of a name
that is computed can't be seen; none are needed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PACKAGE = "partita"

# A room is a folder or a module right under the package; `partita` itself is the public face, which names them all.
ROOMS: Mapping[str, frozenset[str]] = {
    "errors": frozenset(),
    # Reads what others wrote; everyone who does so may use it.
    "untrusted": frozenset({"errors"}),
    "algebra": frozenset({"errors", "untrusted"}),
    "arrow": frozenset({"errors", "algebra", "untrusted"}),
    "kept": frozenset(),
    "spark": frozenset({"errors", "untrusted", "algebra", "arrow", "kept"}),
    "status": frozenset({"errors", "untrusted", "algebra", "arrow"}),
    # Lakes, tables and plans show themselves by it, and so it knows none of them.
    "picture": frozenset({"errors", "algebra", "arrow", "status"}),
    "storage": frozenset({"errors", "untrusted"}),
    "process": frozenset(),
    "formats": frozenset({"errors", "untrusted", "algebra", "arrow", "storage", "process", "kept", "spark", "picture"}),
    "sql": frozenset({"errors", "untrusted", "algebra", "arrow", "spark", "formats"}),
    "assets": frozenset(
        {"errors", "untrusted", "algebra", "arrow", "storage", "process", "spark", "formats", "status", "picture"}
    ),
    "lake": frozenset(
        {"errors", "untrusted", "algebra", "arrow", "storage", "spark", "formats", "sql", "status", "assets", "picture"}
    ),
    "cli": frozenset(
        {PACKAGE, "errors", "untrusted", "algebra", "arrow", "spark", "formats", "status", "lake", "assets", "web"}
    ),
    "web": frozenset(
        {PACKAGE, "errors", "untrusted", "algebra", "arrow", "spark", "formats", "status", "lake", "assets", "picture"}
    ),
}
ONLY_IN_SPARK = frozenset({"pyspark", "py4j"})
# None of these exists in Spark Connect.
NOT_IN_CONNECT = frozenset({"_jvm", "_jdf", "_jsc", "sparkContext", "rdd"})


@dataclass(frozen=True, slots=True)
class Breach:
    """A line that breaks a rule of the house."""

    module: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Import:
    """A module that a line imports, by its full name."""

    target: str
    line: int


def breaches(src: Path) -> list[Breach]:
    """What breaks the rules under `src`, a folder that holds the package."""
    return [breach for module, tree in modules(src).items() for breach in _breaches_of(module, tree)]


def modules(src: Path) -> dict[str, ast.Module]:
    """Every module of the package, by its full name; a package stands under its own."""
    return {
        _module_name(path.relative_to(src)): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted((src / PACKAGE).rglob("*.py"))
    }


def room_of(module: str) -> str:
    """`partita.algebra.key` is in `algebra`, and `partita` itself in `partita`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else PACKAGE


def _breaches_of(module: str, tree: ast.Module) -> Iterator[Breach]:
    room = room_of(module)
    if room != PACKAGE and room not in ROOMS:
        yield Breach(module, 1, f"the room {room!r} has no place yet: say in ROOMS what it may import")
        return
    for found in _imports(tree):
        outside = found.target.partition(".")[0]
        if outside in ONLY_IN_SPARK and room != "spark":
            yield Breach(module, found.line, f"only partita.spark imports {outside}")
        elif outside == PACKAGE and not _may_import(room, room_of(found.target)):
            yield Breach(module, found.line, f"{room} may not import {found.target}")
    for name, line in _names(tree):
        if name in NOT_IN_CONNECT:
            yield Breach(module, line, f"{name} does not exist in Spark Connect")


def _may_import(room: str, target: str) -> bool:
    return room in (PACKAGE, target) or target in ROOMS[room]


def _imports(tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (Import(name.name, node.lineno) for name in names)
            case ast.ImportFrom(module=None) | ast.ImportFrom(level=1 | 2 | 3 | 4):
                # ruff bans relative imports (TID252); this keeps one from slipping through unseen.
                yield Import(f"{PACKAGE}.<relative import>", node.lineno)
            case ast.ImportFrom(module="partita", names=names):
                yield from (Import(_member(name.name), node.lineno) for name in names)
            case ast.ImportFrom(module=str(target)):
                yield Import(target, node.lineno)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield Import(target, node.lineno)


def _member(name: str) -> str:
    """`from partita import algebra` is that room; any other name is taken from the public face."""
    return f"{PACKAGE}.{name}" if name in ROOMS else PACKAGE


def _names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that the code speaks of: as an attribute, on its own, or as the text that getattr takes."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
                yield name, node.lineno


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
