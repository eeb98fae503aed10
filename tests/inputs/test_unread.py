"""What no reader recognises is named by what it looks like, with the way to something that memlens reads."""

from __future__ import annotations

import collections
import gzip
import io
import json
import pickle
import sqlite3
import tarfile
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from night import some

import memlens
from memlens.errors import InputError, NoEventsError
from memlens.inputs.unread import BINARY, NSYS_QUERY, UNREAD, unread_kind

PADDLE = b"I1120 10:22:32.856307 13292 a.cc:270] Alloc 512 bytes, ptr = 0x7f01\nFree 512 bytes, ptr = 0x7f01\n"


def zipped(*members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in members:
            archive.writestr(name, b"text")
    return packed.getvalue()


def tarred(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def database(*statements: str) -> bytes:
    with sqlite3.connect(":memory:") as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        return serialized(connection)


def serialized(connection: sqlite3.Connection) -> bytes:
    """As :meth:`sqlite3.Connection.serialize` of Python 3.11."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db"
        with sqlite3.connect(path) as copy:
            connection.backup(copy)
        copy.close()
        return path.read_bytes()


def saved_before_1_6() -> bytes:
    """What torch.save wrote until 1.6: a magic number, a version and the machine, then the object, each a pickle."""
    parts = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "protocol_version": 1001}, {"weight": [1.0]})
    return b"".join(pickle.dumps(part, protocol=2) for part in parts)


def traced() -> bytes:
    tracemalloc.start()
    try:
        held = [bytes(100) for _ in range(3)]
        taken = tracemalloc.take_snapshot()
        assert held
    finally:
        tracemalloc.stop()
    return pickle.dumps(taken, pickle.HIGHEST_PROTOCOL)


def profile() -> bytes:
    """A profile of pprof: sample types (field 1), each with the places of two texts, then samples (field 2)."""
    return bytes([0x0A, 4, 8, 1, 16, 2, 0x0A, 4, 8, 3, 16, 4, 0x12, 4, 8, 1, 16, 0x80, 1, 0x32, 0])


#: By the title of the kind: files of it, real ones where the standard library or NumPy writes such.
SAMPLES: dict[str, list[bytes]] = {
    "a capture of memray": [
        # As memray 1.20 writes it, packed with LZ4, and with --no-compress.
        bytes.fromhex("04224d184040c096010000fa046d656d72617900 0d000000f00f0b0300001a00 0100938a8ef0fea101"),
        b"memray\0\x0c\0\0\0\0\x01\0\0",
    ],
    "an archive of torch.save": [
        zipped("archive/data.pkl", "archive/byteorder", "archive/data/0", "archive/version"),
        zipped("model_0/version", "model_0/data.pkl"),
    ],
    "a file of torch.save, as before 1.6": [saved_before_1_6()],
    "a zip archive": [zipped("logs/run.log"), zipped()],
    "an archive of 7-Zip or RAR": [b"7z\xbc\xaf\x27\x1c\0\x04", b"Rar!\x1a\x07\x01\0"],
    "compressed with LZ4, Snappy or compress": [b"\x04\x22\x4d\x18\x64\x40\xa7", b"\xff\x06\0\0sNaPpY", b"\x1f\x9d\x90"],
    "compressed twice": [gzip.compress(gzip.compress(PADDLE))],
    "a snapshot of tracemalloc": [traced()],
    "an SQLite database of Nsight Systems": [
        database("CREATE TABLE StringIds (id INTEGER)", "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)"),
        database("CREATE TABLE TARGET_INFO_GPU (id INTEGER)"),
    ],
    "an SQLite database": [database("CREATE TABLE runs (id INTEGER)")],
    "a profile of pprof": [profile()],
    "a profile of XLA or TensorFlow (.xplane.pb)": [b"\x0a\xd2\x9a\x02\x08\x01\x12\x0d/device:GPU:0\x1a", b"\x0a\x0c\x12\x09/host:CPU"],
    "text in UTF-16, as > of PowerShell writes it": [
        ("\ufeff" + PADDLE.decode()).encode("utf-16-le"),
        PADDLE.decode().encode("utf-16-le"),
        PADDLE.decode().encode("utf-16-be"),
    ],
    "a pickle of something else than a memory snapshot": [
        pickle.dumps([1, 2], 0),
        pickle.dumps({"loss": 1}, 0),
        pickle.dumps(collections.OrderedDict(a=1), 0),
        pickle.dumps(None, 4),
        pickle.dumps(1.5, 2),
    ],
    "a log of RMM's interface of 2019": [
        b"Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\nAlloc,0\n"
    ],
    "a tar archive": [tarred("logs/run.log", b"epoch 1\n")],
    "a pointer of Git LFS, and not the file": [b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"],
    "a page of PyTorch's memory viewer": [b'<!DOCTYPE html>\n<html>\n<script type="module">\nimport {add_local_files} from "https://cdn/MemoryViz.js"'],
    "a page of HTML": [b"\n<html><head><title>run</title></head></html>"],
    "output of nvidia-smi": [
        b"Sat Nov 21 10:00:00 2026       \n+-----------------------+\n| NVIDIA-SMI 535.54.03   Driver Version: 535 |\n",
        b"timestamp, name, memory.used [MiB]\n2024/01/01 00:00:00.000, NVIDIA A100, 15 MiB\n",
        b"# gpu    pwr  gtemp\n# Idx      W      C\n    0     43     35\n",
        b'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n',
    ],
    "a baseline of memlens": [json.dumps({"schema": "memlens.baseline/2", "windows": []}, indent=2).encode()],
    "a result of memlens": [b'{\n  "schema": "memlens.analyze/2", "logs": []}'],
    "a memory snapshot of PyTorch as JSON": [json.dumps({"segments": [{"device": 0}], "device_traces": [[]]}).encode()],
    "a memory timeline of torch.profiler": [json.dumps([[0, 1, 2], [[0, 0], [5, 512]]]).encode(), b"[[-1, 2, 512, 3]]"],
    "a memory profile of TensorFlow": [b'{"numHosts":1,"memoryProfilePerAllocator":{"GPU_0_bfc":{}}}'],
    "a trace of another tool, in the form of Chrome's": [
        json.dumps({"traceEvents": [{"ph": "X", "name": "f", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}).encode(),
        json.dumps([{"ph": "B", "name": "f", "ts": 1, "pid": 1, "tid": 1}]).encode(),
    ],
    "JSON": [b'{"loss": [1, 2]}', b'[\n {"epoch": 1}]', b"{}"],
    "a profile of the heap (gperftools, jemalloc, Massif, Heaptrack, mprof)": [
        b"heap profile:    1:  1024 [     3:  4096] @ heapprofile\n",
        b"heap_v2/524288\n  t*: 28106: 56637512 [0: 0]\n",
        b"desc: --massif-out-file=m.out\ncmd: ./train\n",
        b"CMDLINE python train.py\nMEM 1.5 1600000000.1\n",
    ],
    "a summary of PyTorch's memory": [b"|====================|\n|    PyTorch CUDA memory summary, device ID 0   |\n"],
    "a table of comma-separated values (CSV)": [b"epoch,loss,lr\n1,0.5,0.1\n", b'"a","b c","d"\r\n1,2,3\r\n'],
    "a log of PyTorch without events of its allocator": [
        b"epoch 1\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        b"/site-packages/torch/nn/functional.py:12: UserWarning: x\n",
    ],
    "a log of TensorFlow or JAX without events of an allocator": [
        b"2025-01-01 10:00:00.1: I tensorflow/core/common_runtime/bfc_allocator.cc:1013] Total bytes in pool: 12\n",
        b"INFO:2025-01-01 10:00:00,123:jax._src.xla_bridge:890: Unable to initialize backend 'rocm'\n",
    ],
    "a binary file of a kind that memlens does not know": [
        bytes(range(256)) * 4,
        b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\xc4\x01\n",  # a model of ONNX, which names who wrote it
    ],
}  # fmt: skip
CASES = [(title, number) for title, samples in SAMPLES.items() for number in range(len(samples))]


def write(folder: Path, data: bytes, name: str = "misleading.log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_every_kind_has_a_sample_here() -> None:
    assert [kind.title for kind in UNREAD] == list(SAMPLES)


@pytest.mark.parametrize(("title", "number"), some(CASES, 2))
def test_a_file_of_another_kind_is_named_and_the_way_is_told(tmp_path: Path, title: str, number: int) -> None:
    data = SAMPLES[title][number]
    kind = next(kind for kind in UNREAD if kind.title == title)
    for path in (write(tmp_path, data), write(tmp_path, gzip.compress(data), "packed")):
        with pytest.raises(NoEventsError if kind.text else InputError) as error:
            memlens.read(path)
        assert title in error.value.message
        assert error.value.hint == kind.way
        assert "GLOG" not in f"{error.value.message}{error.value.hint}"
        (found,) = memlens.formats(path).inputs
        if found.format != "kineto":  # which events a trace has stands further on in it
            assert (found.looks_like, found.hint) == (title, kind.way)
            assert found.format == ("paddle" if kind.text else None)


@pytest.mark.parametrize(("title", "number"), [case for case in CASES if case[0] in {kind.title for kind in BINARY}])
def test_nothing_is_cut_out_of_what_has_no_lines(tmp_path: Path, title: str, number: int) -> None:
    with pytest.raises(InputError, match="which memlens does not read"):
        memlens.slice(write(tmp_path, SAMPLES[title][number]), output=tmp_path / "out.log")
    assert not (tmp_path / "out.log").exists()


LOGS = [
    b"epoch 1 loss 2.5\nepoch 2 loss 2.4\n",
    b"[1,0]<stdout>:hello\n",
    b"[2026-11-21 10:00:00] [INFO] epoch 1\n",
    b"[[INFO]] ready\n",
    b"hello, this is, a log, of text\nand so on\n",
    b'{"log":"epoch 1\\n","stream":"stdout","time":"2026-11-21T10:00:00Z"}\n',
    b"# job 17\n# node a\nimported 3 files\n",
    b"compiling\nlinking\n",
    b"import finished\nall is well\n",
    b"grep: no torches here\n",
    b"\x1b[31mW1121 warning\x1b[0m\r\n\tdone\x08\x0c\n",
    "größe: 3 µs → ok\n".encode(),
    "größe\n".encode("latin-1"),
    b"epoch 1\n" + bytes(5000) + b"epoch 2\n",
    b"| NVIDIA-SMI 535 |\npaddle 3.3\nimport torch\n",
    b"PKG 1.2 installed\nmemory of 3 GB\nMZ\n",
    b"v 1.2 of the trainer\n",
    b"",
]


@pytest.mark.parametrize("text", LOGS)
def test_text_that_looks_like_a_log_is_told_how_to_switch_logging_on(tmp_path: Path, text: bytes) -> None:
    assert unread_kind(text) is None
    with pytest.raises(NoEventsError) as error:
        memlens.read(write(tmp_path, text))
    assert ("GLOG_vmodule" in error.value.hint) == bool(text)
    assert "memlens formats" in error.value.hint


def test_how_a_run_ended_that_logged_nothing_is_said() -> None:
    text = b'I am here\nTraceback (most recent call last):\n  File "a.py", line 3, in <module>\n    x()\nValueError: no device\n'
    with pytest.raises(
        NoEventsError, match=r"The run ended with a Python exception \(ValueError\), at line 2\. It may not"
    ):
        memlens.analyze(io.BytesIO(text))


@pytest.mark.parametrize("title", [kind.title for kind in UNREAD if kind.text])
def test_events_that_come_late_are_read_whatever_the_text_begins_like(tmp_path: Path, title: str) -> None:
    if title.startswith("a trace"):
        pytest.skip("JSON that begins like a trace is read as one")
    text = SAMPLES[title][0] + b"\n" + b"nothing yet\n" * 10_000 + PADDLE
    assert memlens.read(write(tmp_path, text)).size.tolist() == [512, 512]


def test_real_logs_look_like_nothing_else(shared: Path, examples: Path) -> None:
    logs = [*sorted((shared / "data" / "paddle").glob("*.log"))[:40], *sorted(examples.glob("*.log"))]
    assert logs
    for path in logs:
        with path.open("rb") as file:
            head = file.read(1 << 16)
        assert unread_kind(head, BINARY) is None, path


HOSTILE = [
    *(b" ", b"\n", b"\0", b"{", b'"', b"[ ", b'{"', b"a,", b'"",', b"a, ", b"# x\n", b"| ", b"<?xml<nvidia"),
    *(b"torcht", b"paddl", b"CUDA_GP"),
]
PREFIXES = [
    *(b"", b"PK\x03\x04", b"SQLite format 3\0", b"{", b"import a\n", b"\x04\x22\x4d\x18", b"<html", b"MZ"),
    *(b"\x80\x04",),
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_text_keeps_the_signatures_busy(prefix: bytes) -> None:
    for piece in HOSTILE:
        head = (prefix + piece * (1 << 16))[: 1 << 16]
        began = time.process_time()
        unread_kind(head)
        assert time.process_time() - began < 1, piece


def test_the_query_for_nsight_systems_gives_rows_that_memlens_reads(tmp_path: Path) -> None:
    """Three allocations of device memory, of 1 MiB, 2 MiB and 4 MiB; the first is freed; one of pinned memory is no such."""
    rows = [
        (1_000_000_000, 0, 0x7F0000000000, 1 << 20, 2, 0),
        (1_500_000_500, 0, 0x7F0000200000, 2 << 20, 2, 0),
        (1_600_000_000, 0, 0x7F0000900000, 8 << 20, 1, 0),
        (2_000_000_000, 0, 0x7F0000000000, 1 << 20, 2, 1),
        (61_000_001_000, 0, 0x7F0000400000, 4 << 20, 2, 0),
        (61_000_002_000, 1, 0x7F0000400000, 4 << 20, 2, 0),
    ]
    with sqlite3.connect(":memory:") as connection:
        connection.execute(
            "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, deviceId INTEGER, address INTEGER, bytes INTEGER,"
            " memKind INTEGER, memoryOperationType INTEGER)"
        )
        connection.executemany("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?,?,?,?,?,?)", reversed(rows))
        lines = [line for (line,) in connection.execute(NSYS_QUERY)]
    log = memlens.read(write(tmp_path, "\n".join(lines).encode() + b"\n"), columns=["time_us"])
    assert log.facts.layer == "rmm"
    assert log.size.tolist() == [1 << 20, 2 << 20, 1 << 20, 4 << 20]
    assert log.kind.tolist() == [0, 0, 1, 0]
    assert log.time_us is not None
    assert np.diff(log.time_us).tolist() == [500_000, 500_000, 59_000_001]


@pytest.mark.parametrize("packed", [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", gzip.compress(PADDLE, mtime=0)[:10]])
def test_a_compressed_file_that_is_cut_before_its_first_byte_is_called_cut(tmp_path: Path, packed: bytes) -> None:
    with pytest.raises(
        NoEventsError, match=r"empty as far as it can be read: the \w+ stream ends in the middle"
    ) as error:
        memlens.read(write(tmp_path, packed))
    assert error.value.hint == "Copy the file again, or wait until the run has closed it."


def test_a_pickle_of_something_else_is_told_how_to_write_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a pickle of something else") as error:
        memlens.read(write(tmp_path, pickle.dumps({"linear.w_0": [1.0, 2.0]})))
    assert "_record_memory_history()" in error.value.hint
    assert "Copy" not in error.value.hint
