"""Projects as tests write them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PIPELINE_SOURCE = """
import os

import partita as pt

DAYS = pt.daily("date", start="2025-01-01", end="2025-01-05")

events = pt.source("raw.events", partitions=DAYS)


@pt.asset(table="orders", partitions=DAYS, code_version="1", tags=["base"])
def orders(ctx):
    ctx.log.info("making %s", len(ctx.keys))
    if os.environ.get("POISON") in {str(key["date"]) for key in ctx.keys}:
        raise ValueError("poisoned\\nby the test")
    return ctx.spark.createDataFrame([(key["date"], 1) for key in ctx.keys], "date date, n int")


@pt.asset(table="sums", partitions=DAYS, code_version="1", upstream=[orders])
def sums(ctx):
    return ctx.read(orders).groupBy("date").sum("n").withColumnRenamed("sum(n)", "n")
"""
PROJECT_TOML = '[lake]\nuri = "lake"\n[pipeline]\nmodule = "shop_pipeline"\n[run]\nparallel = 1\n'


def write_project(folder: Path, toml: str = PROJECT_TOML, pipeline: str = PIPELINE_SOURCE) -> Path:
    """A project in a folder: two assets and a source, over four days."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partita.toml").write_text(toml, encoding="utf-8")
    (folder / "shop_pipeline.py").write_text(pipeline, encoding="utf-8")
    return folder


def change_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder, as after `cd`; what is imported from there is forgotten at the end."""
    for name in ("PARTITA_LAKE", "PARTITA_TENANT", "PARTITA_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("shop_pipeline", "pipeline"):
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)
