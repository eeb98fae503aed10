"""Which format an input has, told by its content, and how every verb reads it."""

import gzip
import io
import os
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from night import some
from snapshots import Allocator, pickled, snapshot
from traces import memory_event, trace

import memlens
from memlens.errors import InputError, NoEventsError, UsageError
from memlens.events import Kind
from memlens.facts import Facts
from memlens.inputs.built_in import BUILT_IN
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import HEAD
from memlens.inputs.registry import get_format, recognise
from memlens.log import Log

PADDLE_TEXT = b"I1120 10:22:32.856307 13292 a.cc:270] Alloc 512 bytes, ptr = 0x7f01\nFree 512 bytes, ptr = 0x7f01\n"
RMM_TEXT = (
    b"Thread,Time,Action,Pointer,Size,Stream\n"
    b"5563,10:29:36.035900,allocate,0x7fae7c001750,4096,0\n"
    b"5563,10:29:36.035911,free,0x7fae7c001750,4096,0\n"
)


KINETO_TEXT = trace(memory_event(1.0, 64, 0x10, 64, -1), memory_event(2.0, -64, 0x10, 0, -1)).encode()
TWO_DEVICES = trace(
    memory_event(1.0, 512, 0x10, 512, 0), memory_event(2.0, 1024, 0x20, 1024, 1), memory_event(3.0, -512, 0x10, 0, 0)
).encode()


def parquet() -> bytes:
    """A table of two events that somebody has made: nothing but the columns that it needs."""
    out = io.BytesIO()
    table = pa.table({"kind": ["ALLOC", "FREE"], "size_bytes": [512, 512], "addr": [16, 16]})
    pyarrow.parquet.write_table(table, out)
    return out.getvalue()


SAMPLES = {
    "paddle": PADDLE_TEXT,
    "rmm": RMM_TEXT,
    "kineto": KINETO_TEXT,
    "torch-snapshot": pickled(snapshot([Allocator(random.Random(0)).run(20)])),
    "paddle-history": pickled(snapshot([Allocator(random.Random(0)).run(20)], "paddle")),
    "parquet": parquet(),
}


