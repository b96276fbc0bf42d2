"""Delta as a table format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from partita.algebra.transforms import TransformFamily
from partita.formats.capabilities import (
    COLUMN_PARTITIONING,
    EMPTY_TEXT_IS_NULL,
    FIXED_PARTITIONING,
    NO_VECTOR_INDEX,
    Gap,
    Operation,
)
from partita.formats.format import FolderFormat, TableAddress
from partita.storage import Storage

if TYPE_CHECKING:
    from partita.algebra.spec import PartitionSpec
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.delta.store import DeltaTableStore


class DeltaFormat(FolderFormat):
    """Tables with a Delta log in their folder."""

    name = "delta"
    title = "Delta"
    family = TransformFamily.ICEBERG
    gaps: ClassVar[Mapping[Operation, Gap]] = {
        Operation.EVOLVE: FIXED_PARTITIONING,
        Operation.EXPIRE_SNAPSHOTS: Gap(
            "keeps its versions until a vacuum", "use the format's own vacuum: that of delta-spark or delta-rs"
        ),
        Operation.TRANSFORM_PARTITIONING: COLUMN_PARTITIONING,
        Operation.EMPTY_TEXT_PARTITIONS: EMPTY_TEXT_IS_NULL,
        Operation.VECTOR_SEARCH: NO_VECTOR_INDEX,
    }
    folder_marker = "_delta_log/"
    marker_folders = ("_delta_log",)
    table_subfolder = "_delta_log"

    def can_partition_by(self, function: PartitionFunction) -> bool:
        """Return whether a column, or a generated column, can hold the values of the partition field."""
        from partita.formats.delta.columns import can_be_generated

        return function.transform.is_identity or can_be_generated(function.transform)

    def new_spec(self, schema: object, functions: Sequence[PartitionFunction]) -> PartitionSpec:
        """Return the partition spec of a new table; generated columns hold the values of functions."""
        from partita.arrow.schema import to_schema
        from partita.formats.delta.create import new_table_spec

        return new_table_spec(to_schema(schema), functions)

    def create(
        self,
        address: TableAddress,
        schema: object,
        functions: Sequence[PartitionFunction],
        properties: Mapping[str, str],
    ) -> DeltaTableStore:
        """Write the first commit of the log."""
        from partita.arrow.schema import to_schema
        from partita.formats.delta.create import create_table
        from partita.formats.delta.store import DeltaTableStore

        store = DeltaTableStore(address.folder)
        create_table(store.log, to_schema(schema), functions, properties)
        return store

    def _open_store(self, folder: Storage) -> DeltaTableStore:
        from partita.formats.delta.store import DeltaTableStore

        return DeltaTableStore(folder)


DELTA = DeltaFormat()
