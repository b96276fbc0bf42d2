"""One room for each table format, all with the same shape."""

from partita.formats import delta

__all__ = ["delta"]
