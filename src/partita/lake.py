"""A lake: the folder where tables live, each under its dotted name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from partita.algebra.transforms import PartitionFunction
from partita.errors import TableError
from partita.formats.opening import as_table, create_table, find_table
from partita.formats.table import Table
from partita.storage import Storage

_PART = re.compile(r"\w[\w-]*")


class Lake:
    """A folder of tables, on a disk or in an object store (`s3://`, `gs://`, `abfss://`).

    `options` are the settings of the object store, by obstore's names.
    """

    def __init__(
        self,
        uri: str,
        *,
        tenant: str = "default",
        workspace: str = "default",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.storage = Storage.at(uri, options)
        self.tenant = tenant
        self.workspace = workspace

    def __repr__(self) -> str:
        return f"<Lake {self.uri}>"

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
        return as_table(name, create_table(self._folder(name), schema, format, partition_by, properties or {}))

    def table(self, name: str) -> Table:
        """The table of that name, in the format that it is in."""
        return as_table(name, find_table(self._folder(name)))

    def _folder(self, name: str) -> Storage:
        parts = name.split(".") if isinstance(name, str) else []
        if not parts or not all(_PART.fullmatch(part) for part in parts):
            raise TableError(f"{name!r} is no table's name; use words of letters, digits, _ and -, with dots between")
        return Storage("/".join([self.uri, *parts]), self.storage.options)
