"""The fingerprint of a function: a short hash of its code and of everything that it closes over.

It changes when the function's code changes, or a value that the code names: constants, other functions and classes of
the same project, recursively. Comments, docstrings, formatting and the asset's own decorator don't count. Libraries are
not described, nor are objects that are neither plain data nor code.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import inspect
import re
import sys
import sysconfig
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import sha256
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

_HEX_DIGITS = 16
_PLAIN_TYPES = (str, bytes, int, float, complex, bool, type(None), Decimal, Fraction, date, datetime, time, timedelta,
          timezone, ZoneInfo, UUID, PurePath, range, type(Ellipsis), re.Pattern)  # fmt: skip


def fingerprint(value: Any) -> str:
    """Return the fingerprint of a function or a value; it is the same in every process with the same code."""
    description = "\n".join(_ValueDescriber().describe(value))
    return f"code-{sha256(description.encode('utf-8', 'surrogatepass')).hexdigest()[:_HEX_DIGITS]}"


class _ValueDescriber:
    """Describes values as lines of text, each function and class once.

    The lines are hashed into code versions: another wording would make every asset stale.
    """

    def __init__(self) -> None:
        self._numbers_by_id: dict[int, int] = {}
        self._described_values: list[Any] = []

    def describe(self, value: Any) -> Iterator[str]:
        if isinstance(value, _PLAIN_TYPES) and not isinstance(value, Enum):
            yield f"{type(value).__name__} {_plain_text(value)}"
            return
        if id(value) in self._numbers_by_id:
            yield f"as {self._numbers_by_id[id(value)]}"
            return
        self._numbers_by_id[id(value)] = len(self._numbers_by_id)
        self._described_values.append(value)
        yield from self._describe_new(value)

    def _describe_new(self, value: Any) -> Iterator[str]:
        from partita.assets.asset import Asset

        if isinstance(value, Asset):
            # Its own code version stands for its code, and the place of a definition is no part of what it means.
            yield f"{'source' if value.is_source else 'asset'} {value.name}"
        elif isinstance(value, Mapping):
            yield f"{type(value).__name__} of {len(value)}"
            for key, item in sorted(value.items(), key=lambda pair: repr(pair[0])):
                yield from self.describe(key)
                yield from self.describe(item)
        elif isinstance(value, list | tuple | deque):
            yield f"{type(value).__name__} of {len(value)}"
            for item in value:
                yield from self.describe(item)
        elif isinstance(value, set | frozenset):
            yield f"{type(value).__name__} {sorted(fingerprint(item) for item in value)}"
        elif isinstance(value, Enum):
            yield f"enum {_qualified_name(value)}.{value.name} {value.value!r}"
        elif isinstance(value, FunctionType):
            yield from self._describe_function(value)
        elif isinstance(value, type):
            yield from self._describe_class(value)
        elif inspect.ismethod(value):
            yield from self.describe(value.__func__)
        elif hasattr(value, "func") and hasattr(value, "keywords"):
            yield "partial"
            for part in (value.func, value.args, value.keywords):
                yield from self.describe(part)
        elif isinstance(value, ModuleType | BuiltinFunctionType):
            yield f"{type(value).__name__} {getattr(value, '__name__', '')}"
        else:
            yield "one of"
            yield from self.describe(type(value))
            fields = getattr(type(value), "__dataclass_fields__", {})
            for name in fields:
                yield from self.describe(getattr(value, name, None))

    def _describe_function(self, function: FunctionType) -> Iterator[str]:
        if not _is_project_module(function.__module__):
            yield f"function {function.__module__}.{function.__qualname__}"
            return
        yield _normalized_source(function) or _code_text(function.__code__)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield from self.describe(default)
        names = sorted(_names_in_code(function.__code__))
        for module, imported_names in _project_imports(function.__code__):
            yield from self._describe_global(module, [*names, *imported_names])
        closure = inspect.getclosurevars(function).nonlocals
        for name in names:
            if name in closure:
                yield f"{name}:"
                yield from self.describe(closure[name])
            elif name in function.__globals__:
                yield f"{name}:"
                yield from self._describe_global(function.__globals__[name], names)

    def _describe_global(self, value: Any, names: list[str]) -> Iterator[str]:
        """Describe a global that a function names; of a module of the project, only what the function may use of it."""
        if not isinstance(value, ModuleType) or not _is_project_module(value.__name__):
            yield from self.describe(value)
            return
        yield f"module {value.__name__}"
        if id(value) in self._numbers_by_id:
            return
        self._numbers_by_id[id(value)] = len(self._numbers_by_id)
        self._described_values.append(value)
        for name in names:
            if name in vars(value):
                yield f"{name}:"
                yield from self._describe_global(vars(value)[name], names)
        # Another function may use other names of the same module.
        del self._numbers_by_id[id(value)]

    def _describe_class(self, class_: type) -> Iterator[str]:
        yield f"class {_qualified_name(class_)}"
        if not _is_project_module(class_.__module__):
            return
        for base in class_.__bases__:
            yield from self.describe(base)
        for name, member in sorted(vars(class_).items()):
            attribute = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            attribute = attribute.fget if isinstance(attribute, property) else attribute
            is_plain = not name.startswith("__") and isinstance(attribute, _PLAIN_TYPES)
            if is_plain or isinstance(attribute, FunctionType):
                yield f"{name}:"
                yield from self.describe(attribute)


def _plain_text(value: Any) -> str:
    """Return a plain value as text; the `repr` of a pattern would stop after 200 characters."""
    return f"{value.pattern!r} {value.flags}" if isinstance(value, re.Pattern) else repr(value)


def _qualified_name(class_: Any) -> str:
    """Return the name of a class with its module; of Partita's own, only the package, as modules of it may move."""
    module = getattr(class_, "__module__", "?")
    package = "partita" if module.startswith("partita.") else module
    return f"{package}.{getattr(class_, '__qualname__', type(class_).__qualname__)}"


