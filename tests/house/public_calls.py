"""The public calls of Partita, found by walking its face: functions, and methods and properties of its classes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType

import partita as pt
from partita.errors import PartitaError, value_repr
from tests.house.sample_lake import ROWS

PUBLIC_MODULES = (
    "partita",
    "partita.arrow",
    "partita.formats.delta",
    "partita.formats.parquet",
    "partita.spark",
    "partita.status",
)
KEY = pt.PartitionKey.of(region="eu")
SCHEMA = pt.Schema.of({"id": "long", "region": "string", "ts": "timestamp"})
SPEC = pt.parse_spec("region", SCHEMA, family="iceberg")

DISPLAY_COLUMNS = ("last_materialization_at", "last_attempt_outcome", "last_attempt_at", "stale_since")
VALID_ARGUMENTS: Mapping[str, Any] = {
    "after": None, "asset": "daily", "asset_id": "daily", "attempts": 1, "cause": None, "column": "id",
    "condition": "s.id > 1", "dimension": "region", "family": "iceberg", "field": pa.field("x", pa.int64()), "first": 0,
    "folder": ".", "format": "delta", "function": lambda key: [key], "key": KEY, "module": "nowhere.py", "name": "x",
    "num_buckets": 4, "other": SPEC, "outcome": "succeeded", "partitions": pa.table({"region": ["eu"]}), "rows": ROWS,
    "schedule": "0 6 * * *", "schema": SCHEMA, "select": (), "source": "region", "spec": SPEC, "spec_id": 0,
    "start": "2025-01-01", "text": "region=s:ZXU", "texts": pa.array(["region=s:ZXU"]), "time_zone": "UTC",
    "transaction": ("app", 1), "uri": "nowhere", "value": 5, "values": {"region": "eu"}, "where": "id = 1",
    "width": 4, "path": "nowhere.jsonl", "columns": {"id": "long"}, "table": ROWS, "array": pa.array([1, 2]),
    "on": "t.id = s.id", "clauses": pt.when_matched().delete(), "set": {"id": "2"},
    "partition": dict.fromkeys(DISPLAY_COLUMNS),
    "f": pt.bucket("id", 4), "events": ROWS, "functions": ["region"], "lower": 1, "upper": 2, "prefix": "e",
    "assets": (), "file": "nowhere/status.parquet", "status_reader": None, "plan": None, "vector": [1.0, 2.0],
    "df": None, "dimensions": ["id"], "data_type": LongType(),
}  # fmt: skip
"""A right value for every parameter that has no default, by its name. A new parameter is a line here."""

INVALID_ARGUMENTS: tuple[Any, ...] = (
    None, 5, -1, 2**70, 10**5000, 1.5, float("nan"), "", "\ud800", "a\0b", "x" * 5000, "%", b"", b"\xff", object(),
    [], {}, (), [None], {None: None}, {"region": object()}, {"region": 10**5000}, [5], [10**5000], ["\ud800"], True,
    datetime(1, 1, 1), timedelta.max, datetime(9999, 12, 31, tzinfo=UTC), pa.table({"x": [1]}), int,  # noqa: DTZ001
)  # fmt: skip
"""What a parameter may be given by mistake."""
FEW_INVALID_ARGUMENTS: tuple[Any, ...] = ("\ud800", object())
"""Some of it, where a call that takes it takes long."""


ANY_NAME = "any"
"""The name of an argument of a call that takes any, such as a dimension of `key_column`."""
FORWARDED_KEYWORDS = frozenset({"options", "query", "question", "details", "fields"})
"""`**` parameters that take certain names only; another one is a `TypeError` of Python's."""


