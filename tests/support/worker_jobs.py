"""What tests have workers do: functions of a module that processes of any kind can import."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from memlens.errors import InputError


def square(number: int) -> int:
    return number * number


def square_or_fail(number: int) -> int:
    if number == 3:
        raise InputError("3 cannot be read", "Take 4.")
    if number == 4:
        raise ZeroDivisionError("by nothing\nand more")
    if number == 5:
        raise MemoryError
    return number * number


def square_or_die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_once(where: tuple[Path, int]) -> int:
    """The first of two tries of every fifth job ends its process."""
    folder, number = where
    mark = folder / str(number)
    if number % 5 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def no_pickle(_: int) -> object:
    return threading.Lock()


class Unreadable:
    """What a worker with other packages may give: something that its pickle does not make here."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def unreadable(_: int) -> Unreadable:
    return Unreadable()
