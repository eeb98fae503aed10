"""What comes from a cache is what reading gives: every real log, every column, every result to the byte."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlens
from memlens.caching.entries import read_facts
from memlens.errors import MemlensError
from memlens.events import EventLog
from memlens.folding import condenser
from memlens.inputs import Reading, blocks
from memlens.lifetimes import odd_frees
from memlens.options import ReadAs
from memlens.source import Source

pytest.importorskip("xxhash", reason="sums up what is kept")

#: The largest one, of which there are smaller ones like it.
LARGE = frozenset({"transformer_6l_26steps.json.gz"})
FOLDERS = ("paddle", "paddle/shapes", "torch/snapshots", "torch/kineto", "rmm", "traps")


def logs_in(folder: Path) -> list[Path]:
    own = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in LARGE]
    return [path for path in own if ".stats." not in path.name and path.suffix not in (".md", ".py")]


def unlike(one: Any, other: Any, where: str = "log") -> list[str]:
    """Where two values differ: arrays in type or entries, sources in what they say of some lines."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        same = type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
        return [] if same else [where]
    if type(one) is not type(other):
        return [where]
    if isinstance(one, Source):
        return [] if one.name == other.name and one.rereadable == other.rereadable else [where]
    if is_dataclass(one) or (isinstance(one, tuple) and hasattr(one, "_fields")):
        names = [spec.name for spec in fields(one)] if is_dataclass(one) else one._fields
        return [
            place for name in names for place in unlike(getattr(one, name), getattr(other, name), f"{where}.{name}")
        ]
    return [] if one == other else [where]


def of_lines(log: EventLog) -> list[Any]:
    """What a log's source says of a hundred of its events."""
    events = np.linspace(0, len(log) - 1, min(100, len(log))).astype(np.int64)
    offsets = log.offset[events].tolist()
    numbers = log.source.stack_numbers(log.offset[events])
    return [
        log.line_numbers(events.tolist()),
        log.source.line_numbers(offsets),
        log.source.lines(offsets),
        [log.source.stack(offset) for offset in offsets],
        None if numbers is None else numbers.tolist(),
    ]


def differences(plain: Sequence[EventLog], kept: Sequence[EventLog]) -> list[str]:
    found = [] if len(plain) == len(kept) else ["logs"]
    for one, other in zip(plain, kept, strict=False):
        found += unlike(one, other)
        found += unlike(one.lifetimes, other.lifetimes, "lifetimes")
        found += unlike(odd_frees(one), odd_frees(other), "odd")
        found += [] if of_lines(one) == of_lines(other) else ["lines"]
    return found


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.memlens")}


def read(path: Path, cache: str | Path, **wanted: Any) -> Any:
    """The logs of a file, or its error."""
    how = ReadAs(cache=cache)
    try:
        return Reading(how=how, landmarks=True, **wanted).read_all(path)
    except MemlensError as error:
        return str(error)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("wanted", [{}, {"times": True, "threads": True}], ids=["plain", "all columns"])
def test_every_real_log_is_the_same_from_a_cache(
    shared: Path, tmp_path: Path, folder: str, wanted: dict[str, bool]
) -> None:
    for path in logs_in(shared / "data" / folder):
        plain, cold = read(path, "off", **wanted), read(path, tmp_path, **wanted)
        kept = entries(tmp_path)
        warm = read(path, tmp_path, **wanted)
        if isinstance(plain, str):
            assert plain == cold == warm, path
            continue
        assert not differences(plain, cold), path
        assert kept, f"{path} was not kept"
        assert not differences(plain, warm), path
        assert any(log.kind.base is not None and not log.kind.flags.writeable for log in warm), f"{path}: read anew"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_result_of_a_real_log_is_the_same_to_the_byte(shared: Path, tmp_path: Path, folder: str) -> None:
    paths = logs_in(shared / "data" / folder)

    def results(cache: str | Path) -> list[str]:
        found = memlens.analyze(paths, cache=cache, top=None).to_dict()
        assert len(found["logs"]) >= len(paths) - len(found.get("failures", ()))
        return [json.dumps(log) for log in found["logs"]] + [json.dumps(found.get("failures"))]

    plain = results("off")
    assert results(tmp_path) == plain
    assert results(tmp_path) == plain
    compared = [json.dumps(memlens.compare(paths, cache=cache, jobs=1).to_dict()) for cache in ("off", tmp_path)]
    assert compared[0] == compared[1]


PAIRS = (
    ("paddle/30_ast_transformer_pt.log", "paddle/30_ast_transformer_pir.log"),
    ("paddle/05_fixed_331.log.gz", "paddle/05_leak_graph_331.log.gz"),
    ("traps/threads_base.log.gz", "traps/threads_head.log.gz"),
    ("traps/cut_base.log.gz", "traps/cut_head.log.gz"),
    ("traps/good.log.gz", "traps/late_leak.log.gz"),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: Path(pair[1]).name)
def test_diffs_and_verdicts_of_real_runs_are_the_same_to_the_byte(
    shared: Path, tmp_path: Path, pair: tuple[str, str]
) -> None:
    base, head = (shared / "data" / name for name in pair)
    log = memlens.read(head)
    (line,) = log.line_numbers([int((log.kind == memlens.Kind.ALLOC).argmax())])
    assert line is not None

    def said(cache: str | Path) -> list[str]:
        return [
            json.dumps(result.to_dict())
            for result in (
                memlens.diff(base, head, cache=cache),
                memlens.gate(head, base_log=base, cache=cache, trust=False),
                memlens.block(head, line, cache=cache),
            )
        ]

    plain = said("off")
    assert said(tmp_path) == plain
    assert said(tmp_path) == plain