def _names_in_code(code: CodeType) -> set[str]:
    """Return every name that code uses, in nested functions too."""
    inner_codes = (const for const in code.co_consts if isinstance(const, CodeType))
    return {
        *code.co_names,
        *code.co_freevars,
        *(name for inner_code in inner_codes for name in _names_in_code(inner_code)),
    }


def _project_imports(code: CodeType) -> Iterator[tuple[ModuleType, list[str]]]:
    """Yield the modules of the project that code imports inside of a function, with the names imported from each."""
    instructions = list(dis.get_instructions(code))
    for index, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME" and _is_project_module(str(instruction.argval)):
            imported_names = []
            for later in instructions[index + 1 :]:
                if later.opname == "IMPORT_NAME":
                    break
                if later.opname == "IMPORT_FROM":
                    imported_names.append(str(later.argval))
            with suppress(Exception):
                yield importlib.import_module(str(instruction.argval)), imported_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _project_imports(const)


def _normalized_source(function: FunctionType) -> str | None:
    """Return a function's source without comments, docstrings and decorators; None for a lambda or without source."""
    if function.__name__ == "<lambda>":
        return None
    with suppress(OSError, TypeError, SyntaxError):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        (definition,) = tree.body
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
            definition.decorator_list = []
            return ast.unparse(_DocstringRemover().visit(definition))
    return None


class _DocstringRemover(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_documented = ast.get_docstring(node) is not None
            node.body = (node.body[1:] or [ast.Pass()]) if is_documented else node.body
        return node


def _code_text(code: CodeType) -> str:
    """Return compiled code as text, without file and line numbers."""
    consts = [_code_text(const) if isinstance(const, CodeType) else _constant_text(const) for const in code.co_consts]
    return f"{code.co_code.hex()} {consts} {code.co_names} {code.co_varnames}"


def _constant_text(const: object) -> str:
    """Return a constant of code as text; the order of a set differs between processes."""
    return f"set {sorted(map(repr, const))}" if isinstance(const, frozenset) else repr(const)


def _is_project_module(module: str | None) -> bool:
    """Return whether a module is the user's own: not of Python, not installed, not of Partita."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "partita":
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None and module not in sys.modules:
        with suppress(ImportError, ValueError, AttributeError):
            file = getattr(importlib.util.find_spec(top), "origin", None)
    return file is None or is_user_file(file)


def is_user_file(file: str) -> bool:
    """Return whether a file is the user's own: not of Python, not installed, not of Partita."""
    return not any(Path(file).is_relative_to(folder) for folder in _INSTALLED_FOLDERS)


_INSTALLED_FOLDERS = (
    *{sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sysconfig.get_path("stdlib")},
    str(Path(__file__).parents[1]),
)
