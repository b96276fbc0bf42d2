"""The session of `partita demo`: run commands in the folder of a new project, print them and check their results."""

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

from partita.cli.command import EXIT_INTERRUPTED, main
from partita.cli.init import write_project

_SHOP_FOLDER = Path(__file__).with_name("shop")
PROJECT_FILES = {
    "partita.toml": _SHOP_FOLDER / "partita.toml",
    "pipeline.py": _SHOP_FOLDER / "pipeline.py.txt",
    "external_writers.py": _SHOP_FOLDER / "external_writers.py.txt",
}
"""The files of the project by name, each with the file that it is a copy of."""


@dataclass(frozen=True, slots=True)
class DemoCommand:
    """A command that was run, its exit code and its duration."""

    command: str
    code: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DemoCheck:
    """A check of the demo: what it is about, the actual value, and the expected one."""

    label: str
    actual: object
    expected: object

    @property
    def is_correct(self) -> bool:
        """Whether the value is the expected one."""
        return self.actual == self.expected


@dataclass(slots=True)
class DemoStep:
    """A step of the demo, with its commands and checks."""

    title: str
    commands: list[DemoCommand] = field(default_factory=list)
    checks: list[DemoCheck] = field(default_factory=list)


class DemoStopped(Exception):
    """A command ended with another exit code than expected, so the demo stops."""


class DemoSession:
    """A context manager that creates a project in a folder and makes it the current folder of this process.

    What commands print is shown, or discarded with `as_json`; a check that fails is shown in any case. A command that
    ends with another exit code than expected ends the block.
    """

    def __init__(self, folder: Path, *, as_json: bool = False) -> None:
        self.folder = folder.resolve()
        self.steps: list[DemoStep] = []
        self.as_json = as_json
        self._started_at = perf_counter()
        self._exit_stack = ExitStack()

    def __enter__(self) -> Self:
        write_project(self.folder, PROJECT_FILES)
        self._exit_stack.enter_context(_enter_folder(self.folder))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._exit_stack.close()
        return kind is DemoStopped

    @property
    def is_correct(self) -> bool:
        """Whether all checks passed."""
        return all(check.is_correct for step in self.steps for check in step.checks)

    def document(self) -> dict[str, Any]:
        """Return the commands and checks as values that JSON can represent."""
        return {"folder": str(self.folder), "seconds": self.seconds, "agree": self.is_correct,
                "steps": [_step_document(step) for step in self.steps]}  # fmt: skip

    @property
    def seconds(self) -> float:
        """Seconds since the session was created."""
        return round(perf_counter() - self._started_at, 1)

    # --- output

    def begin_step(self, title: str, text: str) -> None:
        """Start a step and print its title and description."""
        self.steps.append(DemoStep(title))
        heading = f"{len(self.steps)}. {title}"
        if self.as_json:
            Console(stderr=True, highlight=False).print(Text(heading, style="dim"))
        else:
            Console(highlight=False).print(Text.assemble("\n", (heading, "bold"), "\n", text))

    def show(self, renderable: RenderableType) -> None:
        """Print something that is not the output of a command."""
        if not self.as_json:
            Console(highlight=False).print(renderable, soft_wrap=isinstance(renderable, Text))

    def check_equal(self, label: str, actual: object, expected: object) -> None:
        """Record and print whether a value is the expected one."""
        check = DemoCheck(label, actual, expected)
        self.steps[-1].checks.append(check)
        if check.is_correct:
            self.show(Text(f"✓ {label}: {_value_text(actual)}", style="green"))
        else:
            text = f"✗ {label}: {_value_text(actual)}, expected {_value_text(expected)}"
            Console(stderr=self.as_json, highlight=False).print(Text(text, style="bold red"), soft_wrap=True)

    # --- commands

    def run_partita(self, *words: str, expected_code: int = 0) -> None:
        """Run `partita` with these arguments; stop the demo if its exit code is not the expected one."""
        self._run_command(("partita", *words), lambda: main(words), expected_code)

    def run_python(self, file: str, *words: str) -> None:
        """Run a Python file of the project."""
        self._run_command(("python", file, *words), lambda: _run_file(file, words), 0)

    def edit_file(self, file: str, old: str, new: str) -> None:
        """Replace a text in a file of the project."""
        self._run_command(("sed", "-i", f"s/{old}/{new}/", file), lambda: _replace_text(Path(file), old, new), 0)

    @contextmanager
    def show_python(self, code: str) -> Iterator[None]:
        """Print Python code that users would type; the block does the same."""
        self.show(Text(f"\n>>> {code}", style="bold cyan"))
        start = perf_counter()
        with self._capture_stdout():
            yield
        self.steps[-1].commands.append(DemoCommand(code, 0, _seconds_since(start)))

    def _run_command(self, words: tuple[str, ...], run: Callable[[], int], expected_code: int) -> None:
        command = _command_line(words)
        self.show(Text(f"\n$ {command}", style="bold cyan"))
        start = perf_counter()
        with self._capture_stdout():
            exit_code = run()
        seconds = _seconds_since(start)
        self.steps[-1].commands.append(DemoCommand(command, exit_code, seconds))
        self.show(Text(f"({seconds} s)", style="dim"))
        if exit_code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        if exit_code != expected_code:
            self.check_equal(f"exit code of {command}", exit_code, expected_code)
            raise DemoStopped

    @contextmanager
    def _capture_stdout(self) -> Iterator[None]:
        if self.as_json:
            with redirect_stdout(io.StringIO()):
                yield
        else:
            sys.stdout.flush()
            yield


@contextmanager
def _enter_folder(folder: Path) -> Iterator[None]:
    """Make a folder the current one and importable, and unset the variables that name a lake; undo it afterwards."""
    previous_folder, previous_path, had_pipeline = Path.cwd(), list(sys.path), "pipeline" in sys.modules
    variables = {name: os.environ.pop(name) for name in _LAKE_VARIABLES if name in os.environ}
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(previous_folder)
        sys.path[:] = previous_path
        os.environ.update(variables)
        if not had_pipeline:
            sys.modules.pop("pipeline", None)


_LAKE_VARIABLES = ("PARTITA_LAKE", "PARTITA_TENANT", "PARTITA_WORKSPACE")


def _run_file(file: str, words: tuple[str, ...]) -> int:
    previous_argv, sys.argv = sys.argv, [file, *words]
    try:
        runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = previous_argv
    return 0


def _replace_text(file: Path, old: str, new: str) -> int:
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    return 0


def _command_line(words: tuple[str, ...]) -> str:
    """Quote words for a shell, with double quotes around SQL that contains single quotes."""
    return " ".join(
        f'"{word}"' if "'" in word and not set(word) & _SHELL_SPECIAL else shlex.quote(word) for word in words
    )


_SHELL_SPECIAL = frozenset('"$`\\!')


def _seconds_since(start: float) -> float:
    return round(perf_counter() - start, 1)


def _value_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value_text(item)}" for name, item in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _step_document(step: DemoStep) -> dict[str, Any]:
    checks = [
        {"what": check.label, "found": check.actual, "expected": check.expected, "agree": check.is_correct}
        for check in step.checks
    ]
    return {"step": step.title, "commands": [asdict(command) for command in step.commands], "checks": checks}
