"""The profiles for speedscope, by its published format, with figures counted event by event."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pytest
from memory_source import MemorySource

import memlens
from memlens.events import Kind
from memlens.exporting.profiles import Frame
from memlens.log import Log

Frames = Annotated[int, msgspec.Meta(ge=0)]


# What https://www.speedscope.app/file-format-schema.json asks of a file with sampled profiles.
class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class _Frame(_Strict):
    name: str
    file: str = ""
    line: float = 0
    col: float = 0


class _Sampled(_Strict):
    type: Literal["sampled"]
    name: str
    unit: Literal["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"]
    start_value: float
    end_value: float
    samples: list[list[Frames]]
    weights: list[float]


class _Shared(_Strict):
    frames: list[_Frame]


class _Speedscope(_Strict):
    schema: Literal["https://www.speedscope.app/file-format-schema.json"] = msgspec.field(name="$schema")
    profiles: list[_Sampled]
    shared: _Shared
    active_profile_index: float = 0
    exporter: str = ""
    name: str = ""


NASTY = "</script>\x1b]0;x\x07"
OWNERS = ("matmul", "relu < net.py:7 forward < train.py:3 <module>", "aten::add < a/b.py(12): f", NASTY)


def made() -> Log:
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
    return Log.from_rows(
        [row[:3] for row in rows], owner=owner, owner_names=OWNERS, source=MemorySource(name="made.log")
    )


SHOWN = r"</script>\x1b]0;x\x07"
#: Bytes allocated, by stack, outermost frame first, and bytes live at the peak; counted by hand.
ALLOCATED = {
    ("matmul",): 100,
    ("<module>", "forward", "relu"): 120,
    ("f", "aten::add"): 60,
    ("(owner not known)", "blocks of 10 B"): 10,
    (SHOWN,): 5,
}
LIVE = {("<module>", "forward", "relu"): 120, ("f", "aten::add"): 60}


def speedscope(log: Any, folder: Path, **options: Any) -> dict[str, Any]:
    memlens.export(log, to="speedscope", output=folder / "run.speedscope.json", force=True, **options)
    data = (folder / "run.speedscope.json").read_bytes()
    assert data.isascii()
    document = json.loads(data)
    msgspec.json.decode(data, type=_Speedscope)
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
    assert weights(document, 0) == LIVE
    assert weights(document, 1) == ALLOCATED
    assert document["profiles"][0]["name"] == "live at the peak of 180 B"
    assert {"name": "forward", "file": "net.py", "line": 7} in document["shared"]["frames"]


@pytest.mark.parametrize(("count", "named"), [(64, "blocks of 63 B"), (65, "blocks of 32 B and more")])
def test_blocks_without_an_owner_are_told_apart_by_size(tmp_path: Path, count: int, named: str) -> None:
    rows = [(Kind.ALLOC, size, 16 * size) for size in range(1, count + 1)]
    found = weights(speedscope(Log.from_rows(rows, source=MemorySource(name="made.log")), tmp_path), 0)
    assert sum(found.values()) == sum(range(1, count + 1))
    assert found[(named,)] == (63 if count == 64 else sum(range(32, 64)))


def test_a_frame_is_told_apart_into_function_file_and_line() -> None:
    assert Frame.of("net.py:7 forward") == Frame("forward", "net.py", 7)
    assert Frame.of("torch/nn/linear.py(130): forward") == Frame("forward", "torch/nn/linear.py", 130)
    assert Frame.of("/a b/x.cpp:0 at::f(int, int)") == Frame("at::f(int, int)", "/a b/x.cpp", 0)
    assert Frame.of("??:0 clone") == Frame.of(":0 clone") == Frame("clone")
    assert Frame.of("pd_op.matmul") == Frame("pd_op.matmul")


def test_the_profiles_of_a_snapshot_add_up_to_its_peak_by_whole_call_stacks(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "torch"
    name = "medium_512_training.pickle"
    (expected,) = json.loads((folder / "expected.json").read_text())[name].values()
    document = speedscope(folder / "snapshots" / name, tmp_path)
    assert document["profiles"][0]["endValue"] == expected["peak_allocated"]
    log = memlens.read(folder / "snapshots" / name)
    allocs = log.kind[log.facts.opening :] == Kind.ALLOC
    assert document["profiles"][1]["endValue"] == int(log.size[log.facts.opening :][allocs].sum())
    assert max(map(len, weights(document, 1))) > 6  # more than the name of an owner has


def test_the_published_schema_of_speedscope_is_kept(tmp_path: Path) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    folder = os.environ.get("MEMLENS_NODE_MODULES")
    if not folder:
        pytest.skip("needs MEMLENS_NODE_MODULES: a folder with the npm package speedscope")
    published = json.loads((Path(folder) / "speedscope/dist/release/file-format-schema.json").read_text())
    jsonschema_rs.validate(published, speedscope(made(), tmp_path))
