"""The texts of Lance's names as Spark Columns: `partita.formats.lance.names.texts` without a Python worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from partita.algebra.spec import PartitionField
from partita.spark.canonical_json import scalar_text
from partita.spark.schema import quoted, to_logical
from partita.spark.transforms import apply

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_DIGITS = {"year": 4, "month": 2, "day": 2, "hour": 2}


def partition_text(field: PartitionField, schema: StructType) -> Column:
    """The text of a partition field's value in each row; null of null."""
    data_type = schema[field.source].dataType
    result = apply(field.function, F.col(quoted(field.source)), data_type, family="lance")
    width = _DIGITS.get(field.transform.name)
    if width is None:
        return scalar_text(result, field.transform.result_type(to_logical(data_type)))
    text = result.cast("string")
    # lpad cuts what is longer.
    short = (result >= F.lit(0)) & (F.octet_length(text) < F.lit(width))
    return F.when(short, F.lpad(text, width, "0")).otherwise(text)
