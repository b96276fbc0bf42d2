"""Which process this is, and whether another one is still alive, as far as that can be told from here."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """What tells this process from every other: the machine since its last start, the number, and when it was born."""
    return {"host": _host(), "pid": os.getpid(), "born": _born(os.getpid())}


def may_live(process: Mapping[str, Any]) -> bool:
    """Whether a process may still be alive; of another machine nobody can say that it isn't."""
    if process.get("host") != _host():
        return True
    return _born(process["pid"]) == process.get("born")


def is_this(process: Mapping[str, Any]) -> bool:
    """Whether it is this process."""
    return process.get("host") == _host() and process.get("pid") == os.getpid()


def _host() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()


def _born(pid: int) -> str | None:
    """When a process was started, which tells it from a later one of the same number; None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _signalled(pid)
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]


def _signalled(pid: int) -> str | None:
    """The same where there is no /proc: only whether it lives."""
    if Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "alive"
