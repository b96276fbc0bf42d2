"""The identity of a process, and whether a process may still be alive.

A lease and a write intent store the identity of their process for other processes to read. So its start time must not
depend on the wall clock: Linux counts it in ticks since boot. psutil's `create_time` adds the boot time, which moves
with every correction of the clock; a live process would then count as dead.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """Return what identifies this process among all others: host since its last boot, process id and start time."""
    return {"host": _host_id(), "pid": os.getpid(), "start_time": _start_time(os.getpid())}


def may_be_alive(process: Mapping[str, Any]) -> bool:
    """Return whether a process may still be alive; a process of another host always may.

    An identity without a start time, as earlier versions wrote, may be that of any process with its id.
    """
    if process.get("host") != _host_id():
        return True
    start_time = _start_time(process["pid"])
    return start_time is not None and process.get("start_time", start_time) == start_time


def is_this_process(process: Mapping[str, Any]) -> bool:
    """Return whether an identity is that of this process."""
    return process.get("host") == _host_id() and process.get("pid") == os.getpid()


def _host_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()


def _start_time(pid: int) -> str | None:
    """Return when a process was started, which tells it from a later one of the same id; None if it is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _liveness_from_signal(pid)
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]


def _liveness_from_signal(pid: int) -> str | None:
    """Return "alive" for a live process where there is no /proc to read its start time from; else None."""
    if Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "alive"
