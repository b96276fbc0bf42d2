"""Every error that Partita raises on purpose.

```text
PartitaError
├── KeyFormatError             a string is not the canonical text of a partition key
├── KeyValueError              a partition key can't hold a dimension's name or value
├── SchemaError                a schema, or a type in it, can't be used
│   └── UnknownColumn          the schema has no such column, or has it twice
├── SpecError                  a partition spec can't be built
│   ├── SpecFormatError        a string or a JSON document is not a partition spec
│   ├── TransformError         a partition function can't be applied to a type
│   └── UnknownSpec            the table's history has no spec of this id
├── PredicateError             a predicate can't be parsed, or names an unknown column
├── TimeZoneError              there is no time zone of this name
├── PartitionsError            partition values or statistics don't fit their spec
├── PartitionValueError        a table's format can't hold a partition value, or a string is none
├── StorageError               a file or an object can't be read or written
├── TableError                 a table can't be used as asked
│   ├── TableMissing           there is no table here
│   ├── TableExists            there is a table here already
│   ├── UnsupportedFeature     the table needs a feature that Partita doesn't support
│   ├── UnsupportedOperation   tables of this format can't do the operation
│   └── ConstraintError        rows violate a constraint of the table
│       └── RowsOutsidePartitions   rows are outside of the partitions that they were to replace
├── ProjectError               a project's file can't be read, or lacks a setting
├── DefinitionError            an asset's definition is invalid
├── StatusError                an event can't be recorded, or a question about status can't be answered
│   └── UnknownAsset           no asset of this name was registered or recorded
├── PlanError                  a plan can't be made, loaded or run
│   ├── PlanOutdated           the status that the plan was made from has changed
│   ├── PartitionsLeased       another run works on the same partitions
│   └── LedgerUnavailable      a run can't record its outcomes (`partita.assets.attempt_recording`)
├── CommitConflict             another writer committed first, and its change conflicts with this one
└── JavaMissing                Spark needs Java, and there is none
```

Each error has its facts as fields, and its message says what to do next. Errors about invalid values are `ValueError`s
too, so that callers can catch them without knowing Partita.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

MAX_INTEGER_BITS = 3300
"""The size of the largest integer that a message shows: about 1,000 digits."""
_MAX_TEXT_LENGTH = 200


def value_repr(value: object) -> str:
    """Return the `repr` of a value for a message, truncated.

    Deeply nested values and integers of thousands of digits have no `repr`; they are described instead.
    """
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return f"an integer of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[:_MAX_TEXT_LENGTH]}…"


def escape_unprintable(text: str) -> str:
    """Return a text with unprintable characters escaped, line ends too."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def escape_text(text: str, max_length: int = _MAX_TEXT_LENGTH) -> str:
    """Return a text with unprintable characters escaped, line ends too, cut to `max_length`.

    A terminal would obey control characters, and the text comes from files that others wrote.
    """
    line = escape_unprintable(text[: max_length + 1])
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


class PartitaError(Exception):
    """The base class of all errors of Partita.

    Public functions raise no other errors, whatever they are given and whatever state a lake is in. The exceptions are
    a call without a required argument, which is Python's `TypeError`, and what Spark raises while a DataFrame runs that
    `read` or `sql` returned.
    """


class KeyFormatError(PartitaError, ValueError):
    """A string is not the canonical text of a partition key.

    `text` is the string, `position` the 0-based index of its first invalid character, `reason` what is wrong there.
    """

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(
            f"not a canonical partition key, at position {position}: {reason}\n{caret_lines(text, position)}"
        )
        self.text = text
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, int, str]]:
        return type(self), (self.text, self.position, self.reason)


class KeyValueError(PartitaError, ValueError):
    """A partition key can't hold a dimension's name or value: `name` is the dimension, `reason` says why."""

    def __init__(self, name: object, reason: str) -> None:
        super().__init__(f"partition key dimension {value_repr(name)}: {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[object, str]]:
        return type(self), (self.name, self.reason)


class SchemaError(PartitaError, ValueError):
    """A schema, or a type in it, can't be used."""


class UnknownColumn(SchemaError):
    """The schema has no column `name`, or several that differ only in case; `known` are the schema's columns."""

    def __init__(self, name: str, known: tuple[str, ...], reason: str = "is not in the schema") -> None:
        columns = ", ".join(known) or "none"
        super().__init__(f"column {name!r} {reason}; the columns are: {columns}")
        self.name = name
        self.known = known
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[str, ...], str]]:
        return type(self), (self.name, self.known, self.reason)


