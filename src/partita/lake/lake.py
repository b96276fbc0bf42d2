"""`Lake`: a folder of tables with the status of their partitions and the runs that make them."""

from __future__ import annotations

from partita.lake.runs import LakeRunMethods
from partita.lake.status import LakeStatusMethods
from partita.lake.tables import LakeTableMethods


class Lake(LakeTableMethods, LakeRunMethods, LakeStatusMethods):
    """A folder of tables, with the assets that make their partitions and the status of each partition.

    Args:
        uri: the folder, on a disk or in an object store (`s3://`, `gs://`, `abfss://`).
        tenant: the tenant whose status is recorded and read.
        workspace: the workspace of the tenant whose status is recorded and read. All workspaces share the lake's
            tables.
        options: settings of the object store, by obstore's names.
        catalog: properties of the catalog of Iceberg tables, by pyiceberg's names; by default it is a SQLite file in
            the folder.
        time_zone: the time zone of dates and times without one in predicates, if no Spark session runs. A session that
            the lake or one of its tables starts gets it too.
    """

    def _repr_html_(self) -> str:
        from partita.display.notebook import lake_html
        from partita.display.status_snapshot import take_snapshot

        return lake_html(self.uri, f"{self.tenant}/{self.workspace}", take_snapshot(self))
