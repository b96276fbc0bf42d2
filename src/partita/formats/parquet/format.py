"""Plain folders of Parquet files as a table format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from partita.algebra.transforms import TransformFamily
from partita.errors import TableError
from partita.formats.capabilities import (
    COLUMN_PARTITIONING,
    EMPTY_TEXT_IS_NULL,
    FIXED_PARTITIONING,
    NO_TEXT_LENGTHS,
    NO_VECTOR_INDEX,
    Gap,
    Operation,
)
from partita.formats.format import CatalogProperties, FolderFormat, TableAddress
from partita.storage import Storage

if TYPE_CHECKING:
    from partita.algebra.spec import PartitionSpec
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.parquet.store import ParquetTableStore
    from partita.formats.store import TableStore

_NO_ROW_CHANGES = Gap(
    "has no log that would tell readers which rows count",
    "replace whole partitions with overwrite_partitions or replace_partitions, or append its rows to a table that "
    "lake.create_table makes with format='delta'",
)


class ParquetFormat(FolderFormat):
    """Folders of Parquet files, partitioned by the names of folders as Hive and Spark do."""

    name = "parquet"
    title = "Parquet"
    family = TransformFamily.ICEBERG
    gaps: ClassVar[Mapping[Operation, Gap]] = {
        Operation.ATOMIC_COMMITS: Gap(
            "is a folder, in which other engines see each file as it comes and goes",
            "let them read while nothing is written, or use another format",
        ),
        Operation.DELETE: _NO_ROW_CHANGES,
        Operation.UPDATE: _NO_ROW_CHANGES,
        Operation.MERGE: _NO_ROW_CHANGES,
        Operation.REWRITE: Gap(
            "can't tell readers that files with the same rows replace others",
            "overwrite its partitions with their own rows, which counts as a change of them",
        ),
        Operation.EVOLVE: FIXED_PARTITIONING,
        Operation.HISTORY: Gap(
            "has no log of its changes",
            "use change_feed, which tells the partitions that changed since a cursor, or another format",
        ),
        Operation.EXPIRE_SNAPSHOTS: Gap("keeps no earlier version", "leave it out: nothing needs to be expired"),
        Operation.TRANSFORM_PARTITIONING: COLUMN_PARTITIONING,
        Operation.EMPTY_TEXT_PARTITIONS: EMPTY_TEXT_IS_NULL,
        Operation.TEXT_LENGTHS: NO_TEXT_LENGTHS,
        Operation.VECTOR_SEARCH: NO_VECTOR_INDEX,
    }
    folder_marker = "_partita_table/"
    marker_folders = ("_partita_table",)
    table_subfolder = "_partita_table"
    plain_file_suffix = ".parquet"

    def can_partition_by(self, function: PartitionFunction) -> bool:
        """Return whether the partition field is a column under its own name."""
        return function.transform.is_identity and function.name.casefold() == function.source.casefold()

    def new_spec(self, schema: object, functions: Sequence[PartitionFunction]) -> PartitionSpec:
        """Return the partition spec of a new table."""
        from partita.arrow.schema import to_schema
        from partita.formats.parquet.create import new_table_spec

        return new_table_spec(to_schema(schema), functions)

    def create(
        self,
        address: TableAddress,
        schema: object,
        functions: Sequence[PartitionFunction],
        properties: Mapping[str, str],
    ) -> ParquetTableStore:
        """Write the definition of the table into its folder."""
        from partita.arrow.schema import to_schema
        from partita.formats.parquet.create import create_table
        from partita.formats.parquet.store import ParquetTableStore

        create_table(address.folder, to_schema(schema), functions, properties)
        return ParquetTableStore(address.folder)

    def _open_store(self, folder: Storage) -> ParquetTableStore:
        from partita.formats.parquet.store import ParquetTableStore

        return ParquetTableStore(folder)

    def field_renaming_call(self, uri: str, new_names: Mapping[str, str]) -> str | None:
        """Return the call that declares the columns of folders in another case; None if a definition has them."""
        from partita.formats.parquet.create import read_definition

        is_same = all(name.casefold() == new_name.casefold() for name, new_name in new_names.items())
        if not is_same or read_definition(Storage.from_uri(uri)) is not None:
            return None
        columns = list(new_names.values())
        return f"partita.formats.parquet.declare_table(uri, schema, {columns!r}), with these names in the schema too"

    def open(
        self,
        uri: str,
        *,
        options: Mapping[str, str] | None,
        catalog: CatalogProperties | None,
        location: str | None,
    ) -> TableStore:
        """Open the table in a folder, whoever wrote its files; raise `TableError` if it is a part of another table."""
        from partita.formats.nested_tables import enclosing_table_folder

        folder = Storage.from_uri(uri, options)
        if folder.is_local and Path(folder.uri).is_file():
            raise TableError(f"{folder.uri} is a file, and a table is a folder; open the folder that holds it")
        store = super().open(uri, options=options, catalog=catalog, location=location)
        enclosing_folder = enclosing_table_folder(folder)
        if enclosing_folder is not None:
            raise TableError(
                f"{folder.uri} is a part of the table {enclosing_folder}, which alone says which of its files count; "
                "open that one, and read the partition with a predicate"
            )
        return store


PARQUET = ParquetFormat()
