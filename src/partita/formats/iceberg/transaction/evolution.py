"""Partitioning what is written from now on another way; what is there stays as it is.

Specification, "Partition Evolution": a field that the table has had before keeps its id in version 2; version 1 keeps
every field in its place and makes a dropped one void. A spec that says the same as an earlier one is that one again.
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

from partita.errors import Conflict, SpecError, TableError, TransformError, UnknownColumn, value_repr
from partita.formats.arguments import functions_of
from partita.formats.iceberg.transaction.commit import Retries
from partita.formats.iceberg.transaction.edge import name_of, refresh, translated
from partita.formats.iceberg.transaction.validation import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from partita.algebra.transforms import PartitionFunction


def evolve(
    table: Table,
    add: Sequence[PartitionFunction | str] = (),
    drop: Sequence[PartitionFunction | str] = (),
    rename: Mapping[str, str] | None = None,
) -> None:
    """Drop, rename, then add partition fields, for new files alone; where nothing changes, nothing is committed.

    Where another changed the table meanwhile, the same is done to what it is then, unless it is what was asked for.
    """
    retries = Retries(table.metadata)
    with translated(table):
        while True:
            check_writable(table.metadata)
            spec = evolved(table.metadata, add, drop, rename or {})
            if spec.spec_id == table.metadata.default_spec_id or _landed(table, spec):
                return
            goes_on = retries.wait()
            refresh(table)
            # It may have been ours: an answer can be lost, and the request be sent again on its way.
            if table.metadata.spec().compatible_with(spec):
                return
            if not goes_on:
                raise Conflict("evolve", f"was first in all of {retries.tries} tries")


def evolved(
    metadata: TableMetadata,
    add: Sequence[PartitionFunction | str],
    drop: Sequence[PartitionFunction | str],
    rename: Mapping[str, str],
) -> PartitionSpec:
    """The spec that the table would have next: a new one, or an earlier one that says the same."""
    columns = _Columns(metadata)
    dropped = {_dropped(metadata, columns, given).field_id for given in drop}
    renamed = {_named(metadata, old).field_id: _checked_name(new) for old, new in rename.items()}
    for field in metadata.spec().fields:
        if field.field_id in dropped and field.field_id in renamed:
            raise SpecError(f"partition field {field.name!r} can't be both dropped and renamed")
    functions = functions_of(add, "add")
    taken = {name.casefold() for name in (*renamed.values(), *(function.name for function in functions))}
    kept = tuple(_kept(metadata, columns, dropped, renamed, taken))
    fields = (*kept, *_added(metadata, columns, functions, {field.field_id for field in kept}))
    _check_distinct(fields, columns)
    wanted = PartitionSpec(*fields, spec_id=max(metadata.specs()) + 1)
    try:
        wanted.check_compatible(metadata.schema())
    except ValidationError as error:
        raise SpecError(str(error)) from error
    same = (spec for spec in metadata.partition_specs if spec.compatible_with(wanted))
    # The current spec first, for an earlier one may say the same with other ids.
    return min(same, key=lambda spec: (spec.spec_id != metadata.default_spec_id, spec.spec_id), default=wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The columns of the current schema."""

    metadata: TableMetadata

    def find(self, name: str) -> NestedField:
        """The column of that name, without regard to case where that is clear."""
        schema = self.metadata.schema()
        for case_sensitive in (True, False):
            try:
                return schema.find_field(name, case_sensitive=case_sensitive)
            except ValueError:
                continue
        raise UnknownColumn(name, tuple(schema.column_names))

    def name_of(self, field: PartitionField) -> str | None:
        """The name of a field's source column; None where that is gone."""
        return self.metadata.schema().find_column_name(field.source_id)

    def called(self, name: str) -> int | None:
        """The id of the column of that name, without regard to case."""
        try:
            return self.metadata.schema().find_field(name, case_sensitive=False).field_id
        except ValueError:
            return None


def _dropped(metadata: TableMetadata, columns: _Columns, given: PartitionFunction | str) -> PartitionField:
    if isinstance(given, str):
        return _named(metadata, given)
    source, transform = columns.find(given.source), parse_transform(str(given.transform))
    for field in _living(metadata):
        if field.source_id == source.field_id and field.transform == transform:
            return field
    raise SpecError(f"no partition field {given} in spec {metadata.default_spec_id}; it has {_names(metadata)}")


