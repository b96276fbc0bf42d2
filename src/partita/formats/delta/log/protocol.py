"""Whether Partita may read or write a table, by its protocol (Protocol Evolution, Table Features)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import UnsupportedFeature
from partita.formats.delta.log.snapshot import Metadata, Protocol, column_mapping_mode


def check_readable(protocol: Protocol, metadata: Metadata, files: pa.Table) -> None:
    """Refuse a table that can't be read right; deletion vectors are refused where a file of `files` has one."""
    asked = _asked(protocol.reader, 3, protocol.reader_features, "readerVersion")
    unknown = asked - READABLE
    if pc.any(files["has_deletion_vector"]).as_py():
        unknown |= {"deletionVectors"}
    _refuse(unknown | _odd_mapping(metadata), "reading")


def check_writable(protocol: Protocol, metadata: Metadata) -> None:
    """Refuse a table whose writers must do what Partita doesn't."""
    asked = _asked(protocol.writer, 7, protocol.writer_features, "writerVersion")
    unknown = asked - WRITABLE
    if _is_true(metadata, "delta.enableChangeDataFeed"):
        unknown |= {"changeDataFeed"}
    if any(_has_identity(field) for field in metadata.schema["fields"]):
        unknown |= {"identityColumns"}
    _refuse(unknown | _odd_mapping(metadata), "writing")


def has_known_features(protocol: Protocol) -> bool:
    """Whether Partita knows every feature that the table names, used or not."""
    reading = _asked(protocol.reader, 3, protocol.reader_features, "readerVersion") - READABLE
    return not reading | (_asked(protocol.writer, 7, protocol.writer_features, "writerVersion") - WRITABLE)


def is_append_only(metadata: Metadata) -> bool:
    """Whether rows may be neither changed nor taken away."""
    return _is_true(metadata, "delta.appendOnly")


def isolation(metadata: Metadata) -> str:
    """`Serializable` or `WriteSerializable`: what concurrent writers may not see of each other."""
    level = metadata.configuration.get("delta.isolationLevel", "Serializable")
    return "WriteSerializable" if level.casefold() == "writeserializable" else "Serializable"


READABLE = frozenset({"columnMapping", "timestampNtz", "deletionVectors"})
"""Features of readers that are known; deletion vectors as long as there are none."""

WRITABLE = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "columnMapping",
        "timestampNtz",
        "changeDataFeed",
        "deletionVectors",
        "identityColumns",
    }
)
"""Features of writers that are known; some only as long as the table doesn't use them."""

_MODES = frozenset({"none", "name", "id"})


def _asked(version: int, named_from: int, features: frozenset[str], name: str) -> frozenset[str]:
    """The features by name; a version above all known ones stands for itself."""
    if version > named_from:
        return frozenset({f"{name} {version}"})
    return features if version == named_from else frozenset()


def _refuse(unknown: frozenset[str], doing: str) -> None:
    if unknown:
        raise UnsupportedFeature(tuple(sorted(unknown)), doing)


def _odd_mapping(metadata: Metadata) -> frozenset[str]:
    mode = column_mapping_mode(metadata)
    return frozenset() if mode in _MODES else frozenset({f"columnMapping mode {mode}"})


def _is_true(metadata: Metadata, name: str) -> bool:
    return metadata.configuration.get(name, "false").casefold() == "true"


def _has_identity(field: Mapping[str, Any]) -> bool:
    return any(key.startswith("delta.identity.") for key in field.get("metadata") or {})
