"""Check by a table's protocol whether Partita may read or write it (Protocol Evolution, Table Features)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import UnsupportedFeature
from partita.formats.delta.log.snapshot import DeltaMetadata, DeltaProtocol, column_mapping_mode


def check_readable(protocol: DeltaProtocol, metadata: DeltaMetadata, files: pa.Table) -> None:
    """Raise `UnsupportedFeature` if readers need a feature that Partita lacks, or a file has a deletion vector."""
    unknown = _reader_features(protocol) - SUPPORTED_READER_FEATURES
    if pc.any(files["has_deletion_vector"]).as_py():
        unknown |= {"deletionVectors"}
    _refuse_features(unknown | _unknown_mapping_mode(metadata), "reading")


def check_writable(protocol: DeltaProtocol, metadata: DeltaMetadata) -> None:
    """Raise `UnsupportedFeature` if writers need a feature that Partita lacks."""
    unknown = _writer_features(protocol) - SUPPORTED_WRITER_FEATURES
    if _is_enabled(metadata, "delta.enableChangeDataFeed"):
        unknown |= {"changeDataFeed"}
    if any(_is_identity_column(field) for field in metadata.schema_json["fields"]):
        unknown |= {"identityColumns"}
    _refuse_features(unknown | _unknown_mapping_mode(metadata), "writing")


def has_known_features(protocol: DeltaProtocol) -> bool:
    """Whether Partita knows every feature that the protocol names, used or not."""
    return (
        _reader_features(protocol) <= SUPPORTED_READER_FEATURES
        and _writer_features(protocol) <= SUPPORTED_WRITER_FEATURES
    )


def is_append_only(metadata: DeltaMetadata) -> bool:
    """Whether rows of the table may be neither changed nor deleted."""
    return _is_enabled(metadata, "delta.appendOnly")


def isolation_level(metadata: DeltaMetadata) -> str:
    """Return the isolation level of concurrent writers: `Serializable` or `WriteSerializable`."""
    level = metadata.configuration.get("delta.isolationLevel", "Serializable")
    return "WriteSerializable" if level.casefold() == "writeserializable" else "Serializable"


SUPPORTED_READER_FEATURES = frozenset({"columnMapping", "timestampNtz", "deletionVectors"})
"""Reader features that Partita supports; deletion vectors only as long as no file has one."""

SUPPORTED_WRITER_FEATURES = frozenset(
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
"""Writer features that Partita supports; some only as long as the table doesn't use them."""

_COLUMN_MAPPING_MODES = frozenset({"none", "name", "id"})


def _reader_features(protocol: DeltaProtocol) -> frozenset[str]:
    return _required_features(protocol.min_reader_version, 3, protocol.reader_features, "readerVersion")


def _writer_features(protocol: DeltaProtocol) -> frozenset[str]:
    return _required_features(protocol.min_writer_version, 7, protocol.writer_features, "writerVersion")


def _required_features(
    version: int, features_version: int, features: frozenset[str], version_name: str
) -> frozenset[str]:
    """Return the features that a protocol names; a version above `features_version` counts as a feature of its own."""
    if version > features_version:
        return frozenset({f"{version_name} {version}"})
    return features if version == features_version else frozenset()


def _refuse_features(unknown_features: frozenset[str], action: str) -> None:
    if unknown_features:
        raise UnsupportedFeature(tuple(sorted(unknown_features)), action)


def _unknown_mapping_mode(metadata: DeltaMetadata) -> frozenset[str]:
    mode = column_mapping_mode(metadata)
    return frozenset() if mode in _COLUMN_MAPPING_MODES else frozenset({f"columnMapping mode {mode}"})


def _is_enabled(metadata: DeltaMetadata, name: str) -> bool:
    return metadata.configuration.get(name, "false").casefold() == "true"


def _is_identity_column(field: Mapping[str, Any]) -> bool:
    return any(key.startswith("delta.identity.") for key in field.get("metadata") or {})
