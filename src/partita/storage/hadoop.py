"""The locations of files as Hadoop, and with it Spark, takes them: plain local paths, and `s3a://` for S3."""

from __future__ import annotations


def hadoop_location(uri: str) -> str:
    """Return the location that Hadoop takes for the absolute path or URI of a file or folder.

    URIs of Azure without an account (`az://`) stay as they are: `Storage.hadoop_location` knows the account.
    """
    if uri.startswith("file:/"):
        return f"/{uri.removeprefix('file:').lstrip('/')}"
    scheme, colon, rest = uri.partition("://")
    return f"s3a://{rest}" if colon and scheme in ("s3", "s3n") else uri
