"""A question about status: which partitions, as of when, and what is to be said of them.

One connection of DuckDB holds the rows (snapshot and tail), the expected partitions and the reasons for staleness as
relations, joined in `BOARD`; what an answer doesn't ask for is not computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from partita.algebra.mappings import MappedBy
from partita.algebra.partition_sets import Dynamic
from partita.errors import DefinitionError, StatusError, UnknownAsset
from partita.status.catalog import read_catalog
from partita.status.definitions import Definition
from partita.status.display import CANCELLED_SQL, DISPLAY_SQL, FAILED_SQL, RUNNING_SQL
from partita.status.engine import TEXT, connect, fetch, instant, listed, make_table, moment, quoted
from partita.status.events import Outcome, checked_instant
from partita.status.expected import make_expected
from partita.status.fold import values_sql
from partita.status.ledger import Ledger
from partita.status.links import Link, dimension_sql, in_asset, links_of
from partita.status.rows import ROLES, SEED, row_names
from partita.status.snapshot import ROWS, StatusTable
from partita.status.spread import make_transitive
from partita.status.staleness import UPSTREAM_STALE, Joined, make_code_changes, make_deadlines, make_upstream_changes

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.status.keys import Where

BOARD = "board"
COLUMNS = (
    *SEED, "display_status", "stale_reasons", "expected", "running", "failed", "cancelled", "staleness",
    "stale_upstream_asset_key", "stale_upstream_partition_key", "stale_root_asset_key", "stale_root_partition_key",
    *(c for role in ROLES for c in role.columns if c not in SEED), "swept_at",
)  # fmt: skip
"""The columns of an answer: the seed's, then ours; later versions add to the end."""
STATES = {
    "missing": "display_status = 'NEVER_MATERIALIZED' AND expected IS NOT FALSE",
    "stale": "stale_since IS NOT NULL",
    "failed": "failed OR display_status = 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'",
    "running": "running",
    "cancelled": "cancelled",
    "unexpected": "expected IS FALSE",
    "never_materialized": "display_status = 'NEVER_MATERIALIZED'",
    "materialized_but_last_attempt_failed": "display_status = 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'",
    "materialized": "display_status = 'MATERIALIZED'",
}
"""What an answer can be narrowed to, and the condition of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked.

    `functions` are the mappings that this process has registered, by asset and upstream. `partly` takes what is known
    of assets whose mapping it doesn't have; else they must have been swept.
    """

    assets: Sequence[str] | None = None
    now: datetime | None = None
    where: Where | None = None
    keys: Sequence[str] | None = None
    transitive: bool = False
    functions: Mapping[tuple[str, str], MappedBy] | None = None
    partly: bool = False


