"""Names are the field's words (docs/glossary.md): no bare participles or pronouns, unique classes, no twin modules."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "partita"

# Words that stand for a thing without naming it: participles, pronouns and their like. A name has the noun instead.
PARTICIPLES = frozenset(
    """
    begun bought brought built chosen conforming differing done drawn driven fallen felt fitting forgotten found frozen
    given gone held hidden kept known laid left lost made meant met overridden paid proven put rewritten said seen sent
    shown sold sought split spread stays stolen sworn taken thought thrown told torn tried understood unproven won worn
    written
    """.split()  # noqa: SIM905 - one a line otherwise
)
PRONOUNS = frozenset(
    """
    another anything at both by each either everything few here how it its likely many mine neither none nothing of one
    other others ours own places same something stuff such that theirs them there these they thing things this those
    what when whence which who
    """.split()  # noqa: SIM905 - one a line otherwise
)
# A word ending in -ed that is no participle.
NOUNS = frozenset({"embed", "feed", "need", "seed", "speed"})
FUNCTION_EXCEPTIONS = {
    "done": "the number of done partitions beside `total`",
    "of": "PartitionKey.of is public (ADR 36), and the constructors like it",
    "put": "the verb, as in HTTP",
    "skipped": "FilePlan.skipped is public (ADR 36)",
    "split": "the verb, as str.split",
}
# A name that holds a value may be one of these words, for the reason given.
VALUE_EXCEPTIONS = {
    "at": "Lake.record(at=) is public (ADR 36)",
    "expected": "what `actual` is compared with; and a public column of `lake.status` (ADR 36)",
    "left": "the first operand of a comparison, beside `right`",
    "other": "the second operand of __eq__ and its like, as in Python's data model",
    "skipped": "FilePlan.skipped is public (ADR 36)",
    "FIXED": "a type in Iceberg's specification",
    "OTHER": "the types that are none of the members, as in other enumerations",
    "UNBOUNDED": "an interval without bounds, as in Spark's window frames",
    "UNPARTITIONED": "a table or asset without partitions, as in Iceberg's specification",
    "ADDED": "the status of a manifest entry in Iceberg's specification",
    "DELETED": "the status of a manifest entry in Iceberg's specification",
    "CANCELLED": "the outcome of an attempt in the status spec",
    "FAILED": "the outcome of an attempt in the status spec",
    "SUCCEEDED": "the outcome of an attempt in the status spec",
}
# Exceptions in one module: public names, and words of a protocol or of a file.
MODULE_EXCEPTIONS = {
    "assets/planner.py": {"blocked": "the rows of RunPlan.blocked"},
    "assets/progress.py": dict.fromkeys(
        ("cancelled", "failed", "left", "succeeded"), "the public counts of RunResult, as in `partita run --json`"
    ),
    "assets/run_plan.py": {"blocked": "RunPlan.blocked is public"},
    "assets/selection.py": {"failed": "Lake.plan(failed=) is public (ADR 36)"},
    "errors.py": dict.fromkeys(("expected", "found", "known"), "public fields of errors"),
    "lake/runs.py": {"failed": "Lake.plan(failed=) is public (ADR 36)"},
    "status/events.py": dict.fromkeys(
        ("DEFINED", "REMOVED", "RETIRED", "STARTED", "WIPED"), "the kinds of events, as the ledger stores them"
    ),
    "status/states.py": {"MATERIALIZED": "a display status of the status spec"},
    "storage/arrow_files.py": {
        "closed": "pyarrow reads it, as that of any Python file",
        "whence": "the parameter of `seek`, as that of any Python file",
    },
}
# How the name of a function that returns a bool begins: with a predicate, or with the verb of an action that returns
# whether it was done or what it found.
PREDICATES = frozenset({"can", "has", "is", "may", "must", "needs", "should", "was"})
ACTIONS = frozenset(
    "accept acquire begin commit create end parse put renew settle submit try wait write".split()  # noqa: SIM905
)
PREDICATE_EXCEPTIONS = {
    "exists": "a path in a storage, as pathlib's `exists`",
    "ok": "RunResult.ok is public (ADR 36)",
    "readable": "pyarrow calls it, as that of any Python file",
    "seekable": "pyarrow calls it, as that of any Python file",
    "supports": "takes an operation as its object: `format.supports(Operation.MERGE)`",
    "writable": "pyarrow calls it, as that of any Python file",
}
# An exception of two operands holds only where the second is bound in the same module.
OPERANDS = {"expected": "actual", "left": "right"}


@cache
def syntax_trees() -> dict[str, ast.Module]:
    """Every module of the package, by its path in it: parsed by the first test that asks, not by every collection."""
    return {path.relative_to(SRC).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(SRC.rglob("*.py"))}


def is_bare(name: str) -> bool:
    """Whether a name is a participle or a pronoun alone."""
    word = name.strip("_").lower()
    return word in PARTICIPLES | PRONOUNS or (word.endswith("ed") and "_" not in word and word not in NOUNS)


def values(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the name of everything that a module binds to a value: no functions, classes or modules."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):  # assignments, loops, comprehensions, `with`, annotated fields
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self")):
                yield node.lineno, name
            case ast.arg(arg=name):  # parameters of functions and of lambdas
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.MatchMapping(rest=str(name)):
                yield node.lineno, name
            case _:
                pass


def value_errors(module: str, tree: ast.Module) -> list[tuple[int, str]]:
    bindings = list(values(tree))
    names = {name for _, name in bindings}
    return [
        (line, name)
        for line, name in bindings
        if is_bare(name)
        and name not in MODULE_EXCEPTIONS.get(module, ())
        and not (name in VALUE_EXCEPTIONS and OPERANDS.get(name, name) in names)
    ]


def functions(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_function_has_a_bare_name() -> None:
    named = [
        f"{module}: {name}" for module, tree in syntax_trees().items() for name in functions(tree) if is_bare(name)
    ]
    assert not [line for line in named if line.rpartition(" ")[2].strip("_") not in FUNCTION_EXCEPTIONS]


def test_every_function_exception_is_used() -> None:
    used = {name.strip("_") for tree in syntax_trees().values() for name in functions(tree) if is_bare(name)}
    assert used == set(FUNCTION_EXCEPTIONS)


def misnamed_predicates(tree: ast.Module) -> Iterator[str]:
    """The functions that return a bool, and whose names begin with neither a predicate nor an action."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name, returns=ast.Name(id="bool"))
                | ast.AsyncFunctionDef(name=name, returns=ast.Name(id="bool"))
            ):
                is_dunder = name.startswith("__") and name.endswith("__")
                if not is_dunder and name.strip("_").partition("_")[0] not in PREDICATES | ACTIONS:
                    yield name


