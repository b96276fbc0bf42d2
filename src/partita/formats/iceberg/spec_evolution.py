"""Partition evolution: a new partition spec for files written from now on; existing files keep theirs.

Specification, "Partition Evolution": in version 2 a field that the table had before keeps its id; version 1 keeps every
field in its position and makes a dropped one void. A spec equal to an earlier one reuses the earlier spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    SetDefaultSpecUpdate,
    TableUpdate,
)
from pyiceberg.transforms import IdentityTransform, UnknownTransform, VoidTransform, parse_transform

from partita.errors import CommitConflict, SpecError, TableError, TransformError, UnknownColumn, value_repr
from partita.formats.arguments import partition_functions_of
from partita.formats.iceberg.catalogs import refresh_table, table_name, translate_metadata_errors
from partita.formats.iceberg.commit import CommitRetries
from partita.formats.iceberg.validation import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from partita.algebra.transforms import PartitionFunction


def evolve_spec(
    table: Table,
    add: Sequence[PartitionFunction | str] = (),
    drop: Sequence[PartitionFunction | str] = (),
    rename: Mapping[str, str] | None = None,
) -> None:
    """Drop, rename, then add partition fields; commit nothing if the spec doesn't change.

    After a lost race the same evolution is applied to the new metadata, unless that already has the requested spec.
    """
    retries = CommitRetries(table.metadata)
    with translate_metadata_errors(table):
        while True:
            check_writable(table.metadata)
            spec = next_spec(table.metadata, add, drop, rename or {})
            if spec.spec_id == table.metadata.default_spec_id or _commit_spec(table, spec):
                return
            may_retry = retries.wait()
            refresh_table(table)
            # It may have been this commit: an answer can be lost, and a proxy may repeat a request.
            if table.metadata.spec().compatible_with(spec):
                return
            if not may_retry:
                raise CommitConflict("evolve", f"was first in all of {retries.attempts} attempts")


def next_spec(
    metadata: TableMetadata,
    add: Sequence[PartitionFunction | str],
    drop: Sequence[PartitionFunction | str],
    rename: Mapping[str, str],
) -> PartitionSpec:
    """Return the spec after the evolution: a new one, or an earlier one with the same fields."""
    columns = _SchemaColumns(metadata)
    dropped_ids = {_field_to_drop(metadata, columns, function_or_name).field_id for function_or_name in drop}
    new_names = {_field_by_name(metadata, old).field_id: _valid_field_name(new) for old, new in rename.items()}
    for field in metadata.spec().fields:
        if field.field_id in dropped_ids and field.field_id in new_names:
            raise SpecError(f"partition field {field.name!r} can't be both dropped and renamed")
    functions = partition_functions_of(add, "add")
    requested_names = {name.casefold() for name in (*new_names.values(), *(function.name for function in functions))}
    retained_fields = tuple(_retained_fields(metadata, columns, dropped_ids, new_names, requested_names))
    fields = (
        *retained_fields,
        *_new_fields(metadata, columns, functions, {field.field_id for field in retained_fields}),
    )
    _check_distinct_fields(fields, columns)
    new_spec = PartitionSpec(*fields, spec_id=max(metadata.specs()) + 1)
    try:
        new_spec.check_compatible(metadata.schema())
    except ValidationError as error:
        raise SpecError(str(error)) from error
    equal_specs = (spec for spec in metadata.partition_specs if spec.compatible_with(new_spec))
    # Prefer the current spec: an earlier one may have the same fields with other ids.
    return min(equal_specs, key=lambda spec: (spec.spec_id != metadata.default_spec_id, spec.spec_id), default=new_spec)


@dataclass(frozen=True, slots=True, eq=False)
class _SchemaColumns:
    """Looks up columns of the current schema."""

    metadata: TableMetadata

    def find_column(self, name: str) -> NestedField:
        """Return the column of that name, ignoring case if that is unambiguous; raise `UnknownColumn`."""
        schema = self.metadata.schema()
        for case_sensitive in (True, False):
            try:
                return schema.find_field(name, case_sensitive=case_sensitive)
            except ValueError:
                continue
        raise UnknownColumn(name, tuple(schema.column_names))

    def source_name(self, field: PartitionField) -> str | None:
        """Return the name of a field's source column; None if the column was dropped."""
        return self.metadata.schema().find_column_name(field.source_id)

    def find_column_id(self, name: str) -> int | None:
        """Return the id of the column of that name, ignoring case; None if there is none."""
        try:
            return self.metadata.schema().find_field(name, case_sensitive=False).field_id
        except ValueError:
            return None


def _field_to_drop(
    metadata: TableMetadata, columns: _SchemaColumns, function_or_name: PartitionFunction | str
) -> PartitionField:
    if isinstance(function_or_name, str):
        return _field_by_name(metadata, function_or_name)
    source, transform = columns.find_column(function_or_name.source), parse_transform(str(function_or_name.transform))
    for field in _active_fields(metadata):
        if field.source_id == source.field_id and field.transform == transform:
            return field
    raise SpecError(
        f"no partition field {function_or_name} in spec {metadata.default_spec_id}; "
        f"it has {_active_field_names(metadata)}"
    )


