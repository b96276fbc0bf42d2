"""Assets: what is made, from what, and in which partitions."""

from partita.assets.asset import Asset, asset

__all__ = ["Asset", "asset"]
