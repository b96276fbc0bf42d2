"""A Hive metastore from Spark's own jars, over a Derby database of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

START_TIMEOUT_SECONDS = 120
"""Seconds that a server may take to start."""

# The metastore makes its other tables by itself, and these not: a catalog locks a table while it commits.
LOCK_TABLES_SQL = """
connect 'jdbc:derby:{database};create=true';
CREATE TABLE NEXT_LOCK_ID (NL_NEXT BIGINT NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE TXNS (
  TXN_ID BIGINT PRIMARY KEY, TXN_STATE CHAR(1) NOT NULL, TXN_STARTED BIGINT NOT NULL,
  TXN_LAST_HEARTBEAT BIGINT NOT NULL, TXN_USER VARCHAR(128) NOT NULL, TXN_HOST VARCHAR(128) NOT NULL);
CREATE TABLE HIVE_LOCKS (
  HL_LOCK_EXT_ID BIGINT NOT NULL, HL_LOCK_INT_ID BIGINT NOT NULL, HL_TXNID BIGINT, HL_DB VARCHAR(128) NOT NULL,
  HL_TABLE VARCHAR(128), HL_PARTITION VARCHAR(767), HL_LOCK_STATE CHAR(1) NOT NULL, HL_LOCK_TYPE CHAR(1) NOT NULL,
  HL_LAST_HEARTBEAT BIGINT NOT NULL, HL_ACQUIRED_AT BIGINT, HL_USER VARCHAR(128) NOT NULL,
  HL_HOST VARCHAR(128) NOT NULL, HL_HEARTBEAT_COUNT INTEGER, HL_AGENT_INFO VARCHAR(128), HL_BLOCKEDBY_EXT_ID BIGINT,
  HL_BLOCKEDBY_INT_ID BIGINT, PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE TABLE AUX_TABLE (
  MT_KEY1 VARCHAR(128) NOT NULL, MT_KEY2 BIGINT NOT NULL, MT_COMMENT VARCHAR(255), PRIMARY KEY (MT_KEY1, MT_KEY2));
exit;
"""
METASTORE_SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:{database}",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.warehouse.dir": "{folder}/warehouse",
    # What Hive would take by default is not among Spark's jars.
    "datanucleus.connectionPoolingType": "hikaricp",
    "hive.async.log.enabled": "false",
}

# These JVMs run for seconds, most of which they would spend on compiling.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@contextmanager
def run_metastore(folder: Path) -> Iterator[str]:
    """Run a metastore in a block; yields its URI."""
    database = folder / "metastore"
    (folder / "locks.sql").write_text(LOCK_TABLES_SQL.format(database=database))
    subprocess.run(
        [*_java_command(), "org.apache.derby.tools.ij", "locks.sql"], check=True, cwd=folder, capture_output=True
    )
    properties = "".join(
        f"<property><name>{name}</name><value>{value.format(database=database, folder=folder)}</value></property>"
        for name, value in METASTORE_SETTINGS.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    port = free_port()
    command = [
        *_java_command(str(folder), f"-Dhive.log.dir={folder}"),
        "org.apache.hadoop.hive.metastore.HiveMetaStore",
    ]
    with (folder / "server.txt").open("wb") as log_file:
        running = subprocess.Popen([*command, "-p", str(port)], cwd=folder, stdout=log_file, stderr=log_file)
    try:
        _wait_for_port(running, port, folder / "server.txt")
        yield f"thrift://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _java_command(folder: str = "", *options: str) -> list[str]:
    """Return the command of Java with Spark's jars, preceded by the files of a folder."""
    home = os.environ.get("JAVA_HOME")
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    program = str(Path(home) / "bin" / "java") if home else "java"
    return [program, *QUICK_START, *options, "-cp", f"{folder}{os.pathsep}{jars}" if folder else str(jars)]


def _wait_for_port(running: subprocess.Popen[bytes], port: int, log_file: Path) -> None:
    end = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < end and running.poll() is None:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"the metastore did not start: {log_file.read_text()[-2000:]}")
