"""A Parquet file of events gives what the log gives, and a wrong, cut or hostile one an error with a hint."""

from __future__ import annotations

import base64
import io
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_source import MemorySource
from msgspec.structs import replace
from night import NIGHT, many, some
from pyarrow import parquet

import memlens
from memlens.errors import AnchorError, InputError, MemlensError, NoEventsError
from memlens.events import Kind
from memlens.facts import Facts, Figure, Kept, LineSample, Mark, OutOfMemory, RequestLines, StatLines, UnevenSegment
from memlens.inputs import read_all
from memlens.inputs.parquet.metadata import KEY
from memlens.log import Log

COLUMNS = ("kind", "size", "addr", "offset", "time_us", "thread", "requested", "stream")


def exported(log: Any, folder: Path, **options: Any) -> Path:
    path = folder / "events.parquet"
    memlens.export(log, to="parquet", output=path, force=True, **options)
    return path


def figures(log: Any, **options: Any) -> dict[str, Any]:
    """All that analyze says of a log, but for its path, and for the setting that would have helped: a replay needs lines of requests, which are no events."""
    (found,) = memlens.analyze(log, top=None, **options).to_dict()["logs"]
    del found["path"], found["trust"]["path"]
    found.pop("remedy", None)
    if any(one["kind"] == "reserved_idle" for one in found["claims"]):  # its words, too, name that setting
        found["claims"] = [one for one in found["claims"] if one["kind"] != "reserved_idle"]
        del found["verdict"]
    assert isinstance(found, dict)
    return found


def without_twins(found: dict[str, Any]) -> dict[str, Any]:
    """What is said of a snapshot or a trace, but for what exists twice and the lines of layers: whole call stacks tell them, which are not kept."""
    for window in found["windows"]:
        window["composition"] = {**window["composition"], "twins": []}
        del window["activations"]
    claims = [one for one in found["claims"] if one["kind"] not in ("exists_twice", "activations")]
    return {**found, "claims": claims, "verdict": None}


@pytest.mark.parametrize("folder", ["paddle", "traps", "rmm", "torch/snapshots", "torch/kineto"])
def test_all_figures_of_every_real_log_are_those_of_its_events(shared: Path, tmp_path: Path, folder: str) -> None:
    read = 0
    for path in some(sorted((shared / "data" / folder).iterdir()), 8):
        if (path.suffix in (".md", ".json") and path.parent.name != "kineto") or path.is_dir():
            continue
        try:
            logs = read_all(path)
        except NoEventsError:
            continue
        for log in logs:
            device = log.device if len(logs) > 1 else None
            written = exported(path, tmp_path, device=device)
            strip = without_twins if folder.startswith("torch/") else dict
            assert strip(figures(written)) == strip(figures(path, device=device)), path
            assert memlens.read(written).device == log.device
            read += 1
    assert read


@pytest.mark.parametrize("name", ["paddle/30_sot_cnn_breaks_pir.log", "torch/kineto/cnn.json.gz"])
def test_windows_are_cut_by_the_lines_or_annotations_that_were_kept(shared: Path, tmp_path: Path, name: str) -> None:
    log = shared / "data" / name
    by = r"START (SOT_CALL_\d+)" if "paddle" in name else r"ProfilerStep#(\d+)"
    path = exported(log, tmp_path)
    start = "START SOT_CALL_3" if "paddle" in name else "ProfilerStep#2"
    for cut in ({"by": by}, {"start": start}):
        found, wanted = (
            figures(one, **cut) if "paddle" in name else without_twins(figures(one, **cut)) for one in (path, log)
        )
        assert found == wanted


@pytest.mark.parametrize(
    ("one", "other"),
    some(
        [
            ("traps/threads_base.log.gz", "traps/threads_head.log.gz"),
            ("traps/cut_base.log.gz", "traps/cut_head.log.gz"),
            ("torch/snapshots/forward_fp32.pickle", "torch/snapshots/forward_bf16.pickle"),
            ("paddle/30_sot_cnn_breaks_pir.log", "paddle/30_sot_cnn_breaks_pt.log"),
        ],
        2,
    ),
)
def test_two_files_are_compared_as_their_logs_are(shared: Path, tmp_path: Path, one: str, other: str) -> None:
    base, head = shared / "data" / one, shared / "data" / other
    written = exported(base, tmp_path).rename(tmp_path / "base.parquet"), exported(head, tmp_path)
    for found in (memlens.diff(*written), memlens.diff(base, written[1])):
        assert without_text(found.to_dict()) == without_text(memlens.diff(base, head).to_dict())