@dataclass(frozen=True)
class PublicCall:
    """A public call: what it is called, the parameters that it has, and how it is made with arguments by name."""

    name: str
    parameters: tuple[inspect.Parameter, ...]
    function: Callable[..., Any]

    def make(self, **changed: Any) -> object:
        """Call with right arguments, but for those that are given; what comes back is used as its caller would."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        has_rest = any(one.kind is one.VAR_POSITIONAL for one in self.parameters)
        for one in self.parameters:
            if one.kind is one.VAR_KEYWORD:
                named |= {name: changed[name] for name in changed.keys() & {ANY_NAME}}
                continue
            if one.name in changed:
                value = changed[one.name]
            elif one.default is not one.empty:
                continue
            else:
                value = VALID_ARGUMENTS[one.name]
            if one.kind in {one.POSITIONAL_ONLY, one.VAR_POSITIONAL} or (has_rest and one.kind is not one.KEYWORD_ONLY):
                positional.append(value)
            else:
                named[one.name] = value
        return use_result(self.function(*positional, **named))


def use_result(result: object) -> object:
    """What a caller does with a result: read it, show it, enter it, decorate with it."""
    if isinstance(result, AbstractContextManager):
        with result:
            return result
    if inspect.isfunction(result):
        return result(_asset_function)
    for lazy in ("reasons", "files", "skipped"):
        getattr(result, lazy, None)
    return result if isinstance(result, pa.Table | pa.Array) else (str(result), repr(result))


def _asset_function(ctx: object) -> object:
    """A function that an asset could be made of."""
    return ctx


def check(doing: str, function: Callable[[], object]) -> None:
    """Make a call, which may succeed or raise a `PartitaError` with a text."""
    try:
        function()
    except PartitaError as error:
        if not str(error):
            raise AssertionError(f"{doing} raised a {type(error).__name__} without a text") from error
    except (Exception, SystemExit) as error:
        raise AssertionError(f"{doing} raised a {type(error).__name__}: {error}") from error


def try_wrong_arguments(call: PublicCall, wrongs: tuple[object, ...] = INVALID_ARGUMENTS) -> None:
    """Give each parameter each wrong value, with right ones for the others; `**` gets it by one name."""
    check(f"{call.name}()", call.make)
    for parameter in call.parameters:
        name = ANY_NAME if parameter.kind is parameter.VAR_KEYWORD else parameter.name
        for wrong in () if name == ANY_NAME and parameter.name in FORWARDED_KEYWORDS else wrongs:
            check(f"{call.name}({name}={value_repr(wrong)[:60]})", partial(call.make, **{name: wrong}))


def public_functions() -> Iterator[PublicCall]:
    """The functions and classes that the rooms export; errors and what Python's `Enum` makes are left out."""
    for room in PUBLIC_MODULES:
        module = importlib.import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            is_class = inspect.isclass(thing)
            if callable(thing) and not (is_class and issubclass(thing, Enum | BaseException)):
                if is_class and not _is_made_by_callers(thing):
                    continue
                yield PublicCall(f"{room}.{name}", _parameters(thing), thing)


def _is_made_by_callers(thing: type) -> bool:
    """Whether a class checks what it is made of; the others are values that Partita makes."""
    return thing is pt.Lake or thing is pt.PartitionKey


def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


def public_methods(*things: object) -> Iterator[PublicCall]:
    """The public methods and properties of objects, and those of their classes."""
    for thing in things:
        kind = type(thing)
        for name in dir(kind):
            # What a class inherits from Python's own, such as `Mapping.get`, is Python's.
            home = next(base for base in kind.__mro__ if name in vars(base))
            if name.startswith("_") or not home.__module__.startswith("partita"):
                continue
            static = inspect.getattr_static(kind, name)
            label = f"{kind.__name__}.{name}"
            if isinstance(static, property) or not callable(getattr(kind, name, None)):
                yield PublicCall(label, (), _getter(thing, name))
            else:
                bound = getattr(thing, name)
                yield PublicCall(label, _parameters(bound), bound)


def _getter(thing: object, name: str) -> Callable[[], Any]:
    return lambda: getattr(thing, name)


def public_values() -> tuple[object, ...]:
    """An object of each public class that Partita makes without a lake."""
    history = pt.SpecHistory.from_spec(SPEC, SCHEMA)
    predicate = pt.col("id") > 1
    partitions = pt.daily("date", start="2025-01-01") * pt.static("region", ["eu"])

    @pt.asset(partitions=pt.static("region", ["eu"]))
    def daily(ctx: object) -> object:
        return ctx

    return (
        KEY, SCHEMA, SPEC, SPEC.fields[0], history, pt.bucket("id", 4), predicate, pt.col("id"), partitions, daily,
        pt.Pipeline.of([daily]), pt.when_matched(), pt.when_not_matched(), pt.ColumnStatistics(),
    )  # fmt: skip


def saved_plan(lake: pt.Lake, folder: Path) -> pt.RunPlan:
    """A plan of the lake, as a file gives it back."""
    lake.plan(observe=False).save(str(folder / "p.jsonl"))
    return pt.load_plan(str(folder / "p.jsonl"))
