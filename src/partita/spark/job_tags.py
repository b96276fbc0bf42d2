"""Spark jobs under a tag, by which they can be interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def tag_jobs(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag the jobs that this thread starts in the block."""
    spark.addTag(tag)
    try:
        yield
    finally:
        with suppress(PySparkException):
            spark.removeTag(tag)


def interrupt_jobs(spark: SparkSession, tag: str) -> None:
    """Interrupt the jobs that have the tag; do nothing if the session has stopped.

    A classic session knows a tag only in the thread that added it, so there all jobs of the session are interrupted.
    """
    with suppress(PySparkException, OSError):
        if is_remote():
            spark.interruptTag(tag)
        else:
            spark.interruptAll()
