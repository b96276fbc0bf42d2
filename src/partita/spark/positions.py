"""Columns with the position of a row: its file and its index in that file. Row-level changes find rows by them."""

from __future__ import annotations

FILE_INDEX = "__partita_file"
"""The column with the index of a row's file among the files of the scan."""
ROW_INDEX = "__partita_row"
"""The column with the index of a row in its file, from 0."""
FILE_PATH = "__partita_path"
"""The column with the path of a row's file, as Spark's `_metadata.file_path` spells it."""
