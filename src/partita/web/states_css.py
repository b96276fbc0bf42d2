"""The style sheet of the states: their colours as variables, and the classes of marks and bars."""

from __future__ import annotations

from functools import cache

from partita.status.states import MARKS, MISSING_MARK


@cache
def states_css() -> str:
    """Return the style sheet that `MARKS` describes, for light and dark pages."""
    light = " ".join(f"--{mark.name}: {mark.light_color};" for mark in MARKS)
    dark = " ".join(f"--{mark.name}: {mark.dark_color};" for mark in MARKS)
    # Missing partitions are as faint as an empty bar.
    fills = ["none" if number == MISSING_MARK else mark.name for number, mark in enumerate(MARKS)]
    return "\n".join(
        [
            f":root {{ {light} }}",
            f':root[data-theme="dark"] {{ {dark} }}',
            f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}',
            *(f".mark-{mark.name} > span {{ color: var(--{mark.name}); }}" for mark in MARKS),
            *(f".fill-{mark.name} {{ fill: var(--{fill}); }}" for mark, fill in zip(MARKS, fills, strict=True)),
            "",
        ]
    )
