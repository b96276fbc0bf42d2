"""The definition of a table: a small file in its folder, which other readers ignore.

```text
_partita_table/definition.json   its id, its schema in Spark's JSON, and its partition columns
```

`create_table` writes it for a new table, and `declare_table` for a folder that others made, so that nothing about it
must be inferred.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from partita.algebra.schema import Schema, check_distinct_names
from partita.algebra.spark_json import schema_from_json, schema_to_json
from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.algebra.types import Field, ListType, LogicalType, MapType, StructType, TypeKind, nested_types
from partita.arrow.schema import to_arrow_type, to_schema
from partita.errors import SchemaError, SpecError, TableError, TableExists
from partita.formats.arguments import partition_functions_of
from partita.formats.column_partitioning import identity_spec, not_a_column_error
from partita.formats.parquet.format import PARQUET
from partita.formats.parquet.values import PARTITION_TEXT_KINDS, is_hidden
from partita.storage import Storage
from partita.untrusted_input import parse_json_object, translate_read_errors

TABLE_FOLDER = "_partita_table"
DEFINITION_PATH = f"{TABLE_FOLDER}/definition.json"
DECLARATION_CALL = "partita.formats.parquet.declare_table(uri, schema, partition_by)"
"""What messages advise where something can't be inferred."""
_UNSTORED_KINDS = frozenset({TypeKind.TIME, TypeKind.FIXED, TypeKind.UUID, TypeKind.NULL, TypeKind.OTHER})


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What `DEFINITION_PATH` says."""

    table_id: str
    schema: Schema
    partition_names: tuple[str, ...]


def read_definition(storage: Storage) -> TableDefinition | None:
    """Return the definition of the table in a folder; None if it has none."""
    data = storage.get(DEFINITION_PATH)
    if data is None:
        return None
    with translate_read_errors(
        f"{DEFINITION_PATH} in {storage.uri} (if it is damaged, delete it and declare the table)"
    ):
        document = parse_json_object(data)
        if document["format_version"] != 1:
            raise TableError(f"{DEFINITION_PATH} in {storage.uri} is of a newer version of Partita; upgrade Partita")
        schema, names = schema_from_json(document["schema"]), tuple(map(str, document["partition_by"]))
        check_columns(schema, names)
        return TableDefinition(str(document["id"]), schema, names)


def new_table_spec(schema: Schema, functions: Iterable[PartitionFunction]) -> PartitionSpec:
    """Return the spec of a new table; raise `SpecError` for what can't partition a folder."""
    return identity_spec(_partition_names(schema, functions), schema)


def _partition_names(schema: Schema, functions: Iterable[PartitionFunction]) -> list[str]:
    names = []
    for function in functions:
        source = schema.find_field(function.source)
        if not PARQUET.can_partition_by(function):
            raise not_a_column_error("Parquet", function)
        names.append(source.name)
    check_columns(schema, names)
    return names


def check_columns(schema: Schema, partition_names: Sequence[str]) -> None:
    """Raise `SchemaError` for a column that no file can hold, and `SpecError` for one that can't be a folder."""
    check_distinct_names(schema.names)
    for field in schema:
        check_distinct_fields(field.type, f"column {field.name!r}")
        check_stored_type(field.type, f"column {field.name!r}")
    if len({name.casefold() for name in partition_names}) < len(partition_names):
        raise SpecError(f"a column is partitioned by twice: {', '.join(partition_names)}; name each once")
    if len(partition_names) == len(schema.fields):
        raise SpecError("a Parquet table needs a column that it is not partitioned by; add one to the schema")
    for field in map(schema.find_field, partition_names):
        check_partition_column(field)


def check_distinct_columns(names: Iterable[str], description: str) -> None:
    """Raise `SchemaError`, with what has them, if two columns differ in case only."""
    try:
        check_distinct_names(names)
    except SchemaError as error:
        raise SchemaError(f"{description}: {error}") from error


def check_distinct_fields(type_: LogicalType, description: str) -> None:
    """Raise `SchemaError`, with what has them, if two fields of a struct at any depth differ in case only."""
    for nested_type in nested_types(type_):
        if isinstance(nested_type, StructType):
            check_distinct_columns([field.name for field in nested_type.fields], description)


