"""Partitioned tables on Lance namespaces (seed 001).

```text
names.py         partition values as names, and back          leaf.py         one leaf: a Lance data set
schema_json.py   the schema in the root's properties          operations.py   what a write does to one leaf
namespace.py     the tree, in the manifest                    writes.py       a write over many, all or nothing
log.py           what was written, and what is being          state.py        the table at one version
```
"""
