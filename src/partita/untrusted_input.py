"""Reading files that others wrote: JSON, numbers, and metadata that can be wrong in any way.

Parsers limit digits, exponents and depth before they compute. Code that reads metadata runs inside
`translate_read_errors`, which raises every failure as an error of Partita that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partita.errors import PartitaError, StorageError, TableError

MAX_DIGITS = 1000
"""The most digits of a number that are parsed. The largest type, decimal(38), needs 38."""


def parse_json(data: str | bytes) -> Any:
    """Parse a JSON document. Raise `ValueError` for anything invalid, nesting that is too deep included."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def parse_json_object(data: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Raise `ValueError` for any other document."""
    document = parse_json(data)
    if not isinstance(document, dict):
        raise ValueError(f"a JSON object is expected, found {type(document).__name__}")  # noqa: TRY004 - as parse_json
    return document


@contextmanager
def translate_read_errors(subject: str, error_class: type[PartitaError] = TableError) -> Iterator[None]:
    """Raise a failure in the block as an `error_class` that names the `subject`; an `OSError` as a `StorageError`.

    Nothing narrower than `Exception` covers what libraries raise for damaged input. The cause stays attached.
    """
    try:
        yield
    except PartitaError:
        raise
    except OSError as error:
        raise StorageError(f"{subject} can't be read: {error_summary(error)}") from error
    except Exception as error:
        raise error_class(f"{subject} can't be read: {error_summary(error)}") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise error_class(f"{subject} can't be read: {error_summary(error)}") from error


def is_unicode(value: object) -> bool:
    """Return whether a value is a text without lone surrogates, which neither UTF-8 nor a JVM can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a library written in Rust, which is no `Exception` in Python."""
    return type(error).__module__ == "pyo3_runtime"


def error_summary(error: BaseException) -> str:
    """Return an error as one line: its class, unless the text says enough, and the first line of the text."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, OSError | UnicodeError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
