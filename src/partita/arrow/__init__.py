"""The algebra over Arrow arrays: keys, partition functions, and pruning of many partitions at once."""

from partita.arrow.key import key_columns, key_ids, key_texts
from partita.arrow.prune import ColumnStatistics, PruneResult, prune
from partita.arrow.schema import parse_spec, to_schema
from partita.arrow.transforms import apply

__all__ = [
    "ColumnStatistics",
    "PruneResult",
    "apply",
    "key_columns",
    "key_ids",
    "key_texts",
    "parse_spec",
    "prune",
    "to_schema",
]
