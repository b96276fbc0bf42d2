"""One statement on a lake's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from partita.formats.table import Table
from partita.sql.partitioning import Tables, create, evolve
from partita.sql.statements import Create, Delete, Evolve, Insert, Merge, Query, Update, read_statement

if TYPE_CHECKING:
    from partita.formats.on_spark.job import Outcome
    from partita.spark.rows import DataFrame


def run(tables: Tables, text: str, given: Mapping[str, object]) -> DataFrame | Outcome | Table:
    """Run it: rows of a query, what a change did, or the table that was made or partitioned another way."""
    said = read_statement(text)
    if isinstance(said, Create):
        return create(tables, said)
    if isinstance(said, Evolve):
        return evolve(tables, said)

    from partita.spark.session import started_in
    from partita.sql.on_spark import Statements

    statements = Statements(tables, given)
    with started_in(tables.time_zone):
        match said:
            case Query():
                return statements.query(said.text)
            case Insert():
                return statements.insert(said)
            case Delete():
                return statements.delete(said)
            case Update():
                return statements.update(said)
            case Merge():
                return statements.merge(said)
