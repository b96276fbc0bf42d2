"""A script for Spark Connect (see `run_in_connect`): all checks in one process, which starts one server."""

from __future__ import annotations

from tests.connect.delta_table import check_delta_table
from tests.connect.iceberg_table import check_iceberg_table
from tests.connect.renderings import check_renderings

check_renderings()
check_delta_table()
check_iceberg_table()
