"""A project: a folder with `partita.toml`, which says where the lake is, which Spark to use, and what makes its tables.

```toml
[lake]                      # where; [lake.options] and [lake.catalog] are those of `Lake`
uri = "warehouse"
time_zone = "UTC"           # of times in predicates that name none, where no session runs
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

from partita.assets.module_names import MODULE_WORDS, is_module_name
from partita.errors import ProjectError, value_repr

FILE = "partita.toml"
_MAX_LENGTH, _MAX_DOTS = 256 * 1024, 1000


@dataclass(frozen=True, slots=True)
class Project:
    """What a project's file says, None where it is silent; `lake_uri` is relative to nothing any more."""

    file: Path
    lake_uri: str
    tenant: str | None = None
    workspace: str | None = None
    time_zone: str | None = None
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
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(str(file), None, f"it can't be read as TOML: {error}") from error
    return parse_project(text, file)


def parse_project(text: str, file: Path) -> Project:
    """The project that a text says, which is that of `file`."""
    said = _checked(str(file), _loaded(text, file))
    lake, spark = said.get("lake", {}), said.get("spark", {})
    if "master" in spark and "remote" in spark:
        raise ProjectError(str(file), "spark.remote", "is said, and so is spark.master; a run has one of the two")
    module = said.get("pipeline", {}).get("module")
    _check_module(file, module)
    return Project(
        file,
        _absolute(lake.get("uri", "."), file.parent),
        lake.get("tenant"),
        lake.get("workspace"),
        lake.get("time_zone"),
        lake.get("options", {}),
        lake.get("catalog"),
        spark.get("master"),
        spark.get("remote"),
        spark.get("conf", {}),
        module,
        said.get("run", {}),
    )


def _check_module(file: Path, module: str | None) -> None:
    """Refuse to load code from outside of the project's folder, after links and `..` are resolved."""
    if module is None:
        return
    if not module.endswith(".py"):
        if not is_module_name(module):
            raise ProjectError(str(file), "pipeline.module", f"is {MODULE_WORDS}, and not {value_repr(module)}")
        return
    folder = file.parent.resolve()
    try:
        is_inside = (folder / module).resolve().is_relative_to(folder)
    except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL
        is_inside = False
    if not is_inside:
        raise ProjectError(
            str(file),
            "pipeline.module",
            f"is the path of a file in the project's folder, and {module!r} leads out of it",
        )


def _loaded(text: str, file: Path) -> dict[str, Any]:
    import tomllib

    # tomllib takes time by the square of the dots in a key.
    if len(text) > _MAX_LENGTH or any(line.count(".") > _MAX_DOTS for line in text.splitlines()):
        reason = f"it has over {_MAX_LENGTH:,} characters, or over {_MAX_DOTS:,} dots in a line"
        raise ProjectError(str(file), None, f"it can't be read as TOML: {reason}")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ProjectError(str(file), None, "it can't be read as TOML: it is nested too deeply") from None
    except ValueError as error:
        # Of TOML's grammar, or an integer of more digits than Python reads.
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
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
            raise ValueError
        return value

    return read


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _LONGEST_WAIT:
        raise ValueError
    return float(value)


_LONGEST_WAIT = 10**9
"""Seconds, about thirty years."""


def _settings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - what all of these raise
    return dict(_flat("", value, 0))


_MAX_DEPTH = 64
"""Dots in the name of a setting, at most."""


def _flat(prefix: str, value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """Settings by their dotted names: TOML reads `a.b = 1` as a table in a table."""
    if depth > _MAX_DEPTH:
        raise ValueError
    for name, one in value.items():
        if isinstance(one, dict):
            yield from _flat(f"{prefix}{name}.", one, depth + 1)
        elif isinstance(one, bool):
            yield f"{prefix}{name}", str(one).lower()
        elif isinstance(one, str | int | float):
            yield f"{prefix}{name}", str(one)
        else:
            raise ValueError  # noqa: TRY004 - the same


def _time_zone(value: Any) -> str:
    from partita.algebra.time_zones import find_time_zone

    return find_time_zone(_text(value)).name


_TEXT = (_text, "text")
_ZONE = (_time_zone, "the name of a time zone, such as UTC, Europe/Berlin or +05:30")
_SETTINGS = (_settings, "a table of settings, each text, a number, true or false")
KEYS: Mapping[str, Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "lake": {
        "uri": _TEXT,
        "tenant": _TEXT,
        "workspace": _TEXT,
        "time_zone": _ZONE,
        "options": _SETTINGS,
        "catalog": _SETTINGS,
    },
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
            raise ProjectError(file, name[:200], f"is not known; there is {', '.join(f'[{known}]' for known in KEYS)}")
        if not isinstance(table, dict):
            raise ProjectError(file, name, f"is a table, [{name}], and not {value_repr(table)}")
        said[name] = {key: _value(file, name, key, value) for key, value in table.items()}
    return said


def _value(file: str, table: str, key: str, value: Any) -> Any:
    known = KEYS[table]
    if key not in known:
        raise ProjectError(file, f"{table}.{key[:200]}", f"is not known; [{table}] has {', '.join(known)}")
    read, words = known[key]
    try:
        return read(value)
    except ValueError:
        raise ProjectError(file, f"{table}.{key}", f"is {words}, and not {value_repr(value)}") from None