def without_text(value: Any) -> Any:
    """A diff without what only the text of a log has: names of files, the lines around a FREE, lines that do not begin with the anchor; and without roles, which stacks tell."""
    if isinstance(value, str):
        return value.removeprefix("^")
    if isinstance(value, dict):
        return {
            key: without_text(one)
            for key, one in value.items()
            if key not in ("path", "context", "free_context", "alloc_context", "roles", "claims", "verdict")
        }
    return [without_text(one) for one in value] if isinstance(value, list) else value


def test_a_line_that_was_not_kept_whole_is_an_error_where_anchors_are_looked_for(tmp_path: Path) -> None:
    """Its name would be another one than in the log, and a pattern may match what was left out."""
    text = "".join(
        f"START {step} {'n' * 500}\n"
        f"I0712 10:54:13.000001 1 auto_growth_best_fit_allocator.cc:1] Alloc 256 bytes, ptr = 0x7f{step:02x}00\n"
        for step in range(3)
    )
    (tmp_path / "run.log").write_text(text)
    path = exported(tmp_path / "run.log", tmp_path)
    assert figures(path)["windows"][0]["stats"]["allocs"] == 3
    with pytest.raises(AnchorError, match="400 bytes of each"):
        memlens.analyze(path, by="START (.*)")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"start": "START SOT_CALL_3"}, "it holds a part of a log only: the window START SOT_CALL_3"),
        ({"table": "lifetimes"}, "no table of events: it has no column kind"),
    ],
)
def test_a_part_of_a_log_and_a_table_of_lifetimes_are_no_inputs(
    shared: Path, tmp_path: Path, what: dict[str, str], message: str
) -> None:
    path = exported(shared / "data" / "paddle" / "30_sot_cnn_breaks_pir.log", tmp_path, **what)
    with pytest.raises(InputError, match=message) as error:
        memlens.read(path)
    assert "memlens export LOG --to parquet" in error.value.hint


# Every column and every fact, made up.

FACTS = Facts(
    bytes=1000,
    lines=12,
    malformed=2,
    malformed_samples=(LineSample(3, 1, "Alloc \ufffd\udc80 <b>"),),
    ends_mid_line=False,
    cut_short="the gzip stream ends in the middle",
    threads=(7, 8),
    unstamped=1,
    layer="torch_snapshot",
    chunk_layer="stats",
    addresses=True,
    sized_frees=False,
    has_lines=False,
    keeps_last=True,
    has_chunks=False,
    block_granularity=512,
    kept=Kept(
        np.array([1 << 63, 5], np.uint64), np.array([512, 1]), np.array([-1, 2], np.int64), np.array([3, 4], np.int64)
    ),
    chunks_join=True,
    opening=2,
    other_layers={"stats": 3},
    hints={"unknown_actions": 5},
    ooms=(OutOfMemory(5, 6, "GPU 0", 1 << 40, None, "Out of memory", 5, None, "matmul", 7),),
    figures=(Figure(4, "allocated", 1, 2, "x", 0),),
    stat_lines=StatLines(
        np.array([1, 5]),
        np.array([0, -1], np.int16),
        np.array([True, False]),
        np.array([-5, 1 << 60]),
        np.array([1, 2]),
        np.array([-1, 3]),
    ),
    requests=RequestLines(np.array([0, 4], np.int8), *(np.array([number, 1 << 40]) for number in (1, 2, -1, 4, 5))),
    settings={"expandable_segments": "True"},
    uneven_segments=(UnevenSegment(1 << 47, "overlap", 0, 5),),
)


