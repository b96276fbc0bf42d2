"""Plain folders of Parquet files, partitioned by the names of folders as Hive and Spark do.

```text
files.py       which files are data files, and their partition folders
values.py      the names of folders as typed values: given by a definition, or inferred
footers.py     the columns of files          statistics.py   their bounds and numbers of rows
annotated_types.py                           types of columns that pyarrow doesn't tell
create.py      the definition of a table     commit.py       publishing files        conflicts.py
```
"""

from partita.formats.parquet.create import declare_table

__all__ = ["declare_table"]
