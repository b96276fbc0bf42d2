"""The algebra over Spark: keys, ids and partition functions as Columns that need no Python worker."""

from partita.spark.key import id_column, key_column
from partita.spark.schema import to_schema
from partita.spark.session import session
from partita.spark.transforms import apply, with_partitions

__all__ = ["apply", "id_column", "key_column", "session", "to_schema", "with_partitions"]
