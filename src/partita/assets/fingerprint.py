"""The fingerprint of a function: what it does, and what it closes over, as a short text.

It changes when the function's code changes, or a value that the code names: constants, other functions and classes of
the same project, all the way down. Comments, docstrings, formatting and the asset's own decorator don't count. What
libraries do is not looked into, nor is what an object holds that is neither plain data nor code.
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

_DIGITS = 16
_PLAIN = (str, bytes, int, float, complex, bool, type(None), Decimal, Fraction, date, datetime, time, timedelta,
          timezone, ZoneInfo, UUID, PurePath, range, type(Ellipsis), re.Pattern)  # fmt: skip


def fingerprint(function: Any) -> str:
    """The fingerprint of a function, or of a value; the same in every process that has the same code."""
    told = "\n".join(_Telling().of(function))
    return f"code-{sha256(told.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


class _Telling:
    """Tells of values, line by line, and of each function and class once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []

    def of(self, value: Any) -> Iterator[str]:
        if isinstance(value, _PLAIN) and not isinstance(value, Enum):
            yield f"{type(value).__name__} {_plain_text(value)}"
            return
        if id(value) in self._known:
            yield f"as {self._known[id(value)]}"
            return
        self._known[id(value)] = len(self._known)
        self._kept.append(value)
        yield from self._of_new(value)

    def _of_new(self, value: Any) -> Iterator[str]:
        wrapped = getattr(value, "function", None)
        if callable(wrapped) and hasattr(value, "definition"):
            yield f"asset {value.name}"
        elif isinstance(value, Mapping):
            yield f"{type(value).__name__} of {len(value)}"
            for key, held in sorted(value.items(), key=lambda item: repr(item[0])):
                yield from self.of(key)
                yield from self.of(held)
        elif isinstance(value, list | tuple | deque):
            yield f"{type(value).__name__} of {len(value)}"
            for held in value:
                yield from self.of(held)
        elif isinstance(value, set | frozenset):
            yield f"{type(value).__name__} {sorted(fingerprint(held) for held in value)}"
        elif isinstance(value, Enum):
            yield f"enum {_name(value)}.{value.name} {value.value!r}"
        elif isinstance(value, FunctionType):
            yield from self._of_function(value)
        elif isinstance(value, type):
            yield from self._of_class(value)
        elif inspect.ismethod(value):
            yield from self.of(value.__func__)
        elif hasattr(value, "func") and hasattr(value, "keywords"):
            yield "partial"
            for part in (value.func, value.args, value.keywords):
                yield from self.of(part)
        elif isinstance(value, ModuleType | BuiltinFunctionType):
            yield f"{type(value).__name__} {getattr(value, '__name__', '')}"
        else:
            yield "one of"
            yield from self.of(type(value))
            fields = getattr(type(value), "__dataclass_fields__", {})
            for name in fields:
                yield from self.of(getattr(value, name, None))

    def _of_function(self, function: FunctionType) -> Iterator[str]:
        if not _is_of_project(function.__module__):
            yield f"function {function.__module__}.{function.__qualname__}"
            return
        yield _source(function) or _code(function.__code__)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield from self.of(default)
        names = sorted(_names(function.__code__))
        for module, taken in _imports(function.__code__):
            yield from self._of_global(module, [*names, *taken])
        closed = inspect.getclosurevars(function).nonlocals
        for name in names:
            if name in closed:
                yield f"{name}:"
                yield from self.of(closed[name])
            elif name in function.__globals__:
                yield f"{name}:"
                yield from self._of_global(function.__globals__[name], names)

    def _of_global(self, value: Any, names: list[str]) -> Iterator[str]:
        """A value that a function names; of a module of the project, what the function may take from it."""
        if not isinstance(value, ModuleType) or not _is_of_project(value.__name__):
            yield from self.of(value)
            return
        yield f"module {value.__name__}"
        if id(value) in self._known:
            return
        self._known[id(value)] = len(self._known)
        self._kept.append(value)
        for name in names:
            if name in vars(value):
                yield f"{name}:"
                yield from self._of_global(vars(value)[name], names)
        # Another function may take other things from the same module.
        del self._known[id(value)]

    def _of_class(self, class_: type) -> Iterator[str]:
        yield f"class {_name(class_)}"
        if not _is_of_project(class_.__module__):
            return
        for base in class_.__bases__:
            yield from self.of(base)
        for name, held in sorted(vars(class_).items()):
            if isinstance(held, staticmethod | classmethod):
                held = held.__func__  # noqa: PLW2901 - the same, unwrapped
            if isinstance(held, property):
                held = held.fget  # noqa: PLW2901 - the same
            if isinstance(held, FunctionType) or (not name.startswith("__") and isinstance(held, _PLAIN)):
                yield f"{name}:"
                yield from self.of(held)


def _plain_text(value: Any) -> str:
    """A plain value as text; of a pattern all of it, where `repr` has the first 200 characters."""
    return f"{value.pattern!r} {value.flags}" if isinstance(value, re.Pattern) else repr(value)


def _name(class_: Any) -> str:
    return f"{getattr(class_, '__module__', '?')}.{getattr(class_, '__qualname__', type(class_).__qualname__)}"


def _names(code: CodeType) -> set[str]:
    """Every name that code speaks of, in functions inside of it too."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return {*code.co_names, *code.co_freevars, *(name for each in inner for name in _names(each))}


def _imports(code: CodeType) -> Iterator[tuple[ModuleType, list[str]]]:
    """The modules of the project that code imports as it runs, and what it takes from them."""
    steps = list(dis.get_instructions(code))
    for at, step in enumerate(steps):
        if step.opname == "IMPORT_NAME" and _is_of_project(str(step.argval)):
            taken = []
            for later in steps[at + 1 :]:
                if later.opname == "IMPORT_NAME":
                    break
                taken += [str(later.argval)] if later.opname == "IMPORT_FROM" else []
            with suppress(Exception):
                yield importlib.import_module(str(step.argval)), taken
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _imports(const)


def _source(function: FunctionType) -> str | None:
    """The function's own text in one form; None where it has no text, or not one of its own, as a lambda."""
    if function.__name__ == "<lambda>":
        return None
    with suppress(OSError, TypeError, SyntaxError):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        (definition,) = tree.body
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
            definition.decorator_list = []
            return ast.unparse(_WithoutDocstrings().visit(definition))
    return None


class _WithoutDocstrings(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_documented = ast.get_docstring(node) is not None
            node.body = (node.body[1:] or [ast.Pass()]) if is_documented else node.body
        return node


def _code(code: CodeType) -> str:
    """What compiled code is, without where it stands."""
    consts = [_code(const) if isinstance(const, CodeType) else _const(const) for const in code.co_consts]
    return f"{code.co_code.hex()} {consts} {code.co_names} {code.co_varnames}"


def _const(const: object) -> str:
    """A constant of code; the order in a set is of the process."""
    return f"set {sorted(map(repr, const))}" if isinstance(const, frozenset) else repr(const)


def _is_of_project(module: str | None) -> bool:
    """Whether a module is the user's own: neither Python's, nor installed, nor Partita's."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "partita":
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None and module not in sys.modules:
        with suppress(ImportError, ValueError, AttributeError):
            file = getattr(importlib.util.find_spec(top), "origin", None)
    return file is None or is_of_user(file)


def is_of_user(file: str) -> bool:
    """Whether a file is the user's own: neither Python's, nor installed, nor Partita's."""
    return not any(Path(file).is_relative_to(folder) for folder in _INSTALLED)


_INSTALLED = (
    *{sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sysconfig.get_path("stdlib")},
    str(Path(__file__).parents[1]),
)
