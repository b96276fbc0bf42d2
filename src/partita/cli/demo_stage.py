"""Where the demo plays: a project's folder, in which commands are shown, run in this process, and checked."""

from __future__ import annotations

import io
import os
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.text import Text

from partita.cli.command import INTERRUPTED, main
from partita.cli.init import write_project

_SHOP = Path(__file__).with_name("shop")
FILES = {
    "partita.toml": _SHOP / "partita.toml",
    "pipeline.py": _SHOP / "pipeline.py.txt",
    "strangers.py": _SHOP / "strangers.py.txt",
}
"""The project's files, and where they come from."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command, its exit code, and its time."""

    command: str
    code: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was found, and what it should be."""

    what: str
    found: object
    expected: object

    @property
    def agrees(self) -> bool:
        """Whether it is as it should be."""
        return self.found == self.expected


@dataclass(slots=True)
class Step:
    """A step of the story, with what was run and checked in it."""

    title: str
    commands: list[Ran] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


class Stopped(Exception):
    """A command went another way than it should, so the story can't go on."""


class Stage:
    """A folder with a new project, where this process is while the block lasts.

    What commands print is shown, or with `as_json` dropped; a check that fails is shown in any case. A command that
    ends with another code than expected ends the block.
    """

    def __init__(self, folder: Path, *, as_json: bool = False) -> None:
        self.folder = folder.resolve()
        self.steps: list[Step] = []
        self.as_json = as_json
        self._start = perf_counter()
        self._until = ExitStack()

    def __enter__(self) -> Self:
        write_project(self.folder, FILES)
        self._until.enter_context(_inside(self.folder))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._until.close()
        return kind is Stopped

    @property
    def agrees(self) -> bool:
        """Whether every check found what it should."""
        return all(check.agrees for step in self.steps for check in step.checks)

    def document(self) -> dict[str, Any]:
        """What was run and checked, as JSON."""
        return {"folder": str(self.folder), "seconds": self.seconds, "agree": self.agrees,
                "steps": [_document(step) for step in self.steps]}  # fmt: skip

    @property
    def seconds(self) -> float:
        """Since the stage was made."""
        return round(perf_counter() - self._start, 1)

    # --- what is told

    def step(self, title: str, text: str) -> None:
        """Begin a step."""
        self.steps.append(Step(title))
        heading = f"{len(self.steps)}. {title}"
        if self.as_json:
            Console(stderr=True, highlight=False).print(Text(heading, style="dim"))
        else:
            Console(highlight=False).print(Text.assemble("\n", (heading, "bold"), "\n", text))

    def show(self, what: RenderableType) -> None:
        """Show something that no command prints."""
        if not self.as_json:
            Console(highlight=False).print(what, soft_wrap=isinstance(what, Text))

    def check(self, what: str, found: object, expected: object) -> None:
        """Compare, and say so."""
        check = Check(what, found, expected)
        self.steps[-1].checks.append(check)
        if check.agrees:
            self.show(Text(f"✓ {what}: {_shown(found)}", style="green"))
        else:
            said = f"✗ {what}: {_shown(found)}, and there should be {_shown(expected)}"
            Console(stderr=self.as_json, highlight=False).print(Text(said, style="bold red"), soft_wrap=True)

    # --- what is done

    def partita(self, *words: str, code: int = 0) -> None:
        """Run `partita` with these words, which should end with that code."""
        self._run(("partita", *words), lambda: main(words), code)

    def python(self, file: str, *words: str) -> None:
        """Run a Python file of the project."""
        self._run(("python", file, *words), lambda: _run_file(file, words), 0)

    def edit(self, file: str, old: str, new: str) -> None:
        """Put a text in the place of another in a file of the project."""
        self._run(("sed", "-i", f"s/{old}/{new}/", file), lambda: _edit(Path(file), old, new), 0)

    @contextmanager
    def typed(self, code: str) -> Iterator[None]:
        """Show Python that a user would type, which the block stands for."""
        self.show(Text(f"\n>>> {code}", style="bold cyan"))
        start = perf_counter()
        with self._quietly():
            yield
        self.steps[-1].commands.append(Ran(code, 0, _since(start)))

    def _run(self, words: tuple[str, ...], run: Callable[[], int], code: int) -> None:
        command = _command_line(words)
        self.show(Text(f"\n$ {command}", style="bold cyan"))
        start = perf_counter()
        with self._quietly():
            found = run()
        seconds = _since(start)
        self.steps[-1].commands.append(Ran(command, found, seconds))
        self.show(Text(f"({seconds} s)", style="dim"))
        if found == INTERRUPTED:
            raise KeyboardInterrupt
        if found != code:
            self.check(f"exit code of {command}", found, code)
            raise Stopped

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        if self.as_json:
            with redirect_stdout(io.StringIO()):
                yield
        else:
            sys.stdout.flush()
            yield


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """This process in that folder, its modules on Python's path, and no lake in the environment."""
    place, path, known = Path.cwd(), list(sys.path), "pipeline" in sys.modules
    elsewhere = {name: os.environ.pop(name) for name in _WHERE if name in os.environ}
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(place)
        sys.path[:] = path
        os.environ.update(elsewhere)
        if not known:
            sys.modules.pop("pipeline", None)


_WHERE = ("PARTITA_LAKE", "PARTITA_TENANT", "PARTITA_WORKSPACE")


def _run_file(file: str, words: tuple[str, ...]) -> int:
    before, sys.argv = sys.argv, [file, *words]
    try:
        runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = before
    return 0


def _edit(file: Path, old: str, new: str) -> int:
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    return 0


def _command_line(words: tuple[str, ...]) -> str:
    """Words as a shell takes them; SQL, which has single quotes, stands in double ones."""
    return " ".join(f'"{word}"' if "'" in word and not set(word) & _SPECIAL else shlex.quote(word) for word in words)


_SPECIAL = frozenset('"$`\\!')


def _since(start: float) -> float:
    return round(perf_counter() - start, 1)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _document(step: Step) -> dict[str, Any]:
    checks = [{**asdict(check), "agree": check.agrees} for check in step.checks]
    return {"step": step.title, "commands": [asdict(ran) for ran in step.commands], "checks": checks}
