"""What partitions, specs and predicates mean, on plain Python values: no Spark, no Arrow, no files."""