def check_partition_column(field: Field) -> None:
    """Raise `SpecError` if a column's values can't be the names of folders."""
    if field.type.kind not in PARTITION_TEXT_KINDS:
        raise SpecError(
            f"a Parquet table can't be partitioned by {field.name!r} of type {field.type}, which no folder's "
            "name holds; add a column of a date, a number or a text, or use format='iceberg'"
        )


def check_stored_type(type_: LogicalType, description: str) -> None:
    """Raise `SchemaError` for a type that Partita can't read from a Parquet file, or not write to it again."""
    if type_.kind in _UNSTORED_KINDS:
        raise SchemaError(
            f"{description} has type {type_}, which is not read from Parquet files; cast it, a timestamp to "
            "microseconds (coerce_timestamps='us' in pandas and pyarrow), halffloat to float, others to a number or a "
            "text"
        )
    if isinstance(type_, StructType):
        for field in type_.fields:
            check_stored_type(field.type, f"{description}, field {field.name!r}")
    elif isinstance(type_, ListType):
        check_stored_type(type_.element, description)
    elif isinstance(type_, MapType):
        check_stored_type(type_.key, description)
        check_stored_type(type_.value, description)


def create_table(
    storage: Storage, schema: Schema, functions: Iterable[PartitionFunction], properties: Mapping[str, str]
) -> None:
    """Define a new table in a folder without files of its own; raise `TableExists` if there is a table."""
    if properties:
        raise TableError(f"a Parquet table has no properties; leave {', '.join(map(repr, properties))} out")
    # Lengths of texts and names of Arrow types that files don't keep are left out.
    plain = [pa.field(f.name, to_arrow_type(f.type), f.nullable) for f in schema if f.type.kind is not TypeKind.OTHER]
    if len(plain) == len(schema.fields):
        schema = to_schema(pa.schema(plain))
    names = _partition_names(schema, functions)
    foreign = next((path for path, _ in storage.list_paths() if not is_hidden(path)), None)
    if foreign is not None:
        raise TableError(
            f"the folder {storage.uri} has files already, such as {foreign}; open them as a table with pt.open_table, "
            "or choose another name"
        )
    if not storage.put_if_absent(DEFINITION_PATH, _new_definition_json(schema, names)):
        raise TableExists(storage.uri)


def declare_table(
    uri: str,
    schema: object,
    partition_by: Sequence[PartitionFunction | str] = (),
    *,
    options: Mapping[str, str] | None = None,
) -> None:
    """Write down the schema and the partition columns of a folder that others made, for `pt.open_table`.

    Its partition columns are those of the folders' names, and other columns that `schema` lacks are not read. A
    definition that was inferred is replaced. Raises `TableExists` if the folder has another one, and `TableError` if
    its files don't fit.
    """
    from partita.formats.parquet.footers import sampled_files, stored_types_by_file
    from partita.formats.parquet.state import load_table_version

    storage, columns = Storage.from_uri(uri, options), to_schema(schema)
    names = _partition_names(columns, partition_functions_of(partition_by, "partition_by"))
    table_version = load_table_version(storage, TableDefinition("", columns, tuple(names)))
    stored_types_by_file(storage, sampled_files(table_version.data_files), table_version.stored_columns)
    definition = read_definition(storage)
    if definition is not None and not definition.table_id:
        storage.put(DEFINITION_PATH, _new_definition_json(columns, names))
    elif not storage.put_if_absent(DEFINITION_PATH, _new_definition_json(columns, names)):
        raise TableExists(storage.uri, f"delete its {DEFINITION_PATH} to declare it anew")


def keep_inferred_definition(storage: Storage, definition: TableDefinition) -> None:
    """Write down what was inferred from files, before a commit changes it; an existing definition stays.

    The id stays empty, by which cursors of the change feed know the folder.
    """
    storage.put_if_absent(DEFINITION_PATH, _definition_json(definition))


def _new_definition_json(schema: Schema, partition_names: Sequence[str]) -> bytes:
    return _definition_json(TableDefinition(str(uuid4()), schema, tuple(partition_names)))


def _definition_json(definition: TableDefinition) -> bytes:
    document = {
        "format_version": 1,
        "id": definition.table_id,
        "schema": schema_to_json(definition.schema),
        "partition_by": list(definition.partition_names),
    }
    return json.dumps(document, ensure_ascii=False).encode()
