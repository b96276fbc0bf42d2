"""Which files that the log doesn't name may be deleted: those that failed writers of Delta tables left.

By their names: those of Partita, of delta-spark and of delta-rs. Plain Spark gives its Parquet files such names, too,
so files of others count only where a writer of this table puts them: in the folder of a partition, in a random one
where the table has these, and below `_change_data`. Files of others stay where the table has a feature that Partita
doesn't know, which may name files in a way of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from partita.formats.containment import OTHER_FOLDER
from partita.formats.delta.log import Snapshot, has_known_features, physical_names

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_OWN = re.compile(rf"part-\d{{5}}-\d+-{_UUID}\.c000\.snappy\.parquet")
_OTHERS = re.compile(
    rf"(?:part|cdc)-\d{{5,}}-{_UUID}[.-]c\d{{3,}}(?:\.[a-z0-9]+)?\.parquet"
    rf"|\d+-{_UUID}-\d+(?:\.[a-z0-9]+)?\.parquet"
)
_VECTORS = re.compile(rf"deletion_vector_{_UUID}\.bin")
_CHANGE_DATA = "_change_data/"
_RANDOM_FOLDER = re.compile("[0-9A-Za-z]{0,16}")

UNKNOWN_FEATURE = "another writer left it, and the table has features that Partita doesn't know, which may need it"


def is_writers_name(path: str) -> bool:
    """Whether writers of Delta tables give files such names by themselves."""
    name = path.rpartition("/")[2]
    return any(pattern.fullmatch(name) for pattern in (_OWN, _OTHERS, _VECTORS))


def reason_to_stay(snapshot: Snapshot, prefix: int) -> Callable[[str], str | None]:
    """Why a file with such a name stays, though it is old and the log doesn't name it; None where it may go.

    `prefix` is how long the names of random folders are, or 0 where the table has none.
    """
    is_known = has_known_features(snapshot.protocol)
    physical = physical_names(snapshot.metadata)
    columns = [{name, physical[name]} for name in snapshot.metadata.partition_columns]

    def is_partition(folder: str) -> bool:
        segments = folder.split("/") if folder else []
        return len(segments) == len(columns) and all(
            "=" in segment and unquote(segment.partition("=")[0]) in names
            for segment, names in zip(segments, columns, strict=True)
        )

    def reason(path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        if _OWN.fullmatch(name):
            return None
        if not is_known:
            return UNKNOWN_FEATURE
        if _VECTORS.fullmatch(name):
            return None if _RANDOM_FOLDER.fullmatch(folder) else OTHER_FOLDER
        folder = f"{folder}/".removeprefix(_CHANGE_DATA).rstrip("/")
        is_random = prefix > 0 and len(folder) == prefix and _RANDOM_FOLDER.fullmatch(folder) is not None
        return None if is_random or is_partition(folder) else OTHER_FOLDER

    return reason
