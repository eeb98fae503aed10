"""What tests have workers do: a function of a module that processes of any kind can import."""

from __future__ import annotations

import os
import signal

from msgspec import Struct, field

from memlens.errors import InputError
from memlens.options import Analyze


class Number(Struct, frozen=True):
    """An order to do something with a number, in place of a log."""

    given: str
    options: Analyze = field(default_factory=Analyze)


def square_or_fail(order: Number) -> object:
    number = int(os.path.basename(order.given))
    if number == 3:
        raise InputError("3 cannot be read", "Take 4.")
    if number == 4:
        raise ZeroDivisionError("by nothing\nand more")
    if number == 5:
        raise MemoryError
    if number == 6:
        return open(os.devnull)  # which has no pickle
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number