def test_functions_that_return_a_bool_are_named_as_predicates() -> None:
    misnamed = [f"{module}: {name}" for module, tree in syntax_trees().items() for name in misnamed_predicates(tree)]
    assert not [line for line in misnamed if line.rpartition(" ")[2] not in PREDICATE_EXCEPTIONS]
    assert {line.rpartition(" ")[2] for line in misnamed} == set(PREDICATE_EXCEPTIONS), "an exception is not used"


def test_a_misnamed_predicate_is_found() -> None:
    source = """
def stays_matched() -> bool: ...
async def _valid() -> bool: ...
def is_valid() -> bool: ...
def try_commit() -> bool: ...
def __eq__(self, other) -> bool: ...
def valid() -> str: ...
"""
    assert list(misnamed_predicates(ast.parse(source))) == ["stays_matched", "_valid"]


def test_no_value_has_a_bare_name() -> None:
    errors = [
        f"src/partita/{module}:{line}: {name}"
        for module, tree in syntax_trees().items()
        for line, name in value_errors(module, tree)
    ]
    assert not errors, "name these by what they hold:\n" + "\n".join(errors)


def test_every_value_exception_is_used() -> None:
    used = {name for tree in syntax_trees().values() for _, name in values(tree) if is_bare(name)}
    assert set(VALUE_EXCEPTIONS) <= used


def test_every_form_of_binding_is_found() -> None:
    source = """
found = 1
for found in (): pass
[0 for found in ()]
(found := 1)
with open("") as found: pass
def function(found, /, *, kept=1, **held): pass
lambda found: 0
class Value:
    found: int
    def __init__(self): self.kept = 1
try: pass
except Exception as found: pass
match 0:
    case [found, *kept]: pass
    case {0: 0, **held}: pass
function(kept=1).kept
"""
    names = [name for _, name in sorted(value_errors("", ast.parse(source)))]
    lines = [line for line, _ in value_errors("", ast.parse(source))]
    assert sorted(set(lines)) == [2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 15, 16]
    assert [names.count(name) for name in ("found", "kept", "held")] == [10, 3, 2]


def test_an_operand_needs_its_neighbour() -> None:
    assert [name for _, name in value_errors("", ast.parse("left = 1"))] == ["left"]
    assert not value_errors("", ast.parse("left, right = 1, 2"))


def test_a_class_name_stands_once_in_the_package() -> None:
    modules = defaultdict(list)
    for module, tree in syntax_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module)
    assert not {name: where for name, where in modules.items() if len(where) > 1}


def test_no_two_modules_of_a_folder_are_twins() -> None:
    folders = defaultdict(set)
    for module in syntax_trees():
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
        ("proven", True),
        ("resolved", True),
        ("change_feed", False),
        ("feed", False),
        ("is_needed", False),
    ],
)
def test_bare_names(name: str, expected: bool) -> None:
    assert is_bare(name) is expected
