"""Helpers for tests that read text: unpack a log, damage a log, a result as programs get it."""

from __future__ import annotations

import random

import raw_runs

from memlens.reports.machine import csv_parts, json_parts
from memlens.results import Result, Tabular

read_packed = raw_runs.read_packed


def json_of(result: Result) -> str:
    """A result as one JSON document."""
    return "".join(json_parts(result))


def csv_of(result: Tabular) -> str:
    """A heading and a row a window."""
    return "".join(csv_parts(result))


def mutate(text: bytes, chance: random.Random) -> bytes:
    """Flip, cut, join, double and swap: what storage, copying and several writers do to a log."""
    lines = text.split(b"\n")
    for _ in range(chance.randint(1, 40)):
        at = chance.randrange(len(lines))
        line = lines[at]
        what = chance.randrange(6)
        if what == 0 and line:
            k = chance.randrange(len(line))
            lines[at] = line[:k] + bytes([chance.randrange(256)]) + line[k + 1 :]
        elif what == 1:
            lines[at] = line[: chance.randrange(len(line) + 1)]
        elif what == 2 and at + 1 < len(lines):
            lines[at : at + 2] = [line + lines[at + 1]]
        elif what == 3:
            lines.insert(at, line)
        elif what == 4:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif line:
            k = chance.randrange(len(line))
            lines[at] = line[:k] + lines[chance.randrange(len(lines))][k:]
    return b"\n".join(lines)
