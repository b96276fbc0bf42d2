"""A project: a folder with `partita.toml`, which says where the lake is, which Spark to use, and what makes its tables.

```toml
[lake]                      # where; [lake.options] and [lake.catalog] are those of `Lake`
uri = "warehouse"
[spark]                     # on what: a master, or a remote of Spark Connect; [spark.conf] are settings of Spark
master = "local[*]"
[pipeline]                  # what: a module, or the path of a file, in the project's folder
module = "pipeline.py"
[run]                       # how
parallel = 2
```

It is the one in the folder where you are, or in the nearest above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partita.errors import ProjectError

FILE = "partita.toml"


@dataclass(frozen=True, slots=True)
class Project:
    """What a project's file says, None where it is silent; `lake_uri` is relative to nothing any more."""

    file: Path
    lake_uri: str
    tenant: str | None = None
    workspace: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, str] | None = None
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    module: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the file is, and the pipeline's module."""
        return self.file.parent


def find_project(start: Path | None = None) -> Project | None:
    """The project of a folder, the current one unless it is given; None where there is none."""
    folder = (Path.cwd() if start is None else start).resolve()
    for place in (folder, *folder.parents):
        if (place / FILE).is_file():
            return read_project(place / FILE)
    return None


def read_project(file: Path) -> Project:
    """The project of a file; what it can't mean is a `ProjectError` that names the key and what is allowed."""
    said = _checked(str(file), _loaded(file))
    lake, spark = said.get("lake", {}), said.get("spark", {})
    if "master" in spark and "remote" in spark:
        raise ProjectError(str(file), "spark.remote", "is said, and so is spark.master; a run has one of the two")
    return Project(
        file,
        _absolute(lake.get("uri", "."), file.parent),
        lake.get("tenant"),
        lake.get("workspace"),
        lake.get("options", {}),
        lake.get("catalog"),
        spark.get("master"),
        spark.get("remote"),
        spark.get("conf", {}),
        said.get("pipeline", {}).get("module"),
        said.get("run", {}),
    )


def _loaded(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProjectError(str(file), None, f"it can't be read as TOML: {error}") from error


def _absolute(uri: str, folder: Path) -> str:
    """Where a lake is: a URI as it is, a path from the file's folder on."""
    return uri if "://" in uri or uri.startswith("file:/") else str(folder / uri)


# --- what a file may say


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _at_least(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError
        return value

    return read


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError
    return float(value)


def _settings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - what all of these raise
    return dict(_flat("", value))


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings by their dotted names: TOML reads `a.b = 1` as a table in a table."""
    for name, one in value.items():
        if isinstance(one, dict):
            yield from _flat(f"{prefix}{name}.", one)
        elif isinstance(one, bool):
            yield f"{prefix}{name}", str(one).lower()
        elif isinstance(one, str | int | float):
            yield f"{prefix}{name}", str(one)
        else:
            raise ValueError  # noqa: TRY004 - the same


_TEXT = (_text, "text")
_SETTINGS = (_settings, "a table of settings, each text, a number, true or false")
KEYS: Mapping[str, Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "lake": {"uri": _TEXT, "tenant": _TEXT, "workspace": _TEXT, "options": _SETTINGS, "catalog": _SETTINGS},
    "spark": {"master": _TEXT, "remote": _TEXT, "conf": _SETTINGS},
    "pipeline": {"module": _TEXT},
    "run": {
        "parallel": (_at_least(1), "a whole number from 1 on"),
        "max_failures": (_at_least(0), "a whole number from 0 on"),
        "batch_partitions": (_at_least(1), "a whole number from 1 on"),
        "batch_bytes": (_at_least(1), "a whole number from 1 on"),
        "wait": (_seconds, "a number of seconds from 0 on"),
    },
}
"""Every key of the file by its table: how its value is read, and in words what it is."""


def _checked(file: str, document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is said, each value as its key reads it."""
    said: dict[str, dict[str, Any]] = {}
    for name, table in document.items():
        if name not in KEYS:
            raise ProjectError(file, name, f"is not known; there is {', '.join(f'[{known}]' for known in KEYS)}")
        if not isinstance(table, dict):
            raise ProjectError(file, name, f"is a table, [{name}], and not {table!r}")
        said[name] = {key: _value(file, name, key, value) for key, value in table.items()}
    return said


def _value(file: str, table: str, key: str, value: Any) -> Any:
    known = KEYS[table]
    if key not in known:
        raise ProjectError(file, f"{table}.{key}", f"is not known; [{table}] has {', '.join(known)}")
    read, words = known[key]
    try:
        return read(value)
    except ValueError:
        raise ProjectError(file, f"{table}.{key}", f"is {words}, and not {value!r}") from None
