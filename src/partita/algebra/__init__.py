"""Partition keys, specs, functions, predicates and pruning on Python values, without Spark, Arrow and files."""
