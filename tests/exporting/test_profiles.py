"""The profiles for speedscope and pprof, by their published formats, with figures counted event by event."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlens
from memlens.events import EventLog, Kind
from memlens.exporting.profiles import Frame
from memlens.source import MemorySource

jsonschema: Any = pytest.importorskip("jsonschema")  # by its name: it has no types
#: What https://www.speedscope.app/file-format-schema.json asks of a file with sampled profiles.
SAMPLED = {
    "type": "object",
    "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
    "additionalProperties": False,
    "properties": {
        "type": {"const": "sampled"},
        "name": {"type": "string"},
        "unit": {"enum": ["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"]},
        "startValue": {"type": "number"},
        "endValue": {"type": "number"},
        "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
        "weights": {"type": "array", "items": {"type": "number"}},
    },
}
FRAME = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "file": {"type": "string"},
        "line": {"type": "number"},
        "col": {"type": "number"},
    },
}
SPEEDSCOPE = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "activeProfileIndex": {"type": "number"},
        "exporter": {"type": "string"},
        "name": {"type": "string"},
        "profiles": {"type": "array", "items": SAMPLED},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "additionalProperties": False,
            "properties": {"frames": {"type": "array", "items": FRAME}},
        },
    },
}

NASTY = "</script>\x1b]0;x\x07"
OWNERS = ("matmul", "relu < net.py:7 forward < train.py:3 <module>", "aten::add < a/b.py(12): f", NASTY)


def made() -> EventLog:
    rows = (
        (Kind.ALLOC, 100, 16, 0),
        (Kind.ALLOC, 50, 32, 1),
        (Kind.FREE, 100, 16, 0),
        (Kind.ALLOC, 70, 48, 1),
        (Kind.ALLOC, 60, 64, 2),  # the peak: 50 + 70 + 60
        (Kind.FREE, 50, 32, -1),
        (Kind.ALLOC, 10, 80, -1),
        (Kind.ALLOC, 5, 96, 3),
    )
    owner = np.array([row[3] for row in rows], np.int32)
    return EventLog.from_rows(
        [row[:3] for row in rows], owner=owner, owner_names=OWNERS, source=MemorySource(name="made.log")
    )


SHOWN = r"</script>\x1b]0;x\x07"
#: By outermost frame first: blocks and bytes allocated, blocks and bytes live at the peak; counted by hand.
EXPECTED = {
    ("matmul",): (1, 100, 0, 0),
    ("<module>", "forward", "relu"): (2, 120, 2, 120),
    ("f", "aten::add"): (1, 60, 1, 60),
    ("(owner not known)",): (1, 10, 0, 0),
    (SHOWN,): (1, 5, 0, 0),
}


def speedscope(log: Any, folder: Path, **options: Any) -> dict[str, Any]:
    memlens.export(log, to="speedscope", output=folder / "run.speedscope.json", force=True, **options)
    data = (folder / "run.speedscope.json").read_bytes()
    assert data.isascii()
    document = json.loads(data)
    jsonschema.validate(document, SPEEDSCOPE)
    assert isinstance(document, dict)
    return document


def weights(document: dict[str, Any], number: int) -> dict[tuple[str, ...], int]:
    names = [frame["name"] for frame in document["shared"]["frames"]]
    profile = document["profiles"][number]
    assert profile["endValue"] == sum(profile["weights"])
    found: Counter[tuple[str, ...]] = Counter()
    for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
        found[tuple(names[frame] for frame in sample)] += weight
    return dict(found)


def test_speedscope_gets_what_is_live_at_the_peak_and_what_was_allocated(tmp_path: Path) -> None:
    document = speedscope(made(), tmp_path)
    assert weights(document, 0) == {stack: row[3] for stack, row in EXPECTED.items() if row[2]}
    assert weights(document, 1) == {stack: row[1] for stack, row in EXPECTED.items()}
    assert document["profiles"][0]["name"] == "live at the peak of 180 B"
    assert {"name": "forward", "file": "net.py", "line": 7} in document["shared"]["frames"]


def test_a_frame_is_told_apart_into_function_file_and_line() -> None:
    assert Frame.of("net.py:7 forward") == Frame("forward", "net.py", 7)
    assert Frame.of("torch/nn/linear.py(130): forward") == Frame("forward", "torch/nn/linear.py", 130)
    assert Frame.of("/a b/x.cpp:0 at::f(int, int)") == Frame("at::f(int, int)", "/a b/x.cpp", 0)
    assert Frame.of("??:0 clone") == Frame.of(":0 clone") == Frame("clone")
    assert Frame.of("pd_op.matmul") == Frame("pd_op.matmul")


def read_pprof(path: Path) -> Any:
    """The file by profile.proto, whose messages are described here again field by field."""
    names = ("descriptor_pb2", "descriptor_pool", "message_factory")
    descriptor_pb2, descriptor_pool, message_factory = (
        pytest.importorskip(f"google.protobuf.{name}") for name in names
    )
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    kinds = {"int64": 3, "uint64": 4, "string": 9, "bool": 8}
    described = {
        "Profile": "1*ValueType sample_type,2*Sample sample,3*Mapping mapping,4*Location location,5*Function function,"
        "6*string string_table,7 int64 drop_frames,8 int64 keep_frames,9 int64 time_nanos,10 int64 duration_nanos,"
        "11 ValueType period_type,12 int64 period,13*int64 comment,14 int64 default_sample_type",
        "ValueType": "1 int64 type,2 int64 unit",
        "Sample": "1*uint64 location_id,2*int64 value,3*Label label",
        "Label": "1 int64 key,2 int64 str,3 int64 num,4 int64 num_unit",
        "Mapping": "1 uint64 id",
        "Location": "1 uint64 id,2 uint64 mapping_id,3 uint64 address,4*Line line,5 bool is_folded",
        "Line": "1 uint64 function_id,2 int64 line",
        "Function": "1 uint64 id,2 int64 name,3 int64 system_name,4 int64 filename,5 int64 start_line",
    }
    for name, listed in described.items():
        message = file.message_type.add(name=name)
        for entry in listed.split(","):
            head, field = entry.replace("*", " * ").rsplit(" ", 1)
            number, *star, kind = head.split()
            one = message.field.add(name=field, number=int(number), label=3 if star else 1)
            one.type = kinds.get(kind, 11)
            if one.type == 11:
                one.type_name = f".p.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))()
    data = gzip.decompress(path.read_bytes())
    profile.ParseFromString(data)
    known = profile.SerializeToString()
    profile.DiscardUnknownFields()
    assert profile.SerializeToString() == known  # there is nothing that the format does not know
    return profile


def samples(profile: Any) -> dict[tuple[str, ...], tuple[int, ...]]:
    text = profile.string_table
    assert text[0] == ""
    function = {one.id: text[one.name] for one in profile.function}
    location = {one.id: function[one.line[0].function_id] for one in profile.location}
    assert 0 not in function
    assert 0 not in location
    found: dict[tuple[str, ...], tuple[int, ...]] = {}
    for sample in profile.sample:  # stacks may differ in their lines alone
        stack = tuple(location[number] for number in reversed(sample.location_id))
        before = found.get(stack, (0, 0, 0, 0))
        found[stack] = tuple(map(sum, zip(before, sample.value, strict=True)))
    return found


def test_pprof_gets_the_four_values_of_a_heap_profile(tmp_path: Path) -> None:
    path = tmp_path / "run.pb.gz"
    written = memlens.export(made(), to="pprof", output=path)
    profile = read_pprof(path)
    text = profile.string_table
    assert [(text[one.type], text[one.unit]) for one in profile.sample_type] == [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ]
    assert samples(profile) == EXPECTED
    assert written.rows == len(EXPECTED)
    assert text[profile.default_sample_type] == "inuse_space"
    files = {one.id: text[one.filename] for one in profile.function}
    lines = {(files[line.function_id], line.line) for one in profile.location for line in one.line}
    assert lines == {("", 0), ("net.py", 7), ("train.py", 3), ("a/b.py", 12)}


def test_the_profiles_of_a_snapshot_add_up_to_its_peak_by_whole_call_stacks(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "torch"
    name = "medium_512_training.pickle"
    (expected,) = json.loads((folder / "expected.json").read_text())[name].values()
    document = speedscope(folder / "snapshots" / name, tmp_path)
    assert document["profiles"][0]["endValue"] == expected["peak_allocated"]
    memlens.export(folder / "snapshots" / name, to="pprof", output=tmp_path / "run.pb.gz")
    found = samples(read_pprof(tmp_path / "run.pb.gz"))
    assert sum(values[3] for values in found.values()) == expected["peak_allocated"]
    log = memlens.read(folder / "snapshots" / name)
    allocs = log.kind[log.facts.opening :] == Kind.ALLOC
    assert sum(values[0] for values in found.values()) == int(allocs.sum())
    assert sum(values[1] for values in found.values()) == int(log.size[log.facts.opening :][allocs].sum())
    assert max(map(len, found)) > 6  # more than the name of an owner has


def test_a_window_has_a_profile_of_its_own(tmp_path: Path, shared: Path) -> None:
    log = shared / "data" / "paddle" / "30_sot_cnn_breaks_pir.log"
    window = memlens.analyze(log, start="START SOT_CALL_3", end="START SOT_CALL_4").logs[0].windows[0]
    document = speedscope(log, tmp_path, start="START SOT_CALL_3", end="START SOT_CALL_4")
    assert [profile["endValue"] for profile in document["profiles"]] == [
        window.results["peak"].peak_bytes,
        window.results["stats"].alloc_bytes,
    ]


def packages() -> Path:
    """A folder of npm's with the tools that open these files; nothing is ever downloaded by a test."""
    folder = os.environ.get("MEMLENS_NODE_MODULES", "")
    if not folder or shutil.which("node") is None:
        pytest.skip("needs Node, and MEMLENS_NODE_MODULES: a folder with the npm packages speedscope and pprof-format")
    return Path(folder)


def test_the_published_schema_of_speedscope_is_kept(tmp_path: Path) -> None:
    published = json.loads((packages() / "speedscope/dist/release/file-format-schema.json").read_text())
    jsonschema.validate(speedscope(made(), tmp_path), published)


def test_the_reader_of_npm_reads_the_profile(tmp_path: Path) -> None:
    memlens.export(made(), to="pprof", output=tmp_path / "run.pb.gz")
    script = (
        "const { Profile } = require('pprof-format'); const fs = require('fs');"
        "const p = Profile.decode(require('zlib').gunzipSync(fs.readFileSync(process.argv[1])));"
        "console.log(JSON.stringify(p.sample.map((s) => s.value.map(Number))));"
    )
    done = subprocess.run(
        ["node", "-e", script, tmp_path / "run.pb.gz"],
        env={**os.environ, "NODE_PATH": str(packages())},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert sorted(map(tuple, json.loads(done.stdout))) == sorted(EXPECTED.values())