@pytest.mark.parametrize(
    "name", some(["pre_existing_blocks", "train_19464", "without_frames", "medium_256_training"], 2)
)
def test_the_roles_that_call_stacks_told_are_in_the_table_and_come_back(
    shared: Path, tmp_path: Path, name: str
) -> None:
    path = shared / "data" / "torch" / "snapshots" / f"{name}.pickle"
    written = exported(path, tmp_path)
    (log,) = memlens.analyze(path, top=None).to_dict()["logs"]
    at_end = [one for one in log["windows"][0]["composition"]["roles"] if one["at"] == "end"]
    assert {one["told_by"] for one in at_end} == {"stacks"}
    # What is never freed, by the table alone.
    frame = pd.read_parquet(written)
    last = frame[frame.kind.isin(["ALLOC", "FREE"])].groupby("addr").tail(1)
    held = last[last.kind == "ALLOC"].groupby("role", observed=True).size_bytes.sum().to_dict()
    assert held == {one["role"]: one["total_bytes"] for one in at_end if one["role"]}
    # The same as lifetimes, and of a file that is made of a file.
    lives = tmp_path / "lives.parquet"
    memlens.export(path, output=lives, table="lifetimes")
    table = pd.read_parquet(lives)
    assert table[table.fate == "held"].groupby("role", observed=True).size_bytes.sum().to_dict() == held
    again = tmp_path / "again.parquet"
    memlens.export(written, output=again)
    assert pd.read_parquet(again)["role"].equals(frame["role"])


def test_roles_that_no_export_writes_are_none(shared: Path, tmp_path: Path) -> None:
    path = exported(shared / "data" / "torch" / "snapshots" / "ring_3000.pickle", tmp_path)
    table = parquet.read_table(path)
    strange = table.set_column(table.schema.get_field_index("role"), "role", pa.array(["weights"] * len(table)))
    parquet.write_table(strange, path)
    of_log = memlens.read(path).role
    assert of_log is not None
    assert {*of_log.tolist()} == {-1}
    # What a table of another program calls a role tells nothing.
    parquet.write_table(table.replace_schema_metadata({}), path)
    assert memlens.read(path).role is None


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SIZES = st.integers(0, 1 << 40)
SOME = st.integers(-1, 1 << 62)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from(list(Kind)), SIZES, st.sampled_from([0, 16, 32, 48, 1 << 63])),
            min_size=1,
            max_size=24,
        )
    )
    count = len(rows)
    offset = np.cumsum(draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), dtype=np.int64)
    columns: dict[str, Any] = {"offset": offset, "source": MemorySource(b"x\n" * (9 * count))}
    for name in ("time_us", "thread", "requested", "stream"):
        if draw(st.booleans()):
            columns[name] = np.array(draw(st.lists(SOME, min_size=count, max_size=count)), np.int64)
    for name in ("owner", "holder", "pool", "user_metadata"):
        if draw(st.booleans()):
            names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
            numbers = st.integers(-1, len(names) - 1)
            columns[name] = np.array(draw(st.lists(numbers, min_size=count, max_size=count)), np.int32)
            columns[f"{name}_names"] = tuple(names)
    if draw(st.booleans()):
        columns["device"] = draw(st.integers(-1, 9))
    facts = Facts(bytes=18 * count, lines=9 * count, opening=0)
    return Log.from_rows(rows, facts=facts, **columns)


