"""Every parser of what others wrote, as a function of bytes; each may raise a `PartitaError` and nothing else."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from partita.errors import PartitaError
from tests.vectors import load_vectors

Parser = Callable[[bytes], object]
PARSERS: dict[str, Parser] = {}

COLUMNS = {
    "b": "boolean", "i": "int", "n": "long", "f": "float", "d": "double", "m": "decimal(10,2)", "w": "decimal(38,18)",
    "day": "date", "ts": "timestamp", "nts": "timestamp_ntz", "s": "string", "x": "binary", "t": "time", "u": "uuid",
    "a": "array<int>", "st": "struct<p:int,q:string>",
}  # fmt: skip


def register_parser(function: Parser) -> Parser:
    """Register a parser under its function's name."""
    PARSERS[function.__name__] = function
    return function


def run_parser(name: str, data: bytes) -> None:
    """Parse an input; what Partita refuses is right, and any other error is raised."""
    try:
        PARSERS[name](data)
    except PartitaError as error:
        str(error)


def known_inputs(name: str) -> list[bytes]:
    """The inputs of a parser that tests/vectors/fuzz.json has, and files that pyiceberg writes."""
    found = [input_bytes(row) for row in load_vectors("fuzz")["inputs"] if row["parser"] == name]
    made = {"iceberg_metadata": ("metadata",), "iceberg_manifest": ("list", "manifest")}.get(name, ())
    return [*found, *(_iceberg_files()[kind] for kind in made)]


def input_bytes(row: Mapping[str, Any]) -> bytes:
    """The bytes of a row: its text, its base64, or `before`, `repeat` so many `times`, and `after`."""
    if "base64" in row:
        return b64decode(row["base64"])
    text = row["text"] if "text" in row else row.get("before", "") + row["repeat"] * row["times"] + row.get("after", "")
    return bytes(text.encode("utf-8", "surrogateescape"))


def decode_text(data: bytes) -> str:
    """The text of bytes, with lone surrogates where they are no UTF-8."""
    return data.decode("utf-8", "surrogateescape")


@cache
def sample_schema() -> Any:
    """A schema with a column of each kind."""
    import partita as pt

    return pt.Schema.of(COLUMNS)


# --- keys, specs, types, predicates, schedules


@register_parser
def partition_key(data: bytes) -> object:
    """`PartitionKey.parse`, whose text is then written again."""
    import partita as pt

    key = pt.PartitionKey.parse(decode_text(data))
    return key.id("asset"), pt.PartitionKey.of(key)


@register_parser
def key_column(data: bytes) -> object:
    """`partita.arrow.key_columns`, a line a key."""
    import partita.arrow

    return partita.arrow.key_columns(pa.array(data.decode("utf-8", "replace").split("\n"), pa.string()))


@register_parser
def key_line(data: bytes) -> object:
    """A line of `partita key encode`."""
    from partita.cli.dimension_text import key_from_line

    return key_from_line(decode_text(data))


@register_parser
def partition_spec(data: bytes) -> object:
    """`parse_spec`, of either family."""
    import partita as pt

    return pt.parse_spec(decode_text(data), sample_schema(), family="lance" if len(data) % 2 else "iceberg")


@register_parser
def type_name(data: bytes) -> object:
    """`parse_type`, by way of a schema."""
    import partita as pt

    return pt.Schema.of({"c": decode_text(data)})


@register_parser
def predicate(data: bytes) -> object:
    """`prune` by a predicate, over partitions of a spec."""
    import partita as pt

    spec = _spec()
    return pt.prune(decode_text(data), schema=sample_schema(), spec=spec, partitions=_partitions()).reasons


@cache
def _spec() -> Any:
    import partita as pt

    return pt.parse_spec("day(ts), bucket(4, n), m, s", sample_schema(), family="iceberg")


@cache
def _partitions() -> pa.Table:
    from decimal import Decimal

    return pa.table({
        "ts_day": pa.array([0, None, 20000], pa.int32()), "n_bucket": pa.array([0, 1, None], pa.int32()),
        "m": pa.array([Decimal("1.50"), None, Decimal("-7.00")], pa.decimal128(10, 2)),
        "s": pa.array(["a", "", None], pa.string()),
    })  # fmt: skip


@register_parser
def cron_schedule(data: bytes) -> object:
    """`cron` in a time zone, and its next moments."""
    import partita as pt

    schedule, _, zone = decode_text(data).partition("\n")
    return pt.cron(schedule, time_zone=zone).cron.ticks(*_MARCH_2025)


_MARCH_2025 = (datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 4, 2, tzinfo=UTC))


