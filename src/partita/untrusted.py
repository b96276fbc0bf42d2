"""Reading what others wrote: JSON, whole numbers, and metadata that can be wrong in any way.

Parsers bound digits, exponents and depth before they compute. A reader of somebody's metadata runs inside `reading`,
which turns every failure into an error of Partita's with the name of what was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partita.errors import PartitaError, StorageError, TableError

MAX_DIGITS = 1000
"""Digits of a number that are read at most. The largest type, decimal(38), needs 38."""


def parse_json(data: str | bytes) -> Any:
    """The document of a JSON text; whatever is wrong with it is a `ValueError`, too deep nesting as well."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def parse_json_object(data: str | bytes) -> dict[str, Any]:
    """The object of a JSON text; any other document is a `ValueError`."""
    document = parse_json(data)
    if not isinstance(document, dict):
        raise ValueError(f"a JSON object is expected, found {type(document).__name__}")  # noqa: TRY004 - as parse_json
    return document


@contextmanager
def reading(what: str, kind: type[PartitaError] = TableError) -> Iterator[None]:
    """Raise whatever fails while `what` is read as a `kind`, and failures of the store as a `StorageError`.

    Nothing narrower than `Exception` covers what libraries raise on broken input. The cause stays attached.
    """
    try:
        yield
    except PartitaError:
        raise
    except OSError as error:
        raise StorageError(f"{what} can't be read: {first_line(error)}") from error
    except Exception as error:
        raise kind(f"{what} can't be read: {first_line(error)}") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise kind(f"{what} can't be read: {first_line(error)}") from error


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust failed an assertion of its own; Python sees no `Exception` then."""
    return type(error).__module__ == "pyo3_runtime"


def first_line(error: BaseException) -> str:
    """An error in one line: its class, where that says more than the text, and the first line of the text."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, OSError | UnicodeError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
