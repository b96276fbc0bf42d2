"""The algebra on Spark: partition keys, ids and functions as native Columns, which need no Python worker."""

from partita.spark.key import id_column, key_column, with_key
from partita.spark.schema import to_schema
from partita.spark.session import spark_session
from partita.spark.transforms import apply, with_partitions

__all__ = ["apply", "id_column", "key_column", "spark_session", "to_schema", "with_key", "with_partitions"]
