"""A script for Spark Connect (see `run_in_connect`): tables of two formats in one process, which starts one server."""

from __future__ import annotations

from tests.connect.delta_table import check_delta_table
from tests.connect.iceberg_table import check_iceberg_table

check_delta_table()
check_iceberg_table()
