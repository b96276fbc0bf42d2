"""What Partita reads and writes of Delta's features, and what it refuses by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from partita.errors import UnsupportedFeature
from partita.formats.delta.log import (
    Metadata,
    Protocol,
    check_readable,
    check_writable,
    column_mapping_mode,
    is_append_only,
    isolation,
    physical_names,
)
from partita.formats.delta.log.snapshot import files_schema
from tests.formats.delta.log.logs import column, metadata

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


def settings(**configuration: str) -> Metadata:
    dotted = {f"delta.{name.replace('_', '.')}": value for name, value in configuration.items()}
    return Metadata.of(metadata(configuration=dotted)["metaData"])


PLAIN = settings()


def features(*names: str) -> Protocol:
    return Protocol(3, 7, frozenset(names), frozenset(names))


def refused(check: Any, *given: Any) -> tuple[str, ...]:
    with pytest.raises(UnsupportedFeature) as caught:
        check(*given)
    return caught.value.features


@pytest.mark.parametrize("reader", [1, 2])
@pytest.mark.parametrize("writer", [1, 2, 3, 4, 5, 6])
def test_versions_without_features(reader: int, writer: int) -> None:
    check_readable(Protocol(reader, writer), PLAIN, NO_FILES)
    check_writable(Protocol(reader, writer), PLAIN)


@pytest.mark.parametrize("name", ["columnMapping", "timestampNtz", "deletionVectors"])
def test_features_that_are_read(name: str) -> None:
    check_readable(features(name), PLAIN, NO_FILES)


@pytest.mark.parametrize("name", KNOWN_TO_WRITERS)
def test_features_that_are_written(name: str) -> None:
    check_writable(features(name), PLAIN)


@pytest.mark.parametrize("name", ["v2Checkpoint", "typeWidening", "variantType", "vacuumProtocolCheck", "new one"])
def test_features_that_are_neither(name: str) -> None:
    assert refused(check_readable, features(name, "columnMapping"), PLAIN, NO_FILES) == (name,)
    assert refused(check_writable, features(name, "columnMapping"), PLAIN) == (name,)


@pytest.mark.parametrize(
    "name",
    ["rowTracking", "domainMetadata", "clustering", "inCommitTimestamp", "icebergCompatV2", "allowColumnDefaults"],
)
def test_features_of_writers_do_not_bother_readers(name: str) -> None:
    protocol = Protocol(1, 7, frozenset(), frozenset({name, "appendOnly"}))
    check_readable(protocol, PLAIN, NO_FILES)
    assert refused(check_writable, protocol, PLAIN) == (name,)


def test_all_that_is_unknown_is_named() -> None:
    assert refused(check_writable, features("b", "a", "appendOnly"), PLAIN) == ("a", "b")


def test_versions_of_the_future() -> None:
    assert refused(check_readable, Protocol(4, 7), PLAIN, NO_FILES) == ("readerVersion 4",)
    assert refused(check_writable, Protocol(3, 8), PLAIN) == ("writerVersion 8",)


def test_deletion_vectors_are_refused_where_there_is_one() -> None:
    files = pa.table({"has_deletion_vector": [False, True]})
    assert refused(check_readable, features("deletionVectors"), PLAIN, files) == ("deletionVectors",)
    check_writable(features("deletionVectors"), settings(enableDeletionVectors="true"))


def test_a_change_data_feed_is_refused_where_it_is_on() -> None:
    for protocol in (features("changeDataFeed"), Protocol(1, 4)):
        check_writable(protocol, settings(enableChangeDataFeed="false"))
        assert refused(check_writable, protocol, settings(enableChangeDataFeed="TRUE")) == ("changeDataFeed",)


def test_identity_columns_are_refused_where_there_is_one() -> None:
    counted = column("id", "long", **{"delta.identity.start": 1, "delta.identity.step": 1})
    for protocol in (Protocol(1, 7, frozenset(), frozenset({"identityColumns"})), Protocol(1, 6)):
        given = Metadata.of(metadata(counted)["metaData"])
        assert refused(check_writable, protocol, given) == ("identityColumns",)
        check_readable(protocol, given, NO_FILES)


def test_a_mode_of_column_mapping_that_is_unknown() -> None:
    given = settings(columnMapping_mode="other")
    assert refused(check_readable, features("columnMapping"), given, NO_FILES) == ("columnMapping mode other",)
    assert refused(check_writable, features("columnMapping"), given) == ("columnMapping mode other",)


def test_settings() -> None:
    assert not is_append_only(PLAIN)
    assert is_append_only(settings(appendOnly="True"))
    assert isolation(PLAIN) == "Serializable"
    assert isolation(settings(isolationLevel="Serializable")) == "Serializable"
    assert isolation(settings(isolationLevel="WriteSerializable")) == "WriteSerializable"
    assert column_mapping_mode(PLAIN) == "none"
    assert column_mapping_mode(settings(columnMapping_mode="id")) == "id"


def test_physical_names_count_only_where_columns_are_mapped() -> None:
    columns = (column("a", "long", **{"delta.columnMapping.physicalName": "col-1"}), column("b"))
    for mode, expected in (("none", {"a": "a", "b": "b"}), ("name", {"a": "col-1", "b": "b"})):
        configuration = {"delta.columnMapping.mode": mode}
        assert physical_names(Metadata.of(metadata(*columns, configuration=configuration)["metaData"])) == expected