class SpecError(PartitaError, ValueError):
    """A partition spec can't be built."""


class SpecFormatError(SpecError):
    """A string or a JSON document is not a partition spec."""


class TransformError(SpecError):
    """A partition function can't be applied to a column of this type.

    `function` is the function as text, `column` the column if one is known, `data_type` its type, `reason` says why.
    """

    def __init__(self, function: str, column: str | None, data_type: str, reason: str) -> None:
        subject = f"column {column!r} of type {data_type}" if column is not None else f"type {data_type}"
        super().__init__(f"{function} can't partition {subject}: {reason}")
        self.function = function
        self.column = column
        self.data_type = data_type
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, str, str]]:
        return type(self), (self.function, self.column, self.data_type, self.reason)


class UnknownSpec(SpecError):
    """The table's history has no spec of the id `spec_id`; `known` are the ids that it has."""

    def __init__(self, spec_id: int, known: tuple[int, ...]) -> None:
        super().__init__(
            f"unknown partition spec {value_repr(spec_id)}; the table knows {', '.join(map(str, known)) or 'none'}"
        )
        self.spec_id = spec_id
        self.known = known

    def __reduce__(self) -> tuple[type[Self], tuple[int, tuple[int, ...]]]:
        return type(self), (self.spec_id, self.known)


class PredicateError(PartitaError, ValueError):
    """A predicate can't be parsed, or names an unknown column; `reason` says what is wrong.

    For a predicate given as text, `text` is that text and `position` the 0-based index of the error, which the message
    marks with a caret.
    """

    def __init__(self, reason: str, text: str | None = None, position: int | None = None) -> None:
        marked_text = f"\n{caret_lines(text, position)}" if text is not None and position is not None else ""
        super().__init__(reason + marked_text)
        self.reason = reason
        self.text = text
        self.position = position

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, int | None]]:
        return type(self), (self.reason, self.text, self.position)


class TimeZoneError(PartitaError, ValueError):
    """There is no time zone `name`."""

    def __init__(self, name: object) -> None:
        super().__init__(f"no time zone {value_repr(name)}; use names such as UTC, Europe/Berlin or +05:30")
        self.name = name

    def __reduce__(self) -> tuple[type[Self], tuple[object]]:
        return type(self), (self.name,)


class PartitionsError(PartitaError, ValueError):
    """Partition values or statistics don't fit the spec or the schema that they are used with."""


class PartitionValueError(PartitaError, ValueError):
    """A table's format can't hold a partition value, or a string is no partition value.

    `column` is the partition column, `expected` what it can hold, `found` the value.
    """

    def __init__(self, column: str, expected: str, found: str) -> None:
        super().__init__(f"partition column {column!r}: expected {expected}, found {found}")
        self.column = column
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.column, self.expected, self.found)


class StorageError(PartitaError, OSError):
    """A file or an object can't be read or written. It is an `OSError` too."""


class TableError(PartitaError):
    """A table can't be used as asked."""


class TableMissing(TableError):
    """There is no table at `uri`; `way_out` says what to do instead."""

    def __init__(self, uri: str, way_out: str = "check the address, or make one with lake.create_table") -> None:
        super().__init__(f"no table at {uri}; {way_out}")
        self.uri = uri
        self.way_out = way_out

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.uri, self.way_out)


class TableExists(TableError):
    """There is a table at `uri` already; `way_out` says what to do instead."""

    def __init__(self, uri: str, way_out: str = "open it, or choose another name") -> None:
        super().__init__(f"there is a table already at {uri}; {way_out}")
        self.uri = uri
        self.way_out = way_out

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.uri, self.way_out)


class UnsupportedFeature(TableError):
    """The table needs `features` that Partita doesn't support; `operation` is what was tried, such as "reading"."""

    def __init__(self, features: tuple[str, ...], operation: str) -> None:
        super().__init__(f"{operation} this table needs {', '.join(features)}, which Partita doesn't support")
        self.features = features
        self.operation = operation

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...], str]]:
        return type(self), (self.features, self.operation)


class UnsupportedOperation(TableError):
    """Tables of a format can't do an operation, for a reason; `way_out` says what to do instead."""

    def __init__(self, format_title: str, operation: str, reason: str, way_out: str) -> None:
        article = "an" if format_title[0] in "AEIOU" else "a"
        super().__init__(f"{operation}: {article} {format_title} table {reason}; {way_out}")
        self.format_title = format_title
        self.operation = operation
        self.reason = reason
        self.way_out = way_out

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str, str]]:
        return type(self), (self.format_title, self.operation, self.reason, self.way_out)


