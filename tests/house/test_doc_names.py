"""Files and dotted names that the documentation puts in backticks exist in the repository."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "partita"
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

FENCED_BLOCK = re.compile(r"^(?P<indent> *)```.*?^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
PYTHON_FILE = re.compile(r"[\w./-]+\.py")
DOTTED_NAME = re.compile(r"(?:pt|partita)(?:\.[A-Za-z_]\w*)+")

# A name that is no file and no Python name of Partita, and what it is instead.
EXCEPTIONS = {
    "partita.toml": "the project file of a user",
    "utils.py": "a file that the house does not have (CONTRIBUTING.md)",
}
# Pages that name what no longer exists: the part of each line that is not checked.
OLD_NAMES = {
    "docs/adr/0036-public-names-in-the-fields-words.md": re.compile(r"^\|[^|]*\|", re.MULTILINE),
}


class Mention(NamedTuple):
    page: str
    line: int
    name: str


def mentions(page: str, text: str) -> Iterator[Mention]:
    """Yield the Python files and the dotted names in the code spans of a page; fenced blocks are left out."""
    text = FENCED_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    if page in OLD_NAMES:
        text = OLD_NAMES[page].sub("|", text)
    for span in CODE_SPAN.finditer(text):
        line = text.count("\n", 0, span.start()) + 1
        for pattern in (PYTHON_FILE, DOTTED_NAME):
            match = pattern.match(span[1])
            # `partita.fold/<id>` and `write.py-location-provider.impl` are texts of other kinds
            if match and span[1][match.end() : match.end() + 1] in ("", "(", ",", " "):
                yield Mention(page, line, match[0])


def file_exists(name: str, page: str) -> bool:
    """Return whether a path exists, from the repository, its sources or the package.

    CONTRIBUTING.md also names the files that every format's folder has, and modules by their bare names.
    """
    if any((folder / name).is_file() for folder in (ROOT, SRC.parent, SRC)):
        return True
    return page == "CONTRIBUTING.md" and any(SRC.glob(f"formats/*/{name}" if "/" in name else f"**/{name}"))


def attribute_exists(name: str) -> bool:
    """Return whether a dotted name leads from the package to a module or to an attribute of one."""
    target: object = importlib.import_module("partita")
    path = "partita"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            target = getattr(target, part)
        except AttributeError:
            try:
                target = importlib.import_module(path)
            except ImportError:
                return False
    return True


def exists(mention: Mention) -> bool:
    name = mention.name
    return name in EXCEPTIONS or (file_exists(name, mention.page) if name.endswith(".py") else attribute_exists(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_of_a_page_exist(page: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    unknown = [mention for mention in mentions(name, page.read_text("utf-8")) if not exists(mention)]
    assert not unknown, "\n".join(f"{mention.page}:{mention.line}: no {mention.name}" for mention in unknown)


def test_a_wrong_name_is_noticed() -> None:
    text = "`algebra/cron.py`\n```python\n`no.py`\n```\n`spark/nothing.py`, `partita.spark.nothing(df)`, `pt.Lake`\n"
    found = list(mentions("page.md", text))
    assert [mention.name for mention in found if not exists(mention)] == [
        "spark/nothing.py",
        "partita.spark.nothing",
    ]
    assert {mention.line for mention in found} == {1, 5}
    assert [mention.name for mention in found if exists(mention)] == ["algebra/cron.py", "pt.Lake"]


def test_every_exception_is_used() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert [name for name in EXCEPTIONS if f"`{name}`" not in text] == []
    assert [page for page in OLD_NAMES if not (ROOT / page).is_file()] == []
