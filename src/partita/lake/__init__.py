"""`Lake`: where tables, status and runs meet.

```text
lake.py          Lake: opens a lake, and has the methods of the three parts
tables.py        LakeTableMethods: create, open, adopt and query tables
runs.py          LakeRunMethods: register assets, observe sources, plan and run
status.py        LakeStatusMethods: record attempts, ask for status
base.py          LakeBase: the fields that the parts share, and `observe_first`
```

ADR 40 says why these are base classes.
"""

from partita.lake.lake import Lake

__all__ = ["Lake"]
