"""The assets and runs of a lake: register definitions, observe sources, plan what must run, run and resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

from partita.algebra.partition_sets import PartitionSet
from partita.errors import DefinitionError, PlanError, SchemaError, SpecError, TableMissing, value_repr
from partita.lake.base import LakeBase, check_session, observe_first
from partita.status.definitions import AssetDefinition
from partita.status.workspace import AssetRef, asset_name, asset_names

if TYPE_CHECKING:
    from partita.algebra.freshness import FreshnessPolicy
    from partita.algebra.predicate import PredicateLike
    from partita.assets.asset import Asset
    from partita.assets.progress import RunListener, RunResult
    from partita.assets.run_executor import RunOptions
    from partita.assets.run_launcher import RunLauncher
    from partita.assets.run_plan import RunPlan
    from partita.assets.source_observation import SourceObservation
    from partita.formats.table import Table


class LakeRunMethods(LakeBase):
    """Register the assets of a lake, observe its sources, plan and run."""

    def register(self, *assets: Any) -> list[str]:
        """Record the definitions of assets and sources that changed, and return the names of these assets.

        `run` can then run the assets in this process.

        Raises:
            DefinitionError: the asset's table can't hold one of its dimensions, or assets would be upstream of each
                other.
        """
        from partita.assets.asset import Asset

        definitions = [getattr(asset, "definition", asset) for asset in assets]
        for definition in definitions:
            if not isinstance(definition, AssetDefinition):
                raise DefinitionError(f"an asset must be made by @asset, not {value_repr(definition)}")
        for asset in assets:
            if isinstance(asset, Asset):
                self._check_dimensions(asset)
        changed_assets = self._workspace.register(definitions)
        for asset, definition in zip(assets, definitions, strict=True):
            if definition.is_source:
                from partita.assets.source_observation import watch_source

                watch_source(self._context, definition)
            if isinstance(asset, Asset):
                self._assets[asset.name] = asset
        return changed_assets

    def _check_dimensions(self, asset: Asset) -> None:
        """Raise `DefinitionError` if the asset's table can't hold its dimensions, or could not once it is created."""
        definition = asset.definition
        if definition.table is None:
            return
        from partita.assets.dimension_fields import DimensionFields, check_new_table, check_values_fit_format

        try:
            table: Table | None = self._tables.open(definition.table)
        except TableMissing:
            table = None
        try:
            if table is not None:
                check_values_fit_format(definition, table.format)
                DimensionFields.of(definition.asset, definition.partitions, table.spec)
            elif not definition.is_source:
                check_values_fit_format(definition, asset.table_options.format)
                check_new_table(definition, asset.table_options)
        except (DefinitionError, SchemaError, SpecError) as error:
            location = f"{asset.definition_location}: " if asset.definition_location else ""
            raise DefinitionError(f"{location}{error}") from None

    def retire(self, asset: AssetRef) -> None:
        """Record that an asset is no longer made: none of its partitions is expected until it is registered again."""
        from partita.assets.source_observation import unwatch_source

        self._workspace.retire(asset_name(asset))
        unwatch_source(self._context, asset_name(asset))

    def adopt(  # noqa: PLR0913 - the properties of a source
        self,
        uri: str,
        format: str,  # noqa: A002 - the public name
        *,
        name: str | None = None,
        partitions: PartitionSet | None = None,
        catalog: Mapping[str, str] | None = None,
        freshness: timedelta | FreshnessPolicy | None = None,
    ) -> Asset:
        """Register a table that exists elsewhere as a source, with its whole history; its files stay where they are.

        `lake.table(name)` then opens it.

        Args:
            uri: the table, as `open_table` takes it.
            format: the name of its format.
            name: the name of the table and the source in the lake; by default the last part of `uri`.
            partitions: the partitions that it should have; by default its partition fields are dynamic dimensions.
            catalog: properties of an Iceberg table's catalog. Secrets are not stored: pass them by the environment.
            freshness: the longest time between commits as a timedelta, or `cron(...)`.

        Raises:
            TableExists: another table has the name, adopted or of the lake.
            TableMissing: there is no table at `uri`.
            KeyValueError: a partition field has a name that no dimension can have.
        """
        source = self._tables.adopt(uri, format, name, partitions, catalog, freshness)
        self.register(source)
        self._observe_sources()
        return source

    def observe(self) -> list[SourceObservation]:
        """Record which partitions of sources other writers changed since the last observation.

        Each commit is read from the log of the table and recorded once per partition. `plan`, `run`, `status`, `why`,
        `sweep` and `export_status` do this first by default.
        """
        from partita.assets.source_observation import observe_sources

        return observe_sources(self._context)

    @observe_first
    def plan(  # noqa: PLR0913 - the filters and limits of a plan
        self,
        *,
        missing: bool = False,
        stale: bool = False,
        failed: bool = False,
        select: str | Sequence[str] = (),
        where: PredicateLike | None = None,
        since: datetime | None = None,
        now: datetime | None = None,
        allow_missing: bool = False,
        available_assets: Sequence[AssetRef] | None = None,
        batch_partitions: int | None = None,
        batch_bytes: int | None = None,
        observe: bool = True,
    ) -> RunPlan:
        """Return which partitions must run to be current, in order and in batches, and why each is in the plan.

        A partition is blocked if it reads an upstream partition that is missing or a time window that isn't over.

        Args:
            missing: include missing partitions. Without `missing`, `stale` and `failed`, all three are included.
            stale: include stale partitions.
            failed: include partitions whose last attempt failed.
            select: the assets: `name`, `tag:word`, `+name` with its upstreams, `name+` with its downstreams; an exact
                name always means that asset. By default all assets.
            where: a predicate on the dimensions of partition keys.
            since: leave out partitions that have been in that state since before this time.
            now: plan as of this time.
            allow_missing: don't block partitions that read a missing partition of a source.
            available_assets: plan only these assets, such as those of a pipeline; by default all registered ones.
            batch_partitions: the largest number of partitions in a batch.
            batch_bytes: the largest estimated size of a batch.
            observe: observe the sources first.
        """
        from partita.assets.planner import PlanRequest, make_plan
        from partita.assets.run_plan import BatchLimits
        from partita.assets.selection import parse_selectors, plannable_states

        names = asset_names(available_assets)
        limits = {"partitions": batch_partitions, "bytes": batch_bytes}
        request = PlanRequest(
            plannable_states(missing=missing, stale=stale, failed=failed),
            parse_selectors(select),
            self._condition(where),
            since,
            allow_missing,
            BatchLimits(**{name: limit for name, limit in limits.items() if limit is not None}),
            None if names is None else frozenset(names),
        )
        # A selection is resolved by the definitions first; without one, every asset is read.
        assets = () if request.select else None
        with self._workspace.open_reader(assets=assets, now=now, allow_unknown=True) as reader:
            return make_plan(reader, request, self.uri, self.tenant, self.workspace)

    @observe_first
    def run(  # noqa: PLR0913 - the settings of a run
        self,
        plan: RunPlan,
        *,
        spark: Any = None,
        parallel: int = 2,
        max_failures: int | None = None,
        wait: float = 0.0,
        listener: RunListener | None = None,
        stop: Event | None = None,
        observe: bool = True,
    ) -> RunResult:
        """Run a plan on Spark: upstreams first, each batch as one Spark job and one commit.

        A batch that fails is split until the partitions that fail are alone. What is downstream of a failed partition
        is skipped.

        Args:
            plan: a plan of assets that are registered in this process.
            spark: the session; None for the running one, or a new one.
            parallel: how many batches run at the same time.
            max_failures: stop after more than this number of failed partitions; None for no limit.
            wait: how many seconds to wait for partitions that another run leases.
            listener: a function that is called with each progress event, as `partita run --json` prints them.
            stop: an event that cancels the run once it is set, as Ctrl-C does in the main thread.
            observe: observe the sources first.

        Raises:
            PartitionsLeased: another run works on some of the partitions.
            PlanOutdated: definitions or the status changed since the plan was made.
        """
        from partita.assets.run_executor import RunOptions
        from partita.assets.run_plan import RunPlan

        if not isinstance(plan, RunPlan):
            raise PlanError(f"lake.run takes a plan from lake.plan or load_plan, not {value_repr(plan)}")
        options = RunOptions(parallel, max_failures, stop)
        return self._run_launcher(spark, options, wait, listener).run(plan)

    def resume(  # noqa: PLR0913 - the settings of a run
        self,
        run_id: str | None = None,
        *,
        spark: Any = None,
        parallel: int = 2,
        max_failures: int | None = None,
        wait: float = 0.0,
        listener: RunListener | None = None,
        stop: Event | None = None,
    ) -> RunResult:
        """Finish a run that was killed or stopped. Nothing is committed twice.

        Partitions that other runs have made since it began are not made again.

        Args:
            run_id: the run; by default the last one.
            spark: as for `run`.
            parallel: as for `run`.
            max_failures: as for `run`.
            wait: as for `run`.
            listener: as for `run`.
            stop: as for `run`.
        """
        from partita.assets.run_executor import RunOptions

        options = RunOptions(parallel, max_failures, stop)
        return self._run_launcher(spark, options, wait, listener).resume(run_id)

    def _run_launcher(
        self, spark: Any, options: RunOptions, wait_seconds: float, listener: RunListener | None
    ) -> RunLauncher:
        from partita.assets.run_launcher import RunLauncher
        from partita.spark.artifacts import add_code_artifacts
        from partita.spark.session import new_session_time_zone, spark_session

        with new_session_time_zone(self.time_zone):
            session = spark_session() if spark is None else check_session(spark)
        add_code_artifacts(session)
        return RunLauncher(self._context, self._assets, session, options, listener, wait_seconds)
