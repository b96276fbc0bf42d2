"""Jobs that belong together, under a tag by which they can be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """What this thread starts in the block has the tag."""
    spark.addTag(tag)
    try:
        yield
    finally:
        with suppress(PySparkException):
            spark.removeTag(tag)


def interrupt(spark: SparkSession, tag: str) -> None:
    """Stop every job that has the tag; a session that is gone has none.

    A classic session knows a tag only in the thread that gave it, so there every job of the session is stopped.
    """
    with suppress(PySparkException, OSError):
        if is_remote():
            spark.interruptTag(tag)
        else:
            spark.interruptAll()
