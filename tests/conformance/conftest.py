"""Tables for each format of the registry, and the gaps that a format declares as strict expected failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import partita as pt
from partita.errors import PartitaError, UnsupportedOperation
from partita.formats.capabilities import Operation
from partita.formats.registry import FORMATS, table_format
from tests.conformance.prepared_lakes import PreparedLakes
from tests.conformance.row_model import ROWS, SCHEMA, arrow_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pyspark.sql import SparkSession

    from partita.formats.capabilities import Gap


class RefusedAsDeclared(Exception):
    """A format refused an operation in the way that its declaration says."""


def _names_the_gap(error: Exception, gap: Gap) -> bool:
    return isinstance(error, PartitaError) and gap.reason in str(error) and gap.way_out in str(error)


REFUSALS_OF_OTHER_KINDS: dict[Operation, Callable[[Exception, Gap], bool]] = {
    # `create_table` says which function it refuses.
    Operation.TRANSFORM_PARTITIONING: lambda error, gap: isinstance(error, pt.SpecError) and _names_the_gap(error, gap),
    Operation.TEXT_LENGTHS: _names_the_gap,
    # Tables of the other formats have no such method.
    Operation.VECTOR_SEARCH: lambda error, _: isinstance(error, AttributeError) and error.name == "search",
}
"""How a gap shows itself where no method of a table stands for the operation."""

TRANSACTION_METHODS = frozenset({"append", "overwrite", "overwrite_partitions", "replace_partitions"})


def is_refused_as_declared(error: Exception, operation: Operation, gap: Gap) -> bool:
    """Return whether an error is what the declaration of a gap says: from the public method of that operation."""
    if operation in REFUSALS_OF_OTHER_KINDS:
        return REFUSALS_OF_OTHER_KINDS[operation](error, gap)
    methods = TRANSACTION_METHODS if operation is Operation.TRANSACTIONS else {operation.value}
    return (
        isinstance(error, UnsupportedOperation)
        and error.operation == operation
        and _names_the_gap(error, gap)
        and bool(methods & set(_called_table_methods(error)))
    )


def _called_table_methods(error: Exception) -> Iterator[str]:
    """Yield the functions of the module of `Table` through which an error came."""
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.endswith("partita/formats/table.py"):
            yield code.co_name
        traceback = traceback.tb_next


def _declared_gaps(function: pytest.Function) -> dict[Operation, Gap]:
    """Return the gaps of a test's format among the operations that the test needs."""
    format_name = function.callspec.params.get("format_name") if hasattr(function, "callspec") else None
    if not isinstance(format_name, str):
        return {}
    gaps = table_format(format_name).gaps
    needed = (operation for mark in function.iter_markers("needs") for operation in mark.args)
    return {operation: gaps[operation] for operation in needed if operation in gaps}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each format; what it needs and a format lacks is expected to be refused."""
    if "format_name" not in metafunc.fixturenames:
        return
    needed = [operation for mark in metafunc.definition.iter_markers("needs") for operation in mark.args]
    parameters = []
    for name in FORMATS:
        missing = [operation for operation in needed if operation in table_format(name).gaps]
        reason = ", ".join(missing)
        marks = [pytest.mark.xfail(strict=True, raises=RefusedAsDeclared, reason=reason)] if missing else []
        parameters.append(pytest.param(name, marks=marks, id=name))
    metafunc.parametrize("format_name", parameters, scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Turn the refusal of a declared gap into `RefusedAsDeclared`; any other error stays what it is."""
    try:
        return (yield)
    except Exception as error:
        for operation, gap in _declared_gaps(pyfuncitem).items():
            if is_refused_as_declared(error, operation, gap):
                raise RefusedAsDeclared(f"{operation}: {error}") from error
        raise


@pytest.fixture(scope="session")
def prepared_lakes(tmp_path_factory: pytest.TempPathFactory) -> PreparedLakes:
    """Lakes that are made once."""
    return PreparedLakes(tmp_path_factory.mktemp("prepared"))


def _fill_model_lake(lake: pt.Lake, format_name: str) -> None:
    lake.create_table("t.t", SCHEMA, format=format_name, partition_by=["p"]).append(arrow_rows(ROWS))


@pytest.fixture
def model_lake(format_name: str, spark: SparkSession, prepared_lakes: PreparedLakes) -> pt.Lake:
    """A lake with one table `t.t` partitioned by `p`, with the rows of the model."""
    return prepared_lakes.open_lake(format_name, "model", _fill_model_lake)


@pytest.fixture
def table(model_lake: pt.Lake) -> pt.Table:
    """The table of the model."""
    return model_lake.table("t.t")
