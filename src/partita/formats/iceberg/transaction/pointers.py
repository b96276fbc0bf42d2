"""Which data files a position-delete file points into, as far as its own description says.

A description is read and kept as wide as version 3 has it: `referenced_data_file` is a part of version 2 too, where
pyiceberg leaves it out.
"""

from __future__ import annotations

from pyiceberg.manifest import DATA_FILE_TYPE, DataFile, DataFileContent

PATH_COLUMN = 2147483546
"""The id of `file_path` in position-delete files; the specification reserves it."""

_WIDTH = len(DATA_FILE_TYPE[3].fields)
_REFERENCED = next(at for at, field in enumerate(DATA_FILE_TYPE[3].fields) if field.name == "referenced_data_file")


def widened(file: DataFile) -> DataFile:
    """The description with a place for each field of version 3, and for the path that a position delete names."""
    values = [file[at] for at in range(len(file))]
    values += [None] * (_WIDTH - len(values))
    wide = DataFile(*values)
    wide[_REFERENCED] = referenced_path(file)
    wide.spec_id = spec_of(file)
    return wide


def spec_of(file: DataFile) -> int:
    """The spec that a file was written with; one that doesn't say is a file of version 1, of spec 0."""
    spec_id: int | None = getattr(file, "_spec_id", None)
    return 0 if spec_id is None else spec_id


def referenced_path(file: DataFile) -> str | None:
    """The one data file that a position-delete file points into; None where it may point into several."""
    if file.content != DataFileContent.POSITION_DELETES:
        return None
    if len(file) > _REFERENCED and file[_REFERENCED] is not None:
        return str(file[_REFERENCED])
    lower, upper = _bounds(file)
    # Bounds that were cut can't be equal, for an upper one that was cut is made greater.
    return lower.decode() if lower is not None and lower == upper else None


def may_point_into(file: DataFile, path: str) -> bool:
    """Whether a delete file may hold deletes of that data file, going by paths alone."""
    if file.content != DataFileContent.POSITION_DELETES:
        return True
    only = referenced_path(file)
    if only is not None:
        return only == path
    lower, upper = _bounds(file)
    wanted = path.encode()
    return (lower is None or lower <= wanted) and (upper is None or wanted <= upper or wanted.startswith(upper))


def _bounds(file: DataFile) -> tuple[bytes | None, bytes | None]:
    return (file.lower_bounds or {}).get(PATH_COLUMN), (file.upper_bounds or {}).get(PATH_COLUMN)
