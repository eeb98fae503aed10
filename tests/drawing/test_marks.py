"""Marks and bands: the failures where their messages stand, steps and phases where a plain look at the lines finds them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from unpacked import unpacked

import memlens
from memlens.drawing.levels import bands, curve_of_page, marks, phases_of, series_of
from memlens.options.verbs import Report

EVENT = re.compile(r"\] (?:Alloc|Free) (\d+) bytes|Not found and reallocate|Free chunk with size")


def events_before(lines: list[str], line: int) -> int:
    """How many events stand before a line, by looking at all of them."""
    return sum(EVENT.search(text) is not None for text in lines[: line - 1])


def test_a_failure_is_marked_before_its_message_with_what_was_live(examples: Path) -> None:
    log = memlens.read(examples / "oom.log.gz")
    lines = gzip.decompress((examples / "oom.log.gz").read_bytes()).decode(errors="replace").splitlines()
    peak, failure = marks(log.whole, curve_of_page(log.whole))
    assert (peak["kind"], failure["kind"]) == ("peak", "oom")
    assert failure["event"] == events_before(lines, failure["line"]) - 1
    assert failure["label"].startswith("out of memory: 768.00 KiB")
    level = highest = 0
    for number, text in enumerate(lines, 1):
        if found := re.search(r"\] (Alloc|Free) (\d+) bytes", text):
            level += int(found[2]) if found[1] == "Alloc" else -int(found[2])
            highest = max(highest, level)
        if number == failure["line"]:
            assert failure["bytes"] == level
    assert peak["bytes"] == highest


def test_steps_found_by_themselves_are_bands_and_their_phases_lie_in_them(examples: Path) -> None:
    path = examples / "cnn_5steps.log.gz"
    lines = gzip.decompress(path.read_bytes()).decode(errors="replace").splitlines()
    starts = {
        found[1]: events_before(lines, number)
        for number, text in enumerate(lines, 1)
        if (found := re.match(r"(STEP \d+) START", text))
    }
    log = memlens.read(path)
    series = series_of(log, Report())
    windows, phases = unpacked(bands(log.whole, series, phases_of(log, series)))
    assert (windows["kind"], phases["kind"]) == ("windows", "phases")
    assert dict(zip(windows["names"], windows["lo"], strict=True)) == {"(before)": 0, **starts}
    spans, within = (list(zip(row["lo"], row["hi"], strict=True)) for row in (windows, phases))
    assert [lo for lo, _ in spans[1:]] == [hi for _, hi in spans[:-1]]
    assert len(within) > len(spans)
    assert all(any(lo >= a and hi <= b for a, b in spans) for lo, hi in within)
    assert "BACKWARD" in phases["names"]
