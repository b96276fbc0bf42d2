"""`partita ui`: what it refuses, and that it serves until it is told to stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from partita.lake import Lake
from tests.cli.terminal import CommandRunner


def test_another_host_needs_a_token(lake: Lake, partita: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTITA_TOKEN", raising=False)
    shown = partita("ui", "--host", "0.0.0.0", "--no-open", "--lake", lake.uri)  # noqa: S104 - refused
    assert shown.code == 2
    assert "--token or $PARTITA_TOKEN" in shown.err


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_is_a_number(partita: CommandRunner, port: str) -> None:
    assert partita("ui", "--port", port).code == 2


@pytest.mark.slow(reason="a server in a process of its own")
def test_the_server_answers_and_stops_at_an_interrupt(lake: Lake) -> None:
    command = [sys.executable, "-m", "partita.cli", "ui", "--lake", lake.uri, "--port", "0", "--no-open", "--json"]
    environment = {**os.environ, "PARTITA_TOKEN": "a-token-of-one-test"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        url = json.loads(server.stdout.readline())["url"]
        base, _, query = url.partition("/?")
        assert query == "token=a-token-of-one-test"
        request = urllib.request.Request(f"{base}/api/version", headers={"Authorization": "Bearer a-token-of-one-test"})  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - ours
            assert lake.uri in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{base}/api/version")  # noqa: S310 - ours
        server.send_signal(signal.SIGINT)
        said = server.stderr.read()
        assert server.wait() in {0, 130}
    assert "Traceback" not in said
    assert "no event is recorded there yet" in said
    assert "a-token-of-one-test" not in said


def test_a_port_in_use_is_refused(lake: Lake, partita: CommandRunner) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        shown = partita("ui", "--no-open", "--port", str(taken.getsockname()[1]), "--lake", lake.uri)
    assert shown.code == 2
    assert "choose another --port" in shown.err


def test_runs_need_a_project(
    partita: CommandRunner, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = partita("ui", "--allow-run", "--no-open", "--port", "0", "--lake", lake.uri)
    assert shown.code == 2
    assert "there is no partita.toml here or above" in shown.err
    (tmp_path / "partita.toml").write_text('[lake]\nuri = "lake"\n', encoding="utf-8")
    shown = partita("ui", "--allow-run", "--no-open", "--port", "0")
    assert shown.code == 2
    assert "there is nothing to run" in shown.err
