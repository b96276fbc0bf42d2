"""One table for each format of the registry, and the gaps that a format declares as strict expected failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import partita as pt
from partita.errors import UnsupportedOperation
from partita.formats.registry import FORMATS, table_format
from tests.conformance.row_model import ROWS, SCHEMA, arrow_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each format; what it needs and a format lacks is expected to be refused."""
    if "format_name" not in metafunc.fixturenames:
        return
    needed = [operation for mark in metafunc.definition.iter_markers("needs") for operation in mark.args]
    parameters = []
    for name in FORMATS:
        missing = [operation for operation in needed if operation in table_format(name).gaps]
        reason = ", ".join(missing)
        marks = [pytest.mark.xfail(strict=True, raises=UnsupportedOperation, reason=reason)] if missing else []
        parameters.append(pytest.param(name, marks=marks, id=name))
    metafunc.parametrize("format_name", parameters)


@pytest.fixture
def table(format_name: str, spark: SparkSession, tmp_path: Path) -> pt.Table:
    """A table partitioned by `p`, with the rows of the model."""
    created = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=format_name, partition_by=["p"])
    created.append(arrow_rows(ROWS))
    return created
