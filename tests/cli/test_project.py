"""`partita.toml`: what it may say, where it is found, and what wins over it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

import partita as pt
from partita.cli.lake_option import open_lake
from partita.cli.project import PROJECT_KEYS, find_project, read_project
from partita.cli.spark_option import SparkSettings, spark_settings
from partita.errors import ProjectError
from tests.cli.projects import change_directory
from tests.cli.terminal import CommandRunner
from tests.cli.test_command import HEAVY, WHAT_IS_LOADED

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "runs.md"
WHOLE = """
[lake]
uri = "warehouse"
tenant = "acme"
workspace = "prod"
time_zone = "Europe/Berlin"
[lake.options]
region = "eu-west-1"
allow_http = true
[lake.catalog]
type = "rest"
uri = "https://ice"
s3.endpoint = "http://minio"
[spark]
master = "spark://host:7077"
[spark.conf]
spark.driver.memory = "4g"
"spark.sql.shuffle.partitions" = 8
[pipeline]
module = "shop.pipeline"
[run]
parallel = 4
max_failures = 0
batch_partitions = 100
batch_bytes = 1_000_000
wait = 1.5
"""


def write_project_file(folder: Path, text: str) -> Path:
    file = folder / "partita.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_setting_is_read(tmp_path: Path) -> None:
    said = read_project(write_project_file(tmp_path, WHOLE))
    assert (said.lake_uri, said.tenant, said.workspace) == (str(tmp_path / "warehouse"), "acme", "prod")
    assert said.time_zone == "Europe/Berlin"
    assert said.lake_options == {"region": "eu-west-1", "allow_http": "true"}
    assert said.lake_catalog == {"type": "rest", "uri": "https://ice", "s3.endpoint": "http://minio"}
    assert (said.spark_master, said.spark_remote, said.pipeline_module) == ("spark://host:7077", None, "shop.pipeline")
    assert said.spark_conf == {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "8"}
    assert said.run_options == {
        "parallel": 4, "max_failures": 0, "batch_partitions": 100, "batch_bytes": 1_000_000, "wait": 1.5
    }  # fmt: skip
    assert {key for table in PROJECT_KEYS.values() for key in table} <= {
        *WHOLE.replace("]", " ").replace(".", " ").split()
    } | {"remote"}


def test_an_empty_file_is_a_project_whose_lake_is_its_folder(tmp_path: Path) -> None:
    assert read_project(write_project_file(tmp_path, "")).lake_uri == str(tmp_path)


@pytest.mark.parametrize("uri", ["s3://bucket/lake", "file:///x", "/abs"])
def test_an_absolute_uri_is_kept(tmp_path: Path, uri: str) -> None:
    assert read_project(write_project_file(tmp_path, f'[lake]\nuri = "{uri}"')).lake_uri == uri


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("[lakes]", "lakes", "there are [lake], [spark], [pipeline], [run]"),
        ("lake = 1", "lake", "must be a table, [lake], not 1"),
        ("[lake]\nurl = ''", "lake.url", "not a key of [lake]; there are uri, tenant, workspace, time_zone, options"),
        ("[lake]\nuri = 1", "lake.uri", "must be text, not 1"),
        ("[lake]\nuri = ''", "lake.uri", "must be text, not ''"),
        ("[lake]\ntime_zone = 'Mars'", "lake.time_zone", "the name of a time zone, such as UTC"),
        ("[lake]\ntime_zone = 2", "lake.time_zone", "the name of a time zone"),
        ("[lake]\noptions = 'x'", "lake.options", "a table of settings"),
        ("[spark.conf]\na.b = [1]", "spark.conf", "a table of settings"),
        ("[spark]\nmaster = 'local'\nremote = 'sc://x'", "spark.remote", "spark.master"),
        ("[run]\nparallel = 0", "run.parallel", "a positive integer, not 0"),
        ("[run]\nparallel = true", "run.parallel", "a positive integer, not True"),
        ("[run]\nmax_failures = -1", "run.max_failures", "a non-negative integer"),
        ("[run]\nwait = inf", "run.wait", "a non-negative number of seconds"),
        ("[run", None, "TOML"),
    ],
)
def test_invalid_settings_are_refused(tmp_path: Path, text: str, key: str | None, words: str) -> None:
    file = write_project_file(tmp_path, text)
    with pytest.raises(ProjectError) as raised:
        read_project(file)
    assert (raised.value.file, raised.value.key) == (str(file), key)
    assert str(raised.value).startswith(f"{file}: {'' if key is None else key}")
    assert words in str(raised.value)


@pytest.mark.parametrize("module", ["../../x.py", "/x.py", "a/../../x.py", "link.py", "folder/x.py", "ABSOLUTE"])
def test_code_outside_of_the_project_is_refused(tmp_path: Path, module: str) -> None:
    project, mark = tmp_path / "a" / "project", tmp_path / "imported"
    project.mkdir(parents=True)
    (tmp_path / "x.py").write_text(f"open({str(mark)!r}, 'w')")
    (project / "link.py").symlink_to(tmp_path / "x.py")
    (project / "folder").symlink_to(tmp_path)
    given = str(tmp_path / "x.py") if module == "ABSOLUTE" else module
    (project / "partita.toml").write_text(f'[pipeline]\nmodule = "{given}"')
    with pytest.raises(ProjectError, match=r"pipeline\.module must be the path of a file in the project's folder"):
        read_project(project / "partita.toml")
    assert not mark.exists()


@pytest.mark.parametrize("module", ["../pk", ".", "..", ".pk", "a/b", "a..b", "/x/y", "shop.", "..\\\\\\\\pk"])
def test_a_module_that_is_no_name_is_refused(tmp_path: Path, module: str) -> None:
    (tmp_path / "partita.toml").write_text(f'[pipeline]\nmodule = "{module}"')
    with pytest.raises(ProjectError, match=r"pipeline\.module must be the name of a module, .* not"):
        read_project(tmp_path / "partita.toml")
    with pytest.raises(pt.DefinitionError, match="a pipeline is the name of a module"):
        pt.load_pipeline(module.replace("\\\\", "\\"), str(tmp_path))


@pytest.mark.parametrize("module", ["x.py", "./x.py", "sub/../x.py", "link/x.py", "shop.pipeline"])
def test_code_in_the_project_is_found_by_any_path(tmp_path: Path, module: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "partita.toml").write_text(f'[pipeline]\nmodule = "{module}"')
    assert read_project(tmp_path / "partita.toml").pipeline_module == module


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "partita.toml").write_bytes(b"\xff")
    with pytest.raises(ProjectError, match="TOML"):
        read_project(tmp_path / "partita.toml")


def test_it_is_found_from_below_and_the_nearest_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    write_project_file(tmp_path, '[lake]\ntenant = "far"')
    found = find_project()
    assert found is not None
    assert (found.tenant, found.folder) == ("far", tmp_path)
    write_project_file(tmp_path / "a", '[lake]\ntenant = "near"')
    found = find_project()
    assert found is not None
    assert found.tenant == "near"


def where(**said: str) -> argparse.Namespace:
    return argparse.Namespace(**{**dict.fromkeys(("lake", "tenant", "workspace", "time_zone")), **said})


def test_arguments_and_the_environment_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_directory(tmp_path, monkeypatch)
    said = 'uri = "w"\ntenant = "t"\nworkspace = "s"\ntime_zone = "Asia/Kolkata"'
    write_project_file(tmp_path, f"[lake]\n{said}\n[lake.options]\nallow_http = true")
    lake = open_lake(where())
    assert (lake.uri, lake.tenant, lake.workspace) == (str(tmp_path / "w"), "t", "s")
    assert lake.storage.options == (("allow_http", "true"),)
    assert lake.time_zone == "Asia/Kolkata"
    monkeypatch.setenv("PARTITA_TENANT", "env")
    monkeypatch.setenv("PARTITA_TIME_ZONE", "Europe/Berlin")
    assert open_lake(where()).time_zone == "Europe/Berlin"
    assert open_lake(where(time_zone="+5:30")).time_zone == "+5:30"
    with pytest.raises(pt.TimeZoneError, match=r"'Mars'; use names such as UTC, Europe/Berlin or \+05:30"):
        open_lake(where(time_zone="Mars"))
    assert open_lake(where()).tenant == "env"
    assert open_lake(where(tenant="said")).tenant == "said"
    # The options are those of the file's lake.
    assert open_lake(where(lake=str(tmp_path / "other"))).storage.options == ()
    monkeypatch.setenv("PARTITA_LAKE", str(tmp_path / "third"))
    assert open_lake(where()).uri == str(tmp_path / "third")


def test_without_a_project_the_lake_is_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_directory(tmp_path, monkeypatch)
    lake = open_lake(where())
    assert (lake.uri, lake.tenant, lake.workspace) == (str(tmp_path), "default", "default")


def test_every_command_with_a_lake_reads_the_file(
    partita: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_directory(tmp_path, monkeypatch)
    write_project_file(tmp_path, "[lak]")
    for words in (
        ["status"], ["why", "a"], ["history", "a"], ["record", "a", "--outcome", "failed"], ["fold"], ["sweep"],
        ["sql", "select 1"], ["plan"], ["run"], ["observe"], ["adopt", "x", "--format", "delta"], ["tables"],
        ["retire", "a"], ["partitions", "t"], ["evolve", "t", "--drop", "x"],
    ):  # fmt: skip
        done = partita(*words)
        assert (done.code, done.out) == (2, ""), words
        assert f"{tmp_path / 'partita.toml'}: lak is not a table" in done.err, words


@pytest.mark.parametrize(
    ("said", "remote_here", "expected"),
    [
        ((None, []), None, SparkSettings(None, {"a": "1", "spark.master": "yarn"})),
        (("local[2]", [("a", "2")]), None, SparkSettings(None, {"a": "2", "spark.master": "local[2]"})),
        ((None, []), "sc://env", SparkSettings("sc://env", {"a": "1"})),
        (("local[2]", []), "sc://env", SparkSettings(None, {"a": "1", "spark.master": "local[2]"})),
        (("sc://said", []), None, SparkSettings("sc://said", {"a": "1"})),
    ],
)
def test_spark_settings_by_precedence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[str | None, list[tuple[str, str]]],
    remote_here: str | None,
    expected: SparkSettings,
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    if remote_here is not None:
        monkeypatch.setenv("SPARK_REMOTE", remote_here)
    project = read_project(write_project_file(tmp_path, '[spark]\nmaster = "yarn"\n[spark.conf]\na = 1'))
    assert spark_settings(argparse.Namespace(master=said[0], conf=said[1]), project) == expected


def test_a_remote_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    project = read_project(write_project_file(tmp_path, '[spark]\nremote = "sc://there"'))
    assert spark_settings(argparse.Namespace(master=None, conf=[]), project) == SparkSettings("sc://there")
    assert spark_settings(argparse.Namespace(master=None, conf=[]), None) == SparkSettings()


def test_every_key_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert not [
        f"{table}.{key}" for table, keys in PROJECT_KEYS.items() for key in keys if f"`{table}.{key}`" not in text
    ]


@pytest.mark.slow(reason="several commands on a lake")
def test_a_project_file_costs_no_heavy_import(tmp_path: Path) -> None:
    write_project_file(tmp_path, WHOLE)
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_LOADED, ",".join(HEAVY), "plan", "--help"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == ""
