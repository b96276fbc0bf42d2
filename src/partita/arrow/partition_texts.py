"""The texts of partition values, by which executors describe the files that they write."""

from __future__ import annotations

import base64

import pyarrow as pa


def partition_text(value: pa.Scalar) -> str | None:
    """Return a partition value as text: dates and times as integers, bytes in base64; a text stays as it is."""
    if not value.is_valid:
        return None
    if pa.types.is_temporal(value.type):
        return str(value.value)
    plain = value.as_py()
    return base64.b64encode(plain).decode() if isinstance(plain, bytes) else str(plain)
