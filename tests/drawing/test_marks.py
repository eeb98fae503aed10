"""Marks and bands: the failures where their messages stand, steps and phases where a plain look at the lines finds them."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from pathlib import Path

import numpy as np

import memlens
from memlens.drawing.levels import levels
from memlens.drawing.marks import bands, marks, series_of
from memlens.drawing.owners import Owners
from memlens.events import EventLog, Kind
from memlens.facts import Facts, OutOfMemory
from memlens.options import Report

EVENT = re.compile(r"\] (?:Alloc|Free) (\d+) bytes|Not found and reallocate|Free chunk with size")


def events_before(lines: list[str], line: int) -> int:
    """How many events stand before a line, by looking at all of them."""
    return sum(EVENT.search(text) is not None for text in lines[: line - 1])


def test_a_failure_is_marked_before_its_message_with_what_was_live(examples: Path) -> None:
    log = memlens.read(examples / "oom.log.gz")
    lines = gzip.decompress((examples / "oom.log.gz").read_bytes()).decode(errors="replace").splitlines()
    made = levels(log.whole, Owners(log))
    peak, failure = marks(log.whole, made.curve)
    assert (peak.kind, failure.kind) == ("peak", "oom")
    assert failure.event == events_before(lines, failure.line) - 1
    assert failure.label.startswith("out of memory: 768.00 KiB")
    level = highest = 0
    for number, text in enumerate(lines, 1):
        if found := re.search(r"\] (Alloc|Free) (\d+) bytes", text):
            level += int(found[2]) if found[1] == "Alloc" else -int(found[2])
            highest = max(highest, level)
        if number == failure.line:
            assert failure.bytes == level
    assert peak.bytes == highest


def test_a_window_that_never_rises_has_its_peak_at_its_start() -> None:
    log = EventLog.from_rows([(Kind.ALLOC, 512, 1), (Kind.FREE, 512, 1)], facts=Facts(opening=1, lines=1))
    made = levels(log.whole, Owners(log))
    (peak,) = marks(log.whole, made.curve)
    assert (peak.event, peak.bytes, peak.label) == (1, 512, "peak: what was live before")
    assert made.high_event.tolist() == [0]


def test_a_log_full_of_failures_has_the_first_of_them_marked() -> None:
    count = 300
    rows = [(Kind.ALLOC, 256, k + 1) for k in range(count)]
    ooms = tuple(OutOfMemory(10 * k + 5, k + 1, "GPU 0", k + 1, None, "") for k in range(count))
    log = EventLog.from_rows(rows, offset=np.arange(count) * 10, facts=Facts(ooms=ooms, bytes=10 * count, lines=count))
    found = marks(log.whole, levels(log.whole, Owners(log)).curve)
    assert [mark.kind for mark in found] == ["peak"] + ["oom"] * 100
    assert [mark.bytes for mark in found[1:]] == [256 * (k + 1) for k in range(100)]


def test_steps_found_by_themselves_are_bands_and_their_phases_lie_in_them(examples: Path) -> None:
    path = examples / "cnn_5steps.log.gz"
    lines = gzip.decompress(path.read_bytes()).decode(errors="replace").splitlines()
    starts = {
        found[1]: events_before(lines, number)
        for number, text in enumerate(lines, 1)
        if (found := re.match(r"(STEP \d+) START", text))
    }
    log = memlens.read(path)
    made = bands(log.whole, series_of(log, Report()))
    names = [made.names[name] for name in made.name.tolist()]
    steps = {name: int(lo) for name, lo, level in zip(names, made.lo, made.level, strict=True) if level == 0}
    assert steps == {"(before)": 0, **starts}
    spans = [(int(lo), int(hi)) for lo, hi, level in zip(made.lo, made.hi, made.level, strict=True) if level == 0]
    assert [lo for lo, _ in spans[1:]] == [hi for _, hi in spans[:-1]]
    phases = [(int(lo), int(hi)) for lo, hi, level in zip(made.lo, made.hi, made.level, strict=True) if level == 1]
    assert len(phases) > len(spans)
    assert all(any(lo >= a and hi <= b for a, b in spans) for lo, hi in phases)
    assert "BACKWARD" in names


def test_bands_of_a_cut_log_are_its_windows_and_end_where_the_picture_ends(examples: Path) -> None:
    log = memlens.read(examples / "cnn_5steps.log.gz")
    options = Report(by=r"STEP (\d+) START")
    whole = bands(log.whole, series_of(log, options))
    assert [whole.names[name] for name in whole.name[whole.level == 0].tolist()] == ["(before)", *"01234"]
    part = log.window("STEP 2 START", "STEP 3 START")
    cut = bands(part, series_of(log, options))
    assert [cut.names[name] for name in cut.name[cut.level == 0].tolist()] == ["2"]
    assert cut.lo.min() == part.lo
    assert cut.hi.max() == part.hi


def test_names_of_bands_show_what_would_act() -> None:
    log = EventLog.from_rows([(Kind.ALLOC, 512, 1)], facts=Facts(bytes=1, lines=1))
    window = memlens.windows.windows.Window(log, "STEP \x1b[31m\u202e1", 0, 1, 0, 1, 1, 1)
    packed = bands(window, [window]).to_rows()[0]["names"]["json"]
    assert json.loads(zlib.decompress(base64.b64decode(packed))) == ["STEP \\x1b[31m\\u202e1"]