class ConstraintError(TableError, ValueError):
    """Rows violate a constraint of the table: a null in a required column, a failed check, a row matched twice."""


class RowsOutsidePartitions(ConstraintError):
    """Rows are outside of the partitions that they were to replace; nothing was changed.

    `samples` are up to three of these rows. `partitions` are up to five of the partitions that they belong to, each as
    the values of the partition fields and the number of rows.
    """

    def __init__(
        self, samples: tuple[Mapping[str, object], ...], partitions: tuple[tuple[Mapping[str, object], int], ...]
    ) -> None:
        partition_texts = "; ".join(
            f"{_values_text(values)} ({rows} row{'' if rows == 1 else 's'})" for values, rows in partitions
        )
        sample_lines = "".join(f"\n  {_values_text(row)}" for row in samples)
        super().__init__(
            f"rows lie outside of the partitions that they were to replace, in {partition_texts}; nothing was changed: "
            f"leave them out, or ask for their partitions too{f'. Some of them:{sample_lines}' if sample_lines else ''}"
        )
        self.samples = samples
        self.partitions = partitions

    def __reduce__(self) -> tuple[type[Self], tuple[object, object]]:
        return type(self), (self.samples, self.partitions)


class ProjectError(PartitaError, ValueError):
    """A project's `partita.toml` can't be read, or lacks a setting.

    `file` is its path, `key` the setting if it is about one, `reason` says what is wrong.
    """

    def __init__(self, file: str, key: str | None, reason: str) -> None:
        super().__init__(f"{file}: {reason}" if key is None else f"{file}: {key} {reason}")
        self.file = file
        self.key = key
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, str]]:
        return type(self), (self.file, self.key, self.reason)


class DefinitionError(PartitaError, ValueError):
    """An asset's definition, or a part of it, is invalid or can't be read."""


class StatusError(PartitaError, ValueError):
    """An event can't be recorded, or a question about status can't be answered as asked."""


class UnknownAsset(StatusError):
    """The asset `name` was never registered and has no events; `known` are the assets of the workspace."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no asset {name!r} in this workspace; its assets are: {', '.join(known) or 'none'}")
        self.name = name
        self.known = known

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[str, ...]]]:
        return type(self), (self.name, self.known)


class PlanError(PartitaError, ValueError):
    """A plan can't be made, loaded or run as asked."""


class PlanOutdated(PlanError):
    """The status or the definitions of `assets` changed since the plan was made."""

    def __init__(self, assets: tuple[str, ...]) -> None:
        super().__init__(f"the plan is out of date: {', '.join(assets)} changed since it was made; make a new one")
        self.assets = assets

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...]]]:
        return type(self), (self.assets,)


class PartitionsLeased(PlanError):
    """Another run leases some of the partitions.

    `run_id` is that run, `holder` its user and machine, `until` when its lease expires unless it is renewed, and
    `partitions` how many partitions both runs want.
    """

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


class CommitConflict(PartitaError):
    """Another writer committed first, and changed what this writer read or replaces; nothing was written.

    `operation` is what was tried, `reason` what the other writer did, `version` its commit if it is known.
    """

    def __init__(self, operation: str, reason: str, version: int | None = None) -> None:
        commit = "" if version is None else f" in version {version}"
        super().__init__(f"{operation}: another writer{commit} {reason}; nothing was changed here, try again")
        self.operation = operation
        self.reason = reason
        self.version = version

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, int | None]]:
        return type(self), (self.operation, self.reason, self.version)


class JavaMissing(PartitaError, RuntimeError):
    """Spark is needed, and no Java starts on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "Spark needs Java 17 or newer, and none starts here; install one, or set JAVA_HOME to its folder"
        )


def _values_text(values: Mapping[str, object]) -> str:
    """Return named values on one line."""
    return ", ".join(f"{name}={escape_unprintable(str(value))}" for name, value in values.items()) or "the table"


_CARET_CONTEXT_CHARS = 60


def caret_lines(text: str, position: int) -> str:
    """Return two lines: the text around `position` with unprintable characters escaped, and a caret below it."""
    start = max(0, position - _CARET_CONTEXT_CHARS)
    stop = position + _CARET_CONTEXT_CHARS
    before = ("…" if start else "") + escape_unprintable(text[start:position])
    after = escape_unprintable(text[position:stop]) + ("…" if stop < len(text) else "")
    return f"  {before}{after}\n  {' ' * len(before)}^"