def _named(metadata: TableMetadata, name: str) -> PartitionField:
    for field in _living(metadata):
        if field.name.casefold() == name.casefold():
            return field
    raise SpecError(f"no partition field {name!r} in spec {metadata.default_spec_id}; it has {_names(metadata)}")


def _living(metadata: TableMetadata) -> list[PartitionField]:
    """The fields of the current spec, without those that version 1 keeps the place of."""
    return [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]


def _names(metadata: TableMetadata) -> str:
    return ", ".join(field.name for field in _living(metadata)) or "none"


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise SpecError(f"a partition field has a name, not {value_repr(name)}")
    return name


def _kept(
    metadata: TableMetadata, columns: _Columns, dropped: set[int], renamed: Mapping[int, str], taken: set[str]
) -> Iterator[PartitionField]:
    for field in metadata.spec().fields:
        void = isinstance(field.transform, VoidTransform)
        if field.field_id in dropped or void:
            if metadata.format_version == 1 or void:
                yield _voided(field, columns, taken)
        elif columns.name_of(field) is None:
            raise SpecError(f"the column of partition field {field.name!r} was dropped; drop the field too")
        else:
            name = renamed.get(field.field_id, field.name)
            yield PartitionField(field.source_id, field.field_id, field.transform, name)


def _voided(field: PartitionField, columns: _Columns, taken: set[str]) -> PartitionField:
    """The field's place, under a name that leaves its own to others who want it."""
    column = columns.called(field.name)
    free = field.name.casefold() not in taken and column in (None, field.source_id)
    name = field.name if free else f"{field.name}_{field.field_id}"
    return PartitionField(field.source_id, field.field_id, VoidTransform(), name)


def _added(
    metadata: TableMetadata, columns: _Columns, functions: Sequence[PartitionFunction], kept: set[int]
) -> Iterator[PartitionField]:
    past = [field for spec in metadata.partition_specs for field in spec.fields]
    last = max([metadata.last_partition_id or 0, PARTITION_FIELD_ID_START - 1, *(field.field_id for field in past)])
    for function in functions:
        column = columns.find(function.source)
        transform = parse_transform(str(function.transform))
        if isinstance(transform, UnknownTransform):
            raise TransformError(
                str(function.transform), function.source, str(column.field_type), "Iceberg has no such function"
            )
        if not transform.can_transform(column.field_type):
            raise TransformError(
                str(function.transform), function.source, str(column.field_type), "it doesn't take this type"
            )
        name = _checked_name(function.name)
        if name.casefold() == function.source.casefold():
            name = str(metadata.schema().find_column_name(column.field_id))
        before = [f.field_id for f in past if f.source_id == column.field_id and f.transform == transform]
        # A table that was of version 1 may have had one id for two fields.
        free = [field_id for field_id in before if field_id not in kept]
        if free and metadata.format_version != 1:
            field_id = free[0]
        else:
            last += 1
            field_id = last
        yield PartitionField(column.field_id, field_id, transform, name)


def _check_distinct(fields: Sequence[PartitionField], columns: _Columns) -> None:
    for at, field in enumerate(fields):
        for earlier in fields[:at]:
            void = isinstance(field.transform, VoidTransform)
            if not void and (field.source_id, field.transform) == (earlier.source_id, earlier.transform):
                raise SpecError(f"{field.transform} of {columns.name_of(field)!r} is a partition field twice")
            if field.name.casefold() == earlier.name.casefold():
                raise SpecError(f"two partition fields are called {field.name!r}; give one another name")
        own = isinstance(field.transform, IdentityTransform | VoidTransform)
        column = columns.called(field.name)
        if column is not None and not (own and column == field.source_id):
            raise SpecError(f"partition field {field.name!r} has the name of a column; give it another")


def _landed(table: Table, spec: PartitionSpec) -> bool:
    metadata = table.metadata
    known = spec.spec_id in metadata.specs()
    updates: tuple[TableUpdate, ...] = () if known else (AddPartitionSpecUpdate(spec=spec),)
    updates += (SetDefaultSpecUpdate.model_validate({"spec-id": spec.spec_id if known else -1}),)
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
        refresh(table)
        # The answer may have been lost after the catalog took it.
        if table.metadata.spec().compatible_with(spec):
            return True
        raise TableError(f"evolve: the catalog did not take the new spec of {name_of(table)}: {error}") from error
    table.metadata = response.metadata
    table.metadata_location = response.metadata_location
    return True
