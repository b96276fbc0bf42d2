"""The Python snippets of the README and the guide run as shown.

The ```python blocks of a file share one namespace, top to bottom, in an empty folder. A file is marked `jvm` and gets
the shared session as `spark` if a block names `spark` or the file has the comment `<!-- runs on Spark -->`.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
SLOW_PAGES = {"status.md": "a whole history of a lake"}
"""Pages that need no JVM and take seconds, and why."""
FENCE = re.compile(r"^(?P<indent> *)```python\b[^\n]*\n(?P<code>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    line: int
    code: str


def blocks_of(text: str) -> list[Block]:
    return [
        Block(text.count("\n", 0, match.start("code")) + 1, textwrap.dedent(match["code"]))
        for match in FENCE.finditer(text)
    ]


def needs_spark(text: str) -> bool:
    return "<!-- runs on Spark -->" in text or any(re.search(r"\bspark\b", block.code) for block in blocks_of(text))


def run(page: Path, **given: Any) -> dict[str, Any]:
    """Run the page's blocks; a traceback shows the page and the line in it."""
    namespace: dict[str, Any] = {"__name__": page.stem, **given}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        exec(code, namespace)  # noqa: S102  our own pages
    return namespace


def page_marks(page: Path) -> list[pytest.MarkDecorator]:
    if needs_spark(page.read_text(encoding="utf-8")):
        return [pytest.mark.jvm]
    return [pytest.mark.slow(reason=SLOW_PAGES[page.name])] if page.name in SLOW_PAGES else []


def pages() -> list[Any]:
    return [pytest.param(page, id=page.name, marks=page_marks(page)) for page in PAGES]


@pytest.mark.parametrize("page", pages())
def test_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    marked = request.node.get_closest_marker("jvm") is not None
    given = {"spark": request.getfixturevalue("spark")} if marked else {}
    monkeypatch.chdir(tmp_path)
    run(page, **given)


def test_blocks_share_a_namespace(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```text\nx = 5\n```\n\n- a list\n  ```python\n  y = x + 1\n  ```\n")
    assert run(page)["y"] == 2


def test_a_wrong_block_fails_with_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run(page)
    assert (caught.traceback[-1].path, caught.traceback[-1].lineno + 1) == (page, 4)


def test_spark_is_noticed_in_code_only() -> None:
    assert needs_spark("```python\nspark.range(3)\n```\n")
    assert not needs_spark("spark in prose, `spark` in a span\n\n```python\nsparkle = 1\n```\n")
