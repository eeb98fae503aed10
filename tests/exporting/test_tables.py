"""Events and lifetimes as CSV, JSON lines and Parquet: every row, by the text of the log and by plain pairing."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import write_log
from memory_source import MemorySource
from night import many

import memlens
from memlens.errors import InputError
from memlens.events import Kind
from memlens.exporting.tables import lives_of_windows
from memlens.facts import Facts
from memlens.log import Log

BLOCK = re.compile(r"\] (Alloc|Free) (\d+) bytes, ptr = 0x([0-9a-f]+)$")


def rows_of(log: Any, folder: Path, to: str = "jsonl", **options: Any) -> list[dict[str, Any]]:
    path = folder / f"table.{to}"
    written = memlens.export(log, to=to, output=path, force=True, **options)
    assert written.written_bytes == path.stat().st_size
    if to == "parquet":
        frame = pd.read_parquet(path).astype(object)
        rows: list[dict[str, Any]] = frame.where(frame.notna(), None).to_dict("records")
    elif to == "jsonl":
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert len(rows) == written.rows
    return rows


@pytest.mark.parametrize("to", ["parquet", "csv", "jsonl"])
def test_the_events_are_those_that_stand_in_the_text(shared: Path, tmp_path: Path, to: str) -> None:
    log = shared / "data" / "paddle" / "331_dygraph_cnn.log"
    found = [
        (str(number), match[1].upper(), match[2], str(int(match[3], 16)))
        for number, line in enumerate(log.read_text().splitlines(), 1)
        if (match := BLOCK.search(line)) and "auto_growth" in line
    ]
    rows = [row for row in rows_of(log, tmp_path, to) if row["kind"] in ("ALLOC", "FREE")]
    assert [tuple(str(row[name]) for name in ("line", "kind", "size_bytes", "addr")) for row in rows] == found
    stamps = [line[6:21] for line in log.read_text().splitlines()]
    assert all(int(row["time_us"]) % 10**6 == int(stamps[int(row["line"]) - 1][-6:]) for row in rows)


def made(**columns: Any) -> Log:
    rows = (
        (Kind.ALLOC, 100, 16),  # before the input
        (Kind.ALLOC, 200, 32),  # before the input
        (Kind.ALLOC, 1, 48),
        (Kind.FREE, 100, 16),
        (Kind.ALLOC, 2, 16),
        (Kind.FREE, 1, 48),
        (Kind.FREE, 9, 64),
        (Kind.ALLOC, 3, 16),
    )
    columns.setdefault("facts", Facts(opening=2, lines=8, bytes=8))
    columns.setdefault("offset", np.array([-1, -1, 0, 1, 2, 3, 4, 5]))
    columns.setdefault("line", columns["offset"] + 1)
    return Log.from_rows(rows, source=MemorySource(name="made.log"), **columns)


def test_a_series_has_a_row_a_block_and_window_and_says_which(tmp_path: Path) -> None:
    lines = "STEP 1,+8@10,+16@20,-8@10,STEP 2,-16@20,END,+32@30,STEP 3,+4@10"
    log = write_log(tmp_path, "run.log", *lines.split(","))
    events = rows_of(log, tmp_path, by=r"STEP \d", end="END")
    assert [(row["window"], row["line"], row["event"]) for row in events] == [
        ("STEP 1", 2, 0),
        ("STEP 1", 3, 1),
        ("STEP 1", 4, 2),
        ("STEP 2", 6, 3),
        ("STEP 3", 10, 5),
    ]
    lives = rows_of(log, tmp_path, table="lifetimes", by=r"STEP \d", end="END")
    assert [(row["window"], row["size_bytes"], row["fate"]) for row in lives] == [
        ("STEP 1", 8, "temporary"),
        ("STEP 1", 16, "held"),
        ("STEP 2", 16, "released"),
        ("STEP 3", 4, "held"),
    ]
    one = rows_of(log, tmp_path, start="STEP 2", end="END")
    assert [row["line"] for row in one] == [6]
    assert "window" not in one[0]


@settings(max_examples=many(60))
@given(steps=st.lists(st.tuples(st.booleans(), st.sampled_from([16, 32, 48])), max_size=20), data=st.data())
def test_fates_of_any_window_are_those_of_a_plain_walk(steps: list[tuple[bool, int]], data: st.DataObject) -> None:
    log = Log.from_rows([(Kind.ALLOC if alloc else Kind.FREE, 8, addr) for alloc, addr in steps])
    lo = data.draw(st.integers(0, len(steps)))
    hi = data.draw(st.integers(lo, len(steps)))
    live: dict[int, int] = {}
    freed: dict[int, int] = {}
    for event, (alloc, addr) in enumerate(steps):
        if alloc:
            live[addr] = event
        elif addr in live:
            freed[live.pop(addr)] = event
    expected = []
    for event, (alloc, _) in enumerate(steps):
        end = freed.get(event)
        if alloc and lo <= event < hi:
            expected.append((event, "temporary" if end is not None and end < hi else "held"))
        elif alloc and event < lo and end is not None and lo <= end < hi:
            expected.append((event, "released"))
    found = lives_of_windows(log, [(lo, hi)], whole=False)
    assert list(zip(found.alloc.tolist(), [found.FATES[fate] for fate in found.fate], strict=True)) == expected


NASTY = ("=cmd|' /C calc'!A0", "+1", "-1", "@x", "\t=1", "a\x1b[31mb", 'a,b"c\nd', "<script>", "\u202egnp", "ü\ud800")


def test_names_are_text_in_every_form(tmp_path: Path) -> None:
    log = made(owner=np.array([0, 1, 2, 3, 4, 5, 6, 7], np.int32), owner_names=NASTY)
    cells = [row["owner"] for row in rows_of(log, tmp_path, "csv")]
    # As spreadsheets write text that begins like a formula, and with nothing that acts on a terminal.
    assert cells == ["'=cmd|' /C calc'!A0", "'+1", "'-1", "'@x", r"\t=1", r"a\x1b[31mb", r'a,b"c\nd', "<script>"]
    assert [row["owner"] for row in rows_of(log, tmp_path, "jsonl")] == list(NASTY[:8])
    assert (tmp_path / "table.jsonl").read_bytes().isascii()
    assert [row["owner"] for row in rows_of(log, tmp_path, "parquet")] == list(NASTY[:8])


@pytest.mark.parametrize("act", ["write", "read"])
def test_without_pyarrow_the_one_command_that_installs_it_is_said(
    act: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = shared / "data" / "paddle" / "331_dygraph_cnn.log"
    rows_of(log, tmp_path, "parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    again = {"to": "parquet", "output": tmp_path / "again.parquet"}
    with pytest.raises(InputError, match="needs pyarrow") as error:
        memlens.export(log, **again) if act == "write" else memlens.read(tmp_path / "table.parquet")  # type: ignore[arg-type]
    assert error.value.hint == "Install it with: pip install 'memlens[parquet]'"
    assert rows_of(log, tmp_path, "csv")


def test_lifetimes_are_blocks_with_what_becomes_of_them(tmp_path: Path) -> None:
    log = made(time_us=np.array([-1, -1, 10, 12, 14, 13, 15, 16], np.int64))
    names = ("size_bytes", "alloc_event", "alloc_line", "free_event", "free_line", "fate", "life_events", "life_us")
    assert [tuple(row[name] for name in names) for row in rows_of(log, tmp_path, table="lifetimes")] == [
        (100, 0, None, 3, 2, "released", 2, None),
        (200, 1, None, None, None, "held", 7, None),
        (1, 2, 1, 5, 4, "temporary", 3, 3),
        (2, 4, 3, None, None, "held", 4, None),
        (3, 7, 6, None, None, "held", 1, None),
    ]
