"""Assets: functions that make partitions of tables from upstream partitions, and their plans and runs."""

from partita.assets.asset import Asset, asset

__all__ = ["Asset", "asset"]
