"""A lake: the folder where tables live, each under its dotted name."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from partita.algebra.key_text import KeyValue
from partita.algebra.partition_sets import PartitionSet
from partita.algebra.time_zones import find_time_zone
from partita.algebra.transforms import PartitionFunction
from partita.errors import (
    DefinitionError,
    PlanError,
    SchemaError,
    SpecError,
    StatusError,
    TableError,
    TableExists,
    TableMissing,
    value_repr,
)
from partita.status.definitions import Definition
from partita.status.events import ADDED, OF_PARTITIONS, REMOVED, WIPED
from partita.status.ledger import Files, of_workspace
from partita.status.recording import Attempt, Key, key_texts, kind_of, record, record_canonical
from partita.status.recording import attempt as attempt_at
from partita.status.rows import KEY, MATERIALIZATION, WIPE, completed, row_schema
from partita.status.workspace import FOLDER, AssetGiven, Workspace, named, names_of
from partita.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.freshness import Freshness
    from partita.algebra.parse import Condition, Where
    from partita.assets.asset import Asset
    from partita.assets.ground import Ground
    from partita.assets.launching import Launch
    from partita.assets.observing import Observed
    from partita.assets.plan import Plan
    from partita.assets.progress import Listener, RunResult
    from partita.assets.running import Options
    from partita.formats.on_spark.job import Outcome
    from partita.formats.opening import Tables
    from partita.formats.table import Table
    from partita.picture.notebook import Shown
    from partita.spark.rows import DataFrame
    from partita.status.folding import Folded
    from partita.status.query import Answering
    from partita.status.why import Why

_PART = re.compile(r"\w[\w-]*")


class Lake:
    """A folder of tables, on a disk or in an object store (`s3://`, `gs://`, `abfss://`).

    `options` are the settings of the object store, by obstore's names. `catalog` is where Iceberg tables are kept, by
    pyiceberg's names; without it that is a SQLite file in the folder. `time_zone` is that of dates and times in
    predicates that name none, where no Spark session runs, and that of a session which the lake or a table starts.
    """

    def __init__(  # noqa: PLR0913 - what there is to say of a lake
        self,
        uri: str,
        *,
        tenant: str = "default",
        workspace: str = "default",
        options: Mapping[str, str] | None = None,
        catalog: Mapping[str, str] | None = None,
        time_zone: str = "UTC",
    ) -> None:
        self.storage = Storage.at(uri, options)
        self.time_zone = find_time_zone(time_zone).name
        self._catalog = catalog
        self.tenant = tenant
        self.workspace = workspace
        self._workspace = Workspace(self.uri, dict(self.storage.options), tenant, workspace)
        self._assets: dict[str, Asset] = {}

    def __repr__(self) -> str:
        return f"<Lake {self.uri}>"

    def _repr_html_(self) -> str:
        from partita.picture.notebook import lake_html
        from partita.picture.snapshot import take_snapshot

        return lake_html(self.uri, f"{self.tenant}/{self.workspace}", take_snapshot(self))

    @property
    def uri(self) -> str:
        """Where the lake is."""
        return self.storage.uri

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        format: str,  # noqa: A002
        partition_by: Sequence[PartitionFunction | str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Make a table; `schema` is Partita's, Arrow's or Spark's, and `properties` are the format's own settings."""
        from partita.assets.adopting import is_adopted

        if is_adopted(self.storage, _checked(name)):
            raise TableExists(f"{name}, which was adopted")
        return self._tables().create(_checked(name), schema, format, partition_by, properties or {})

    def table(self, name: str) -> Table:
        """The table of that name, in the format that it is in; one that was adopted is found where it is."""
        try:
            return self._tables().find(_checked(name))
        except TableMissing:
            from partita.assets.adopting import adopted_table

            adopted = adopted_table(self.storage, name, self.time_zone)
            if adopted is None:
                raise
            return adopted

    def tables(self) -> list[str]:
        """The names of all tables, sorted, whatever their format, and those that were adopted; `table` opens each."""
        from partita.assets.adopting import adopted_names
        from partita.formats.listing import table_names

        return sorted(table_names(self._tables(), FOLDER) | adopted_names(self.storage))

    def sql(self, text: str, /, **rows: object) -> DataFrame | Outcome | Table:
        """Run one SQL statement on tables of the lake, whatever their format.

        A SELECT gives a DataFrame; INSERT, UPDATE, DELETE and MERGE say what they did; CREATE TABLE and ALTER TABLE ...
        PARTITION FIELD give the table. A name means `rows` that are given by that name, or else a table of the lake, or
        else a view or a table of Spark's: `lake.sql("MERGE INTO sales.orders t USING news s ON ...", news=frame)`.
        """
        from partita.sql.run import run

        return run(self, text, rows)

    def _tables(self) -> Tables:
        from partita.formats.opening import Tables

        return Tables(self.storage, self._catalog, self.time_zone)

    def _condition(self, where: Where | None) -> Condition | None:
        """A predicate in the current time zone."""
        if where is None:
            return None
        from partita.formats.conditions import current_condition

        return current_condition(where, self.time_zone)

    # --- assets and status

    def register(self, *assets: Any) -> list[str]:
        """Record the definitions of assets where they changed; returns the names of those.

        A dimension that the table of an asset can't hold is refused. The assets can then be run by `run` here.
        """
        definitions = [getattr(asset, "definition", asset) for asset in assets]
        for definition in definitions:
            if not isinstance(definition, Definition):
                raise DefinitionError(f"an asset is made by @asset, not {value_repr(definition)}")
        for asset in assets:
            self._check_held(asset)
        changed = self._workspace.register(definitions)
        for asset, definition in zip(assets, definitions, strict=True):
            if definition.source:
                from partita.assets.observing import watch

                watch(self._ground, definition)
            if hasattr(asset, "definition"):
                self._assets[definition.asset] = asset
        return changed

    def _check_held(self, asset: Any) -> None:
        """Refuse dimensions that the asset's table can't hold, or could not once it is made."""
        definition = getattr(asset, "definition", None)
        if definition is None or definition.table is None:
            return
        from partita.assets.holding import Holding, check_format, check_new

        try:
            table: Table | None = self.table(definition.table)
        except TableMissing:
            table = None
        try:
            if table is not None:
                check_format(definition, table.format)
                Holding.of(definition.asset, definition.partitions, table.spec)
            elif not definition.source:
                check_format(definition, asset.making.format)
                check_new(definition, asset.making)
        except (DefinitionError, SchemaError, SpecError) as error:
            raise DefinitionError(f"{asset.place}: {error}" if asset.place else str(error)) from None

    def retire(self, asset: AssetGiven) -> None:
        """Record that an asset is no longer made: nothing of it is expected any more, until it is registered again."""
        from partita.assets.observing import unwatch

        self._workspace.retire(named(asset))
        unwatch(self._ground, named(asset))

    def adopt(  # noqa: PLR0913 - what there is to say of a table
        self,
        uri: str,
        format: str,  # noqa: A002 - as create_table calls it
        *,
        name: str | None = None,
        partitions: PartitionSet | None = None,
        catalog: Mapping[str, str] | None = None,
        freshness: timedelta | Freshness | None = None,
    ) -> Asset:
        """Bring a table that exists elsewhere in as a source, with its whole history; its files stay where they are.

        From then on `lake.table(name)` opens it. Its partition fields are the dimensions unless `partitions` are given.
        Secrets of a catalog are not kept: give them by the environment.
        """
        from partita.assets.adopting import adopt

        if not isinstance(uri, str) or not uri:
            raise TableError(f"a table is adopted by where it is, or by its name in a catalog, not {value_repr(uri)}")
        own = name if name is not None else uri if format == "iceberg" else _last(uri)
        adopted = adopt(self.storage, _checked(own), uri, format, partitions, catalog, freshness)
        self.register(adopted)
        self._observe_sources()
        return adopted

    def observe(self) -> list[Observed]:
        """Record what others committed to the tables of sources since the last look, each commit and partition once."""
        from partita.assets.observing import observe

        return observe(self._ground)

    def plan(  # noqa: PLR0913 - what there is to ask
        self,
        *,
        missing: bool = False,
        stale: bool = False,
        failed: bool = False,
        select: str | Sequence[str] = (),
        where: Where | None = None,
        since: datetime | None = None,
        now: datetime | None = None,
        allow_missing: bool = False,
        among: Sequence[AssetGiven] | None = None,
        batch_partitions: int | None = None,
        batch_bytes: int | None = None,
        observe: bool = True,
    ) -> Plan:
        """What would run to bring partitions up to date, in order and in batches, and why each is there.

        Of `missing`, `stale` and `failed`, none means all three. `select` names assets: `name`, `tag:word`, `+name`
        with its upstreams, `name+` with what is made from it; what is a name as it stands means that asset. `since`
        leaves out what has been so for longer. A partition whose upstream is missing, or is a window that isn't over,
        is held back; with `allow_missing`, not for a source's. `among` are the assets that there are, such as a
        pipeline's, where not all that were registered.
        """
        from partita.assets.batching import Sizes
        from partita.assets.planning import Asked, make_plan
        from partita.assets.selection import NEEDS

        if observe:
            self._observe_sources()
        chosen = dict(zip(NEEDS, (missing, stale, failed), strict=True))
        needs = tuple(need for need in NEEDS if chosen[need]) or NEEDS
        given = {"partitions": batch_partitions, "bytes": batch_bytes}
        sizes = Sizes(**{name: value for name, value in given.items() if value is not None})
        words = _words(select)
        names = names_of(among)
        condition = self._condition(where)
        asked = Asked(needs, words, condition, since, allow_missing, sizes, None if names is None else frozenset(names))
        # What is selected is known by the definitions, and then asked for; without a selection, that is everything.
        with self._workspace.ask(assets=() if words else None, now=now, partly=True) as answer:
            return make_plan(answer, asked, self.uri, self.tenant, self.workspace)

    def run(  # noqa: PLR0913 - how a run works
        self,
        plan: Plan,
        *,
        spark: Any = None,
        parallel: int = 2,
        max_failures: int | None = None,
        wait: float = 0.0,
        listener: Listener | None = None,
        stop: Event | None = None,
        observe: bool = True,
    ) -> RunResult:
        """Run a plan on Spark: upstreams first, each batch one job and one commit. Its assets are registered here.

        A failing batch is cut in two until what can't be made stands alone. More failures than `max_failures` stop the
        run. Partitions that another run holds are waited for, `wait` seconds at most; if it made some of them, the
        world has moved, and that is refused: plan again. `listener` hears of progress. `stop` cancels the run once
        another thread sets it, as Ctrl-C does in the main thread; the result says so.
        """
        from partita.assets.plan import Plan

        if not isinstance(plan, Plan):
            raise PlanError(f"what runs is a plan, as lake.plan or load_plan gives it, not {value_repr(plan)}")
        if observe:
            self._observe_sources()
        return self._launch(spark, _options(parallel, max_failures, stop), wait, listener).run(plan)

    def resume(  # noqa: PLR0913 - how a run works
        self,
        run_id: str | None = None,
        *,
        spark: Any = None,
        parallel: int = 2,
        max_failures: int | None = None,
        wait: float = 0.0,
        listener: Listener | None = None,
        stop: Event | None = None,
    ) -> RunResult:
        """Do what a run that was killed or stopped left, the last one unless it is named; it commits nothing twice.

        What others made since it began is not made again.
        """
        return self._launch(spark, _options(parallel, max_failures, stop), wait, listener).resume(run_id)

    def _launch(self, spark: Any, options: Options, wait: float, listener: Listener | None) -> Launch:
        from partita.assets.launching import Launch
        from partita.spark.session import session, started_in
        from partita.spark.shipping import ship

        with started_in(self.time_zone):
            on = session() if spark is None else _session(spark)
        ship(on)
        return Launch(self._ground, self._assets, on, options, listener, wait)

    @property
    def _ground(self) -> Ground:
        from partita.assets.ground import Ground

        return Ground(self.storage, self._workspace, self.table, self.create_table)

    def record(  # noqa: PLR0913 - what there is to say of an attempt
        self,
        asset: AssetGiven,
        key: Key | Sequence[Key] = None,
        *,
        outcome: str,
        run_id: str | None = None,
        at: datetime | None = None,
        code_version: str | None = None,
        attempt: int = 1,
        **details: Any,
    ) -> None:
        """Record what became of an attempt at a partition, or at several in one commit, that ran elsewhere.

        `outcome` is succeeded, failed, cancelled or started. `details` are rows, files, bytes, table_version, error and
        started_at. An end ends the attempt of its run; without a run, it ends those without one. A key of other
        dimensions than those of the asset, where that is registered, is refused.
        """
        fields = {"run_id": run_id, "attempt": attempt, "code_version": code_version, **details}
        kind, texts = kind_of(outcome), key_texts(key)
        self._workspace.check_keys(named(asset), texts)
        record_canonical(self._workspace.ledger, kind, named(asset), texts, at, **fields)

    def attempt(
        self,
        asset: AssetGiven,
        key: Key | Sequence[Key] = None,
        *,
        run_id: str | None = None,
        code_version: str | None = None,
        attempt: int = 1,
    ) -> AbstractContextManager[Attempt]:
        """Record the start of an attempt, and at the end of the block how it went.

        Without a code version, it is the one that the asset has: its own, or the one that was registered last.
        """
        version = self._workspace.code_version(asset) if code_version is None else code_version
        check = self._workspace.check_keys
        return attempt_at(self._workspace.ledger, named(asset), key, run_id, attempt, version, check)

    def wipe(self, asset: AssetGiven, key: Key | Sequence[Key] = None, *, at: datetime | None = None) -> None:
        """Record that the data of partitions was deleted: they are not materialized any more."""
        record(self._workspace.ledger, WIPED, named(asset), key, at)

    def add_partitions(self, asset: AssetGiven, key: Key | Sequence[Key], *, at: datetime | None = None) -> None:
        """Record values of an asset's dynamic dimensions, so that their partitions are expected."""
        self._workspace.check_dynamic(named(asset), key)
        record(self._workspace.ledger, ADDED, named(asset), key, at)

    def remove_partitions(self, asset: AssetGiven, key: Key | Sequence[Key], *, at: datetime | None = None) -> None:
        """Record that values of an asset's dynamic dimensions are gone."""
        self._workspace.check_dynamic(named(asset), key)
        record(self._workspace.ledger, REMOVED, named(asset), key, at)

    def status(  # noqa: PLR0913 - what there is to ask
        self,
        asset: AssetGiven | Sequence[AssetGiven] | None = None,
        where: Where | None = None,
        now: datetime | None = None,
        *,
        state: str | Sequence[str] = (),
        reason: str | Sequence[str] = (),
        transitive: bool = False,
        spark: Any = None,
        observe: bool = True,
    ) -> pa.Table:
        """The status of every partition, as Arrow; with a Spark session, as a DataFrame. Sources are observed first.

        `where` is a predicate on the dimensions of keys. `state` narrows to missing, stale, failed, running, cancelled,
        unexpected or a display status, `reason` to a reason for staleness. `now` may lie in the past, where events that
        came later don't count, or in the future. With `transitive`, what is made from something stale is stale.
        """
        if observe:
            self._observe_sources()
        found = self._workspace.status(
            asset, self._condition(where), now, state=state, reason=reason, transitive=transitive
        )
        return found if spark is None else _on_spark(_session(spark), found)

    def show_status(
        self, asset: AssetGiven | Sequence[AssetGiven] | None = None, where: Where | None = None, **question: Any
    ) -> Shown:
        """What `status` answers to the same question, to look at: counts and maps in a notebook, and text elsewhere."""
        from partita.picture.notebook import status_shown

        return status_shown(self.status(asset, where, **question), question.get("now"))

    def _observe_sources(self) -> None:
        """Observe before a question, which is answered all the same where a source can't be; none take no time."""
        if next(self.storage.list(f"{self._workspace.folder}/observed"), None) is not None:
            for seen in self.observe():
                if seen.error is not None:
                    logging.getLogger("partita").warning("the source %s can't be observed: %s", seen.asset, seen.error)

    def ask_status(self, asset: AssetGiven | Sequence[AssetGiven] | None = None, **question: Any) -> Answering:
        """The relations of DuckDB that `status` answers from, to be closed; `where`, `now`, `transitive` as there."""
        if question.pop("observe", True):
            self._observe_sources()
        where = self._condition(question.pop("where", None))
        return self._workspace.ask(assets=names_of(asset), where=where, **question)

    def is_newest(self, answer: Answering) -> bool:
        """Whether nothing was recorded since relations were opened by `ask_status`; sources are observed first."""
        self._observe_sources()
        files = self._workspace.ledger.files()
        return (files.table_id, files.version) == (answer.files.table_id, answer.files.version)

    @property
    def status_version(self) -> int:
        """A number that grows with each thing that is recorded here; -1 where nothing was."""
        return self._workspace.ledger.files().version

    def partitions_of(self, asset: AssetGiven) -> PartitionSet | None:
        """The partitions that an asset's definition expects; None where it is not registered."""
        definition = self._workspace.definition(named(asset))
        return None if definition is None else definition.partitions

    def dynamic_values(self, asset: AssetGiven) -> dict[str, list[KeyValue]]:
        """The values that the dynamic dimensions of an asset have now, by dimension."""
        with self.ask_status(asset, partly=True, observe=False) as answer:
            return answer.dynamic_values(named(asset))

    def status_counts(
        self,
        asset: AssetGiven | Sequence[AssetGiven] | None = None,
        where: Where | None = None,
        now: datetime | None = None,
    ) -> pa.Table:
        """How many partitions of each asset are in each state, as Arrow, without listing them."""
        self._observe_sources()
        return self._workspace.counts(asset, self._condition(where), now)

    def why(self, asset: AssetGiven, key: Key = None, *, now: datetime | None = None, observe: bool = True) -> Why:
        """Why a partition is as it is: the chain of causes, as data, and as text by `str`."""
        if observe:
            self._observe_sources()
        return self._workspace.why(named(asset), key, now)

    def history(self, asset: AssetGiven, key: Key = None) -> pa.Table:
        """The events of a partition in their order, as Arrow."""
        return self._workspace.history(named(asset), key)

    def fold(self, *, spark: Any = None) -> Folded:
        """Bring the status table up to the ledger; queries don't wait for that. With a Spark session, on Spark."""
        return self._workspace.fold(None if spark is None else partial(_folded_files, spark, self))

    def sweep(self, *, observe: bool = True) -> Folded:
        """Fold, and store with every partition whether it is stale now, for readers of the status table.

        Sources are observed first. Assets that can't be judged here keep what the last sweep found.
        """
        if observe:
            self._observe_sources()
        return self._workspace.sweep()

    def export_status(self, file: str, *, now: datetime | None = None, observe: bool = True) -> int:
        """Write the status of every recorded partition as `partition_status.parquet`; returns the number of rows.

        Sources are observed first.
        """
        if observe:
            self._observe_sources()
        return self._workspace.export(file, now)


