"""Partitioned tables on Lance namespaces (Lance partition spec): each partition is a leaf, a Lance dataset of its own.

```text
values.py            partition values as names, and back     leaf_dataset.py   one leaf, and commits to it
schema_json.py       the schema in the root's properties     operations.py     what a write does to one leaf
namespace.py         namespaces and leaves in the manifest   commit.py         a write over many leaves, atomic
definition.py        columns and partitioning of a table     conflicts.py      whether concurrent writes conflict
leaf_partitions.py   partition values of leaves              log.py            intents and outcomes of writes

partitions.py, columns.py, optimize.py, repair.py, maintenance.py, search.py: operations that only Lance tables have
```
"""
