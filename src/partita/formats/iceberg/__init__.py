"""Iceberg tables, whose partitioning may change while their files stay."""
