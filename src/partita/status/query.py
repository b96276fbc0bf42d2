"""A question about status: which partitions, as of when, and what is to be said of them.

One connection of DuckDB holds the rows (snapshot and tail), the expected partitions and the reasons for staleness as
relations, joined in `BOARD`. What is wrong with one asset is said of it; the others are answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue
from partita.algebra.mappings import MappedBy
from partita.algebra.partition_sets import Dynamic
from partita.errors import DefinitionError, StatusError, UnknownAsset
from partita.status.board import BOARD, COLUMNS, board_sql, counts_sql
from partita.status.catalog import read_catalog
from partita.status.definitions import Definition
from partita.status.engine import TEXT, connect, fetch, instant, listed, make_table, moment, quoted
from partita.status.events import FINISHED, STARTED, Outcome, checked_instant
from partita.status.expected import make_expected
from partita.status.ledger import Ledger
from partita.status.links import Link, dimension_sql, in_asset, links_of
from partita.status.rows import row_names
from partita.status.running import make_running
from partita.status.snapshot import EVERY_ROW, ROWS, StatusTable
from partita.status.spread import make_transitive
from partita.status.staleness import (
    UPSTREAM_STALE,
    add_swept,
    make_code_changes,
    make_deadlines,
    make_upstream_changes,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.parse import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked.

    `functions` are the mappings that this process has registered, by asset and upstream. An asset that is asked for by
    its name must be judged, or that is refused; among all of them, or `partly`, it is marked as unknown.
    """

    assets: Sequence[str] | None = None
    now: datetime | None = None
    where: Condition | None = None
    keys: Sequence[str] | None = None
    transitive: bool = False
    functions: Mapping[tuple[str, str], MappedBy] | None = None
    partly: bool = False


UNASKED = "an upstream is mapped by a function that this process doesn't have"
"""Why an asset without trouble can't be judged."""


