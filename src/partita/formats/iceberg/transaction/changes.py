"""What one operation does to a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry

from partita.formats.iceberg.transaction.pointers import referenced_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

Reads: TypeAlias = "Callable[[Table, list[ManifestEntry]], bool]"


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Files that come and go in one snapshot.

    `operation` is "append", "overwrite", "delete", "row_delta" or "replace". Added files carry their spec id; one
    without is of spec 0. `removed` and `removed_deletes` are paths of data and of delete files. `referenced` are the
    data files that added position deletes point into. `reads` says whether files that others added or took away are
    among what was read; None for what read nothing, or does not mind. `properties` go into the summary. `transaction`
    is an application and its own number: a number that the table has seen from it is not committed again. `listed` are
    the manifests of the base snapshot that list data files which are removed or referenced; None where they are not
    known, and are looked for.
    """

    operation: str
    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    removed_deletes: frozenset[str] = frozenset()
    referenced: frozenset[str] = frozenset()
    reads: Reads | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    listed: frozenset[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no file comes or goes."""
        return not (self.added or self.removed or self.removed_deletes)

    @property
    def added_data(self) -> list[DataFile]:
        """The data files that come."""
        return [file for file in self.added if file.content == DataFileContent.DATA]

    @property
    def added_deletes(self) -> list[DataFile]:
        """The delete files that come."""
        return [file for file in self.added if file.content != DataFileContent.DATA]

    @property
    def targets(self) -> frozenset[str]:
        """The data files that must be there still, for added deletes point into them."""
        told = (referenced_path(file) for file in self.added_deletes)
        return self.referenced | {path for path in told if path is not None}

    @property
    def is_blind(self) -> bool:
        """Whether nothing that others do can matter."""
        return self.reads is None and not (self.removed or self.removed_deletes or self.targets)
