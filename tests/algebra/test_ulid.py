"""ULIDs: format, order, and uniqueness across forked processes."""

from __future__ import annotations

import subprocess
import sys
import time

from partita.algebra.ulid import is_ulid, new_ulid

FORKED = """
import os
from partita.algebra.ulid import new_ulid
new_ulid()
read, write = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.write(write, "".join(new_ulid() + "\\n" for _ in range(20)).encode())
        os._exit(0)
for _ in range(3):
    os.wait()
print(os.read(read, 100_000).decode())
"""


def test_ids_are_ulids_in_order() -> None:
    made = [new_ulid() for _ in range(2000)]
    assert all(map(is_ulid, made))
    assert made == sorted(set(made))


def test_an_id_tells_its_millisecond() -> None:
    before = time.time_ns() // 1_000_000
    number = 0
    for letter in new_ulid()[:10]:
        number = number * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter)
    assert before <= number <= time.time_ns() // 1_000_000 + 1


def test_invalid_ulids() -> None:
    for text in ("", "8" + "0" * 25, "0" * 25, "0" * 27, "0" * 25 + "u", "0" * 25 + "I"):
        assert not is_ulid(text)


def test_forked_processes_make_different_ids() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    made = done.stdout.split()
    assert len(made) == len(set(made)) == 60
