"""Partition values as the names of namespaces and leaves, and back (seed 001, sections 3.2 and 4).

```text
typed results          12, "a/b", None
   │ texts             "12", "a/b", null            two digits for month, day and hour
   ▼ segment           ts_month=12, s=a%2Fb, s=__HIVE_DEFAULT_PARTITION__
```

Escapes are Hive's, with `$` too, at which a directory namespace splits its ids, and dots where two of them, or the
ending of a leaf's folder, would mean something else. No two values have one name: the text that null's name is made of
is escaped, and the empty string is `s=`.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import PartitionField
from partita.algebra.types import BYTES, INTEGERS, Kind
from partita.arrow.scalar_text import scalar_texts
from partita.arrow.schema import to_arrow
from partita.errors import PartitionsError, PartitionValueError

NULL = "__HIVE_DEFAULT_PARTITION__"
LEAF = ".lance"
"""How the folder of a leaf ends."""
LONGEST = 255
"""Bytes that a file system takes for one name."""

_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#$%'*/:=?\\{\[\]^]|\.(?=\.|$|lance$)""")
_LOOKS_NULL = f"%5F{NULL[1:]}"
_DIGITS = {"year": 4, "month": 2, "day": 2, "hour": 2}


def texts(results: pa.Array, field: PartitionField) -> pa.Array:
    """The text of each result of a partition field; null stays null."""
    width = _DIGITS.get(field.transform.name)
    try:
        written = scalar_texts(results, field.result_type)
    except PartitionsError as error:
        raise PartitionValueError(field.name, "a value that a name can hold", str(error)) from None
    if width is None:
        return pc.cast(written, pa.string())
    return pc.if_else(
        pc.less(results, 0), pc.cast(written, pa.string()), pc.utf8_lpad(written.cast(pa.string()), width, "0")
    )


def segment(name: str, text: str | None) -> str:
    """`country=US`, escaped; what is too long for the name of a folder is refused."""
    value = NULL if text is None else _LOOKS_NULL if text == NULL else escaped(text)
    made = f"{escaped(name)}={value}"
    if len(made.encode()) + len(LEAF) > LONGEST:
        shown = (text or "")[:40]
        raise PartitionValueError(name, f"a name of up to {LONGEST} bytes", f"{len(made.encode())} for '{shown}…'")
    return made


def segments(names: Iterable[str], partition: Iterable[str | None]) -> tuple[str, ...]:
    """The names from the root to a leaf."""
    return tuple(segment(name, text) for name, text in zip(names, partition, strict=True))


def escaped(text: str) -> str:
    """What a name can't hold, as `%XX`; spaces and all beyond ASCII stay."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescaped(text: str) -> str:
    """The text of which `escaped` made that one."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def results(given: pa.Array, field: PartitionField) -> pa.Array:
    """The typed results that names of one level say, each once or many times; the way back from `segment`.

    A name that is not `field=value`, or whose value is no text of the field's type, is a `PartitionValueError`.
    """
    # Names of one level are mostly few; where they are not, to tell them apart takes longer than to read them all.
    few = len(pc.unique(given.slice(0, _SAMPLE))) * 2 <= min(len(given), _SAMPLE)
    encoded = given.dictionary_encode() if few else None
    names = given if encoded is None else encoded.dictionary
    prefix = f"{escaped(field.name)}="
    right = pc.starts_with(names, prefix)
    if right.true_count < len(names):
        stray = names.filter(pc.invert(right))[0].as_py()
        raise PartitionValueError(field.name, f"a name that begins with {prefix}", repr(stray))
    values = pc.binary_slice(names.cast(pa.binary()), len(prefix.encode()), _LONGEST).cast(pa.string())
    typed = _typed(_unescaped(_without_null(values)), field)
    return typed if encoded is None else typed.take(encoded.indices)


_SAMPLE = 1000
_LONGEST = 1 << 20
"""More bytes than a name has: Arrow takes none for "to the end" here."""


def _without_null(values: pa.Array) -> pa.Array:
    is_null = pc.equal(values, NULL)
    return pc.if_else(is_null, pa.scalar(None, pa.string()), values) if is_null.true_count else values


def _unescaped(values: pa.Array) -> pa.Array:
    if not pc.match_substring(values, "%").true_count:
        return values
    return pa.array([None if v is None else unescaped(v) for v in values.to_pylist()], pa.string())


def _typed(values: pa.Array, field: PartitionField) -> pa.Array:
    type_ = field.result_type
    wanted = to_arrow(type_)
    if type_.kind is Kind.STRING:
        return values
    try:
        return _readers(type_.kind)(values, wanted)
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise PartitionValueError(field.name, str(type_), f"a name whose value is no such text: {error}") from None


def _readers(kind: Kind) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    if kind is Kind.BOOLEAN:
        return lambda values, _: pa.array([None if v is None else _TRUTHS[v] for v in values.to_pylist()], pa.bool_())
    if kind in BYTES:
        return lambda values, wanted: pa.array([_octets(v) for v in values.to_pylist()], wanted)
    if kind is Kind.UUID:
        return _uuids
    if kind in INTEGERS or kind in (Kind.DATE, Kind.DECIMAL):
        return _cast
    return _moments


_TRUTHS = {"true": True, "false": False}


def _octets(text: str | None) -> bytes | None:
    if text is None:
        return None
    if not re.fullmatch("[A-Za-z0-9_-]*", text):
        raise ValueError(f"{text!r} is not base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _uuids(values: pa.Array, wanted: Any) -> pa.Array:
    octets = [None if v is None else UUID(v).bytes for v in values.to_pylist()]
    return pa.ExtensionArray.from_storage(wanted, pa.array(octets, pa.binary(16)))


def _moments(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Times and timestamps; Arrow reads a timestamp without a zone only where the text has none."""
    if pa.types.is_time(wanted):
        whole = pc.binary_join_element_wise("1970-01-01T", values, "")
        return pc.cast(pc.cast(pc.cast(whole, pa.timestamp("us")), pa.int64()), pa.int64()).cast(wanted)
    return _cast(values, wanted)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.cast(values, wanted)