def test_windows_of_every_kind_are_the_same_to_the_byte(shared: Path, tmp_path: Path) -> None:
    """Anchors known from an earlier reading, and those that are looked for in the text of a log that was kept."""
    path = shared / "data/paddle/05_leak_graph_331.log.gz"
    asked = [
        {"by": r"STEP (\d+)"},
        {"start": "STEP 3 START", "end": "STEP 3 END"},
        {"by": "START", "end_regex": "END"},
        {"start": "no such line"},
        {"by": "("},
    ]

    def said(**options: Any) -> str:
        try:
            return json.dumps(memlens.analyze(path, **options).to_dict())
        except MemlensError as error:
            return str(error)

    for options in asked:
        plain = said(**options)
        assert [said(cache=tmp_path, **options) for _ in range(3)] == [plain] * 3
    for options in asked:
        folder = tmp_path / str(options)
        said(cache=folder)  # without any anchor
        assert said(cache=folder, **options) == said(**options)


def test_a_log_of_ones_own_format_with_several_devices_is_the_same(tmp_path: Path) -> None:
    formats, log = tmp_path / "own.toml", tmp_path / "own.log"
    formats.write_text(
        "[[format]]\nname = 'own'\nliteral = ' at '\n"
        "regex = '(?P<kind>got|gave) (?P<size>[0-9]+) at (?P<addr>0x[0-9a-f]+) on (?P<device>[0-9]+)'\n"
        "alloc = ['got']\nfree = ['gave']\n"
        "samples = [{ line = 'got 12 at 0xff on 0', kind = 'ALLOC', size = 12, addr = 0xff }]\n"
    )
    log.write_text("got 100 at 0x10 on 0\ngot 50 at 0x10 on 1\nSTEP 1\ngave 100 at 0x10 on 0\ngot 7 at 0x20 on 1\n")
    plain = memlens.analyze(log, formats=formats, cache="off", top=None).to_dict()
    kept = [memlens.analyze(log, formats=formats, cache=tmp_path / "c", top=None).to_dict() for _ in range(2)]
    assert len(plain["logs"]) == 2
    assert kept == [plain, plain]
    assert entries(tmp_path / "c")


EXPORTED = ("paddle/05_leak_graph_331.log.gz", "torch/snapshots", "torch/kineto", "rmm/rmm_log.dev0.csv")


@pytest.mark.parametrize("name", EXPORTED)
def test_pages_pictures_and_exports_are_the_same_to_the_byte(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "data" / name
    path = logs_in(path)[0] if path.is_dir() else path
    device = memlens.analyze(path).logs[0].device
    more: dict[str, Any] = {"device": int(device.removeprefix("device "))} if device else {}

    def written(cache: str | Path) -> list[bytes]:
        files = []
        for to, table in (("csv", "events"), ("jsonl", "lifetimes"), ("perfetto", "events"), ("speedscope", "events")):
            memlens.export(path, to=to, table=table, output=tmp_path / "out", force=True, cache=cache, **more)
            files.append((tmp_path / "out").read_bytes())
        memlens.plot(path, cache=cache, **more).save(tmp_path / "out.svg", force=True)
        memlens.report(path, cache=cache, **more).save(tmp_path / "out.html", force=True)
        return [*files, (tmp_path / "out.svg").read_bytes(), (tmp_path / "out.html").read_bytes()]

    plain = written("off")
    assert written(tmp_path / "c") == plain
    assert written(tmp_path / "c") == plain


def test_runs_that_several_processes_read_are_the_same_to_the_byte(shared: Path, tmp_path: Path) -> None:
    paths = [path for path in logs_in(shared / "data/paddle") if path.name.startswith(("05", "09", "30b2"))]
    plain = memlens.compare(paths, jobs=2).to_dict()
    assert len(plain["runs"]) == len(paths)
    for _ in range(2):
        assert memlens.compare(paths, jobs=2, cache=tmp_path).to_dict() == plain
    assert len({log.path for log in memlens.cache(cache=tmp_path).logs}) >= len(paths) - 1
    assert sum(log.hits for log in memlens.cache(cache=tmp_path).logs) >= len(paths) - 1


#: Bytes that an event takes by the option ``memory``.
OF_EVENT = 128


@pytest.mark.parametrize("cut", [{}, {"by": r"(?i)(step|SOT_CALL)[ _]\d+"}], ids=["whole", "by"])
def test_logs_whose_events_are_not_all_kept_in_memory_are_the_same_to_the_byte(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: dict[str, Any]
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 15)  # events are dropped after each block
    monkeypatch.setattr(condenser, "FIRST_EVENTS", 0)
    paths = [path for name in ("paddle", "rmm", "traps") for path in logs_in(shared / "data" / name)]
    paths = [path for path in paths if path.stat().st_size < 300_000][:: 9 if cut else 4]

    def said(cache: str | Path, events: int = 50) -> dict[str, Any]:
        return memlens.analyze(paths, memory=events * OF_EVENT, cache=cache, top=None, **cut).to_dict()

    plain = said("off")
    assert said(tmp_path) == plain
    kept = [read_facts(str(path), [os.geteuid()]).facts["asked"] for path in tmp_path.iterdir()]
    assert len([asked for asked in kept if asked.get("most_events") == 50]) > 2
    assert said(tmp_path) == plain
    assert sum(log.hits for log in memlens.cache(cache=tmp_path).logs) >= len(plain["logs"]) - 2
    assert said(tmp_path, 0) == said("off", 0)  # what is kept of some events is no answer where all are asked for
    assert said(tmp_path, 30) == said("off", 30)
    assert said(tmp_path) == plain