def write(folder: Path, data: bytes, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_every_built_in_format_has_an_input_here() -> None:
    assert set(SAMPLES) == {form.name for form in BUILT_IN}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_format_is_known_by_its_content_and_not_by_the_name_of_the_file(
    tmp_path: Path, name: str, packed: bool
) -> None:
    data = gzip.compress(SAMPLES[name]) if packed else SAMPLES[name]
    path = write(tmp_path, data, "misleading.pickle")
    with closing(FileSource(path)) as source:
        found = recognise(source)
    assert found.format.name == name
    assert found.why
    assert len(memlens.read(path)) >= 2


@pytest.mark.parametrize("name", some(SAMPLES, 2))
def test_standard_input_is_read_once_and_whole(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, SAMPLES[name])
    code = "import memlens; print(memlens.read('-').size.tolist())"
    with path.open("rb") as stdin:
        found = subprocess.run([sys.executable, "-c", code], stdin=stdin, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(memlens.read(path).size.tolist())


def test_a_long_input_is_read_from_its_first_byte(tmp_path: Path) -> None:
    text = b"noise, and more, of, it\n" * 10_000 + PADDLE_TEXT
    assert len(text) > 2 * HEAD
    log = memlens.read(io.BytesIO(text))
    assert log.facts.bytes == len(text)
    assert log.facts.lines == 10_002
    assert memlens.read(write(tmp_path, text)).facts.lines == 10_002


def test_rows_of_rmm_amid_other_text_are_found_where_they_come_late(tmp_path: Path) -> None:
    log = memlens.read(write(tmp_path, b"spark says: hello\n" * 10_000 + RMM_TEXT))
    assert log.facts.layer == "rmm"
    assert log.size.tolist() == [4096, 4096]


def test_a_format_that_is_asked_for_is_not_looked_for(tmp_path: Path) -> None:
    path = write(tmp_path, RMM_TEXT + PADDLE_TEXT)
    assert memlens.read(path, read_as="rmm").size.tolist() == [4096, 4096]
    assert memlens.read(path, read_as="paddle").size.tolist() == [512, 512]
    assert memlens.read(path).facts.layer == "auto_growth"


def test_a_format_that_does_not_exist_is_said_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no input format is called 'rmn'") as error:
        get_format("rmn")
    assert (
        error.value.hint
        == "Did you mean 'rmm'? There are: paddle, paddle-history, torch-snapshot, kineto, rmm, parquet."
    )


def test_a_device_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no device 3") as error:
        memlens.read(write(tmp_path, TWO_DEVICES), device=3)
    assert error.value.hint == "It has: 0, 1."
    with pytest.raises(InputError, match="has no device 0") as error:
        memlens.read(write(tmp_path, PADDLE_TEXT), device=0)
    assert error.value.hint == "Nothing in it tells of devices; leave out --device."


def test_diff_pairs_the_one_gpu_of_two_ranks_whatever_its_number(tmp_path: Path) -> None:
    ranks = []
    for rank, size in ((0, 512), (1, 2048)):
        events = [memory_event(1.0, 64, 0x10, 64, -1), memory_event(2.0, size, 0x20, size, rank)]
        ranks.append(write(tmp_path, trace(*events).encode(), f"rank{rank}"))
    found = memlens.diff(*ranks)
    assert [(window.base.name, window.head.name, window.d_remaining_bytes) for window in found.windows] == [
        ("(whole log) [CPU]", "(whole log) [CPU]", 0),
        ("(whole log) [device 0]", "(whole log) [device 1]", 1536),
    ]
    assert not found.notes


def test_diff_refuses_runs_without_a_common_device(tmp_path: Path) -> None:
    base = write(tmp_path, TWO_DEVICES, "base")
    head = trace(*(memory_event(1.0, 512, 0x10, 512, device) for device in (4, 5))).encode()
    with pytest.raises(UsageError, match="no device is in both runs"):
        memlens.diff(base, write(tmp_path, head, "head"))


KINDS = [
    ("paddle", "rmm"),
    ("rmm", "kineto"),
    ("kineto", "torch-snapshot"),
    ("torch-snapshot", "paddle-history"),
    ("paddle-history", "paddle"),
]


@pytest.mark.parametrize(("ours", "theirs"), KINDS)
def test_inputs_of_different_kinds_are_not_compared_and_the_sizes_say_why(
    tmp_path: Path, ours: str, theirs: str
) -> None:
    base, head = write(tmp_path, SAMPLES[ours], "base"), write(tmp_path, SAMPLES[theirs], "head")
    with pytest.raises(InputError, match="these cannot be compared") as error:
        memlens.diff(base, head)
    assert get_format(ours).title in error.value.message
    for name in (ours, theirs):
        assert get_format(name).sizes in error.value.hint
    with pytest.raises(InputError, match="these cannot be compared"):
        memlens.gate(head, base=base)


@pytest.mark.parametrize("name", SAMPLES)
def test_no_sentence_of_the_trust_report_speaks_of_lines_where_there_are_entries(tmp_path: Path, name: str) -> None:
    trust = memlens.read(write(tmp_path, SAMPLES[name])).trust
    said = " ".join(
        [trust.summary(), *(doubt.message for doubt in trust.doubts), *(note.message for note in trust.notes)]
    )
    assert ("line" in said) == (name in ("paddle", "rmm"))
    assert ("entries" in said) == (name in ("kineto", "paddle-history", "torch-snapshot", "parquet"))


def test_a_pipe_that_gives_little_at_a_time_is_recognised(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, RMM_TEXT[:10])
    os.write(writer, RMM_TEXT[10:])
    os.close(writer)
    with open(reader, "rb") as stream:
        assert memlens.read(stream).facts.layer == "rmm"


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    with pytest.raises(NoEventsError) as error:
        memlens.read(write(tmp_path, b""))
    assert error.value.message.endswith(": the file is empty")


def test_a_run_without_addresses_is_not_compared_with_one_that_has_them() -> None:
    rows = [(Kind.ALLOC, 512, 0x10), (Kind.FREE, 512, 0x10)]
    full, blind = Log.from_rows(rows), Log.from_rows(rows, facts=Facts(layer="stats", addresses=False))
    with pytest.raises(InputError, match="its lines have no addresses"):
        memlens.diff(full, blind)
    assert any("no line has an address" in note for note in memlens.diff(blind, blind).notes)


def test_a_layer_is_chosen_of_logs_of_paddle_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is an RMM log, which has no layer 'stats'"):
        memlens.read(write(tmp_path, RMM_TEXT), layer="stats")
    with pytest.raises(UsageError, match="no layer attic"):
        memlens.read(write(tmp_path, PADDLE_TEXT), layer="attic")
