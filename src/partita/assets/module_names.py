"""How the module of a pipeline is named."""

from __future__ import annotations

MODULE_WORDS = (
    "the name of a module, such as 'pipeline' or 'shop.assets', or the path of a .py file in the project's folder"
)


def is_module_name(name: str) -> bool:
    """Whether a name is one of a module that is not relative to a package, and no path."""
    return all(part and not set(part) & set("/\\\0") for part in name.split("."))
