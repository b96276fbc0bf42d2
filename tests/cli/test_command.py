"""The entry point: help, version, exit codes, pipes, and what a cold start imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from partita.cli.command import COMMANDS
from tests.cli.terminal import PARTITA_COMMAND, CommandOutcome, CommandRunner, run_installed_command

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAVY = ("pyspark", "pyarrow", "pandas", "numpy", "sqlglot", "rich", "typer", "importlib.metadata")

# Runs a command line, then says which of the modules it was told are loaded.
WHAT_IS_LOADED = """
import sys
from partita.cli import main
heavy = sys.argv[1].split(",")
try:
    main(sys.argv[2:])
except SystemExit:
    pass
print(",".join(name for name in heavy if name in sys.modules), file=sys.stderr)
"""


def test_the_installed_command_runs() -> None:
    done = run_installed_command("key", "encode", "date=2025-01-15", "region=us-east")
    assert done == CommandOutcome(0, "date=d:2025-01-15,region=s:dXMtZWFzdA\n", "")


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "partita.cli", "key", "encode", "a=b"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "a=s:Yg\n"


def test_the_version(partita: CommandRunner) -> None:
    assert partita("--version") == CommandOutcome(0, f"partita {version('partita')}\n", "")


def test_help_lists_the_commands(partita: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = partita("--help")
    assert (code, err) == (0, "")
    for name, summary in COMMANDS.items():
        assert f"    {name:<11}  {summary}\n" in out


@pytest.mark.parametrize("words", [["key", "encode"], ["key", "decode"], ["key", "id"], *([name] for name in COMMANDS)])
def test_each_command_has_help_with_an_example(
    partita: CommandRunner, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = partita(*words, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: partita {' '.join(words)} ")
    examples = out.partition("\nexamples:\n")[2]
    assert f"partita {' '.join(words)}" in examples
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "COMMAND"),
        (["key"], "COMMAND"),
        (["nonsense"], "'nonsense'"),
        (["key", "nonsense"], "'nonsense'"),
        (["key", "encode", "--nonsense"], "--nonsense"),
        (["key", "decode", "--js", "a=i:1"], "--js"),
        (["key", "id"], "ASSET"),
        (["run", "plan.jsonl", "--resume"], "give either a PLANFILE or --resume"),
        (["run", "plan.jsonl", "--stale"], "a PLANFILE or --resume determines what runs"),
        (["run", "--resume", "--select", "a"], "a PLANFILE or --resume determines what runs"),
        (["run", "--parallel", "0"], "'0' is not a number of batches at once of at least 1"),
        (["run", "--wait", "soon"], "'soon' is not a number of seconds"),
        (["run", "--conf", "a"], "'a' is not a setting"),
        (["evolve", "t"], "--add, --drop and --rename"),
        (["demo", "--size", "0"], "'0' is not a number of events"),
        (["demo", "--size", "many"], "'many' is not a number of events"),
    ],
)
def test_a_wrong_command_line_is_refused(partita: CommandRunner, words: list[str], message: str) -> None:
    code, out, err = partita(*words)
    assert (code, out) == (2, "")
    assert err.startswith("usage: partita")
    assert message in err


def test_an_error_is_a_message_and_no_traceback() -> None:
    assert run_installed_command("key", "decode", "date=d:2025-02-30") == CommandOutcome(
        2,
        "",
        "partita: not a canonical partition key, at position 7: no such date: day is out of range for month\n"
        "  date=d:2025-02-30\n"
        "         ^\n"
        "`partita key encode` writes canonical keys; see `partita key encode --help`\n",
    )


@pytest.mark.slow(reason="several commands on a lake")
@pytest.mark.parametrize(
    "words",
    [["--help"], ["key", "encode", "a=b"], ["key", "encode", "a=1"], ["key", "decode", "--help"], ["evolve", "t"]],
)
def test_a_cold_start_imports_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_LOADED, ",".join(HEAVY), *words], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == ""


def test_evolve_names_the_formats_that_can(partita: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "Only Iceberg tables support this." in " ".join(partita("evolve", "--help").out.split())
    monkeypatch.setattr("partita.formats.delta.format.DeltaFormat.gaps", {})
    assert "Only Delta and Iceberg tables support this." in " ".join(partita("evolve", "--help").out.split())


def test_a_closed_pipe_is_quiet() -> None:
    with subprocess.Popen(
        [PARTITA_COMMAND, "key", "encode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin and running.stdout and running.stderr  # noqa: PT018 - for mypy
        running.stdout.close()
        running.stdin.write(b"a=b\n" * 1000)
        running.stdin.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell that starts this in the background has interrupts ignored, and processes inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_lines_leave_as_they_come_and_an_interrupt_ends_it() -> None:
    with subprocess.Popen(
        [PARTITA_COMMAND, "key", "encode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin and running.stdout and running.stderr  # noqa: PT018 - for mypy
        running.stdin.write(b"a=b\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"a=s:Yg\n"
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        assert running.stderr.read() == b""


@pytest.mark.slow(reason="several commands on a lake")
def test_text_is_utf8_whatever_the_locale() -> None:
    key = "name=s:w7xzw6k"
    done = run_installed_command("key", "encode", stdin="name=üsé\n", PYTHONIOENCODING="latin-1")
    assert done == CommandOutcome(0, f"{key}\n", "")
    assert run_installed_command("key", "decode", key, PYTHONIOENCODING="latin-1").out == "name  string  üsé\n"


def test_an_argument_that_is_not_utf8_is_refused() -> None:
    done = subprocess.run(
        [os.fsencode(PARTITA_COMMAND), b"key", b"encode", b"a=\xff"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"a lone surrogate" in done.stderr
