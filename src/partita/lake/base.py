"""The base class of the parts of a lake: its folder, its workspace, its tables, and observing sources first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from partita.algebra.time_zones import find_time_zone
from partita.errors import StatusError, value_repr
from partita.status.workspace import Workspace
from partita.storage import Storage

if TYPE_CHECKING:
    from partita.algebra.predicate import PredicateLike, UnboundPredicate
    from partita.assets.asset import Asset
    from partita.assets.lake_context import LakeContext
    from partita.assets.table_directory import TableDirectory


class LakeBase:
    """A lake's folder, its tables and the status of one workspace."""

    def __init__(  # noqa: PLR0913 - the settings of a lake
        self,
        uri: str,
        *,
        tenant: str = "default",
        workspace: str = "default",
        options: Mapping[str, str] | None = None,
        catalog: Mapping[str, str] | None = None,
        time_zone: str = "UTC",
    ) -> None:
        self.storage = Storage.from_uri(uri, options)
        self.time_zone = find_time_zone(time_zone).name
        self.tenant = tenant
        self.workspace = workspace
        self._catalog = catalog
        self._assets: dict[str, Asset] = {}
        self._workspace = Workspace(self.uri, dict(self.storage.options), tenant, workspace)

    def __repr__(self) -> str:
        return f"<Lake {self.uri}>"

    @property
    def uri(self) -> str:
        """The lake's folder: an absolute path, or the URI of an object store."""
        return self.storage.uri

    @cached_property
    def _tables(self) -> TableDirectory:
        from partita.assets.table_directory import TableDirectory

        return TableDirectory(self.storage, self._catalog, self.time_zone)

    @property
    def _context(self) -> LakeContext:
        from partita.assets.lake_context import LakeContext

        return LakeContext(self.storage, self._workspace, self._tables)

    def _observe_sources(self) -> None:
        """Observe the sources; log a warning for each that can't be observed."""
        # Nothing is imported for a lake without sources.
        if next(self.storage.list_paths(f"{self._workspace.folder}/observed"), None) is not None:
            from partita.assets.source_observation import observe_sources

            for observation in observe_sources(self._context):
                if observation.error is not None:
                    logging.getLogger("partita").warning(
                        "can't observe the source %s: %s", observation.asset, observation.error
                    )

    def _condition(self, where: PredicateLike | None) -> UnboundPredicate | None:
        """Return a predicate with the time zone that applies now."""
        if where is None:
            return None
        from partita.formats.conditions import current_condition

        return current_condition(where, self.time_zone)


S = TypeVar("S", bound=LakeBase)
P = ParamSpec("P")
T = TypeVar("T")


def observe_first(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Observe the sources before a method of a lake runs, unless it is called with `observe=False`.

    A source that can't be observed is logged as a warning, and the method runs all the same.
    """

    @wraps(method)
    def observe_then_call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if kwargs.get("observe", True):
            self._observe_sources()
        return method(self, *args, **kwargs)

    return observe_then_call


def check_session(spark: Any) -> Any:
    """Return a Spark session, classic or of Spark Connect. Raise `StatusError` for anything else."""
    if not hasattr(spark, "createDataFrame"):
        raise StatusError(f"spark must be a Spark session, not {value_repr(spark)}")
    return spark
