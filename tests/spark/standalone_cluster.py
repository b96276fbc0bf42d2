"""A standalone Spark cluster on this machine: a master and workers, started from the pyspark package."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

_SPARK_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_LOCALHOST = "127.0.0.1"
# The daemons run for a minute and do little.
_DAEMON_ENVIRONMENT = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def run_standalone_cluster(folder: Path, workers: int, **env: str) -> Iterator[str]:
    """Start a master and workers of one core each, with extra environment variables, and yield the master's URL."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_run_daemon(log, env, f"{_DEPLOY}.master.Master", "--port", "0"))
        url = _wait_for_log(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            arguments = (
                "--port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(folder / f"worker-{number}"),
            )
            stack.enter_context(_run_daemon(log, env, f"{_DEPLOY}.worker.Worker", *arguments, url))
        for number in range(workers):
            _wait_for_log(folder / f"worker-{number}.log", "Successfully registered with (master)")
        yield url


@contextmanager
def _run_daemon(log: Path, env: Mapping[str, str], main: str, *arguments: str) -> Iterator[None]:
    command = [str(_SPARK_HOME / "bin" / "spark-class"), main, "--host", _LOCALHOST, "--webui-port", "0", *arguments]
    inherited = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "PYTHONPATH")}
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            env={**inherited, "SPARK_LOCAL_IP": _LOCALHOST, **_DAEMON_ENVIRONMENT, **env},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def _wait_for_log(log: Path, pattern: str) -> str:
    """Wait until a log contains a pattern, and return its first group."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        match = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if match is not None:
            return match[1]
        time.sleep(0.1)
    raise AssertionError(f"{pattern!r} is not in {log}:\n{log.read_text(encoding='utf-8', errors='replace')}")
