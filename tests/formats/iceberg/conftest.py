"""Fixtures of the Iceberg tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from partita.formats.iceberg.manifests import cache

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test its own cache of decoded manifests, apart from the user's."""
    monkeypatch.setenv("PARTITA_CACHE", str(tmp_path_factory.mktemp("cache")))
    cache.clear_memory()
    yield
    cache.clear_memory()