def _field_by_name(metadata: TableMetadata, name: str) -> PartitionField:
    for field in _active_fields(metadata):
        if field.name.casefold() == name.casefold():
            return field
    raise SpecError(
        f"no partition field {name!r} in spec {metadata.default_spec_id}; it has {_active_field_names(metadata)}"
    )


def _active_fields(metadata: TableMetadata) -> list[PartitionField]:
    """Return the fields of the current spec without the void fields that version 1 keeps."""
    return [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]


def _active_field_names(metadata: TableMetadata) -> str:
    return ", ".join(field.name for field in _active_fields(metadata)) or "none"


def _valid_field_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise SpecError(f"a partition field has a name, not {value_repr(name)}")
    return name


def _retained_fields(
    metadata: TableMetadata,
    columns: _SchemaColumns,
    dropped_ids: set[int],
    new_names: Mapping[int, str],
    taken_names: set[str],
) -> Iterator[PartitionField]:
    for field in metadata.spec().fields:
        is_void = isinstance(field.transform, VoidTransform)
        if field.field_id in dropped_ids or is_void:
            if metadata.format_version == 1 or is_void:
                yield _void_field(field, columns, taken_names)
        elif columns.source_name(field) is None:
            raise SpecError(f"the column of partition field {field.name!r} was dropped; drop the field too")
        else:
            name = new_names.get(field.field_id, field.name)
            yield PartitionField(field.source_id, field.field_id, field.transform, name)


def _void_field(field: PartitionField, columns: _SchemaColumns, taken_names: set[str]) -> PartitionField:
    """Return a void field in place of a dropped one, renamed if a new field or a column needs its name."""
    column_id = columns.find_column_id(field.name)
    is_free = field.name.casefold() not in taken_names and column_id in (None, field.source_id)
    name = field.name if is_free else f"{field.name}_{field.field_id}"
    return PartitionField(field.source_id, field.field_id, VoidTransform(), name)


def _new_fields(
    metadata: TableMetadata, columns: _SchemaColumns, functions: Sequence[PartitionFunction], retained_ids: set[int]
) -> Iterator[PartitionField]:
    past_fields = [field for spec in metadata.partition_specs for field in spec.fields]
    last_id = max(
        [metadata.last_partition_id or 0, PARTITION_FIELD_ID_START - 1, *(field.field_id for field in past_fields)]
    )
    for function in functions:
        column = columns.find_column(function.source)
        transform = parse_transform(str(function.transform))
        if isinstance(transform, UnknownTransform):
            raise TransformError(
                str(function.transform), function.source, str(column.field_type), "Iceberg has no such function"
            )
        if not transform.can_transform(column.field_type):
            raise TransformError(
                str(function.transform), function.source, str(column.field_type), "it doesn't take this type"
            )
        name = _valid_field_name(function.name)
        if name.casefold() == function.source.casefold():
            name = str(metadata.schema().find_column_name(column.field_id))
        past_ids = [f.field_id for f in past_fields if f.source_id == column.field_id and f.transform == transform]
        # A table that was upgraded from version 1 may have used one id for two fields.
        free_ids = [field_id for field_id in past_ids if field_id not in retained_ids]
        if free_ids and metadata.format_version != 1:
            field_id = free_ids[0]
        else:
            last_id += 1
            field_id = last_id
        yield PartitionField(column.field_id, field_id, transform, name)


def _check_distinct_fields(fields: Sequence[PartitionField], columns: _SchemaColumns) -> None:
    for index, field in enumerate(fields):
        for earlier in fields[:index]:
            is_void = isinstance(field.transform, VoidTransform)
            if not is_void and (field.source_id, field.transform) == (earlier.source_id, earlier.transform):
                raise SpecError(f"{field.transform} of {columns.source_name(field)!r} is a partition field twice")
            if field.name.casefold() == earlier.name.casefold():
                raise SpecError(f"two partition fields are called {field.name!r}; give one another name")
        may_share_name = isinstance(field.transform, IdentityTransform | VoidTransform)
        column_id = columns.find_column_id(field.name)
        if column_id is not None and not (may_share_name and column_id == field.source_id):
            raise SpecError(f"partition field {field.name!r} has the name of a column; give it another")


def _commit_spec(table: Table, spec: PartitionSpec) -> bool:
    metadata = table.metadata
    is_existing = spec.spec_id in metadata.specs()
    updates: tuple[TableUpdate, ...] = () if is_existing else (AddPartitionSpecUpdate(spec=spec),)
    updates += (SetDefaultSpecUpdate.model_validate({"spec-id": spec.spec_id if is_existing else -1}),)
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
        AssertLastAssignedPartitionId.model_validate({"last-assigned-partition-id": metadata.last_partition_id}),
    )
    try:
        response = table.catalog.commit_table(table, requirements, updates)
    except CommitFailedException:
        return False
    except Exception as error:
        refresh_table(table)
        # The answer may have been lost after the catalog committed.
        if table.metadata.spec().compatible_with(spec):
            return True
        raise TableError(f"evolve: the catalog did not take the new spec of {table_name(table)}: {error}") from error
    table.metadata = response.metadata
    table.metadata_location = response.metadata_location
    return True
