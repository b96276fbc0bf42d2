"""Connections share a database and none of their relations; what changes settings has a database of its own."""

from __future__ import annotations

import subprocess
import sys

from partita.status.duckdb_engine import create_table, fetch_rows, open_connection, open_database
from partita.status.duckdb_sql import Sql

RELATION = Sql("numbers")


def test_connections_have_relations_of_their_own() -> None:
    with open_connection() as first, open_connection() as second:
        create_table(first, RELATION, Sql("SELECT 1 AS n"))
        create_table(second, RELATION, Sql("SELECT 2 AS n"))
        assert fetch_rows(first, "FROM numbers") == [(1,)]
        assert fetch_rows(second, "FROM numbers") == [(2,)]
    with open_connection() as third:
        assert fetch_rows(third, "SELECT count(*) FROM duckdb_tables()") == [(0,)]


def test_every_connection_has_the_settings() -> None:
    settings = "SELECT current_setting('TimeZone'), current_setting('preserve_insertion_order')"
    with open_connection() as connection, open_database() as database:
        assert fetch_rows(connection, settings) == fetch_rows(database, settings) == [("UTC", False)]


def test_a_database_of_its_own_shares_neither_settings_nor_tables() -> None:
    threads = "SELECT current_setting('threads')"
    with open_connection() as connection, open_database() as database:
        before = fetch_rows(connection, threads)
        database.execute(f"SET threads = {before[0][0] + 1}")
        database.execute("CREATE TABLE numbers AS SELECT 1 AS n")
        assert fetch_rows(connection, threads) == before
        assert fetch_rows(connection, "SELECT count(*) FROM duckdb_tables()") == [(0,)]


FORKED = """
import multiprocessing
from partita.status.duckdb_engine import fetch_rows, open_connection

def count_rows(_=None):
    with open_connection() as connection:
        return fetch_rows(connection, "SELECT count(*) FROM range(1000000)")[0][0]

count_rows()
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(count_rows, [None]), count_rows())
"""


def test_a_forked_process_and_its_parent_open_the_database_again() -> None:
    command = [sys.executable, "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[1000000] 1000000\n", done.stderr


def test_a_process_that_ends_leaves_no_connection_behind() -> None:
    """As nanobind would report at exit, on stderr."""
    script = "from partita.status.duckdb_engine import open_connection; open_connection().execute('SELECT 1')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