def fold_on_spark(events: Any) -> pa.Table:
    """The status rows of a Spark DataFrame of events of partitions: `partita.status.fold` on Spark."""
    from partita.spark.status import Part, fold
    from partita.status.fold import LIFTS

    parts = [
        Part(lift.role.name, lift.condition, lift.role.columns, lift.values, len(lift.role.order), lift.role.first)
        for lift in LIFTS
    ]
    return completed(fold(events, KEY, parts, WIPE.name, MATERIALIZATION.name).toArrow())


def _folded_files(spark: Any, lake: Lake, files: Files) -> pa.Table:
    """All events in the ledger's files, folded by Spark."""
    from partita.spark.status import read_events

    ledger = lake._workspace.ledger  # noqa: SLF001 - of this module
    location = lake.storage.location(ledger.uri.removeprefix(f"{lake.uri}/"))
    events = read_events(spark, location, files.paths, OF_PARTITIONS)
    if events is None:
        return row_schema().empty_table()
    return fold_on_spark(events.where(of_workspace(lake.tenant, lake.workspace)))


def _on_spark(spark: Any, rows: pa.Table) -> DataFrame:
    """Rows as a DataFrame; Spark takes no Arrow table without rows, so such a one gets a row and loses it."""
    import pyarrow as pa

    from partita.spark.scan import frame_of

    if rows.num_rows:
        return frame_of(spark, rows)
    one = pa.table([pa.nulls(1, f.type) for f in rows.schema], names=rows.column_names)
    return frame_of(spark, one).limit(0)