@register_parser
def time_windows(data: bytes) -> object:
    """The windows between two moments of a time zone."""
    import partita as pt

    start, end, zone = [*decode_text(data).split("\n", 2), "", ""][:3]
    made = [unit("d", start, end=end or None, time_zone=zone) for unit in (pt.hourly, pt.daily, pt.weekly, pt.monthly)]
    return [one.dimensions[0].expected_ordinals(_MARCH_2025[1]) for one in made]  # type: ignore[union-attr] # windows


# --- Delta


@register_parser
def delta_partition_value(data: bytes) -> object:
    """`parse_partition` of a column of some type, and its value written again."""
    import partita as pt
    from partita.formats.delta import encode_partition, parse_partition

    names = list(COLUMNS)
    name = names[(data[0] if data else 0) % len(names)]
    own = pt.Schema.of({name: COLUMNS[name]})
    zone = "Europe/Berlin" if len(data) % 2 else "UTC"
    return encode_partition(parse_partition({name: decode_text(data[1:])}, own, time_zone=zone), own, time_zone=zone)


_METADATA = {
    "metaData": {
        "id": "x", "format": {"provider": "parquet", "options": {}}, "partitionColumns": ["p"], "configuration": {},
        "schemaString": json.dumps({"type": "struct", "fields": [
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
            {"name": "v", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
        ]}),
    }
}  # fmt: skip
_STATS = '{"numRecords": 2, "minValues": {"v": 1.5}, "maxValues": {"v": 1e3}, "nullCount": {"v": 0}}'
_ADD = {"add": {"path": "a.parquet", "partitionValues": {"p": "x"}, "size": 1, "modificationTime": 1, "stats": _STATS}}
_COMMIT = "\n".join(map(json.dumps, (
    {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationMetrics": {}}},
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, _METADATA, _ADD,
    {"txn": {"appId": "a", "version": 3}}, {"remove": {"path": "b.parquet", "dataChange": True}},
)))  # fmt: skip


class MemoryStorage:
    """Files in memory, with what a log asks of a `Storage`."""

    uri = "/memory"
    options = ()
    is_local = True

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def get(self, path: str) -> bytes | None:
        """The bytes of a file."""
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return path in self.files

    def list(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, int]]:
        """The files below a folder."""
        return ((p, len(d)) for p, d in sorted(self.files.items()) if p.startswith(prefix) and p > after)

    def modified(self, path: str) -> float:
        """When a file was written."""
        return float(len(path))


@register_parser
def delta_commit(data: bytes) -> object:
    """A commit of a Delta log, replayed, planned and listed, on top of one that is right."""
    from partita.formats.delta.store import DeltaTableStore
    from partita.formats.table import Table

    log = {f"_delta_log/{0:020}.json": _COMMIT.encode(), f"_delta_log/{1:020}.json": data}
    table = Table("t", DeltaTableStore(MemoryStorage(log)))  # type: ignore[arg-type] # as much of one as is asked
    table.plan("v > 1 AND p = 'x'").skipped  # noqa: B018 - the reasons are made when asked for
    table.change_feed()
    return table.partitions(), table.history()


@register_parser
def delta_statistics(data: bytes) -> object:
    """`add.stats` of two files, one of them right."""
    from partita.formats.delta.statistics.stats_reader import file_statistics

    texts = pa.array([data.decode("utf-8", "replace").replace("\n", " "), _STATS], pa.string())
    return file_statistics(pa.table({"stats": texts}), sample_schema(), {})


@register_parser
def delta_last_checkpoint(data: bytes) -> object:
    """`_last_checkpoint`, which is a hint."""
    from partita.formats.delta.store import DeltaTableStore
    from partita.formats.table import Table

    log = {f"_delta_log/{0:020}.json": _COMMIT.encode(), "_delta_log/_last_checkpoint": data}
    return Table("t", DeltaTableStore(MemoryStorage(log))).version  # type: ignore[arg-type] # the same


@register_parser
def spark_schema(data: bytes) -> object:
    """A Spark schema in JSON."""
    from partita.algebra.spark_json import schema_from_json
    from partita.formats.delta.log import DeltaMetadata

    metadata = DeltaMetadata.from_action(
        {"id": "x", "schemaString": data.decode("utf-8", "replace"), "partitionColumns": []}
    )
    return schema_from_json(metadata.schema_json)


# --- Iceberg


@cache
def _iceberg_files() -> dict[str, bytes]:
    """The metadata, a manifest list and a manifest of a small table, that pyiceberg wrote."""
    from tempfile import TemporaryDirectory

    from pyiceberg.catalog import load_catalog

    with TemporaryDirectory(prefix="partita-fuzz-") as folder:
        catalog = load_catalog("c", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=folder)
        catalog.create_namespace("n")
        rows = pa.table({"a": pa.array([1, 2], pa.int64()), "s": ["x", "y"]})
        table = catalog.create_table("n.t", rows.schema, location=f"{folder}/t")
        table.append(rows)
        names = {"metadata": "*.metadata.json", "list": "snap-*.avro", "manifest": "*-m0.avro"}
        found = {name: max(Path(folder, "t/metadata").glob(glob)) for name, glob in names.items()}
        return {name: path.read_bytes() for name, path in found.items()}


@register_parser
def iceberg_metadata(data: bytes) -> object:
    """The metadata of an Iceberg table, and the table that it says."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.table import StaticTable
    from pyiceberg.table.metadata import TableMetadataUtil

    from partita.formats.iceberg.catalogs import translate_catalog_errors
    from partita.formats.iceberg.state import current_table_version

    with translate_catalog_errors("the metadata"):
        metadata = TableMetadataUtil.parse_raw(decode_text(data))
        location = "/nowhere/v1.metadata.json"
        return current_table_version(StaticTable(("t",), metadata, location, PyArrowFileIO(), None))  # type: ignore[arg-type] # none


class MemoryIO:
    """Bytes as the file that pyiceberg's readers open."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def new_input(self, _: str) -> MemoryIO:
        """The same file under every name."""
        return self

    def open(self) -> Any:
        """The file."""
        from io import BytesIO

        return BytesIO(self.data)


@register_parser
def iceberg_manifest(data: bytes) -> object:
    """A manifest, or a list of them, in Avro."""
    from partita.formats.iceberg.manifests.avro import read_avro

    return read_avro(MemoryIO(data), "memory.avro")  # type: ignore[arg-type] # as much of one as is asked


# --- Lance


@register_parser
def lance_name(data: bytes) -> object:
    """Names of leaves, as the typed values that they say."""
    import partita as pt
    from partita.formats.lance.values import values_from_names

    columns = ["s", "n", "day", "m", "x", "ts", "u", "b", "t", "nts", "w"]
    column = columns[(data[0] if data else 0) % len(columns)]
    spec = pt.parse_spec([column], sample_schema(), family="lance")
    field = spec.fields[0]
    name = f"{field.name}={data[1:].decode('utf-8', 'replace')}"
    return values_from_names(pa.array([name], pa.string()), field)


@register_parser
def lance_schema(data: bytes) -> object:
    """`lance.partitioning.schema` with partition columns."""
    from partita.formats.lance.columns import table_definition

    return table_definition(decode_text(data), '[{"name": "a"}]').omitted_columns


@register_parser
def lance_log(data: bytes) -> object:
    """A write of a Lance table's log, as it began and as it ended."""
    from partita.formats.lance.log import EMPTY_LOG_SNAPSHOT, LanceLog

    begun, ended = f"_partita/log/{1:020}.json", f"_partita/log/{1:020}.done.json"
    found: list[object] = []
    for files in ({begun: data}, {begun: data, ended: data}):
        log = LanceLog(MemoryStorage(files))  # type: ignore[arg-type] # the same
        try:
            found.append((log.read_latest(EMPTY_LOG_SNAPSHOT), list(log.write_outcomes())))
        except PartitaError as error:
            found.append(error)
    return found


# --- SQL, plans, projects, definitions, the page


@register_parser
def sql_statement(data: bytes) -> object:
    """One SQL statement."""
    from partita.sql.parser import parse_statement

    return parse_statement(decode_text(data))


@register_parser
def plan_file(data: bytes) -> object:
    """The lines of a plan's file; the plan is shown and explained."""
    from partita.assets.plan_file import plan_from_lines

    plan = plan_from_lines(decode_text(data).split("\n"), "plan.jsonl")
    return str(plan), plan.batches, plan.explain("a", ""), list(plan.json_lines())


@register_parser
def project_file(data: bytes) -> object:
    """`partita.toml`."""
    from partita.cli.project import parse_project

    return parse_project(decode_text(data), Path("partita.toml"))


@register_parser
def definition(data: bytes) -> object:
    """An asset's definition as its event has it."""
    from partita.status.definitions import definition_from_json

    found = definition_from_json("a", None, decode_text(data))
    return found.to_json()


@register_parser
def adopted_table(data: bytes) -> object:
    """The file of an adopted table."""
    from partita.assets.adopted_tables import adopted_table as open_adopted

    storage = MemoryStorage({"_partita/adopted/t.json": data})
    return open_adopted(storage, "t")  # type: ignore[arg-type] # as much of one as is asked


@register_parser
def page_query(data: bytes) -> object:
    """The query of a URL of the page."""
    from starlette.datastructures import QueryParams

    from partita.web.api import integer_parameter
    from partita.web.asset_view import read_asset_view
    from partita.web.plan_preview import read_plan_query

    query = QueryParams(data.decode("latin-1"))
    question = read_plan_query(query)
    return question.query_string(), integer_parameter(query, "limit", 1, 10), read_asset_view(query).query_string()
