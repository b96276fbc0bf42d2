"""The lock pins every package by hash, and names no place to fetch it from."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINNED = re.findall(r"^([a-z0-9-]+)==[^ \\]+(?: ; [^\\]+)? \\\n +--hash=sha256:", LOCK, re.MULTILINE)


def test_every_requirement_is_pinned_by_hash() -> None:
    requirements = [line for line in LOCK.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(requirements) == len(PINNED) > 0


def test_no_place_is_named() -> None:
    assert re.findall(r"https?:|index-url|find-links|--extra-index", LOCK) == []


def test_every_requirement_is_locked() -> None:
    groups = PROJECT["dependency-groups"]
    asked = [*PROJECT["project"]["dependencies"], *groups["dev"], *groups["build"]]
    assert {re.split(r"[^a-z0-9-]", one)[0] for one in asked} <= set(PINNED)
