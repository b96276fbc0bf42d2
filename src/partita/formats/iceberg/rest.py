"""A REST catalog whose server can't name classes to import."""

from __future__ import annotations

from pyiceberg.catalog.rest import RestCatalog

from partita.formats.iceberg.classes import with_own_classes


class GuardedRestCatalog(RestCatalog):
    """A REST catalog that takes the names of classes from its own configuration, and not from its server's answer."""

    def _fetch_config(self) -> None:
        configured = dict(self.properties)
        super()._fetch_config()
        # The session is made anew from these, and with it the class that authenticates.
        self.properties = with_own_classes(self.properties, configured)
