"""The rooms of `src/partita`, what each may import, and the walk that finds what breaks that.

    algebra, storage, process <- arrow <- spark, status <- display <- formats <- sql, assets <- lake <- web <- cli

`status` knows `algebra` and `arrow` only, and `display` no more than `status` besides. Lakes, tables and plans use
`display` to show themselves in notebooks, so it knows none of them (ADR 35).

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
ALLOWED_IMPORTS: Mapping[str, frozenset[str]] = {
    "errors": frozenset(),
    # Reads what others wrote; everyone who does so may use it.
    "untrusted_input": frozenset({"errors"}),
    "algebra": frozenset({"errors", "untrusted_input"}),
    "arrow": frozenset({"errors", "algebra", "untrusted_input"}),
    "cache": frozenset(),
    "spark": frozenset({"errors", "untrusted_input", "algebra", "arrow", "cache"}),
    "status": frozenset({"errors", "untrusted_input", "algebra", "arrow"}),
    # Lakes, tables and plans show themselves by it, and so it knows none of them.
    "display": frozenset({"errors", "algebra", "arrow", "status"}),
    "storage": frozenset({"errors", "untrusted_input"}),
    "process": frozenset(),
    "formats": frozenset(
        {"errors", "untrusted_input", "algebra", "arrow", "storage", "process", "cache", "spark", "display"}
    ),
    "sql": frozenset({"errors", "untrusted_input", "algebra", "arrow", "spark", "formats"}),
    "assets": frozenset(
        {"errors", "untrusted_input", "algebra", "arrow", "storage", "process", "spark", "formats", "status", "display"}
    ),
    "lake": frozenset(
        {
            "errors",
            "untrusted_input",
            "algebra",
            "arrow",
            "storage",
            "spark",
            "formats",
            "sql",
            "status",
            "assets",
            "display",
        }
    ),
    "cli": frozenset(
        {
            PACKAGE,
            "errors",
            "untrusted_input",
            "algebra",
            "arrow",
            "spark",
            "formats",
            "status",
            "lake",
            "assets",
            "web",
        }
    ),
    "web": frozenset(
        {
            PACKAGE,
            "errors",
            "untrusted_input",
            "algebra",
            "arrow",
            "spark",
            "formats",
            "status",
            "lake",
            "assets",
            "display",
        }
    ),
}
SPARK_ONLY_PACKAGES = frozenset({"pyspark", "py4j"})
# None of these exists in Spark Connect.
CLASSIC_ONLY_NAMES = frozenset({"_jvm", "_jdf", "_jsc", "sparkContext", "rdd"})


@dataclass(frozen=True, slots=True)
class RuleViolation:
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


def rule_violations(src: Path) -> list[RuleViolation]:
    """What breaks the rules under `src`, a folder that holds the package."""
    return [breach for module, tree in package_modules(src).items() for breach in _module_violations(module, tree)]


def package_modules(src: Path) -> dict[str, ast.Module]:
    """Every module of the package, by its full name; a package stands under its own."""
    return {
        _module_name(path.relative_to(src)): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted((src / PACKAGE).rglob("*.py"))
    }


def room_of(module: str) -> str:
    """`partita.algebra.key` is in `algebra`, and `partita` itself in `partita`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else PACKAGE


def _module_violations(module: str, tree: ast.Module) -> Iterator[RuleViolation]:
    room = room_of(module)
    if room != PACKAGE and room not in ALLOWED_IMPORTS:
        yield RuleViolation(module, 1, f"the room {room!r} has no place yet: say in ALLOWED_IMPORTS what it may import")
        return
    for found in _imports(tree):
        outside = found.target.partition(".")[0]
        if outside in SPARK_ONLY_PACKAGES and "spark" not in module.split("."):
            yield RuleViolation(module, found.line, f"only spark.py and folders `spark` import {outside}")
        elif outside == PACKAGE and not _may_import(room, room_of(found.target)):
            yield RuleViolation(module, found.line, f"{room} may not import {found.target}")
    for name, line in _referenced_names(tree):
        if name in CLASSIC_ONLY_NAMES:
            yield RuleViolation(module, line, f"{name} does not exist in Spark Connect")


def _may_import(room: str, target: str) -> bool:
    return room in (PACKAGE, target) or target in ALLOWED_IMPORTS[room]


def _imports(tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (Import(name.name, node.lineno) for name in names)
            case ast.ImportFrom(module=None) | ast.ImportFrom(level=1 | 2 | 3 | 4):
                # ruff bans relative imports (TID252); this keeps one from slipping through unseen.
                yield Import(f"{PACKAGE}.<relative import>", node.lineno)
            case ast.ImportFrom(module="partita", names=names):
                yield from (Import(_imported_module(name.name), node.lineno) for name in names)
            case ast.ImportFrom(module=str(target)):
                yield Import(target, node.lineno)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield Import(target, node.lineno)


def _imported_module(name: str) -> str:
    """`from partita import algebra` is that room; any other name is taken from the public face."""
    return f"{PACKAGE}.{name}" if name in ALLOWED_IMPORTS else PACKAGE


def _referenced_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that the code speaks of: as an attribute, on its own, or as the text that getattr takes."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
                yield name, node.lineno


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
