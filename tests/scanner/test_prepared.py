"""The file of tables of scanners is what the formats make; ``MEMLENS_APPROVE=1`` writes it."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from memlens.inputs.paddle import events, lines
from memlens.inputs.paddle.lines import HEADER_VALUES, PREPARED, SCANS
from memlens.scanner import Scanner, checksum, packed, prepared_scanner
from memlens.scanner.plain import Header
from memlens.scanner.tables import prepare

WANTED = list(product(SCANS, (HEADER_VALUES[:1], HEADER_VALUES)))


def test_the_file_holds_what_the_formats_make() -> None:
    made = {
        checksum(scans, events.HEADER, values): prepare(scans, Header.of(events.HEADER, values))
        for scans, values in WANTED
    }
    assert len(made) == len(WANTED)
    if os.environ.get("MEMLENS_APPROVE"):
        Path(PREPARED).write_bytes(packed(made))
    for number, scanner in made.items():
        assert prepared_scanner(PREPARED, number) == scanner, (
            f"{PREPARED}: formats have changed: MEMLENS_APPROVE=1 writes it anew"
        )


@pytest.mark.parametrize("change", [{"once": True}, {"covers": False}, {"texts": frozenset({"size"})}])
def test_what_is_looked_for_otherwise_is_not_taken_from_the_file(change: dict[str, object]) -> None:
    scans = SCANS[0]
    others = (structs.replace(scans[0], **change), *scans[1:])
    numbers = {checksum(some, header, HEADER_VALUES) for some in (scans, others) for header in (events.HEADER, None)}
    assert len(numbers) == 4
    assert [number for number in numbers if prepared_scanner(PREPARED, number)] == [
        checksum(scans, events.HEADER, HEADER_VALUES)
    ]


@pytest.mark.parametrize(("times", "replays"), [(True, False), (False, True)])
def test_without_the_file_the_same_is_found(times: bool, replays: bool, examples: Path) -> None:
    block = np.fromfile(examples / "case1_pir.log", np.uint8)
    scans, values = SCANS[replays], HEADER_VALUES if times else HEADER_VALUES[:1]
    anew = Scanner(scans, header=events.HEADER, header_values=values, prepared="/nowhere/scanners.bin")
    rows = lines.scanner(times=times, replays=replays).scan(block, 0, len(block))
    assert len(rows.start) > 100
    expected = anew.scan(block, 0, len(block))
    assert all(np.array_equal(getattr(rows, name), getattr(expected, name)) for name in rows.__struct_fields__)
