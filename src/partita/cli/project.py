"""The project file `partita.toml`: the location of the lake, the Spark to use, and the module of the pipeline.

```toml
[lake]                      # [lake.options] and [lake.catalog] are the arguments `options` and `catalog` of `Lake`
uri = "warehouse"
time_zone = "UTC"           # of times without an offset in predicates, if no Spark session runs
[spark]                     # a master, or a remote of Spark Connect; [spark.conf] are Spark properties
master = "local[*]"
[pipeline]                  # a module, or the path of a file, in the project's folder
module = "pipeline.py"
[run]                       # options of `partita run`
parallel = 2
```

Commands use the project file of the current folder or of the nearest folder above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partita.assets.pipeline import MODULE_NAME_HELP, is_module_name
from partita.errors import ProjectError, value_repr

PROJECT_FILE = "partita.toml"
_MAX_LENGTH, _MAX_DOTS = 256 * 1024, 1000


@dataclass(frozen=True, slots=True)
class Project:
    """The contents of a project file; None for what it does not set. `lake_uri` includes the folder of the file."""

    file: Path
    lake_uri: str
    tenant: str | None = None
    workspace: str | None = None
    time_zone: str | None = None
    lake_options: Mapping[str, str] = field(default_factory=dict)
    lake_catalog: Mapping[str, str] | None = None
    spark_master: str | None = None
    spark_remote: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    pipeline_module: str | None = None
    run_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the file, which contains the pipeline's module."""
        return self.file.parent


def find_project() -> Project | None:
    """Return the project of the current folder, or None if no project file is there or above."""
    current_folder = Path.cwd()
    for folder in (current_folder, *current_folder.parents):
        if (folder / PROJECT_FILE).is_file():
            return read_project(folder / PROJECT_FILE)
    return None


def read_project(file: Path) -> Project:
    """Read a project file. Raises `ProjectError`, which names the key and the values that it accepts."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(str(file), None, f"it can't be read as TOML: {error}") from error
    return parse_project(text, file)


def parse_project(text: str, file: Path) -> Project:
    """Parse the text of the project file `file`."""
    tables = _parse_document(str(file), _load_toml(text, file))
    lake, spark = tables.get("lake", {}), tables.get("spark", {})
    if "master" in spark and "remote" in spark:
        raise ProjectError(str(file), "spark.remote", "and spark.master are both set; set only one of them")
    module = tables.get("pipeline", {}).get("module")
    _check_module(file, module)
    return Project(
        file,
        _lake_location(lake.get("uri", "."), file.parent),
        lake.get("tenant"),
        lake.get("workspace"),
        lake.get("time_zone"),
        lake.get("options", {}),
        lake.get("catalog"),
        spark.get("master"),
        spark.get("remote"),
        spark.get("conf", {}),
        module,
        tables.get("run", {}),
    )


def _check_module(file: Path, module: str | None) -> None:
    """Raise `ProjectError` if the module is outside of the project's folder, after links and `..` are resolved."""
    if module is None:
        return
    if not module.endswith(".py"):
        if not is_module_name(module):
            raise ProjectError(str(file), "pipeline.module", f"must be {MODULE_NAME_HELP}, not {value_repr(module)}")
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
            f"must be the path of a file in the project's folder, and {module!r} is outside of it",
        )


def _load_toml(text: str, file: Path) -> dict[str, Any]:
    import tomllib

    # The time of tomllib grows with the square of the number of dots in a key.
    if len(text) > _MAX_LENGTH or any(line.count(".") > _MAX_DOTS for line in text.splitlines()):
        reason = f"it has over {_MAX_LENGTH:,} characters, or over {_MAX_DOTS:,} dots in a line"
        raise ProjectError(str(file), None, f"it can't be read as TOML: {reason}")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ProjectError(str(file), None, "it can't be read as TOML: it is nested too deeply") from None
    except ValueError as error:
        # An error of the grammar, or an integer of more digits than Python converts.
        raise ProjectError(str(file), None, f"it can't be read as TOML: {error}") from error


