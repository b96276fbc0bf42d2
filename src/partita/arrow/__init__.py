"""The algebra over Arrow arrays: keys, functions, and pruning of 100,000 partitions at once."""

from partita.arrow.key import key_columns, key_ids, key_texts
from partita.arrow.prune import Pruned, Statistics, prune
from partita.arrow.schema import to_schema
from partita.arrow.spec import parse_spec
from partita.arrow.transforms import apply

__all__ = [
    "Pruned",
    "Statistics",
    "apply",
    "key_columns",
    "key_ids",
    "key_texts",
    "parse_spec",
    "prune",
    "to_schema",
]
