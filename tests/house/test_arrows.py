"""Rooms import only what the design lets them; and the walk that says so would notice if they did not."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.import_rules import ALLOWED_IMPORTS, PACKAGE, package_modules, rule_violations

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

BAD: dict[str, tuple[str, str]] = {
    "upward": ("partita/algebra/key.py", "from partita.arrow import key_texts"),
    "in a function": ("partita/arrow/keys.py", "def f():\n    import partita.formats.delta"),
    "for a type": ("partita/assets/plan.py", "if TYPE_CHECKING:\n    from partita.lake import Lake"),
    "by text": ("partita/status/fold.py", "importlib.import_module('partita.lake')"),
    "a room from the package": ("partita/status/fold.py", "from partita import spark"),
    "the public face": ("partita/formats/table.py", "from partita import PartitionKey"),
    "relative": ("partita/algebra/key.py", "from ..arrow import keys"),
    "relative, sibling": ("partita/algebra/key.py", "from . import types"),
    "siblings": ("partita/arrow/keys.py", "import partita.spark"),
    "pyspark outside its room": ("partita/formats/table.py", "from pyspark.sql import DataFrame"),
    "py4j outside its room": ("partita/lake.py", "import py4j.java_gateway"),
    "a room without a place": ("partita/utils.py", "import os"),
    "the JVM": ("partita/spark/scan.py", "spark._jvm.x()"),
    "the JVM by text": ("partita/spark/scan.py", "getattr(df, '_jdf')"),
    "an RDD": ("partita/spark/scan.py", "df.rdd.map(f)"),
    "the context": ("partita/spark/session.py", "spark.sparkContext"),
}

GOOD: dict[str, tuple[str, str]] = {
    "the package names all": ("partita/__init__.py", "from partita.cli import app\nimport partita.spark"),
    "downward": ("partita/formats/delta/log.py", "from partita.algebra.key import PartitionKey\nimport partita.spark"),
    "errors": ("partita/algebra/key.py", "from partita.errors import KeyFormatError\nfrom partita import errors"),
    "own room": ("partita/algebra/key.py", "from partita.algebra import types"),
    "pyspark in its room": ("partita/spark/scan.py", "from pyspark.sql import DataFrame"),
    "the face, shown": ("partita/cli/key.py", "import partita as pt"),
    "elsewhere": ("partita/algebra/hashing.py", "import mmh3\nfrom partitas import x"),
}

# Runs in a process where pyspark is not to be had, and imports what it is told.
WITHOUT_PYSPARK = """
import importlib, sys

class NoSpark:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ImportError(f"{name} is needed here")

sys.meta_path.insert(0, NoSpark())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


@pytest.mark.slow(reason="parses every module")
def test_rooms_import_only_what_the_design_lets_them() -> None:
    assert "\n".join(map(str, rule_violations(SRC))) == ""


@pytest.mark.parametrize("case", BAD)
def test_a_breach_is_found(case: str, tmp_path: Path) -> None:
    plant(tmp_path, *BAD[case])
    assert len(rule_violations(tmp_path)) == 1


@pytest.mark.parametrize("case", GOOD)
def test_allowed_imports_are_accepted(case: str, tmp_path: Path) -> None:
    plant(tmp_path, *GOOD[case])
    assert rule_violations(tmp_path) == []


def test_no_arrow_points_both_ways() -> None:
    assert [
        (a, b) for a in ALLOWED_IMPORTS for b in ALLOWED_IMPORTS if a in ALLOWED_IMPORTS[b] and b in ALLOWED_IMPORTS[a]
    ] == []


@pytest.mark.slow(reason="imports everything in a process of its own")
def test_rooms_without_spark_import_without_spark() -> None:
    done = import_without_pyspark(sys.path, [name for name in package_modules(SRC) if needs_no_jvm(name)])
    assert done.returncode == 0, done.stderr


def test_a_room_that_needs_spark_is_noticed(tmp_path: Path) -> None:
    plant(tmp_path, "partita/lake.py", "import pyspark.sql")
    done = import_without_pyspark([str(tmp_path)], ["partita.lake"])
    assert "pyspark is needed here" in done.stderr


def needs_no_jvm(module: str) -> bool:
    # Importing __main__ would run the command line.
    parts = module.split(".")
    return {"spark", "__main__"}.isdisjoint(parts) and parts[:3] != ["partita", "formats", "operations"]


def import_without_pyspark(path: list[str], names: list[str]) -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.path[:0] = {path!r}\n{WITHOUT_PYSPARK}"
    return subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, check=False)


def plant(src: Path, path: str, code: str) -> None:
    ast.parse(code)
    file = src / path
    file.parent.mkdir(parents=True)
    (src / PACKAGE / "__init__.py").touch()
    file.write_text(code, encoding="utf-8")
