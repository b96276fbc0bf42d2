"""Labels of partitions: the text that messages, the command line, the page and notebooks show for a partition key.

A label is for people only. It does not tell the types of values, and long values are cut; the canonical text of a key
(`key_text.py`) identifies the partition.
"""

from __future__ import annotations

from datetime import datetime

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue
from partita.errors import KeyFormatError, escape_text

WHOLE_ASSET_LABEL = "the whole asset"
"""The label of the empty key, which is that of an asset without partitions."""
_MAX_VALUE_LENGTH = 60


def value_label(value: KeyValue) -> str:
    """Return a value of a partition key as people read it: timestamps in UTC with a Z, null and booleans in lower case.

    The text is neither escaped nor cut.
    """
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat()}Z"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def key_label(key: PartitionKey | str, empty: str = WHOLE_ASSET_LABEL) -> str:
    """Return the label of a partition key, or of its canonical text: `date=2025-01-15,region=us-east`.

    The label of the empty key is `empty`, and that of a text which is no key is the text.
    """
    try:
        values = PartitionKey.parse(key) if isinstance(key, str) else key
    except KeyFormatError:
        return escape_text(str(key), _MAX_VALUE_LENGTH)
    pairs = (f"{name}={escape_text(value_label(value), _MAX_VALUE_LENGTH)}" for name, value in values.items())
    return escape_text(",".join(pairs)) if values else empty


def partition_label(asset: str, key: PartitionKey | str) -> str:
    """Return the label of a partition of an asset: `orders[date=2025-01-15]`, or `orders` if the key is empty."""
    dimensions = key_label(key, empty="")
    return f"{escape_text(asset)}[{dimensions}]" if dimensions else escape_text(asset)


def table_partition_label(key: str | None) -> str:
    """Return the label of a partition of a table; its key is None if a key can't hold the names or values."""
    return "without a key" if key is None else key_label(key, empty="the whole table")