def _lake_location(uri: str, folder: Path) -> str:
    """Return a URI as it is, and a path relative to the folder of the project file."""
    return uri if "://" in uri or uri.startswith("file:/") else str(folder / uri)


# --- the keys of the file and their values


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _integer_parser(minimum: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value < 2**63:
            raise ValueError
        return value

    return parse


def _parse_seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _MAX_WAIT_SECONDS:
        raise ValueError
    return float(value)


_MAX_WAIT_SECONDS = 10**9


def _parse_settings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - every parser of a value raises ValueError
    return dict(_flatten_settings("", value, 0))


_MAX_DEPTH = 64
"""The largest number of dots in the name of a setting."""


def _flatten_settings(prefix: str, table: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """Return settings under their dotted names, because TOML reads `a.b = 1` as a table in a table."""
    if depth > _MAX_DEPTH:
        raise ValueError
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten_settings(f"{prefix}{name}.", value, depth + 1)
        elif isinstance(value, bool):
            yield f"{prefix}{name}", str(value).lower()
        elif isinstance(value, str | int | float):
            yield f"{prefix}{name}", str(value)
        else:
            raise ValueError  # noqa: TRY004 - every parser of a value raises ValueError


def _parse_time_zone(value: Any) -> str:
    from partita.algebra.time_zones import find_time_zone

    return find_time_zone(_parse_text(value)).name


_TEXT_RULE = (_parse_text, "text")
_TIME_ZONE_RULE = (_parse_time_zone, "the name of a time zone, such as UTC, Europe/Berlin or +05:30")
_SETTINGS_RULE = (_parse_settings, "a table of settings, each text, a number, true or false")
PROJECT_KEYS: Mapping[str, Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "lake": {
        "uri": _TEXT_RULE,
        "tenant": _TEXT_RULE,
        "workspace": _TEXT_RULE,
        "time_zone": _TIME_ZONE_RULE,
        "options": _SETTINGS_RULE,
        "catalog": _SETTINGS_RULE,
    },
    "spark": {"master": _TEXT_RULE, "remote": _TEXT_RULE, "conf": _SETTINGS_RULE},
    "pipeline": {"module": _TEXT_RULE},
    "run": {
        "parallel": (_integer_parser(1), "a positive integer"),
        "max_failures": (_integer_parser(0), "a non-negative integer"),
        "batch_partitions": (_integer_parser(1), "a positive integer"),
        "batch_bytes": (_integer_parser(1), "a positive integer"),
        "wait": (_parse_seconds, "a non-negative number of seconds"),
    },
}
"""The keys of each table of the file, each with the parser of its value and a description for error messages."""


def _parse_document(file: str, document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Parse every value of a TOML document; raise `ProjectError` for tables and keys that do not exist."""
    tables: dict[str, dict[str, Any]] = {}
    for name, table in document.items():
        if name not in PROJECT_KEYS:
            table_names = ", ".join(f"[{table_name}]" for table_name in PROJECT_KEYS)
            raise ProjectError(file, name[:200], f"is not a table of this file; there are {table_names}")
        if not isinstance(table, dict):
            raise ProjectError(file, name, f"must be a table, [{name}], not {value_repr(table)}")
        tables[name] = {key: _parse_value(file, name, key, value) for key, value in table.items()}
    return tables


def _parse_value(file: str, table: str, key: str, value: Any) -> Any:
    rules = PROJECT_KEYS[table]
    if key not in rules:
        raise ProjectError(file, f"{table}.{key[:200]}", f"is not a key of [{table}]; there are {', '.join(rules)}")
    parse, description = rules[key]
    try:
        return parse(value)
    except ValueError:
        raise ProjectError(file, f"{table}.{key}", f"must be {description}, not {value_repr(value)}") from None
