"""Every error that Partita raises on purpose.

```text
PartitaError
├── KeyFormatError        a text is not the canonical text of a partition key
├── KeyValueError         a name or a value that no partition key can hold
├── SchemaError           a schema, or a type in it, that can't be used
│   └── UnknownColumn     a name that the schema doesn't have, or has twice
├── SpecError             a partition spec that can't be made
│   ├── SpecFormatError   a text or a JSON document that doesn't say a spec
│   ├── TransformError    a function that can't be applied to that type
│   └── UnknownSpec       an id that the history of specs doesn't know
├── PredicateError        a predicate that can't be read
├── TimeZoneError         a name that no time zone has
├── PartitionsError       partitions or statistics that don't fit their spec
├── PartitionValueError   a partition value that a table's format can't hold, or a text that says none
├── StorageError          a file or an object that can't be read or written
├── TableError            a table that can't be used as asked
│   ├── TableMissing      there is no table of that format there
│   ├── TableExists       there is one already
│   ├── UnsupportedFeature  the table needs what Partita doesn't have
│   └── ConstraintError   rows that the table's own rules refuse
│       └── OutsidePartitions  rows outside of the partitions that they were to replace
├── ProjectError          a project's file that can't be read, or lacks what is asked for
├── DefinitionError       an asset's definition that can't be made or read
├── StatusError           events or a question about status that can't be taken as given
│   └── UnknownAsset      nothing was recorded or registered under that name
├── PlanError             a plan that can't be made, read or run as asked
│   ├── WorldMoved        what the plan was made from is not so any more
│   └── Held              another run is at work on the same partitions
├── Conflict              another writer was first, and what it did matters here
└── JavaMissing           Spark was asked for, and there is no Java to run it
```

Each carries what it is about as fields, and its text says what to do next. Errors about bad values are `ValueError`s
too, so that callers who don't know Partita can catch them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

MAX_BITS = 3300
"""Bits of the largest integer that a message shows, of about 1,000 digits."""


def value_repr(value: object, most: int = 200) -> str:
    """A value in a message, cut; a deep table and an integer of thousands of digits have no `repr`."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"an integer of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= most else f"{text[:most]}…"


class PartitaError(Exception):
    """The root of all errors of Partita."""


class KeyFormatError(PartitaError, ValueError):
    """A text that is not the canonical text of a partition key.

    `position` counts characters from 0 and points at the first one that can't stand where it does.
    """

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(f"not a canonical partition key, at position {position}: {reason}\n{caret(text, position)}")
        self.text = text
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, int, str]]:
        return type(self), (self.text, self.position, self.reason)


class KeyValueError(PartitaError, ValueError):
    """A dimension's name or value that no partition key can hold."""

    def __init__(self, name: object, reason: str) -> None:
        super().__init__(f"partition key dimension {value_repr(name)}: {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[object, str]]:
        return type(self), (self.name, self.reason)


class SchemaError(PartitaError, ValueError):
    """A schema, or a type in it, that can't be used."""


class UnknownColumn(SchemaError):
    """A column that the schema doesn't have, or has more than once when case is put aside."""

    def __init__(self, name: str, known: tuple[str, ...], reason: str = "is not in the schema") -> None:
        columns = ", ".join(known) or "none"
        super().__init__(f"column {name!r} {reason}; the columns are: {columns}")
        self.name = name
        self.known = known
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[str, ...], str]]:
        return type(self), (self.name, self.known, self.reason)


class SpecError(PartitaError, ValueError):
    """A partition spec that can't be made."""


class SpecFormatError(SpecError):
    """A text or a JSON document that doesn't say a partition spec."""


class TransformError(SpecError):
    """A partition function that can't be applied to a column of that type."""

    def __init__(self, function: str, column: str | None, data_type: str, reason: str) -> None:
        where = f"column {column!r} of type {data_type}" if column is not None else f"type {data_type}"
        super().__init__(f"{function} can't partition {where}: {reason}")
        self.function = function
        self.column = column
        self.data_type = data_type
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, str, str]]:
        return type(self), (self.function, self.column, self.data_type, self.reason)


class UnknownSpec(SpecError):
    """A spec id that the table's history doesn't know."""

    def __init__(self, spec_id: int, known: tuple[int, ...]) -> None:
        super().__init__(
            f"unknown partition spec {value_repr(spec_id)}; the table knows {', '.join(map(str, known)) or 'none'}"
        )
        self.spec_id = spec_id
        self.known = known

    def __reduce__(self) -> tuple[type[Self], tuple[int, tuple[int, ...]]]:
        return type(self), (self.spec_id, self.known)


class PredicateError(PartitaError, ValueError):
    """A predicate that can't be read: it does not parse, or names an unknown column.

    Where the predicate is text, `position` counts characters from 0 and the message puts a caret under the place.
    """

    def __init__(self, reason: str, text: str | None = None, position: int | None = None) -> None:
        place = f"\n{caret(text, position)}" if text is not None and position is not None else ""
        super().__init__(reason + place)
        self.reason = reason
        self.text = text
        self.position = position

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, int | None]]:
        return type(self), (self.reason, self.text, self.position)


class TimeZoneError(PartitaError, ValueError):
    """A name that no time zone has."""

    def __init__(self, name: object) -> None:
        super().__init__(f"no time zone {value_repr(name)}; use names such as UTC, Europe/Berlin or +05:30")
        self.name = name

    def __reduce__(self) -> tuple[type[Self], tuple[object]]:
        return type(self), (self.name,)


class PartitionsError(PartitaError, ValueError):
    """Partition values or statistics that don't fit the spec or the schema that they were given with."""


