"""Partitioned tables on Lance namespaces (Lance partition spec): each partition is a leaf, a Lance dataset of its own.

```text
values.py            partition values as names, and back     leaf_dataset.py      one leaf, and commits to it
schema_json.py       the schema in the root's properties     leaf_operations.py   what a write does to one leaf
namespace.py         namespaces and leaves in the manifest   commit.py            a write over many leaves, atomic
columns.py           columns and partitioning of a table     conflicts.py         whether concurrent writes conflict
scan_tasks.py        leaves as tasks of a scan               log.py               intents and outcomes of writes

lance_table.py: the operations that only Lance tables have, in alter.py, optimize.py, repair.py, search.py
```
"""
