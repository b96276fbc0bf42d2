"""Nothing but a `PartitaError` leaves the public face, whatever it is given and however broken its world is (ADR 26).

The calls are found by walking the face, so that a new name is held to it by itself.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import NoReturn

import pytest

import partita as pt
from partita.cli.command import COMMANDS, main
from partita.errors import JavaMissing, PartitaError
from tests.house.public_calls import (
    FEW_INVALID_ARGUMENTS,
    INVALID_ARGUMENTS,
    VALID_ARGUMENTS,
    check,
    public_functions,
    public_methods,
    public_values,
    try_wrong_arguments,
)
from tests.house.sample_lake import FILE_DAMAGES, create_sample_lake, files_of_each_kind

FUNCTIONS = {call.name: call for call in public_functions()}
METHODS = {call.name: call for call in public_methods(*public_values())}
FORMATS = ("delta", "iceberg", "lance")


@pytest.fixture(autouse=True)
def _outside_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Arguments are paths too, such as that of `Lake.export_status`: no call may leave a file in the repository."""
    monkeypatch.chdir(tmp_path)
    here = Path(__file__).parents[2]
    before = set(here.iterdir())
    yield
    assert set(here.iterdir()) <= before


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs Spark fails as it does where there is no Java; tests/spark has the rest."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    def refuse() -> NoReturn:
        raise JavaMissing

    def no_session(_: object) -> NoReturn:
        raise PySparkRuntimeError("no session runs")

    monkeypatch.setattr(importlib.import_module("partita.spark.session"), "_require_java", refuse)
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: None))
    monkeypatch.setattr(SparkSession, "active", classmethod(no_session))


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that nothing is done to, and that copies are made of at its own place."""
    folder = tmp_path_factory.mktemp("world") / "lake"
    folder.mkdir()
    create_sample_lake(folder)
    return Path(shutil.copytree(folder, folder.with_name("backup")))


@pytest.fixture
def world(backup: Path) -> Iterator[Path]:
    """The lake as it was made, at the place where it was made: catalogs hold absolute paths."""
    place = backup.with_name("lake")
    shutil.rmtree(place, ignore_errors=True)
    yield Path(shutil.copytree(backup, place))
    shutil.rmtree(place, ignore_errors=True)


# --- wrong arguments


def test_every_parameter_of_the_public_face_has_a_right_value(world: Path) -> None:
    lake = pt.Lake(str(world))
    tables = [lake.table(f"sales.{name}") for name in FORMATS]
    calls = [*FUNCTIONS.values(), *METHODS.values(), *public_methods(lake, *tables)]
    needed = {p.name for call in calls for p in call.parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    assert needed <= set(VALID_ARGUMENTS), "give new parameters a right value in tests/house/public_calls.py"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments_of_functions(name: str) -> None:
    try_wrong_arguments(FUNCTIONS[name])


@pytest.mark.parametrize("name", METHODS)
def test_wrong_arguments_of_methods(name: str) -> None:
    try_wrong_arguments(METHODS[name])


@pytest.mark.slow(reason="thousands of calls")
@pytest.mark.parametrize("name", FORMATS)
def test_wrong_arguments_of_tables(name: str, world: Path) -> None:
    for call in public_methods(pt.Lake(str(world)).table(f"sales.{name}")):
        try_wrong_arguments(call)


@pytest.mark.slow(reason="thousands of calls")
@pytest.mark.parametrize(
    "wrongs", [FEW_INVALID_ARGUMENTS, pytest.param(INVALID_ARGUMENTS, marks=pytest.mark.long)], ids=["few", "all"]
)
def test_wrong_arguments_of_a_lake(wrongs: tuple[object, ...], tmp_path: Path) -> None:
    """A lake with one asset, where questions are answered soon."""
    lake = pt.Lake(str(tmp_path / "lake"))
    lake.register(*(value for value in public_values() if isinstance(value, pt.Asset)))
    for call in public_methods(lake):
        if call.name != "Lake.is_latest_status":  # of relations, which only `open_status_reader` opens
            try_wrong_arguments(call, wrongs)


# --- broken worlds


def some_of(damages: list[str], number: int, count: int) -> list[str]:
    """So many of the damages, others for each file; `make prove` does all of them to every file."""
    return [damages[(number * count + at) % len(damages)] for at in range(count)]


def try_damages(world: Path, backup: Path, count: int, is_wanted: Callable[[str], bool]) -> None:
    """Damage a file of each kind in some ways, and make every call that could meet it."""
    for number, file in enumerate(path for path in files_of_each_kind(backup) if is_wanted(str(path))):
        for damage in some_of(list(FILE_DAMAGES), number, count):
            shutil.rmtree(world)
            shutil.copytree(backup, world)
            FILE_DAMAGES[damage](world / file)
            try_calls(world, str(file), f"{file}, {damage}:")


def try_calls(world: Path, file: str, doing: str) -> None:
    lake = pt.Lake(str(world))
    if not file.startswith(("sales/", "catalog")):
        for call in public_methods(lake):
            if call.name != "Lake.is_latest_status":
                check(f"{doing} {call.name}", call.make)
        return
    name = f"sales.{file.split('/')[1] if '/' in file else 'iceberg'}"
    check(f"{doing} tables", lake.tables)
    check(f"{doing} table", lambda: lake.table(name))
    try:
        table = lake.table(name)
    except PartitaError:
        return
    for call in public_methods(table):
        check(f"{doing} {call.name}", call.make)


@pytest.mark.slow(reason="hundreds of copies of a lake")
@pytest.mark.parametrize("name", [*FORMATS, "catalog"])
def test_a_damaged_file_of_a_table(world: Path, backup: Path, name: str) -> None:
    try_damages(world, backup, 1, lambda file: file.startswith((f"sales/{name}/", f"{name}.")))


@pytest.mark.slow(reason="hundreds of copies of a lake")
def test_a_damaged_file_of_a_lake(world: Path, backup: Path) -> None:
    try_damages(world, backup, 1, lambda file: file.startswith("_partita"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["sales/delta", "sales/iceberg", "sales/lance", "catalog", "_partita"])
def test_every_damage_of_every_file(world: Path, backup: Path, name: str) -> None:
    try_damages(world, backup, len(FILE_DAMAGES), lambda file: file.startswith(name))


# --- the command line

ARGUMENTS = {
    "init": ["shop"], "plan": [], "run": ["plan.jsonl"], "status": [], "why": ["daily", "region=eu"],
    "history": ["daily", "region=eu"], "record": ["daily", "region=eu", "--outcome", "succeeded"], "observe": [],
    "adopt": ["sales/delta", "--format", "delta", "--name", "again"], "retire": ["daily"], "tables": [],
    "partitions": ["sales.delta"], "evolve": ["sales.iceberg", "--add", "bucket(4, id)"], "sql": ["SELECT 1"],
    "key": ["decode", "region=s:ZXU"], "fold": [], "sweep": [],
}  # fmt: skip
"""Right arguments of every command. `ui` serves until it is stopped, and tests/web has its answers; `demo` has none."""
ODD = ("", "\udcff", "x" * 5000, "a\0b", "-1", "9" * 5000, "--", "(" * 200)


def run_command(words: list[str]) -> int:
    """The exit code of a command line; argparse ends what it can't read by `SystemExit`."""
    try:
        return main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else -1


