"""What a format can't do, declared once: errors, documentation and the conformance suite read the declarations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Operation(StrEnum):
    """What a user may ask of a table; a format that can't do it declares a `Gap`."""

    READ = "read"
    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    REPLACE_PARTITIONS = "replace_partitions"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"
    REWRITE = "rewrite"
    EVOLVE = "evolve"
    HISTORY = "history"
    CHANGE_FEED = "change_feed"
    TRANSACTIONS = "transactions"
    ATOMIC_COMMITS = "atomic_commits"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    REMOVE_ORPHANS = "remove_orphans"
    TRANSFORM_PARTITIONING = "transform_partitioning"
    EMPTY_TEXT_PARTITIONS = "empty_text_partitions"
    TEXT_LENGTHS = "text_lengths"
    VECTOR_SEARCH = "vector_search"


@dataclass(frozen=True, slots=True)
class Gap:
    """Why a format can't do an operation, as a sentence about `a <format> table`, and what to do instead."""

    reason: str
    way_out: str


# Gaps that more than one format has.
FIXED_PARTITIONING = Gap(
    "keeps the partitioning that it was made with",
    "create a table with the new partitioning and append this table's rows to it, or use format='iceberg'",
)
COLUMN_PARTITIONING = Gap(
    "is partitioned by columns", "add a column that holds the value and name that, or use format='iceberg' or 'lance'"
)
EMPTY_TEXT_IS_NULL = Gap("stores an empty partition text as null", "use None, another text, or another format")
NO_VECTOR_INDEX = Gap("has no vector index", "use format='lance'")
NO_TEXT_LENGTHS = Gap("doesn't keep the length of a text", "use STRING")
