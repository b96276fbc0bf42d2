"""The table formats, each in a folder of its own, all with the same file names; `registry.py` lists them."""

from importlib import import_module

from partita.formats.registry import FORMATS


def __getattr__(name: str) -> object:
    if name not in FORMATS:
        raise AttributeError(f"module 'partita.formats' has no attribute {name!r}")
    return import_module(f"partita.formats.{name}")


def __dir__() -> list[str]:
    return list(FORMATS)
