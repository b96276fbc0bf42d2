"""The sample lake of the pages, and its site."""

from __future__ import annotations

from tests.web.conftest import sample_lake, site

__all__ = ["sample_lake", "site"]
