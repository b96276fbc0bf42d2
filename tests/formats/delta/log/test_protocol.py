"""Which features of Delta's protocol Partita supports, and which it refuses by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from partita.errors import UnsupportedFeature
from partita.formats.delta.log import (
    DeltaMetadata,
    DeltaProtocol,
    check_readable,
    check_writable,
    column_mapping_mode,
    is_append_only,
    isolation_level,
    physical_names,
)
from partita.formats.delta.log.snapshot import files_schema
from tests.formats.delta.log.handwritten_logs import metadata_action, schema_field

NO_FILES = files_schema(()).empty_table()
KNOWN_TO_WRITERS = (
    "appendOnly",
    "invariants",
    "checkConstraints",
    "generatedColumns",
    "columnMapping",
    "timestampNtz",
    "changeDataFeed",
    "deletionVectors",
    "identityColumns",
)


def metadata_with(**configuration: str) -> DeltaMetadata:
    dotted = {f"delta.{name.replace('_', '.')}": value for name, value in configuration.items()}
    return DeltaMetadata.from_action(metadata_action(configuration=dotted)["metaData"])


PLAIN = metadata_with()


def protocol_with(*names: str) -> DeltaProtocol:
    return DeltaProtocol(3, 7, frozenset(names), frozenset(names))


def refused_features(check: Any, *arguments: Any) -> tuple[str, ...]:
    with pytest.raises(UnsupportedFeature) as caught:
        check(*arguments)
    return caught.value.features


@pytest.mark.parametrize("reader", [1, 2])
@pytest.mark.parametrize("writer", [1, 2, 3, 4, 5, 6])
def test_versions_without_features(reader: int, writer: int) -> None:
    check_readable(DeltaProtocol(reader, writer), PLAIN, NO_FILES)
    check_writable(DeltaProtocol(reader, writer), PLAIN)


@pytest.mark.parametrize("name", ["columnMapping", "timestampNtz", "deletionVectors"])
def test_features_that_are_read(name: str) -> None:
    check_readable(protocol_with(name), PLAIN, NO_FILES)


@pytest.mark.parametrize("name", KNOWN_TO_WRITERS)
def test_features_that_are_written(name: str) -> None:
    check_writable(protocol_with(name), PLAIN)


@pytest.mark.parametrize("name", ["v2Checkpoint", "typeWidening", "variantType", "vacuumProtocolCheck", "new one"])
def test_features_that_are_neither(name: str) -> None:
    assert refused_features(check_readable, protocol_with(name, "columnMapping"), PLAIN, NO_FILES) == (name,)
    assert refused_features(check_writable, protocol_with(name, "columnMapping"), PLAIN) == (name,)


@pytest.mark.parametrize(
    "name",
    ["rowTracking", "domainMetadata", "clustering", "inCommitTimestamp", "icebergCompatV2", "allowColumnDefaults"],
)
def test_features_of_writers_do_not_bother_readers(name: str) -> None:
    protocol = DeltaProtocol(1, 7, frozenset(), frozenset({name, "appendOnly"}))
    check_readable(protocol, PLAIN, NO_FILES)
    assert refused_features(check_writable, protocol, PLAIN) == (name,)


def test_all_that_is_unknown_is_named() -> None:
    assert refused_features(check_writable, protocol_with("b", "a", "appendOnly"), PLAIN) == ("a", "b")


def test_versions_of_the_future() -> None:
    assert refused_features(check_readable, DeltaProtocol(4, 7), PLAIN, NO_FILES) == ("readerVersion 4",)
    assert refused_features(check_writable, DeltaProtocol(3, 8), PLAIN) == ("writerVersion 8",)


def test_deletion_vectors_are_refused_where_there_is_one() -> None:
    files = pa.table({"has_deletion_vector": [False, True]})
    assert refused_features(check_readable, protocol_with("deletionVectors"), PLAIN, files) == ("deletionVectors",)
    check_writable(protocol_with("deletionVectors"), metadata_with(enableDeletionVectors="true"))


def test_a_change_data_feed_is_refused_where_it_is_on() -> None:
    for protocol in (protocol_with("changeDataFeed"), DeltaProtocol(1, 4)):
        check_writable(protocol, metadata_with(enableChangeDataFeed="false"))
        assert refused_features(check_writable, protocol, metadata_with(enableChangeDataFeed="TRUE")) == (
            "changeDataFeed",
        )


def test_identity_columns_are_refused_where_there_is_one() -> None:
    counted = schema_field("id", "long", **{"delta.identity.start": 1, "delta.identity.step": 1})
    for protocol in (DeltaProtocol(1, 7, frozenset(), frozenset({"identityColumns"})), DeltaProtocol(1, 6)):
        metadata = DeltaMetadata.from_action(metadata_action(counted)["metaData"])
        assert refused_features(check_writable, protocol, metadata) == ("identityColumns",)
        check_readable(protocol, metadata, NO_FILES)


def test_a_mode_of_column_mapping_that_is_unknown() -> None:
    metadata = metadata_with(columnMapping_mode="other")
    assert refused_features(check_readable, protocol_with("columnMapping"), metadata, NO_FILES) == (
        "columnMapping mode other",
    )
    assert refused_features(check_writable, protocol_with("columnMapping"), metadata) == ("columnMapping mode other",)


def test_settings() -> None:
    assert not is_append_only(PLAIN)
    assert is_append_only(metadata_with(appendOnly="True"))
    assert isolation_level(PLAIN) == "Serializable"
    assert isolation_level(metadata_with(isolationLevel="Serializable")) == "Serializable"
    assert isolation_level(metadata_with(isolationLevel="WriteSerializable")) == "WriteSerializable"
    assert column_mapping_mode(PLAIN) == "none"
    assert column_mapping_mode(metadata_with(columnMapping_mode="id")) == "id"


def test_physical_names_count_only_where_columns_are_mapped() -> None:
    columns = (schema_field("a", "long", **{"delta.columnMapping.physicalName": "col-1"}), schema_field("b"))
    for mode, expected in (("none", {"a": "a", "b": "b"}), ("name", {"a": "col-1", "b": "b"})):
        configuration = {"delta.columnMapping.mode": mode}
        assert (
            physical_names(
                DeltaMetadata.from_action(metadata_action(*columns, configuration=configuration)["metaData"])
            )
            == expected
        )
