"""Handling of Ctrl-C and SIGTERM while a command works."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT and SIGTERM while the block runs; restore the handlers after it.

    Only the main thread receives signals, so the block changes nothing in other threads. A signal that is ignored
    stays ignored: a shell sets that for processes that it starts in the background.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    previous_handlers = {number: signal.signal(number, _raise_interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _raise_interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
