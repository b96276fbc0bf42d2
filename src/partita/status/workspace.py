"""The status of one workspace: its ledger and its status table, and the questions that they answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from partita.algebra.key import PartitionKey
from partita.algebra.mappings import MappedBy
from partita.algebra.partition_sets import Dynamic
from partita.errors import DefinitionError, StatusError, StorageError, UnknownAsset, value_repr
from partita.status.definitions import Definition, find_cycle
from partita.status.delta import Place
from partita.status.events import DEFINED, OF_PARTITIONS, RETIRED, Event, event_schema
from partita.status.ledger import Files, Ledger
from partita.status.recording import Key, key_text, several

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from partita.algebra.parse import Condition
    from partita.status.catalog import Catalog
    from partita.status.folding import Folded
    from partita.status.query import Answering
    from partita.status.snapshot import StatusTable
    from partita.status.why import Why


class Named(Protocol):
    """What has a name, as assets do."""

    @property
    def name(self) -> str: ...


AssetGiven: TypeAlias = str | Named
"""An asset, given by itself or by its name."""

_NAME = re.compile(r"\w[\w.-]*")
FOLDER = "_partita"
ADOPTED = "adopted"
"""The folder beside those of tenants in which a lake keeps which tables it adopted."""


class Workspace:
    """The status of one tenant's workspace in a lake. `uri` is the lake's; `options` are its store's settings.

    Each has a folder of its own, and every row and every query names the tenant and the workspace besides.
    """

    def __init__(self, uri: str, options: Mapping[str, str], tenant: str, workspace: str) -> None:
        for what, name in (("tenant", tenant), ("workspace", workspace)):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise StatusError(f"{value_repr(name)} is no {what}'s name; use letters, digits, _, - and dots")
        if tenant == ADOPTED:
            raise StatusError(f"{tenant!r} is no tenant's name: it is where a lake keeps what it adopted")
        self.folder = f"{FOLDER}/{tenant}/{workspace}"
        """Where the workspace is in the lake's folder."""
        self.ledger = Ledger(Place(f"{uri}/{self.folder}/ledger", options), tenant, workspace)
        self._place = Place(f"{uri}/{self.folder}/status", options)
        self._functions: dict[tuple[str, str], MappedBy] = {}
        self._dimensions: dict[str, tuple[str, ...] | None] = {}

    @property
    def table(self) -> StatusTable:
        """The status table."""
        from partita.status.snapshot import StatusTable

        return StatusTable(self._place, self.ledger)

    def register(self, definitions: Iterable[Definition]) -> list[str]:
        """Record the definitions that changed; returns their assets. Mappings by function stay in this process.

        Assets that would be upstream of each other are refused.
        """
        given = list(definitions)
        catalog = self._catalog()
        known = catalog.timelines
        _refuse_cycles(catalog, given)
        current = {asset for asset in known if asset not in catalog.retired}
        changed = [d for d in given if d.asset not in current or not known[d.asset].is_current(d)]
        self.ledger.append(
            Event(
                kind=DEFINED,
                tenant_id=self.ledger.tenant,
                workspace_id=self.ledger.workspace,
                asset_key=definition.asset,
                code_version=definition.code_version,
                definition=definition.text(),
            )
            for definition in changed
        )
        for definition in given:
            self._dimensions[definition.asset] = definition.partitions.names
            for upstream in definition.upstreams:
                if isinstance(upstream.mapping, MappedBy):
                    self._functions[definition.asset, upstream.asset] = upstream.mapping
        return [d.asset for d in changed]

    def retire(self, asset: str) -> None:
        """Record that an asset is no longer made; one that was never registered is refused."""
        catalog = self._catalog()
        if asset not in catalog.timelines:
            raise UnknownAsset(asset, tuple(sorted(catalog.timelines)))
        tenant, workspace = self.ledger.tenant, self.ledger.workspace
        self.ledger.append([Event(kind=RETIRED, tenant_id=tenant, workspace_id=workspace, asset_key=asset)])

    def definition(self, asset: str) -> Definition | None:
        """The current definition of an asset; None where it was never registered."""
        return self._catalog().definition(asset)

    def code_version(self, asset: AssetGiven) -> str | None:
        """The code version of an asset: its own, or the one that was registered last."""
        own = getattr(asset, "definition", None)
        if isinstance(own, Definition):
            return own.code_version
        timeline = self._catalog().timelines.get(named(asset))
        return None if timeline is None else timeline.seen[-1].code_version

    def check_keys(self, asset: str, keys: Iterable[str]) -> None:
        """Refuse canonical keys of other dimensions than the asset's, where it is registered and made.

        What was read of an asset is kept: to record has to be quick. A key that it would refuse is held to what is read
        anew.
        """
        found = {_dimensions(key): key for key in keys}
        if asset in self._dimensions and self._are_known(asset, found):
            return
        self._dimensions[asset] = self._read_dimensions(asset)
        if not self._are_known(asset, found):
            names = self._dimensions[asset] or ()
            wrong = next(key for dimensions, key in found.items() if dimensions != names)
            raise StatusError(f"{asset!r} has no partition {wrong!r}; its dimensions are: {', '.join(names) or 'none'}")

    def _are_known(self, asset: str, found: Iterable[tuple[str, ...]]) -> bool:
        names = self._dimensions[asset]
        return names is None or set(found) <= {names}

    def _read_dimensions(self, asset: str) -> tuple[str, ...] | None:
        catalog = self._catalog()
        # A definition that this version can't read says nothing of keys.
        with suppress(DefinitionError):
            definition = None if asset in catalog.retired else catalog.definition(asset)
            return None if definition is None else definition.partitions.names
        return None

    def check_dynamic(self, asset: str, keys: Key | Sequence[Key]) -> None:
        """Refuse values of dimensions that an asset doesn't have, or that aren't dynamic."""
        catalog = self._catalog()
        definition = catalog.definition(asset)
        if definition is None:
            raise UnknownAsset(asset, tuple(sorted(catalog.timelines)))
        dynamic = [d.dimension for d in definition.partitions.dimensions if isinstance(d, Dynamic)]
        for key in several(keys):
            names = tuple(PartitionKey.parse(key_text(key)))
            wrong = next((name for name in names if name not in dynamic), None)
            if wrong is not None or not names:
                what = "no dimension" if wrong is None else f"{wrong!r}"
                raise StatusError(
                    f"{what} is no dynamic dimension of {asset!r}; there is: {', '.join(dynamic) or 'none'}"
                )

    def ask(self, **question: Any) -> Answering:
        """The relations that answer a question (`partita.status.query.Question`); close them when done."""
        from partita.status.query import Answering, Question

        return Answering(self.ledger, self.table, Question(functions=self._functions, **question))

    def status(  # noqa: PLR0913 - what there is to ask
        self,
        assets: AssetGiven | Sequence[AssetGiven] | None,
        where: Condition | None,
        now: datetime | None,
        *,
        state: str | Sequence[str],
        reason: str | Sequence[str],
        transitive: bool,
    ) -> pa.Table:
        """The rows of an answer, narrowed to states and reasons; any of each is enough."""
        from partita.status.board import STATES
        from partita.status.staleness import Reason

        conditions = []
        if state:
            conditions.append(" OR ".join(f"({STATES[name]})" for name in _known("state", state, list(STATES))))
        if reason:
            codes = _known("reason", reason, [r.value for r in Reason])
            conditions.append(" OR ".join(f"list_contains(stale_reasons, '{code}')" for code in codes))
        with self.ask(assets=names_of(assets), where=where, now=now, transitive=transitive) as answer:
            return answer.rows(conditions=conditions)

    def counts(
        self, assets: AssetGiven | Sequence[AssetGiven] | None, where: Condition | None, now: datetime | None
    ) -> pa.Table:
        """How many partitions of each asset are in each state."""
        with self.ask(assets=names_of(assets), where=where, now=now) as answer:
            return answer.counts()

    def why(self, asset: str, key: Key, now: datetime | None) -> Why:
        """The chain of causes of a partition."""
        from partita.status.why import explain

        with self.ask(assets=[asset], keys=[key_text(key)], now=now, partly=True) as answer:
            return explain(asset, PartitionKey.parse(key_text(key)), answer)

    def history(self, asset: str, key: Key) -> pa.Table:
        """The events of a partition in their order, each once; none where nothing was recorded of it."""
        from partita.status.engine import connect, fetch, quoted

        with connect() as connection:
            self.ledger.view(connection, "events", self.ledger.files().of(*OF_PARTITIONS))
            where = f"asset_key = {quoted(asset)} AND partition_key = {quoted(key_text(key))}"
            # By id, and by run, attempt and kind; a wipe has no run, and counts by its id.
            once = "coalesce(run_id, event_id), attempt, kind"
            sql = f"""
                SELECT * FROM events WHERE {where}
                QUALIFY row_number() OVER (PARTITION BY {once} ORDER BY occurred_at DESC, event_id DESC) = 1
                ORDER BY occurred_at, event_id
            """  # noqa: S608 - our own names
            found = fetch(connection, sql, event_schema())
            if not found.num_rows:
                self._check_known(connection, asset)
            return found

    def _check_known(self, connection: duckdb.DuckDBPyConnection, asset: str) -> None:
        """Refuse an asset that was never registered and has no events, given a relation `events`."""
        from partita.status.engine import listed

        recorded = {name for (name,) in listed(connection, "SELECT DISTINCT asset_key FROM events")}
        known = recorded | set(self._catalog().timelines)
        if asset not in known:
            raise UnknownAsset(asset, tuple(sorted(known)))

    def fold(self, elsewhere: Callable[[Files], pa.Table] | None = None) -> Folded:
        """Bring the status table up to the ledger's newest version; `elsewhere` folds all of it by another engine."""
        from partita.status.folding import fold

        return fold(self.ledger, self.table, elsewhere)

    def sweep(self) -> Folded:
        """Fold, and store with each row since when and why it is stale now."""
        from partita.status.folding import sweep
        from partita.status.query import Question

        return sweep(self.ledger, self.table, Question(functions=self._functions, partly=True))

    def export(self, file: str, now: datetime | None = None) -> int:
        """Write the seed's `partition_status.parquet`, with its columns alone; returns the number of rows.

        What can't be judged has no staleness in the file, as what is current; a warning names it.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from partita.status.folding import warn_of_unknown
        from partita.status.rows import SEED, row_schema

        is_recorded = "row_version IS NOT NULL"
        with self.ask(now=now) as answer:
            rows = answer.rows(SEED, [is_recorded])
            warn_of_unknown(
                answer, f"staleness = 'unknown' AND {is_recorded}", "the file can't say whether it is stale"
            )
        try:
            pq.write_table(rows.cast(pa.schema([row_schema().field(name) for name in SEED])), file)
        except (OSError, TypeError, ValueError) as error:
            raise StorageError(f"{value_repr(file)} can't be written: {error}") from error
        return int(rows.num_rows)

    def _catalog(self) -> Catalog:
        from partita.status.catalog import read_catalog
        from partita.status.engine import connect

        with connect() as connection:
            return read_catalog(connection, self.ledger, self.ledger.files())


def _dimensions(key: str) -> tuple[str, ...]:
    """The names of the dimensions of a canonical key."""
    return tuple(part.partition("=")[0] for part in key.split(",")) if key else ()


def _refuse_cycles(catalog: Catalog, given: Iterable[Definition]) -> None:
    upstreams: dict[str, list[str]] = {}
    for asset in sorted(set(catalog.timelines) - catalog.retired):
        # One that this version can't read is not its to refuse.
        with suppress(DefinitionError):
            upstreams[asset] = [u.asset for u in getattr(catalog.definition(asset), "upstreams", ())]
    upstreams |= {definition.asset: [u.asset for u in definition.upstreams] for definition in given}
    cycle = find_cycle(upstreams)
    if cycle:
        raise DefinitionError(f"assets can't be upstream of each other: {' <- '.join(cycle)}")


def named(asset: AssetGiven) -> str:
    """The name of an asset."""
    name = getattr(asset, "name", asset)
    if not isinstance(name, str):
        raise StatusError(f"an asset is given by itself or by its name, not {value_repr(asset)}")
    return name


def names_of(assets: AssetGiven | Sequence[AssetGiven] | None) -> list[str] | None:
    """The names of one asset or of several; None are all."""
    if assets is None:
        return None
    if isinstance(assets, str) or hasattr(assets, "name") or not isinstance(assets, Iterable):
        return [named(assets)]
    return [named(asset) for asset in assets]


def _known(what: str, given: str | Sequence[str], known: Sequence[str]) -> list[str]:
    """The words as they are known, in any case."""
    names = {name.lower(): name for name in known}
    words = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for word in words:
        if not isinstance(word, str) or word.lower() not in names:
            raise StatusError(f"no {what} {value_repr(word)}; there is: {', '.join(known)}")
    return [names[word.lower()] for word in words]
