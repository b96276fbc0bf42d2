"""A standalone Spark on this machine: a master and workers, each a process of its own, from the pyspark package."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

_SPARK = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_HERE = "127.0.0.1"
# They live for a minute and do little.
_DAEMON = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@contextmanager
def standalone(folder: Path, workers: int, **env: str) -> Iterator[str]:
    """The URL of a master with so many workers, of one core each; they work in `folder`, with `env` as well."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_running(log, env, f"{_DEPLOY}.master.Master", "--port", "0"))
        url = _said(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            words = ("--port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"))
            stack.enter_context(_running(log, env, f"{_DEPLOY}.worker.Worker", *words, url))
        for number in range(workers):
            _said(folder / f"worker-{number}.log", "Successfully registered with (master)")
        yield url


@contextmanager
def _running(log: Path, env: Mapping[str, str], main: str, *words: str) -> Iterator[None]:
    command = [str(_SPARK / "bin" / "spark-class"), main, "--host", _HERE, "--webui-port", "0", *words]
    inherited = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "PYTHONPATH")}
    with log.open("w") as out:
        process = subprocess.Popen(
            command, env={**inherited, "SPARK_LOCAL_IP": _HERE, **_DAEMON, **env}, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def _said(log: Path, pattern: str) -> str:
    """What a process has said in its log, once it has."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"nothing in {log} says {pattern!r}:\n{log.read_text(encoding='utf-8', errors='replace')}")
