"""Makes the same commit in one child process for each step, and kills it there.

Run as `python -m tests.formats.iceberg.killed_commit <step>=<folder> ...`; prints each step, the child's
exit code and how many metadata files it had begun. Children are forked before this process starts a thread.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import PyArrowFileIO

from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.snapshot_change import SnapshotChange
from tests.formats.iceberg.snapshot_tables import InterferingCatalog, data_file, live_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io.pyarrow import PyArrowFile

KILLED_EXIT_CODE = 9


class ProcessKillingIO(PyArrowFileIO):
    """A FileIO that counts the files that are begun, and kills the process at one of them."""

    last: int | None = None
    begun = 0

    def new_output(self, location: str) -> PyArrowFile:
        if self.begun == self.last:
            os._exit(KILLED_EXIT_CODE)
        self.begun += 1
        return super().new_output(location)


def overwrite_files(step: str, folder: Path) -> int:
    """Overwrite a file in each of two specs, and return how many metadata files that took."""
    catalog = InterferingCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    die: Callable[[], object] = lambda: os._exit(KILLED_EXIT_CODE)  # noqa: E731 - it is handed over as a value
    catalog.before, catalog.after = [die] if step == "before" else [], [die] if step == "after" else []
    table = catalog.load_table("db.t")
    new = [data_file(table, [{"id": 100 + spec_id, "region": "eu"}], spec_id) for spec_id in (0, 1)]
    paths = {spec_id: path for path, spec_id, _ in live_files(table)}
    io = ProcessKillingIO(table.io.properties)
    io.last = int(step) if step.isdecimal() else None
    table.io = io
    commit_snapshot(
        table, table.metadata.current_snapshot_id, SnapshotChange("overwrite", new, frozenset(paths.values()))
    )
    return io.begun


def main() -> None:
    """Fork a child for each step, one after the other."""
    for argument in sys.argv[1:]:
        step, _, folder = argument.partition("=")
        child = os.fork()
        if child == 0:
            begun = overwrite_files(step, Path(folder))
            os._exit(begun)
        _, status = os.waitpid(child, 0)
        print(step, os.waitstatus_to_exitcode(status))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
