"""Paths of files in the form of Spark."""

from __future__ import annotations

from partita.formats.partition_texts.uri import encode_uri


def spark_file_path(location: str) -> str:
    """Return the path of a file in Spark's `_metadata.file_path`, from its location for Hadoop."""
    scheme, colon, rest = location.partition("://")
    return f"{scheme}://{encode_uri(rest)}" if colon else f"file:{encode_uri(location)}"
