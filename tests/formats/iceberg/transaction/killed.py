"""Makes the same commit in one child process for each step, and kills it there.

Run as `python -m tests.formats.iceberg.transaction.killed <step>=<folder> ...`; prints each step, the child's exit and
how many files of metadata it had begun. Children are forked before anything here has started a thread.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import PyArrowFileIO

from partita.formats.iceberg.transaction import Changes, commit
from tests.formats.iceberg.transaction.tables import MeddledCatalog, data_file, live_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io.pyarrow import PyArrowFile

KILLED = 9


class CountingIO(PyArrowFileIO):
    """Counts the files that are begun, and dies at one of them."""

    last: int | None = None
    begun = 0

    def new_output(self, location: str) -> PyArrowFile:
        if self.begun == self.last:
            os._exit(KILLED)
        self.begun += 1
        return super().new_output(location)


def overwrite(step: str, folder: Path) -> int:
    """Overwrite a file in each of two specs; how many files of metadata that took."""
    catalog = MeddledCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    die: Callable[[], object] = lambda: os._exit(KILLED)  # noqa: E731 - it is handed over as a value
    catalog.before, catalog.after = [die] if step == "before" else [], [die] if step == "after" else []
    table = catalog.load_table("db.t")
    new = [data_file(table, [{"id": 100 + spec_id, "region": "eu"}], spec_id) for spec_id in (0, 1)]
    going = {spec_id: path for path, spec_id, _ in live_files(table)}
    io = CountingIO(table.io.properties)
    io.last = int(step) if step.isdecimal() else None
    table.io = io
    commit(table, table.metadata.current_snapshot_id, Changes("overwrite", new, frozenset(going.values())))
    return io.begun


def main() -> None:
    """Fork a child for each step, one after the other."""
    for given in sys.argv[1:]:
        step, _, folder = given.partition("=")
        child = os.fork()
        if child == 0:
            begun = overwrite(step, Path(folder))
            os._exit(begun)
        _, status = os.waitpid(child, 0)
        print(step, os.waitstatus_to_exitcode(status))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
