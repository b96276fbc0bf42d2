"""Partition values as texts in Spark Columns: `partita.formats.lance.values` without a Python worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from partita.algebra.spec import PartitionField
from partita.spark.canonical_json import scalar_text
from partita.spark.schema import logical_type
from partita.spark.sql_text import quote_identifier
from partita.spark.transforms import apply

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def partition_text(field: PartitionField, schema: StructType) -> Column:
    """Return the text of a partition field's value for each row; null for null."""
    data_type = schema[field.source].dataType
    result = apply(field.function, F.col(quote_identifier(field.source)), data_type, family="lance")
    width = field.transform.text_width
    if width is None:
        return scalar_text(result, field.transform.result_type(logical_type(data_type)))
    text = result.cast("string")
    # lpad truncates longer texts.
    short = (result >= F.lit(0)) & (F.octet_length(text) < F.lit(width))
    return F.when(short, F.lpad(text, width, "0")).otherwise(text)
