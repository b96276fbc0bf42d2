"""Delta tables."""

from partita.formats.partition_texts import EncodedPartition, encode_partition, parse_partition

__all__ = ["EncodedPartition", "encode_partition", "parse_partition"]