class Answering:
    """The relations that answer a question, for as long as it is open.

    Without a `now`, that is when the ledger was read; what is dated later doesn't count. `make` is for a sweep, which
    makes the status table and keeps every event.
    """

    def __init__(self, ledger: Ledger, table: StatusTable, question: Question, *, make: bool = False) -> None:
        self.question = question
        self.connection = connect()
        self._ledger = ledger
        self.files = ledger.files()
        given = question.now
        self.now = datetime.now(UTC) if given is None else checked_instant("now", given)
        self.troubles: dict[str, str] = {}
        """Why assets can't be judged, by name."""
        self._failing: set[str] = set()
        until = None if make else self.now
        self.catalog = read_catalog(self.connection, ledger, self.files, until)
        self.stored = table.stored(self.files, make=make)
        table.view(self.connection, self.files, self.stored, until)
        self.assets = self._assets()
        self._make_board()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def turn_to(self, assets: Sequence[str], keys: Sequence[str] | None = None) -> None:
        """Ask the same of other partitions, of the same events; without keys, of all that the assets have."""
        self.question = replace(self.question, assets=assets, keys=keys)
        self.assets = self._assets()
        self._make_board()

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
        return fetch(self.connection, counts_sql())

    def upstream_changes(self) -> pa.Table:
        """Every upstream partition that makes one stale: `UPSTREAM_STALE`, the earliest first."""
        return fetch(self.connection, f"SELECT * FROM {UPSTREAM_STALE} ORDER BY since, by_asset, by_partition")  # noqa: S608

    def unjudged(self, condition: str = "staleness = 'unknown'") -> dict[str, str]:
        """Why assets can't be judged, by name: those with a row that meets the condition."""
        found = listed(self.connection, f"SELECT DISTINCT asset_key FROM {BOARD} WHERE {condition} ORDER BY 1")  # noqa: S608
        return {asset: self.troubles.get(asset, UNASKED) for (asset,) in found}

    def dynamic_values(self, asset: str) -> dict[str, list[KeyValue]]:
        """The values of an asset's dynamic dimensions; none where it has no definition."""
        members = {name: texts for d in self._definitions([asset]) for name, texts in self._members(d).items()}
        return {name: [PartitionKey.parse(f"{name}={t}")[name] for t in texts] for name, texts in members.items()}

    def make_later(self, name: str, asset: str, until: Mapping[str, datetime]) -> None:
        """Make a relation like that of `make_expected`: what an asset expects once windows up to `until` are over."""
        given = [(definition, self._members(definition)) for definition in self._definitions([asset])]
        make_expected(self.connection, name, given, self.now, until)

    def links(self, asset: str) -> list[Link]:
        """How an asset is made from its upstreams; none where it is not registered, or not made any more."""
        return self._links(self._definitions([asset]))

    @property
    def _is_strict(self) -> bool:
        return self.question.assets is not None and not self.question.partly

    def definitions(self) -> dict[str, Definition]:
        """The definitions of all assets that are made, by name, but for those that can't be used.

        One whose function fails is there, for whoever follows its links to be told.
        """
        found = self._definitions(self.catalog.timelines)
        unusable = self.troubles.keys() - self._failing
        return {definition.asset: definition for definition in found if definition.asset not in unusable}

    @cached_property
    def known(self) -> tuple[str, ...]:
        """Every asset that was registered, or that something was recorded of."""
        recorded = listed(self.connection, f"SELECT DISTINCT asset_key FROM {EVERY_ROW}")  # noqa: S608 - our own names
        return tuple(sorted({*(name for (name,) in recorded), *self.catalog.timelines}))

    def _assets(self) -> tuple[str, ...]:
        known, asked = self.known, self.question.assets
        for name in asked or ():
            if name not in known:
                raise UnknownAsset(name, known)
        return known if asked is None else tuple(dict.fromkeys(asked))

    def _definition(self, asset: str) -> Definition | None:
        """The definition of an asset; None too where this version can't read it, which is kept as trouble."""
        try:
            return self.catalog.definition(asset)
        except DefinitionError as error:
            self._trouble(asset, error)
            return None

    def _definitions(self, assets: Iterable[str]) -> list[Definition]:
        """The definitions by which assets are judged; those that were retired are not."""
        found = (self._definition(asset) for asset in assets if asset not in self.catalog.retired)
        return [definition for definition in found if definition is not None]

    def _trouble(self, asset: str, error: DefinitionError) -> None:
        if self._is_strict and asset in self.assets:
            raise error
        self.troubles[asset] = str(error)

    def _make_board(self) -> None:
        definitions = self._definitions(self.assets)
        self._make_base(definitions)
        links = self._links(definitions)
        if self._is_strict:
            self._check_swept({link.asset for link in links if not link.is_askable})
        until = f"WHERE occurred_at <= {instant(self.now)}"
        self._ledger.view(self.connection, "successes_stored", self.files.of(Outcome.SUCCEEDED.kind))
        self.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW successes AS SELECT * FROM successes_stored {until}"  # noqa: S608 - our own
        )
        closure = self._closure(links)
        askable = [link for link in closure if link.is_askable]
        unasked = {link.asset for link in closure if not link.is_askable}
        rows = ROWS if self.question.transitive else "asked_rows"
        for link, error in make_upstream_changes(self.connection, askable, rows, "successes"):
            self._trouble(link.asset, error)
            self._failing.add(link.asset)
            askable.remove(link)
        add_swept(self.connection, unasked, ROWS)
        self._make_running()
        within = sorted({link.asset for link in closure} | set(self.assets))
        defined = self._definitions(within)
        fresh = make_deadlines(self.connection, defined, ROWS, self.now)
        code = make_code_changes(self.connection, {d.asset: self.catalog.timelines[d.asset] for d in defined})
        if self.question.transitive:
            make_transitive(self.connection, askable, fresh, code, self.now)
        board = board_sql(fresh, code, self.now, unasked, self.troubles)
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {BOARD} AS {board}")

    def _make_running(self) -> None:
        """Make the relation of what is running; where nobody records starts, nothing is read for it."""
        if not self.files.of(STARTED):
            make_running(self.connection, None)
            return
        self._ledger.view(self.connection, "attempts_stored", self.files.of(STARTED, *FINISHED))
        narrowed = "SEMI JOIN narrowed USING (partition_key)" if self._is_narrowed else ""
        assets = ", ".join(map(quoted, self.assets)) or "NULL"
        make_running(
            self.connection,
            f"(SELECT * FROM attempts_stored {narrowed} "  # noqa: S608 - our own names
            f"WHERE asset_key IN ({assets}) AND occurred_at <= {instant(self.now)})",
        )

    @property
    def _is_narrowed(self) -> bool:
        return self.question.where is not None or self.question.keys is not None

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
        judged = {*(d.asset for d in definitions), *self.catalog.retired}
        defined = ", ".join(map(quoted, sorted(judged))) or "NULL"
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
        if not self._is_narrowed:
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
        """The values of dynamic dimensions: those that were added, or tried since they were removed."""
        members: dict[str, list[str]] = {}
        for dimension in definition.partitions.dimensions:
            if isinstance(dimension, Dynamic):
                name = dimension.dimension
                said = self.catalog.members.get((definition.asset, name), {})
                tried = listed(
                    self.connection,
                    f"SELECT {dimension_sql('partition_key', name)}, "  # noqa: S608 - our own names
                    f"epoch_us(max(greatest(last_attempt_at, last_start_at))) AS last "
                    f"FROM {ROWS} WHERE {in_asset(definition.asset)} GROUP BY 1 HAVING last IS NOT NULL",
                )
                values = {value for value, member in said.items() if member.added}
                values |= {
                    value for value, last in tried if value and (value not in said or moment(last) > said[value].at)
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
                try:
                    theirs = self.catalog.definition(upstream.asset)
                    found.append(links_of(definition, upstream, theirs, mapping))
                except DefinitionError as error:
                    self._trouble(definition.asset, error)
        return found

    def _closure(self, links: list[Link]) -> list[Link]:
        """The links; for a transitive question with those of all upstreams, which come before ours."""
        if not self.question.transitive:
            return links
        every = {d.asset: self._links([d]) for d in self._definitions(self.catalog.timelines)}
        ordered: list[Link] = []
        done: set[str] = set()

        def visit(asset: str, path: tuple[str, ...]) -> None:
            if asset in path:
                cycle = (*path[path.index(asset) :], asset)
                self._trouble(asset, DefinitionError(f"assets are upstream of each other: {' <- '.join(cycle)}"))
            elif asset not in done:
                for link in every.get(asset, ()):
                    visit(link.upstream, (*path, asset))
                done.add(asset)
                ordered.extend(every.get(asset, ()))

        for link in links:
            visit(link.asset, ())
        return ordered

    def _check_swept(self, assets: set[str]) -> None:
        """An asset that can't be judged here must have been swept where it can."""
        for asset in sorted(assets):
            sql = (
                f"SELECT count(*) AS n FROM asked_rows WHERE {in_asset(asset)} "  # noqa: S608 - our own names
                "AND last_materialization_at IS NOT NULL AND swept_at IS NULL"
            )
            if listed(self.connection, sql)[0][0]:
                raise StatusError(
                    f"the upstreams of {asset!r} are mapped by a function that this process doesn't have; register the "
                    "asset here, or run `lake.sweep()` where it is registered"
                )
