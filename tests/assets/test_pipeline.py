"""Pipelines: the assets that are loaded from a module, and errors with their file and line."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest

import partita as pt

GOOD = """
    import partita as pt

    orders = pt.source("raw.orders", partitions=pt.daily("date", start="2025-01-01"))

    @pt.asset(table="sales.daily", partitions=pt.daily("date", start="2025-01-01"), upstream=[orders])
    def daily(ctx):
        return ctx.read(orders)

    @pt.asset(upstream=[(daily, pt.all_partitions())])
    def report(ctx):
        pass
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a module `jobs` of its own."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "jobs", raising=False)
    importlib.invalidate_caches()


def load(folder: Path, text: str, module: str = "jobs") -> pt.Pipeline:
    (folder / "jobs.py").write_text(textwrap.dedent(text))
    return pt.load_pipeline(module, str(folder))


@pytest.mark.parametrize("module", ["jobs", "jobs.py"])
def test_the_assets_of_a_module_upstreams_first(tmp_path: Path, module: str) -> None:
    pipeline = load(tmp_path, GOOD, module)
    assert list(pipeline.assets) == ["raw.orders", "daily", "report"]
    assert len(pipeline) == 3
    source = pipeline.assets["raw.orders"]
    assert source.is_source
    assert source.definition_location.endswith("jobs.py:4")
    assert pipeline.assets["daily"].definition_location.endswith("jobs.py:6")


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("upstream=[orders]", 'upstream=["gone"]', 6, "unknown upstream 'gone'"),
        ("upstream=[orders]", 'upstream=["report"]', 6, "upstream of each other: daily <- report <- daily"),
        ("@pt.asset(upstream", '@pt.asset(table="sales.daily", upstream', 10, "which 'daily' writes already"),
        ("pt.all_partitions()", 'pt.window_offset("date", -1)', 10, "'report' has no time windows of that name"),
    ],
)
def test_an_invalid_pipeline_is_refused_with_the_line(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    assert old in GOOD
    with pytest.raises(pt.DefinitionError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert f"jobs.py:{line}: asset" in str(caught.value)
    assert reason in str(caught.value)


TWICE = """
    import partita as pt
    one = pt.asset(name="a")(lambda ctx: None)
    two = pt.asset(name="a")(lambda ctx: None)
"""


def test_two_assets_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(pt.DefinitionError, match=r"jobs.py:\d: asset 'a': the name is taken by the asset at .*jobs.py"):
        load(tmp_path, TWICE)


def test_no_module_and_no_assets(tmp_path: Path) -> None:
    with pytest.raises(pt.DefinitionError, match="no module 'jobs'"):
        pt.load_pipeline("jobs", str(tmp_path))
    with pytest.raises(pt.DefinitionError, match="no pipeline at"):
        pt.load_pipeline("jobs.py", str(tmp_path))
    with pytest.raises(pt.DefinitionError, match="has no assets"):
        load(tmp_path, "x = 1")


def test_a_folder_that_isnt_there_stays_off_pythons_path(tmp_path: Path) -> None:
    for folder in (str(tmp_path / "none"), str(tmp_path / ("x" * 5000))):
        with pytest.raises(pt.DefinitionError):
            pt.load_pipeline("jobs", folder)
        assert folder not in sys.path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\nimport nowhere", r"jobs.py:2: ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 1\ny = (", r"jobs.py:2: SyntaxError"),
        ("def f():\n    return 1 / 0\nf()", r"jobs.py:2: ZeroDivisionError"),
        ("import sys\nsys.exit(0)", r"jobs.py:2: SystemExit: 0"),
        ("import partita as pt\n\npt.asset(retries='3')", r"jobs.py:3: retries must be"),
        ("import partita as pt\n\npt.asset(format='orc')", r"jobs.py:3: unknown format 'orc'"),
    ],
)
def test_an_error_in_a_module_has_its_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(pt.DefinitionError, match=reason):
        load(tmp_path, text)


def test_a_dimension_that_the_table_cannot_hold_is_refused_with_the_line(tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path / "lake"))
    schema = pt.Schema.of({"day": "date", "n": "long"})
    lake.create_table("sales.daily", schema, format="delta", partition_by=["day"])
    pipeline = load(tmp_path, GOOD)
    with pytest.raises(pt.DefinitionError, match=r"jobs.py:6: .*'date'.* partitioned by day"):
        lake.register(*pipeline)
    assert lake.partitions_of("daily") is None, "nothing was registered"
