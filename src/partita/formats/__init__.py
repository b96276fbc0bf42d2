"""One room for each table format, all with the same shape; each is loaded when it is first asked for."""

from importlib import import_module

FORMATS = ("delta", "iceberg", "lance")
"""Their names, as `create_table` takes them."""


def __getattr__(name: str) -> object:
    if name != "delta":
        raise AttributeError(f"module 'partita.formats' has no attribute {name!r}")
    return import_module("partita.formats.delta")


def __dir__() -> list[str]:
    return ["FORMATS", "delta"]
