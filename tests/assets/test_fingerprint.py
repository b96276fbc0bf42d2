"""The fingerprint of a function: which changes change it, and which don't."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from collections import deque
from collections.abc import Callable
from copy import copy
from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from partita.assets.fingerprint import fingerprint

Load = Callable[[str], ModuleType]


class Colour(Enum):
    RED = 1
    BLUE = 2


BASE = """
    import math
    from datetime import timedelta
    from dataclasses import dataclass

    RATE = 2
    LIMITS = {"us": 1, "eu": [2, 3]}

    @dataclass(frozen=True)
    class Rule:
        width: int
        def cut(self, x):
            return x - self.width

    RULE = Rule(5)

    def scaled(x):
        return x * RATE

    def daily(ctx, day=timedelta(days=1)):
        '''What it makes.'''
        # why
        inner = lambda x: scaled(x) + LIMITS["us"]
        return RULE.cut(inner(math.floor(1.5)))
"""


@pytest.fixture
def load(tmp_path: Path) -> Load:
    numbers = iter(range(100))

    def load_module(text: str) -> ModuleType:
        # All have the name `jobs`: the file of a function is no part of its fingerprint.
        file = tmp_path / f"{next(numbers)}" / "jobs.py"
        file.parent.mkdir()
        file.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location("jobs", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["jobs"] = module
        spec.loader.exec_module(module)
        return module

    return load_module


def daily_fingerprint(load: Load, text: str) -> str:
    return fingerprint(load(text).daily)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# why", "# another reason"),
        ("'''What it makes.'''", "'''What it makes now.'''"),
        ("        return x * RATE", "        return (x\n            * RATE)"),
        ("def scaled(x):", "UNUSED = 3\n\n    def scaled(x):"),
    ],
)
def test_changes_that_keep_the_fingerprint(load: Load, old: str, new: str) -> None:
    assert old in BASE
    assert daily_fingerprint(load, BASE) == daily_fingerprint(load, BASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 2", "RATE = 3"),
        ("RATE = 2", "RATE = 2.0"),
        ('"eu": [2, 3]', '"eu": [2, 4]'),
        ("x - self.width", "x + self.width"),
        ("Rule(5)", "Rule(6)"),
        ("x * RATE", "x / RATE"),
        ("days=1", "days=2"),
        ('LIMITS["us"]', 'LIMITS["eu"]'),
        ("math.floor(1.5)", "math.ceil(1.5)"),
    ],
)
def test_changes_that_change_the_fingerprint(load: Load, old: str, new: str) -> None:
    assert old in BASE
    assert daily_fingerprint(load, BASE) != daily_fingerprint(load, BASE.replace(old, new))


READER = """
    import partita as pt

    DAYS = pt.daily("date", start="2025-01-01")
    clicks = pt.source("web.clicks", partitions=DAYS)

    @pt.asset(table="web.hourly", partitions=DAYS, upstream=[clicks])
    def hourly(ctx):
        return ctx.read(clicks)

    @pt.asset(table="web.daily", partitions=DAYS, upstream=[hourly])
    def daily(ctx):
        return ctx.read(clicks).join(ctx.read(hourly)).where(DAYS.names[0])
"""


def test_upstreams_are_described_by_their_names(load: Load) -> None:
    def reader_fingerprint(old: str = "", new: str = "") -> str:
        assert old in READER
        return fingerprint(load(READER.replace(old, new)).daily.function)

    # Each is loaded from another folder, and the definitions stand on other lines.
    assert reader_fingerprint() == reader_fingerprint("    import partita as pt", "\n\n    import partita as pt")
    assert reader_fingerprint() == reader_fingerprint("ctx.read(clicks)\n\n", "ctx.read(clicks).distinct()\n\n")
    assert reader_fingerprint() != reader_fingerprint('"web.clicks"', '"web.views"')
    assert reader_fingerprint() != reader_fingerprint("2025-01-01", "2025-01-02")


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (re.compile("a+"), re.compile("b+")),
        (re.compile("a+"), re.compile("a+", re.IGNORECASE)),
        (re.compile("x" * 300 + "a"), re.compile("x" * 300 + "b")),
        (re.compile(b"a"), re.compile("a")),
        (date(2025, 1, 1), date(2025, 1, 2)),
        (timedelta(1), timedelta(2)),
        (UTC, timezone(timedelta(hours=1))),
        (ZoneInfo("Europe/Berlin"), ZoneInfo("Europe/Paris")),
        (Decimal("1.0"), Decimal("1.00")),
        (Fraction(1, 2), Fraction(1, 3)),
        (frozenset({"a"}), frozenset({"b"})),
        (deque([1]), deque([2])),
        (Colour.RED, Colour.BLUE),
    ],
)
def test_different_closure_values_have_different_fingerprints(value: object, other: object) -> None:
    def close_over(captured: object) -> Callable[[], object]:
        return lambda: captured

    assert fingerprint(close_over(value)) == fingerprint(close_over(copy(value)))
    assert fingerprint(close_over(value)) != fingerprint(close_over(other))


def test_closure_values_are_part_of_the_fingerprint() -> None:
    def make_job(rate: int) -> Callable[[Any], int]:
        def job(_: Any) -> int:
            return rate

        return job

    assert fingerprint(make_job(1)) == fingerprint(make_job(1))
    assert fingerprint(make_job(1)) != fingerprint(make_job(2))


def test_lambdas_and_what_calls_itself() -> None:
    def again(n: int) -> int:
        return n and again(n - 1)

    assert fingerprint(again) == fingerprint(again)
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
    assert fingerprint(len) == fingerprint(len)
    assert fingerprint(print) != fingerprint(len)


SHARED = """
    def job(ctx):
        from shared.helpers import rate
        return rate(1)

    def dotted(ctx):
        import shared.helpers
        return shared.helpers.rate(1)

    def among(ctx):
        return (lambda r: r in {"eu", "us", "jp", "br"})(ctx)

    CHOSEN = {len, str.upper, "a", 2}

    def chosen(ctx):
        return CHOSEN
"""
PRINTED = (
    "import jobs; from partita.assets.fingerprint import fingerprint; "
    "print(*map(fingerprint, (jobs.job, jobs.dotted, jobs.among, jobs.chosen)))"
)


@pytest.mark.slow(reason="processes of their own")
def test_the_same_in_every_process_and_other_where_a_helper_changes(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(textwrap.dedent(SHARED))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "__init__.py").touch()

    def printed_fingerprints(seed: str, rate: int) -> list[str]:
        (tmp_path / "shared" / "helpers.py").write_text(f"def rate(x):\n    return x * {rate}\n")
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", PRINTED], cwd=tmp_path, env=env, capture_output=True, check=True)
        return done.stdout.decode().split()

    first, again, changed = printed_fingerprints("1", 2), printed_fingerprints("2", 2), printed_fingerprints("1", 3)
    assert first == again
    assert [old != new for old, new in zip(first, changed, strict=True)] == [True, True, False, False]
