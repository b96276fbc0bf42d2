"""Files as Spark names them."""

from __future__ import annotations

from partita.formats.delta.values.uri import encode_uri


def hadoop_location(uri: str) -> str:
    """A file's path or URI as Hadoop takes it."""
    if uri.startswith("file:/"):
        return f"/{uri.removeprefix('file:').lstrip('/')}"
    scheme, colon, rest = uri.partition("://")
    return f"s3a://{rest}" if colon and scheme in ("s3", "s3n") else uri


def spark_file_path(location: str) -> str:
    """A file as Spark's `_metadata.file_path` names it, given what Hadoop takes for it."""
    scheme, colon, rest = location.partition("://")
    return f"{scheme}://{encode_uri(rest)}" if colon else f"file:{encode_uri(location)}"