class Answering:
    """The relations that answer a question, for as long as it is open."""

    def __init__(self, ledger: Ledger, table: StatusTable, question: Question, *, make: bool = False) -> None:
        self.question = question
        self.connection = connect()
        given = question.now
        self.now = datetime.now(UTC) if given is None else checked_instant("now", given)
        self._ledger = ledger
        self.files = ledger.files()
        self.catalog = read_catalog(self.connection, ledger, self.files, None if given is None else self.now)
        self.stored = table.stored(self.files, make=make)
        table.view(self.connection, self.files, self.stored, None if given is None else self.now)
        self.assets = self._assets()
        self._make_board()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def rows(self, columns: Sequence[str] = COLUMNS, conditions: Sequence[str] = ()) -> pa.Table:
        """The rows that meet all conditions, in the order of assets and keys."""
        where = f"WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        order = "ORDER BY asset_key, partition_key"
        return fetch(self.connection, f"SELECT {', '.join(columns)} FROM {BOARD} {where} {order}")  # noqa: S608

    def values(self, columns: Sequence[str], conditions: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """The same as Python's values, each column being SQL; a moment comes as microseconds, by `epoch_us`."""
        where = f"WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        order = "ORDER BY asset_key, partition_key"
        return listed(self.connection, f"SELECT {', '.join(columns)} FROM {BOARD} {where} {order}")  # noqa: S608

    def count(self, condition: str) -> int:
        """How many rows meet a condition."""
        found: int = listed(self.connection, f"SELECT count(*) FROM {BOARD} WHERE {condition}")[0][0]  # noqa: S608
        return found

    def counts(self) -> pa.Table:
        """For each asset, how many partitions are in each state."""
        counted = ", ".join(f"count(*) FILTER (WHERE {condition}) AS {name}" for name, condition in STATES.items())
        current = "count(*) FILTER (WHERE display_status = 'MATERIALIZED' AND expected IS NOT FALSE) AS current"
        return fetch(
            self.connection,
            f"SELECT asset_key, count(*) AS partitions, {current}, {counted} FROM {BOARD} "  # noqa: S608 - our own
            "GROUP BY asset_key ORDER BY asset_key",
        )

    def upstream_changes(self) -> pa.Table:
        """Every upstream partition that makes one stale: `UPSTREAM_STALE`, the earliest first."""
        return fetch(self.connection, f"SELECT * FROM {UPSTREAM_STALE} ORDER BY since, by_asset, by_partition")  # noqa: S608

    def _assets(self) -> tuple[str, ...]:
        recorded = [name for (name,) in listed(self.connection, f"SELECT DISTINCT asset_key FROM {ROWS}")]  # noqa: S608
        known = tuple(sorted({*recorded, *self.catalog.timelines}))
        asked = self.question.assets
        for name in asked or ():
            if name not in known:
                raise UnknownAsset(name, known)
        return known if asked is None else tuple(asked)

    def _make_board(self) -> None:
        definitions = [d for d in map(self.catalog.definition, self.assets) if d is not None]
        self._make_base(definitions)
        links = self._links(definitions)
        swept = sorted({link.asset for link in links if not link.is_askable})
        if not self.question.partly:
            self._check_swept(swept)
        links = [link for link in links if link.is_askable]
        self._ledger.view(self.connection, "successes_stored", self.files.of(Outcome.SUCCEEDED.kind))
        until = "" if self.question.now is None else f"WHERE occurred_at <= {instant(self.now)}"
        self.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW successes AS SELECT * FROM successes_stored {until}"  # noqa: S608 - our own
        )
        closure = self._closure(links)
        make_upstream_changes(self.connection, closure, ROWS if self.question.transitive else "asked_rows", "successes")
        within = {link.asset for link in closure} | set(self.assets)
        defined = [d for d in map(self.catalog.definition, sorted(within)) if d is not None]
        fresh = make_deadlines(self.connection, defined, ROWS, self.now)
        code = make_code_changes(
            self.connection, {a: self.catalog.timelines[a] for a in within & set(self.catalog.timelines)}
        )
        if self.question.transitive:
            make_transitive(self.connection, closure, fresh, code, self.now)
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {BOARD} AS {_board(fresh, code, self.now, swept)}")

    def _make_base(self, definitions: Sequence[Definition]) -> None:
        """Make `asked_rows` and `base`: the rows that were asked for, and the same with what is expected besides."""
        assets = ", ".join(map(quoted, self.assets)) or "NULL"
        self.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW asset_rows AS SELECT * FROM {ROWS} WHERE asset_key IN ({assets})"  # noqa: S608
        )
        make_expected(self.connection, "expected_all", [(d, self._members(d)) for d in definitions], self.now)
        narrowed = self._narrow()
        for name, source in (("asked_rows", "asset_rows"), ("expected_keys", "expected_all")):
            self.connection.execute(
                f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {source} {narrowed}"  # noqa: S608 - our own names
            )
        defined = ", ".join(quoted(d.asset) for d in definitions) or "NULL"
        keyed = ("tenant_id", "workspace_id", "asset_key", "partition_key", "partition_values")
        rest = ", ".join(f"r.{c}" for c in row_names() if c not in keyed)
        self.connection.execute(f"""
            CREATE OR REPLACE TEMP VIEW base AS
            SELECT {quoted(self._ledger.tenant)} AS tenant_id, {quoted(self._ledger.workspace)} AS workspace_id,
                   asset_key, partition_key, {rest},
                   CASE WHEN asset_key IN ({defined}) THEN e.wanted IS NOT NULL END AS expected
            FROM asked_rows AS r FULL JOIN (SELECT *, true AS wanted FROM expected_keys) AS e
            USING (asset_key, partition_key)
        """)  # noqa: S608 - our own names

    def _narrow(self) -> str:
        """The join that keeps the keys that were asked for, in rows and in what is expected."""
        where, keys = self.question.where, self.question.keys
        if where is None and keys is None:
            return ""
        if where is not None:
            # The pruning that tables have takes longer to load than most answers take.
            from partita.status.keys import matching

            every = fetch(
                self.connection,
                "SELECT DISTINCT partition_key FROM "
                "(SELECT partition_key FROM asset_rows UNION ALL SELECT partition_key FROM expected_all)",
            )
            found = matching(every["partition_key"].combine_chunks(), where)
            keys = found.to_pylist() if keys is None else sorted(set(keys) & set(found.to_pylist()))
        make_table(self.connection, "narrowed", {"partition_key": TEXT}, [(key,) for key in keys or ()])
        return "SEMI JOIN narrowed USING (partition_key)"

    def _members(self, definition: Definition) -> dict[str, list[str]]:
        """The values of dynamic dimensions: those that were added, or materialized since they were removed."""
        members: dict[str, list[str]] = {}
        for dimension in definition.partitions.dimensions:
            if isinstance(dimension, Dynamic):
                name = dimension.dimension
                said = self.catalog.members.get((definition.asset, name), {})
                made = listed(
                    self.connection,
                    f"SELECT {dimension_sql('partition_key', name)}, epoch_us(max(last_materialization_at)) "  # noqa: S608
                    f"FROM {ROWS} WHERE {in_asset(definition.asset)} "
                    "AND last_materialization_at IS NOT NULL GROUP BY 1",
                )
                values = {value for value, member in said.items() if member.added}
                values |= {
                    value for value, last in made if value and (value not in said or moment(last) > said[value].at)
                }  # fmt: skip
                members[name] = sorted(values)
        return members

    def _links(self, definitions: Sequence[Definition]) -> list[Link]:
        functions = self.question.functions or {}
        found = []
        for definition in definitions:
            for upstream in definition.upstreams:
                mapping = upstream.mapping
                if isinstance(mapping, MappedBy):
                    here = functions.get((definition.asset, upstream.asset))
                    mapping = here if here is not None and here.name == mapping.name else mapping
                found.append(links_of(definition, upstream, self.catalog.definition(upstream.asset), mapping))
        return found

    def _closure(self, links: list[Link]) -> list[Link]:
        """The links; for a transitive question with those of all upstreams, which come before ours."""
        if not self.question.transitive:
            return links
        every = {asset: self._links([d]) for asset in self.catalog.timelines if (d := self.catalog.definition(asset))}
        ordered: list[Link] = []
        done: set[str] = set()

        def visit(asset: str, path: tuple[str, ...]) -> None:
            if asset in path:
                raise DefinitionError(f"assets are upstream of each other: {' <- '.join((*path, asset))}")
            if asset in done:
                return
            for link in every.get(asset, ()):
                visit(link.upstream, (*path, asset))
            done.add(asset)
            ordered.extend(link for link in every.get(asset, ()) if link.is_askable)

        for link in links:
            visit(link.asset, ())
        return ordered

    def _check_swept(self, assets: Sequence[str]) -> None:
        """An asset that can't be judged here must have been swept where it can."""
        for asset in assets:
            sql = (
                f"SELECT count(*) AS n FROM asked_rows WHERE {in_asset(asset)} "  # noqa: S608 - our own names
                "AND last_materialization_at IS NOT NULL AND swept_at IS NULL"
            )
            if listed(self.connection, sql)[0][0]:
                raise StatusError(
                    f"the upstreams of {asset!r} are mapped by a function that this process doesn't have; register the "
                    "asset here, or run `lake.sweep()` where it is registered"
                )


