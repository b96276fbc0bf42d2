"""The texts of status."""

from __future__ import annotations

import pytest

from partita.status.text import error_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("disk full\nat load.py:3", "disk full"),
        ("Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\n", "KeyError: 'x'"),
        ("\nTraceback (most recent call last):", "Traceback (most recent call last):"),
        ("", ""),
    ],
)
def test_the_message_line_of_an_error(text: str, line: str) -> None:
    assert error_line(text) == line
