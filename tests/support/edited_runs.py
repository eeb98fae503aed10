"""Pairs of runs made of one real log: a Free removed, delayed, an allocation added, sizes doubled; and their figures by a plain loop.

A row is ``["ALLOC", size, block]``, ``["FREE", size, block]`` or ``["STEP", number, 0]``; every block has an address of its own, so that a Free
that is gone leaves nothing else amiss.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from logs import LogText
from texts import read_packed

Row = tuple[str, int, int]
_EVENT = re.compile(r"\] (Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)$|^STEP (\d+) START$")


def rows_of(path: Path) -> list[Row]:
    """The events and the steps of a log of Paddle."""
    rows: list[Row] = []
    live: dict[str, int] = {}
    for found in map(_EVENT.search, read_packed(path).decode().splitlines()):
        if found is None:
            continue
        if found[4]:
            rows.append(("STEP", int(found[4]), 0))
        elif found[1] == "Alloc":
            live[found[3]] = len(rows) + 1
            rows.append(("ALLOC", int(found[2]), live[found[3]]))
        else:
            rows.append(("FREE", int(found[2]), live.pop(found[3])))
    return rows


def write(rows: Iterable[Row], path: Path) -> Path:
    """The rows as a log, row ``n`` on line ``n + 1``."""
    log = LogText()
    for kind, size, block in rows:
        if kind == "STEP":
            log.lines.append(f"STEP {size} START")
        else:
            {"ALLOC": log.alloc, "FREE": log.free}[kind](size, block << 24)
    path.write_text(log.text)
    return path


@dataclass(frozen=True)
class Figures:
    """What a run holds: its peak, and for each part between two steps (the first is ``(before)``) what it leaves and how far it rises."""

    peak: int
    left: dict[str, int]
    rise: dict[str, int]


def figures(rows: Iterable[Row]) -> Figures:
    """The figures of a run by a loop over its rows."""
    level = peak = start = 0
    name = "(before)"
    left, rise = {name: 0}, {name: 0}
    for kind, size, _ in rows:
        if kind == "STEP":
            name, start = f"STEP {size}", level
            left[name] = rise[name] = 0
            continue
        level += size if kind == "ALLOC" else -size
        peak = max(peak, level)
        left[name], rise[name] = level - start, max(rise[name], level - start)
    return Figures(peak, left, rise)


def temporary(rows: list[Row], chance: Random) -> tuple[str, int, int]:
    """A step that another one follows, and the places of the ALLOC and the FREE of a block that lives and dies in it."""
    starts = [place for place, row in enumerate(rows) if row[0] == "STEP"]
    which = chance.randrange(len(starts) - 1)
    lo, hi = starts[which], starts[which + 1]
    born = {row[2]: place for place, row in enumerate(rows[lo:hi], lo) if row[0] == "ALLOC"}
    ends = [(born[row[2]], place) for place, row in enumerate(rows[lo:hi], lo) if row[0] == "FREE" and row[2] in born]
    return f"STEP {rows[lo][1]}", *chance.choice(ends)


def without_a_free(rows: list[Row], chance: Random) -> list[Row]:
    _, _, free = temporary(rows, chance)
    return [*rows[:free], *rows[free + 1 :]]


def later_free(rows: list[Row], chance: Random) -> list[Row]:
    _, _, free = temporary(rows, chance)
    end = next(place for place in range(free, len(rows)) if rows[place][0] == "STEP")
    to = chance.randint(free + 1, end)
    return [*rows[:free], *rows[free + 1 : to], rows[free], *rows[to:]]


def kept_block(rows: list[Row], chance: Random) -> list[Row]:
    _, place, _ = temporary(rows, chance)
    return [*rows[:place], ("ALLOC", 777_216, 999_999), *rows[place:]]


def new_temporary(rows: list[Row], chance: Random) -> list[Row]:
    _, alloc, free = temporary(rows, chance)
    new = ("ALLOC", 777_216, 999_999), ("FREE", 777_216, 999_999)
    return [*rows[:alloc], new[0], *rows[alloc:free], new[1], *rows[free:]]


def swapped(rows: list[Row], chance: Random) -> list[Row]:
    """Neighbours change places, but no block is freed before it is allocated."""
    rows = list(rows)
    for _ in range(20):
        at = chance.randrange(len(rows) - 1)
        if "STEP" not in (rows[at][0], rows[at + 1][0]) and rows[at][2] != rows[at + 1][2]:
            rows[at : at + 2] = [rows[at + 1], rows[at]]
    return rows


#: Each gives another run.
EDITS: dict[str, Callable[[list[Row], Random], list[Row]]] = {
    "without a free": without_a_free,
    "later free": later_free,
    "kept block": kept_block,
    "new temporary": new_temporary,
    "swapped": swapped,
    "nothing": lambda rows, _: rows,
}