def test_every_command_is_tried() -> None:
    assert set(ARGUMENTS) == set(COMMANDS) - {"ui", "demo"}


@pytest.mark.slow(reason="hundreds of commands")
@pytest.mark.parametrize("command", ARGUMENTS)
def test_odd_words_of_a_command(
    command: str, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setattr("sys.stdin", StringIO(""))
    right = ARGUMENTS[command]
    for at in range(len(right)):
        for odd in ODD:
            assert run_command([command, *right[:at], odd, *right[at + 1 :]]) in {0, 1, 2}
    capsys.readouterr()


@pytest.mark.slow(reason="hundreds of copies of a lake")
@pytest.mark.parametrize("file", ["partita.toml", "plan.jsonl", "_partita", "sales"])
def test_commands_in_a_broken_world(
    file: str, world: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each prints what is wrong and ends with 2, or does what it can."""
    damages = list(FILE_DAMAGES) if (backup / file).is_file() else ["cut"]
    for damage in damages:
        shutil.rmtree(world)
        shutil.copytree(backup, world)
        monkeypatch.chdir(world)
        for one in files_of_each_kind(backup):
            if str(one).startswith(file):
                FILE_DAMAGES[damage](world / one)
        for command, words in ARGUMENTS.items() if file != "plan.jsonl" else [("run", ARGUMENTS["run"])]:
            assert run_command([command, *words]) in {0, 1, 2}, (file, damage, command)
            assert "Traceback" not in capsys.readouterr().err


# --- what the walk finds


def test_the_walk_finds_what_is_public() -> None:
    assert {"partita.prune", "partita.open_table", "partita.Lake", "partita.arrow.key_texts"} <= set(FUNCTIONS)
    assert {"PartitionKey.parse", "SpecHistory.evolve", "Schema.find_field"} <= set(METHODS)
    assert inspect.signature(pt.Lake.status).parameters.keys() >= {"asset", "where"}
