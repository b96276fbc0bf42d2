"""What the tests of assets share."""

from __future__ import annotations

import pytest

from tests.assets.shop import Shop


@pytest.fixture
def shop() -> Shop:
    """The pipeline of a shop, which a test can make fail."""
    return Shop()