@settings(max_examples=many(60))
@given(log=logs(), batch=st.integers(1, 9))
def test_the_events_of_any_log_come_back_in_every_column(
    tmp_path_factory: pytest.TempPathFactory, log: Log, batch: int
) -> None:
    folder = tmp_path_factory.mktemp("events")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memlens.exporting.tables._GROUP", batch)
        again = memlens.read(exported(log, folder))
    for name in COLUMNS:
        ours, theirs = getattr(log, name), getattr(again, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype
            assert ours.tolist() == theirs.tolist(), name
    for name in ("owner", "holder", "pool", "user_metadata"):
        assert _texts(log, name) == _texts(again, name)
    assert again.device == log.device
    assert again.line_numbers(range(len(log))) == log.line_numbers(range(len(log)))
    assert figures(again) == figures(log)
    # And what pandas makes of it is the same table.
    frame = pd.read_parquet(folder / "events.parquet")
    assert frame["size_bytes"].tolist() == log.size.tolist()
    assert frame["kind"].tolist() == [Kind(kind).name for kind in log.kind.tolist()]
    if log.owner is not None:
        assert [None if pd.isna(owner) else owner for owner in frame["owner"]] == _texts(log, "owner")


def _texts(log: Log, name: str) -> list[str | None] | None:
    numbers, names = getattr(log, name), getattr(log, f"{name}_names")
    return None if numbers is None else [names[number] if number >= 0 else None for number in numbers.tolist()]


# Tables that others make.

TABLE = {"kind": ["ALLOC", "ALLOC", "FREE"], "size_bytes": [512, 256, 512], "addr": [16, 32, 16]}


def table(**columns: Any) -> bytes:
    return packed(pa.table({**TABLE, **columns}))


def packed(made: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    parquet.write_table(made, out, **options)
    return out.getvalue()


def test_the_least_that_a_table_has_is_kind_size_and_address() -> None:
    log = memlens.read(io.BytesIO(table()))
    assert log.size.tolist() == [512, 256, 512]
    assert log.line_numbers([0, 2]) == [1, 3]
    assert log.lifetimes.partner.tolist() == [2, -1, 0]
    assert log.facts.layer == "parquet"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1", "is no Parquet file that can be read"),
        (b"PAR1" + b"\0" * 100 + b"PAR1", "is no Parquet file that can be read"),
        (table()[:-1], "is no Parquet file that can be read"),
        (packed(pa.table({"x": [1]})), "no table of events: it has no column kind, size_bytes, addr"),
        (table(kind=["ALLOC", "alloc", "FREE"]), "a row of it is no event"),
        (table(kind=["ALLOC", None, "FREE"]), "a row of it is no event"),
        (table(kind=[1, 2, 3]), "its column kind holds no text but int64"),
        (table(size_bytes=[1, -2, 1]), "a row of it is no event"),
        (table(size_bytes=[1, None, 1]), "a row of it is no event"),
        (table(size_bytes=[1.5, 2, 3]), "its column size_bytes holds what is no whole number"),
        (table(size_bytes=["1", "2", "3"]), "its column size_bytes holds no whole numbers but string"),
        (table(addr=[1, -1, 1]), "its column addr holds what is no whole number, or too large"),
        (
            table(size_bytes=pa.array([1, (1 << 64) - 1, 1], pa.uint64())),
            "its column size_bytes holds what is no whole number",
        ),
        (table(offset=[5, 4, 6]), "its events are not in the order of the log"),
        (table(offset=[-7, 4, 6]), "its events are not in the order of the log"),
        (table(device=[0, 1, 1]), "it has events of 2 devices"),
        (table(owner=[b"\xff", b"a", b"b"]), "its column owner holds no text but binary"),
        (table(owner=[["a"], [], []]), "its column owner holds no text but"),
        (
            table(kind=["RESERVE"] * 3, addr=pa.array([(1 << 64) - 256] * 3, pa.uint64())),
            "a chunk of it lies beyond all addresses",
        ),
        (table(size_bytes=[1 << 62, 1 << 62, 1]), "add up to more than 4 EiB"),
    ],
)
def test_what_is_no_table_of_events_is_an_error_with_a_hint(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        memlens.read(io.BytesIO(data))
    assert error.value.hint


def test_a_table_without_a_row_has_no_events() -> None:
    with pytest.raises(NoEventsError, match="without a row"):
        memlens.read(io.BytesIO(packed(pa.table(TABLE).slice(0, 0))))


def test_rows_that_the_bytes_of_a_file_cannot_stand_for_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlens.inputs.parquet.reader._ROWS", 1000)
    rows = 3_000_000
    zero = pa.array(np.zeros(rows, np.int64))
    kind = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["ALLOC"])
    bomb = packed(pa.table({"kind": kind, "size_bytes": zero, "addr": zero}), compression="zstd")
    with pytest.raises(InputError, match="it claims 3,000,000 rows in"):
        memlens.read(io.BytesIO(bomb))


