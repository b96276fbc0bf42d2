"""Partition keys and ids as Spark Columns: `partita.algebra.key` without a Python worker."""

from __future__ import annotations

from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from partita.algebra.key import checked_name, id_prefix
from partita.spark.key_pieces import typed_pieces
from partita.spark.untyped_key import untyped_pieces

Dimension: TypeAlias = Column | str | tuple[Column | str, DataType]
"""A column or its name, alone or with its type."""


def key_column(**columns: Dimension) -> Column:
    """The canonical text of each row's partition key; the names of the arguments are the dimensions.

    With its type, as in `ts=(F.col("ts"), TimestampType())`, a column makes the shortest plan. A column alone tells
    its type by itself; for dates and timestamps that takes longer of a `Column` than of a name (`ts="ts"`). A type or
    a value that no key can hold is a `KeyValueError` where the type is given, and fails the query where it isn't, with
    the dimension's name but for bytes that are not UTF-8.
    """
    pieces: list[Column] = []
    for name in sorted(columns):
        checked_name(name)
        label = f"{',' if pieces else ''}{name}="
        pieces += _dimension(name, label, columns[name])
    # Bytes are put together faster than texts: each text that Spark makes costs it several fences of memory.
    octets = F.concat(*pieces) if pieces else F.lit(b"")
    return octets.cast("string").alias("key")


def id_column(asset_id: str | Column, key: Column | str) -> Column:
    """The id of each row's partition, given the asset's id and the key's canonical text."""
    text = F.col(key) if isinstance(key, str) else key
    if isinstance(asset_id, Column):
        named = F.when(F.octet_length(asset_id) > F.lit(0), asset_id)
        asset = F.coalesce(named, F.raise_error(F.lit("asset_id: an asset's id is not empty and not null")))
        prefix = F.concat(asset, F.lit(":")).cast("binary")
    else:
        prefix = F.lit(id_prefix(asset_id))
    digest = F.sha2(F.concat(prefix, text.cast("string").cast("binary")), 256).cast("binary")
    # What is padded with a digest to that length has its first 32 digits, without a copy of them alone.
    return F.rpad(F.lit(b"part_"), F.lit(len("part_") + 32), digest).cast("string").alias("id")


def _dimension(name: str, label: str, given: Dimension) -> tuple[Column, ...]:
    """The pieces that a dimension adds to the key, as bytes; none is null."""
    source, data_type = given if isinstance(given, tuple) else (given, None)
    if data_type is None:
        first, *others = untyped_pieces(name, label, source)
    else:
        column = F.col(source) if isinstance(source, str) else source
        first, *others = typed_pieces(name, label, column.cast(data_type), data_type)
    labelled = F.coalesce(first, F.lit(f"{label}n:null")).cast("binary")
    return labelled, *(F.coalesce(piece.cast("binary"), F.lit(b"")) for piece in others)