def _options(parallel: int, max_failures: int | None, stop: Event | None) -> Options:
    from partita.assets.running import Options

    return Options(parallel, max_failures, stop)


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    """What selects assets: one text or several."""
    words = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
    if not isinstance(given, Iterable) or not all(isinstance(word, str) for word in words):
        raise PlanError(
            f"assets are selected by texts, as in select=['+daily', 'tag:nightly'], not {value_repr(given)}"
        )
    return words


def _session(given: Any) -> Any:
    """A Spark session that is given, as Spark's own or that of Spark Connect."""
    if not hasattr(given, "createDataFrame"):
        raise StatusError(f"spark is a Spark session, not {value_repr(given)}")
    return given


def _last(uri: str) -> str:
    """The last part of where a table is, as its name."""
    return re.sub(r"[^\w-]+", "_", uri.rstrip("/").rpartition("/")[2]).strip("_-") or "adopted"


def _checked(name: str) -> str:
    parts = name.split(".") if isinstance(name, str) else []
    if not parts or not all(_PART.fullmatch(part) for part in parts):
        raise TableError(
            f"{value_repr(name)} is no table's name; use words of letters, digits, _ and -, with dots between"
        )
    if parts[0] == FOLDER:
        raise TableError(
            f"{value_repr(name)} is no table's name: {FOLDER} is where Partita keeps the status of partitions"
        )
    return name