def with_metadata(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """An exported file whose metadata somebody has changed."""
    log = Log.from_rows(
        [(Kind.ALLOC, 512, 16), (Kind.FREE, 512, 16)],
        facts=replace(FACTS, opening=0, cut_short=""),
        marks=(Mark(0, 1, "STEP 1"),),
    )
    path = io.BytesIO()
    from memlens.inputs.parquet.metadata import metadata_of

    found = json.loads(metadata_of(log))
    text = change(found)
    made = pa.table({"kind": ["ALLOC", "FREE"], "size_bytes": [512, 512], "addr": [16, 16]})
    data = text if isinstance(text, bytes) else json.dumps(found).encode()
    parquet.write_table(made.replace_schema_metadata({KEY: data}), path)
    return path.getvalue()


def assign(*way: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: Any) -> None:
        *above, last = way
        for step in above:
            found = found[step]
        found[last] = value

    return change


BOMB = base64.b64encode(zlib.compress(bytes(1 << 27))).decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda found: b"{",
        lambda found: b"\xff\xfe",
        lambda found: b"[" * 100_000,
        lambda found: b"[]",
        lambda found: b'{"schema": "memlens.events/1"}',
        lambda found: b'{"schema": "memlens.events/1", "facts": {"lines": ' + b"9" * 5000 + b"}}",
        lambda found: b'{"schema": "memlens.events/1", "facts": {"lines": NaN}}',
        assign("schema", value="memlens.events/2"),
        assign("facts", value=[]),
        assign("facts", "lines", value="12"),
        assign("facts", "lines", value=-1),
        assign("facts", "bytes", value=1 << 63),
        assign("facts", "opening", value=3),
        assign("facts", "block_granularity", value=0),
        assign("facts", "figures", 0, "metric", value="other"),
        assign("facts", "ooms", 0, "offset", value="5"),
        assign("facts", "ooms", value={"a": 1}),
        assign("facts", "hints", value={"a": "b"}),
        assign("facts", "stat_lines", "offset", value="!"),
        assign("facts", "stat_lines", "offset", value=base64.b64encode(zlib.compress(b"123")).decode()),
        assign("facts", "stat_lines", "offset", value=base64.b64encode(zlib.compress(bytes(8))).decode()),
        assign("facts", "stat_lines", "offset", value=base64.b64encode(zlib.compress(bytes(800))[:-4]).decode()),
        assign("facts", "kept", value={"addr": ""}),
        assign("marks", "lines", value=None),
        assign("marks", "texts", value=base64.b64encode(zlib.compress(b"[1]")).decode()),
        assign("marks", "offsets", value=BOMB),
        assign("marks", "ends", value=base64.b64encode(zlib.compress(bytes(16))).decode()),
        assign("device", value="0"),
        assign("device", value=1 << 31),
        assign("places", value=[[1, 2]]),
        assign("window", value="a part"),
    ],
)
def test_metadata_that_no_export_writes_is_an_error_with_a_hint(change: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(InputError) as error:
        memlens.read(io.BytesIO(with_metadata(change)))
    assert error.value.hint


def test_untouched_metadata_is_read() -> None:
    assert memlens.read(io.BytesIO(with_metadata(lambda found: None))).facts.malformed == 2


def damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(changed))
        changed[at] = chance.choice((0, 0xFF, chance.randrange(256), changed[at] ^ 1 << chance.randrange(8)))
    if chance.random() < 0.2:
        del changed[chance.randrange(len(changed)) :]
    return bytes(changed)


def test_a_damaged_file_is_read_right_or_refused(shared: Path, tmp_path: Path, rounds: Callable[[int], range]) -> None:
    log = shared / "data" / "traps" / "five.log.gz"
    data = exported(log, tmp_path).read_bytes()
    refused = 0
    for seed in (turns := rounds(150 if NIGHT else 40)):
        try:
            memlens.analyze(io.BytesIO(damaged(data, random.Random(seed)))).to_dict()
        except MemlensError as error:
            refused += 1
            assert error.message
            assert error.hint
    assert refused > len(turns) / 2
