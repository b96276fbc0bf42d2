"""Loading a run plan from its file. Every field is checked: showing and running the plan must not fail later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from partita.algebra.key import PartitionKey
from partita.assets.run_plan import BLOCKED_SCHEMA, PLAN_FILE_FORMAT, PLANNED_SCHEMA, BatchLimits, RunPlan
from partita.errors import PlanError, value_repr
from partita.untrusted_input import error_summary, parse_json_object


def load_plan(path: str) -> RunPlan:
    """Load a plan from a file that `RunPlan.save` or `partita plan --out` wrote."""
    try:
        with Path(path).open(encoding="utf-8") as lines:
            return plan_from_lines(lines, path)
    except PlanError:
        raise
    except (OSError, ValueError, TypeError) as error:
        # A missing file, a file that is not UTF-8, or an argument that is no path.
        raise PlanError(f"the plan {value_repr(path)} can't be read: {error}") from error


def plan_from_lines(lines: Iterable[str] | Iterable[bytes], origin: str) -> RunPlan:
    """Return the plan of the lines of a file; `origin` names the file in errors."""
    rows: dict[str, list[dict[str, Any]]] = {"run": [], "blocked": []}
    try:
        documents = map(_parse_line, lines)
        header = _check_header(next(documents, {}))
        for document in documents:
            state = document.pop("state")
            rows[state].append(_check_row(document, is_planned=state == "run"))
        return RunPlan(
            header["lake"],
            header["tenant"],
            header["workspace"],
            datetime.fromisoformat(header["made_at"]),
            header["request"],
            pa.Table.from_pylist(rows["run"], PLANNED_SCHEMA),
            pa.Table.from_pylist(rows["blocked"], BLOCKED_SCHEMA),
            header["input_digests"],
        )
    except (ValueError, KeyError, TypeError, OverflowError, pa.ArrowException) as error:
        raise PlanError(f"{origin} is not a plan of Partita: {error_summary(error)}") from error


def _parse_line(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object of a line. Raise `ValueError` for strings that could not be saved again as UTF-8."""
    text = line if isinstance(line, str) else line.decode()
    document = parse_json_object(text)
    if "\\u" in text:
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _check_header(header: Mapping[str, Any]) -> Mapping[str, Any]:
    if header.get("form") != PLAN_FILE_FORMAT:
        raise ValueError(f"its form is {header.get('form')!r}, and this version reads {PLAN_FILE_FORMAT!r}")
    for name, type_ in (("lake", str), ("tenant", str), ("workspace", str), ("request", dict), ("input_digests", dict)):
        if not isinstance(header[name], type_):
            raise TypeError(f"{name} must be {'an object' if type_ is dict else 'a string'}")
    request = header["request"]
    for name, (is_valid, value_description) in _REQUEST_FIELD_CHECKS.items():
        if name in request and not is_valid(request[name]):
            raise TypeError(f"request.{name} must be {value_description}")
    if request.get("time_zone") is not None and request.get("where") is None:
        raise TypeError("request.time_zone is that of a predicate, and request.where has none")
    if not all(isinstance(digest, str) for digest in header["input_digests"].values()):
        raise TypeError("input_digests must have a digest for each asset")
    return header


def _is_optional_text(value: object) -> bool:
    return isinstance(value, str | None)


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _is_batch_limits(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= _BATCH_LIMIT_NAMES
        and all(_is_count(limit) and limit for limit in value.values())
    )


_BATCH_LIMIT_NAMES = {limit.name for limit in fields(BatchLimits)}
_REQUEST_FIELD_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "needs": (_is_text_list, "a list of strings"),
    "select": (_is_text_list, "a list of strings"),
    "where": (_is_optional_text, "the text of a predicate, or null"),
    "time_zone": (_is_optional_text, "the name of a time zone, or null"),
    "since": (_is_optional_text, "a timestamp, or null"),
    "allow_missing": (lambda value: isinstance(value, bool), "true or false"),
    "sizes": (_is_batch_limits, "the limits of batches"),
    "left_out": (_is_text_list, "a list of assets"),
    "not_among": (_is_text_list, "a list of assets"),
    "chosen": (_is_count, "a number of partitions"),
}
"""For each field of a plan's request, a check of its value and what the value must be."""


def _check_row(row: dict[str, Any], *, is_planned: bool) -> dict[str, Any]:
    """Return the row of a partition with its timestamp parsed. Raise `TypeError` for a field of the wrong type."""
    batch, reasons, size, since = row.get("batch"), row["reasons"], row.get("bytes"), row.get("since")
    by_asset, by_partition = row["by_asset"], row["by_partition"]
    if not isinstance(row["asset_key"], str) or (is_planned and not _is_count(batch)):
        raise TypeError("a partition must have an asset and the number of a batch")
    if not _is_text_list(reasons):
        raise TypeError("reasons must be a list of strings")
    if (
        (by_asset is None) != (by_partition is None)
        or not isinstance(by_asset, str | None)
        or (not is_planned and by_asset is None)
    ):
        raise TypeError("by_asset and by_partition must be an asset and a key of it, or both null if it runs")
    if size is not None and not _is_count(size):
        raise TypeError("bytes must be a number, or null")
    for key in (row["partition_key"], *([] if by_partition is None else [by_partition])):
        PartitionKey.parse(key)
    return row if since is None else {**row, "since": datetime.fromisoformat(since)}
