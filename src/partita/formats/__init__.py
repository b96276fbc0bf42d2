"""The table formats, each in a folder of its own, all with the same file names; `registry.py` lists them."""

from importlib import import_module


def __getattr__(name: str) -> object:
    if name != "delta":
        raise AttributeError(f"module 'partita.formats' has no attribute {name!r}")
    return import_module("partita.formats.delta")


def __dir__() -> list[str]:
    return ["delta"]
