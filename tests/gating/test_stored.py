"""Events beside a baseline: what a comparison needs survives, and a file that was not written so is refused."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memlens
from memlens.diffing.run import diff_windows
from memlens.errors import InputError
from memlens.events import EventLog, Kind
from memlens.gating.stored import digest, events_path, is_events, read_events, to_columns, write_events
from memlens.windows.windows import Window

rows = st.lists(st.tuples(st.sampled_from(Kind), st.integers(0, 2**40), st.integers(0, 7)), max_size=40)


def packed(columns: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    write_events(columns, out)
    return out.getvalue()


def columns_of(log: EventLog) -> dict[str, Any]:
    half = Window(log, "half", 0, len(log) // 2, 0, 0, 1, 0)
    return to_columns([half, log.whole])


def small() -> dict[str, Any]:
    log = EventLog.from_rows(
        [(Kind.ALLOC, 256, 0x7000), (Kind.ALLOC, 512, 0x6000), (Kind.FREE, 256, 0x7000), (Kind.RESERVE, 1024, 0)],
        owner=np.array([0, -1, 1, -1], np.int32),
        owner_names=("conv", "\ud800 odd"),
        requested=np.array([250, 512, -1, -1], np.int64),
    )
    return columns_of(log)


def saved(tmp_path: Path, columns: dict[str, Any]) -> Path:
    path = tmp_path / "memory.events.npz"
    path.write_bytes(packed(columns))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stored") / "memory.events.npz"


@settings(deadline=None)
@given(events=rows)
def test_pairs_sizes_and_windows_survive(place: Path, events: list[tuple[Kind, int, int]]) -> None:
    log = EventLog.from_rows(events)
    columns = columns_of(log)
    place.write_bytes(packed(columns))
    half, whole = read_events(place, digest(columns), "base", ["a", "b"])
    assert (half.lo, half.hi, whole.lo, whole.hi) == (0, len(log) // 2, 0, len(log))
    assert (half.name, whole.name) == ("a", "b")
    back = whole.log
    assert back.kind.tolist() == log.kind.tolist()
    assert back.size.tolist() == log.size.tolist()
    assert back.lifetimes.partner.tolist() == log.lifetimes.partner.tolist()
    assert back.lifetimes.double_allocs.tolist() == log.lifetimes.double_allocs.tolist()


@settings(deadline=None)
@given(rows, st.integers(1, 2**40))
def test_other_addresses_give_the_same_file(events: list[tuple[Kind, int, int]], mask: int) -> None:
    moved = [(kind, size, address ^ mask) for kind, size, address in events]
    one, other = (packed(columns_of(EventLog.from_rows(these))) for these in (events, moved))
    assert one == other


def test_owners_and_requested_sizes_survive_and_text_does_not(tmp_path: Path) -> None:
    columns = small()
    path = saved(tmp_path, columns)
    assert is_events(path)
    log = read_events(path, digest(columns), "base.json", ["a", "b"])[0].log
    assert [log.owner_of(event) for event in range(4)] == ["conv", None, "\ud800 odd", None]
    assert log.requested is not None
    assert log.requested.tolist() == [250, 512, -1, -1]
    assert (log.source.name, log.source.rereadable) == ("base.json", False)
    assert (log.source.line_numbers([0, 1]), log.source.lines([0]), log.source.parts([(0, 1)])) == (
        [None, None],
        [None],
        [],
    )
    with pytest.raises(InputError, match="not kept"):
        next(log.source.blocks())


def test_findings_are_those_of_the_log_itself_but_for_the_lines_around(tmp_path: Path, examples: Path) -> None:
    base, head = memlens.read(examples / "case1_pt.log"), memlens.read(examples / "case1_pir.log")
    by = r"START (SOT_CALL_\d+)"
    columns = to_columns(base.windows(by))
    path = saved(tmp_path, columns)
    assert path.stat().st_size < 3000
    stored = read_events(path, digest(columns), "base", [window.name for window in base.windows(by)])
    told, known = (
        diff_windows(list(zip(these, head.windows(by), strict=True))) for these in (stored, base.windows(by))
    )
    for one, other in zip(told, known, strict=True):
        assert [
            (f.kind, f.size_bytes, f.count, f.owner, f.d_remaining_bytes, f.d_peak_bytes) for f in one.findings
        ] == [(f.kind, f.size_bytes, f.count, f.owner, f.d_remaining_bytes, f.d_peak_bytes) for f in other.findings]
        assert (one.d_peak_bytes, one.remaining) == (other.d_peak_bytes, other.remaining)
    (finding,) = told[1].findings
    assert finding.context == ()
    assert finding.head is not None
    assert finding.head.alloc_line == 64


@pytest.mark.parametrize(
    ("baseline", "events"),
    [("memory.json", "memory.events.npz"), ("dir.x/memory", "dir.x/memory.events.npz"), ("a.b.json", "a.b.events.npz")],
)
def test_events_lie_beside_their_baseline(baseline: str, events: str) -> None:
    assert events_path(baseline) == Path(events)


# --- damage ---


@settings(deadline=None)
@given(data=st.data())
def test_no_damaged_byte_is_ever_believed(place: Path, data: st.DataObject) -> None:
    columns = small()
    text = packed(columns)
    at = data.draw(st.integers(0, len(text) - 1))
    place.write_bytes(text[:at] + data.draw(st.binary(max_size=4)) + text[at + data.draw(st.integers(0, 4)) :])
    try:
        windows = read_events(place, digest(columns), "base", ["a", "b"])
    except InputError:
        return
    assert digest(to_columns(windows)) == digest(columns)


def refused(tmp_path: Path, columns: dict[str, Any], names: tuple[str, ...] = ("a", "b")) -> None:
    """Refused though its check sum is right."""
    with pytest.raises(InputError, match="damaged"):
        read_events(saved(tmp_path, columns), digest(columns), "base", list(names))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": np.array([0, 0, 1, 9], np.int8)},
        {"kind": np.array([0, 0, 1, -1], np.int8)},
        {"kind": np.array([0, 0, 1], np.int8)},
        {"size": np.array([1, 2, 3, -4])},
        {"owner": np.array([0, 1, 2, 0], np.int32)},
        {"owner": np.array([0, 1, -2, 0], np.int32)},
        {"windows": np.array([[0, 0], [2, 5]])},
        {"windows": np.array([[-1, 0], [2, 4]])},
        {"windows": np.array([[3, 0], [2, 4]])},
        {"windows": np.array([[0], [4]])},
        {"addr": np.array([0, 1, 0, 2], np.int64)},
        {"size": np.array([1.0, 2.0, 3.0, 4.0])},
        {"owner_names": np.frombuffer(b"[" * 10**5, np.uint8)},
        {"extra": np.array([1])},
    ],
)
def test_columns_that_point_beyond_each_other_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    refused(tmp_path, {**small(), **change})


def test_a_column_that_is_missing_is_refused(tmp_path: Path) -> None:
    columns = small()
    del columns["size"]
    refused(tmp_path, columns)


def test_windows_of_another_baseline_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, small(), ("a", "b", "c"))


def test_events_of_another_acceptance_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the events that the baseline was accepted with"):
        read_events(saved(tmp_path, small()), "0" * 64, "base", ["a", "b"])


def members(path: Path, **replaced: bytes) -> Path:
    """The same file with some members replaced by other bytes."""
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**texts, **{f"{key}.npy": value for key, value in replaced.items()}}.items():
            archive.writestr(name, text)
    return path


class Harmful:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('unpickled')",))


def test_nothing_in_the_file_is_run(tmp_path: Path) -> None:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.array([Harmful()], object), allow_pickle=True)
    for text in (out.getvalue(), pickle.dumps(Harmful())):
        path = members(saved(tmp_path, small()), kind=text)
        with pytest.raises(InputError, match="damaged"):
            read_events(path, digest(small()), "base", ["a", "b"])


def test_a_header_that_promises_more_than_there_is_takes_no_room(tmp_path: Path) -> None:
    header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (117 - len(header)) + b"\n"
    path = members(saved(tmp_path, small()), kind=b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(InputError, match="damaged"):
        read_events(path, digest(small()), "base", ["a", "b"])


@pytest.mark.parametrize("text", [b"", b"PK\x03\x04", b"not a zip", json.dumps({}).encode()])
def test_another_file_holds_no_events(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x.events.npz"
    path.write_bytes(text)
    assert not is_events(path)
    with pytest.raises(InputError):
        read_events(path, "0", "base", ["a"])
    with pytest.raises(InputError, match="cannot read the events"):
        read_events(tmp_path / "nowhere", "0", "base", ["a"])
