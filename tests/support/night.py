"""How much of what can go on for ever is done: little in a run that somebody waits for, all of it in a night's run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")

#: The run is a night's: ``MEMLENS_ROUNDS`` is above 1.
NIGHT = int(os.environ.get("MEMLENS_ROUNDS", "1")) > 1


def chance_of(name: str) -> Random:
    """Seeds of a test: by day the same in each run, so that what fails is what a change did; at night others."""
    return Random() if NIGHT else Random(name)


def generator_of(name: str) -> np.random.Generator:
    """The same for columns."""
    return np.random.default_rng(chance_of(name).getrandbits(64))


def many(count: int) -> int:
    """Examples of a property: so many at night, a sixteenth of them by day."""
    return count if NIGHT else max(count // 16, 5)


def some(things: Iterable[_T], of: int = 4) -> list[_T]:
    """Cases that are dear: all at night, every fourth or so of them by day, the first one among them."""
    return list(things)[:: 1 if NIGHT else of]