class PartitionValueError(PartitaError, ValueError):
    """A partition value that a table can't hold, by its column, what was expected there and what was found."""

    def __init__(self, column: str, expected: str, found: str) -> None:
        super().__init__(f"partition column {column!r}: expected {expected}, found {found}")
        self.column = column
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.column, self.expected, self.found)


class StorageError(PartitaError, OSError):
    """A file or an object that can't be read or written."""


class TableError(PartitaError):
    """A table that can't be used as asked."""


class TableMissing(TableError):
    """There is no table where one was looked for; `unless` is where else it could be."""

    def __init__(self, uri: str, unless: str = "") -> None:
        super().__init__(f"no table at {uri}; create_table makes one{unless and f', unless {unless}'}")
        self.uri = uri
        self.unless = unless

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.uri, self.unless)


class TableExists(TableError):
    """There is a table already where one was to be made."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"there is a table already at {uri}; open it, or choose another name")
        self.uri = uri

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.uri,)


class UnsupportedFeature(TableError):
    """The table asks of its readers or writers what Partita doesn't do."""

    def __init__(self, features: tuple[str, ...], doing: str) -> None:
        super().__init__(f"{doing} this table needs {', '.join(features)}, which Partita doesn't support")
        self.features = features
        self.doing = doing

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...], str]]:
        return type(self), (self.features, self.doing)


class ConstraintError(TableError, ValueError):
    """Rows that the table's own rules refuse: a null where none may be, a check that fails, a row matched twice."""


class OutsidePartitions(ConstraintError):
    """Rows that lie outside of the partitions that they were to replace; nothing was changed.

    `samples` are up to three of them, and `partitions` up to five that they lie in, by the values of the fields, each
    with its count of rows.
    """

    def __init__(
        self, samples: tuple[Mapping[str, object], ...], partitions: tuple[tuple[Mapping[str, object], int], ...]
    ) -> None:
        where = "; ".join(f"{_shown(values)} ({rows} row{'' if rows == 1 else 's'})" for values, rows in partitions)
        rows = "".join(f"\n  {_shown(row)}" for row in samples)
        super().__init__(
            f"rows lie outside of the partitions that they were to replace, in {where}; nothing was changed: leave "
            f"them out, or ask for their partitions too{f'. Some of them:{rows}' if rows else ''}"
        )
        self.samples = samples
        self.partitions = partitions

    def __reduce__(self) -> tuple[type[Self], tuple[object, object]]:
        return type(self), (self.samples, self.partitions)


class ProjectError(PartitaError, ValueError):
    """A project's `partita.toml` that can't be read, or lacks what is asked for; `key` is what it is about, if any."""

    def __init__(self, file: str, key: str | None, reason: str) -> None:
        super().__init__(f"{file}: {reason}" if key is None else f"{file}: {key} {reason}")
        self.file = file
        self.key = key
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, str]]:
        return type(self), (self.file, self.key, self.reason)


class DefinitionError(PartitaError, ValueError):
    """An asset's definition, or a part of it, that can't be made or read."""


class StatusError(PartitaError, ValueError):
    """An event that can't be recorded, or a question about status that can't be answered as asked."""


class UnknownAsset(StatusError):
    """An asset that was never registered and has no events."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no asset {name!r} in this workspace; there is: {', '.join(known) or 'none'}")
        self.name = name
        self.known = known

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[str, ...]]]:
        return type(self), (self.name, self.known)


class PlanError(PartitaError, ValueError):
    """A plan that can't be made, read or run as asked."""


class WorldMoved(PlanError):
    """What a stored plan was made from has changed: events were recorded, or definitions are others."""

    def __init__(self, assets: tuple[str, ...]) -> None:
        super().__init__(f"the plan is out of date: {', '.join(assets)} changed since it was made; make a new one")
        self.assets = assets

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...]]]:
        return type(self), (self.assets,)


class Held(PlanError):
    """Another run holds some of the partitions."""

    def __init__(self, run_id: str, holder: str, until: str, partitions: int) -> None:
        super().__init__(
            f"run {run_id} of {holder} is at work on {partitions:,} of these partitions, until {until} or longer; "
            "wait for it (--wait SECONDS), or choose others"
        )
        self.run_id = run_id
        self.holder = holder
        self.until = until
        self.partitions = partitions

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str, int]]:
        return type(self), (self.run_id, self.holder, self.until, self.partitions)


class Conflict(PartitaError):
    """Another writer was first, and what it changed is part of what this one read or replaces; nothing was written."""

    def __init__(self, operation: str, reason: str, version: int | None = None) -> None:
        place = "" if version is None else f" in version {version}"
        super().__init__(f"{operation}: another writer{place} {reason}; nothing was changed here, try again")
        self.operation = operation
        self.reason = reason
        self.version = version

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, int | None]]:
        return type(self), (self.operation, self.reason, self.version)


class JavaMissing(PartitaError, RuntimeError):
    """Spark was asked for, and no Java starts here."""

    def __init__(self) -> None:
        super().__init__(
            "Spark needs Java 17 or newer, and none starts here; install one, or set JAVA_HOME to its folder"
        )


def _shown(values: Mapping[str, object]) -> str:
    """Named values on one line."""
    return ", ".join(f"{name}={_printable(str(value))}" for name, value in values.items()) or "the table"


_WINDOW = 60


def caret(text: str, position: int) -> str:
    """Two lines: the text around `position` with what can't be printed escaped, and a caret under the place."""
    start = max(0, position - _WINDOW)
    stop = position + _WINDOW
    before = ("…" if start else "") + _printable(text[start:position])
    after = _printable(text[position:stop]) + ("…" if stop < len(text) else "")
    return f"  {before}{after}\n  {' ' * len(before)}^"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