def _board(fresh: Joined, code: Joined, now: datetime, swept: Sequence[str]) -> str:
    """The select that joins the reasons to the base and computes what is shown."""
    precomputed = f"asset_key IN ({', '.join(map(quoted, swept))})" if swept else "false"
    computed = ("stale_since", "stale_reason_code", "stale_reasons", "partition_values")
    kept = ", ".join(f"base.{c}" for c in (*row_names(), "expected") if c not in computed)
    causes = (
        "[{'since': fresh_since, 'rank': 1, 'code': 'FRESHNESS_POLICY'}, "
        "{'since': upstream_since, 'rank': 2, 'code': 'UPSTREAM_CHANGED'}, "
        "{'since': code_since, 'rank': 3, 'code': 'CODE_CHANGED'}]"
    )
    above = "stale_since = upstream_since AND stale_since IS DISTINCT FROM fresh_since"
    ordered = f"list_sort(list_filter({causes}, lambda c: c.since IS NOT NULL))"
    return f"""
        WITH upstream AS (
            SELECT asset_key, partition_key, min(since) AS since, arg_min(by_asset, (since, by_asset)) AS by_asset,
                   arg_min(by_partition, (since, by_asset)) AS by_partition,
                   arg_min(root_asset, (since, by_asset)) AS root_asset,
                   arg_min(root_partition, (since, by_asset)) AS root_partition
            FROM {UPSTREAM_STALE} GROUP BY asset_key, partition_key
        ), judged AS (
            SELECT {kept}, base.stale_since AS swept_since, base.stale_reason_code AS swept_code,
                   base.stale_reasons AS swept_reasons,
                   CASE WHEN {fresh.value} < {instant(now)} THEN {fresh.value} END AS fresh_since,
                   {code.value} AS code_since, upstream.since AS upstream_since, by_asset, by_partition, root_asset,
                   root_partition
            FROM base {fresh.joins} {code.joins}
            LEFT JOIN upstream ON upstream.asset_key = base.asset_key AND upstream.partition_key = base.partition_key
        ), dated AS (
            SELECT *, {precomputed} AS is_swept,
                   CASE WHEN {precomputed} THEN swept_since ELSE least(fresh_since, upstream_since, code_since) END
                       AS stale_since
            FROM judged
        )
        SELECT *,
               {values_sql("partition_key")} AS partition_values,
               CASE WHEN is_swept THEN swept_code WHEN stale_since IS NULL THEN NULL
                    WHEN stale_since = fresh_since THEN 'FRESHNESS_POLICY'
                    WHEN stale_since = upstream_since THEN 'UPSTREAM_CHANGED' ELSE 'CODE_CHANGED' END
                   AS stale_reason_code,
               CASE WHEN is_swept THEN coalesce(swept_reasons, []) WHEN stale_since IS NULL THEN []::VARCHAR[]
                    ELSE list_transform({ordered}, lambda c: c.code) END AS stale_reasons,
               {DISPLAY_SQL} AS display_status, {RUNNING_SQL} AS running, {FAILED_SQL} AS failed,
               {CANCELLED_SQL} AS cancelled,
               CASE WHEN is_swept THEN 'swept' ELSE 'computed' END AS staleness,
               by_asset AS stale_upstream_asset_key, by_partition AS stale_upstream_partition_key,
               CASE WHEN stale_since IS NULL OR is_swept THEN NULL WHEN {above} THEN root_asset ELSE asset_key END
                   AS stale_root_asset_key,
               CASE WHEN stale_since IS NULL OR is_swept THEN NULL WHEN {above} THEN root_partition ELSE partition_key
                   END AS stale_root_partition_key
        FROM dated
    """  # noqa: S608 - our own names
