"""Delta tables."""

from partita.formats.delta.values import EncodedPartition, encode_partition, parse_partition

__all__ = ["EncodedPartition", "encode_partition", "parse_partition"]
