"""`partita init`: a project that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partita.lake import Lake
from tests.cli.projects import change_directory
from tests.cli.terminal import CommandRunner


def test_the_next_commands_are_printed(partita: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_directory(tmp_path, monkeypatch)
    done = partita("init", "my shop")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "Created my shop/partita.toml, my shop/pipeline.py. Next:"
    assert done.out.splitlines()[1:3] == ["  cd 'my shop'", "  partita plan      # what would run, and why"]
    assert "cd" not in partita("init").out
    assert json.loads(partita("init", "third", "--json").out) == {
        "written": ["third/partita.toml", "third/pipeline.py"]
    }


@pytest.mark.parametrize("name", ["partita.toml", "pipeline.py"])
def test_existing_files_are_kept(partita: CommandRunner, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    done = partita("init", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path / name}: the file exists already" in done.err
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_refused(partita: CommandRunner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = partita("init", str(tmp_path / "file" / "below"))
    assert done.code == 2
    assert "can't be written" in done.err


@pytest.mark.usefixtures("spark")
def test_the_example_runs(partita: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_directory(tmp_path, monkeypatch)
    partita("init")
    assert partita("plan").out.startswith("238 partitions in 3 batches, 0 held back\n")
    done = partita("run")
    assert done.code == 0, done.out + done.err
    assert partita("status", "--check").code == 0
    assert partita("run").err == "nothing to run\n"
    lake = Lake(str(tmp_path / "lake"))
    assert lake.tables() == ["raw.orders", "sales.daily", "sales.monthly"]
    months = lake.table("sales.monthly").read().orderBy("date").collect()
    assert [(str(row["date"]), row["orders"]) for row in months] == [("2025-01-01", 620), ("2025-02-01", 560)]
