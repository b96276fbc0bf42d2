"""Dagster, where it is installed."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any


def has_dagster() -> bool:
    if importlib.util.find_spec("dagster") is None:
        print("dagster is not installed: its rows are left out; pip install --group bench")
        return False
    warnings.filterwarnings("ignore")
    return True


def dagster_instance(home: Path) -> Any:
    import dagster

    home.mkdir()
    return dagster.DagsterInstance.local_temp(str(home))
