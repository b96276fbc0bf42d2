"""What Spark lacks where it can't reach an object store, and how to give it that."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

_NO_FILE_SYSTEM = re.compile(
    r"Class (?P<class>org\.apache\.hadoop\.fs\.[\w.]+|com\.google\.[\w.]+) not found"
    r"|No FileSystem for scheme:? \"?(?P<scheme>\w+)"
)
_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "azure": "org.apache.hadoop:hadoop-azure",
    "google": "com.google.cloud.bigdataoss:gcs-connector",
}
"""The packages by which Spark's Hadoop layer reaches object stores."""
_STORES = {"s3": "s3a", "s3n": "s3a", "abfs": "azure", "abfss": "azure", "wasbs": "azure", "gs": "google"}


def missing_file_system(text: str) -> str | None:
    """What to do where Spark lacks the classes of an object store; None where the text says nothing of that."""
    found = _NO_FILE_SYSTEM.search(text)
    if found is None:
        return None
    class_name, scheme = found["class"] or "", found["scheme"] or ""
    store = next((one for one in _CONNECTORS if one in class_name), _STORES.get(scheme, scheme))
    package = _CONNECTORS.get(store)
    if package is None:
        return f"Spark has no file system for {scheme or class_name}; add its package by spark.jars.packages"
    version = _hadoop_version() if package.startswith("org.apache.hadoop") else None
    exact = f"{package}:{version or '<the version of its Hadoop>'}" if store != "google" else f"{package}:<version>"
    return (
        f"Spark can't reach the object store: {class_name or scheme} is not among its classes. Start the session with "
        f"spark.jars.packages={exact}; on a Spark Connect server or a cluster, it is the server's setting"
    )


def _hadoop_version() -> str | None:
    """The version of Hadoop that this process' Spark ships; None where it ships none."""
    jars = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    return next((jar.stem.removeprefix("hadoop-client-api-") for jar in jars), None)
