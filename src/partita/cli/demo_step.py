"""How the demo's parts tell what they are doing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

Step: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Tells a person what is being done, and how long it took."""
