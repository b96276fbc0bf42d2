"""Ctrl-C and SIGTERM, both as KeyboardInterrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def interruptible() -> Iterator[None]:
    """In the block both signals raise KeyboardInterrupt; what was there before is there after it.

    Only the main thread hears signals, so in others it changes nothing. An interrupt that is ignored stays so: whoever
    started this in the background meant it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
