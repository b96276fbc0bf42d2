"""The per-file statistics of a Delta table (`add.stats`), written, read, and joined with bounds from partitions.

```text
stats_writer.py    Parquet footer of a new file   ->  JSON of `add.stats`
stats_reader.py    JSON of `add.stats`            ->  typed Arrow columns of minima, maxima and null counts
source_bounds.py   values of generated columns    ->  bounds of the columns that they are generated from
```
"""

from partita.formats.delta.statistics.source_bounds import add_source_bounds, source_bounds
from partita.formats.delta.statistics.stats_reader import file_statistics, row_counts
from partita.formats.delta.statistics.stats_writer import DeltaStatisticsEncoder

__all__ = ["DeltaStatisticsEncoder", "add_source_bounds", "file_statistics", "row_counts", "source_bounds"]
