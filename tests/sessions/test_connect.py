"""The operations of `test_matrix.py` in sessions of Spark Connect, in a file of their own so that both run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sessions.test_matrix import UNUSUAL, check_report, run_operations

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.jvm
@pytest.mark.long
def test_connect(tmp_path: Path) -> None:
    """The process starts a Connect server; with SPARK_TESTING it has a port of its own."""
    (report,) = run_operations(tmp_path, {}, SPARK_REMOTE="local[2]", SPARK_TESTING="1")
    check_report(report, "connect")


@pytest.mark.jvm
def test_connect_with_everything_unusual(tmp_path: Path) -> None:
    (report,) = run_operations(tmp_path, UNUSUAL, SPARK_REMOTE="local[2]", SPARK_TESTING="1")
    check_report(report, "connect, unusual")
