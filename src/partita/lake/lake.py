"""`Lake`: a folder of tables with the status of their partitions and the runs that make them."""

from __future__ import annotations

from partita.lake.runs import LakeRunMethods
from partita.lake.status import LakeStatusMethods
from partita.lake.tables import LakeTableMethods


class Lake(LakeTableMethods, LakeRunMethods, LakeStatusMethods):
    """A folder of tables, on a disk or in an object store (`s3://`, `gs://`, `abfss://`), with status and runs.

    `options` configure the object store, by obstore's names. `catalog` configures the catalog of Iceberg tables, by
    pyiceberg's names; by default that is a SQLite file in the folder. `time_zone` applies to dates and times without
    one in predicates while no Spark session runs, and to a session that the lake or a table starts.
    """

    def _repr_html_(self) -> str:
        from partita.display.notebook import lake_html
        from partita.display.status_snapshot import take_snapshot

        return lake_html(self.uri, f"{self.tenant}/{self.workspace}", take_snapshot(self))
