"""Paths of files in the forms of Hadoop and of Spark."""

from __future__ import annotations

from partita.formats.partition_texts.uri import encode_uri


def hadoop_location(uri: str) -> str:
    """Return the path or URI of a file as Hadoop takes it."""
    if uri.startswith("file:/"):
        return f"/{uri.removeprefix('file:').lstrip('/')}"
    scheme, colon, rest = uri.partition("://")
    return f"s3a://{rest}" if colon and scheme in ("s3", "s3n") else uri


def spark_file_path(location: str) -> str:
    """Return the path of a file in Spark's `_metadata.file_path`, from its location for Hadoop."""
    scheme, colon, rest = location.partition("://")
    return f"{scheme}://{encode_uri(rest)}" if colon else f"file:{encode_uri(location)}"
