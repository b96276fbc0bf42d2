"""The fingerprint of a function: what changes it, and what doesn't."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from partita.assets.fingerprint import fingerprint

Load = Callable[[str], ModuleType]

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

    def loaded(text: str) -> ModuleType:
        # Under one name: where a function comes from is not what it does.
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

    return loaded


def of(load: Load, text: str) -> str:
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
def test_what_does_not_change_it(load: Load, old: str, new: str) -> None:
    assert old in BASE
    assert of(load, BASE) == of(load, BASE.replace(old, new))


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
def test_what_changes_it(load: Load, old: str, new: str) -> None:
    assert old in BASE
    assert of(load, BASE) != of(load, BASE.replace(old, new))


def test_what_a_function_closes_over_counts() -> None:
    def made(rate: int) -> Callable[[Any], int]:
        def job(_: Any) -> int:
            return rate

        return job

    assert fingerprint(made(1)) == fingerprint(made(1))
    assert fingerprint(made(1)) != fingerprint(made(2))


def test_lambdas_and_what_calls_itself() -> None:
    def again(n: int) -> int:
        return n and again(n - 1)

    assert fingerprint(again) == fingerprint(again)
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
    assert fingerprint(len) == fingerprint(len)
    assert fingerprint(print) != fingerprint(len)
