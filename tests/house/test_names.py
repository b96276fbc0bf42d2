"""Names are the field's words: no bare participles, no class name twice, no twin modules (docs/glossary.md)."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "partita"
MODULES = {path.relative_to(SRC).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(SRC.rglob("*.py"))}

# Words that stand for a thing without naming it. A function, property or variable has the noun instead.
IRREGULAR = frozenset(
    [
        "begun",
        "built",
        "chosen",
        "drawn",
        "found",
        "frozen",
        "given",
        "gone",
        "held",
        "hidden",
        "kept",
        "known",
        "left",
        "made",
        "meant",
        "met",
        "one",
        "own",
        "places",
        "said",
        "seen",
        "sent",
        "shown",
        "sought",
        "split",
        "spread",
        "taken",
        "told",
        "at",
        "thrown",
        "understood",
        "written",
    ]
)
# A word ending in -ed that is no participle.
NOUNS = frozenset({"embed", "feed", "need", "seed", "speed"})
EXCEPTIONS = {
    "skipped": "FilePlan.skipped is public (design.md)",
    "split": "the verb, as str.split",
}


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in IRREGULAR or (word.endswith("ed") and "_" not in word and word not in NOUNS)


def functions(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_function_is_called_by_a_bare_participle() -> None:
    named = [f"{module}: {name}" for module, tree in MODULES.items() for name in functions(tree) if is_participle(name)]
    assert not [line for line in named if line.rpartition(" ")[2].strip("_") not in EXCEPTIONS]


def test_every_exception_is_used() -> None:
    used = {name.strip("_") for tree in MODULES.values() for name in functions(tree) if is_participle(name)}
    assert used == set(EXCEPTIONS)


def test_a_class_name_stands_once_in_the_package() -> None:
    modules = defaultdict(list)
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module)
    assert not {name: where for name, where in modules.items() if len(where) > 1}


def test_no_two_modules_of_a_folder_are_twins() -> None:
    folders = defaultdict(set)
    for module in MODULES:
        folders[str(Path(module).parent)].add(Path(module).stem)
    twins = [
        f"{folder}: {name} and {other}"
        for folder, names in folders.items()
        for name in names
        for other in names
        if other in {f"{name}s", f"{name}ing", f"{name}{name[-1]}ing", f"{name.removesuffix('e')}ing"} and name != other
    ]
    assert not twins


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("told", True),
        ("_made", True),
        ("resolved", True),
        ("change_feed", False),
        ("feed", False),
        ("is_needed", False),
    ],
)
def test_what_counts_as_a_participle(name: str, expected: bool) -> None:
    assert is_participle(name) is expected
