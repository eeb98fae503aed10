"""What a reader of lines gives bit by bit is what it gives of the whole input."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from night import some
from texts import mutate, read_packed

from memlens.errors import NoEventsError
from memlens.facts import Kind
from memlens.inputs import Reading
from memlens.inputs.blocks import Blocks
from memlens.inputs.built_in import PADDLE
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import InputFormat, NewEvents, Request, Selection
from memlens.inputs.registry import recognise
from memlens.log import Log
from memlens.source import TextSource

COLUMNS = ("kind", "size", "addr", "offset", "line")


def taken_of(
    form: InputFormat, text: bytes, name: str, chance: random.Random
) -> tuple[list[dict[str, Any]], NewEvents]:
    """All parts of a text, cut at line ends and taken block by block or several together: their columns, and the last one."""
    assert form.lines is not None
    reader = form.lines(TextSource(name, text[:200]), Request(landmarks=True))
    parts: list[dict[str, Any]] = []
    lines, offset = text.splitlines(keepends=True), 0
    while lines:
        count = chance.choice([1, 10, 1000, 10_000])
        piece = b"".join(lines[:count])
        del lines[:count]
        for block in Blocks(io.BytesIO(piece), offset):
            reader.add(reader.read(block))
        offset += len(piece)
        if chance.random() < 0.7 or not lines:
            taken = reader.take(ended=not lines)
            group = np.zeros(len(taken.columns["kind"]), np.int8) if taken.group is None else taken.group
            parts.append({"group": group.copy(), **{column: taken.columns[column].copy() for column in COLUMNS}})
    return parts, taken


def assert_same(parts: list[dict[str, Any]], selected: Selection, log: Log) -> None:
    whole = {name: np.concatenate([part[name] for part in parts]) for name in (*COLUMNS, "group")}
    blocks = whole["kind"] <= Kind.FREE
    mine = np.where(
        blocks, np.isin(whole["group"], list(selected.blocks)), np.isin(whole["group"], list(selected.chunks))
    )
    lines = log.line_numbers(range(len(log)))
    for name in COLUMNS[:-1]:
        np.testing.assert_array_equal(whole[name][mine], getattr(log, name))
    assert whole["line"][mine].tolist() == lines
    assert (selected.device, selected.layer, selected.malformed) == (log.device, log.facts.layer, log.facts.malformed)


@pytest.mark.parametrize("folder", some(["traps", "paddle", "rmm"]))
def test_what_is_taken_bit_by_bit_is_what_is_read_at_once(shared: Path, tmp_path: Path, folder: str) -> None:
    compared = set()
    for path in some(sorted((shared / "data" / folder).iterdir(), reverse=True)):
        if not path.is_file() or ".stats." in path.name or path.suffix == ".md":
            continue
        chance, text = random.Random(path.name), read_packed(path)
        if len(text) > 20_000_000:
            continue
        for damaged in (False, True):
            plain = tmp_path / path.name.replace(".gz", "").replace(".zst", "")
            plain.write_bytes(mutate(text, chance) if damaged else text)
            try:
                (log,) = Reading(landmarks=True).read_all(plain)
            except NoEventsError:
                continue
            form = recognise(FileSource(plain)).format
            parts, last = taken_of(form, plain.read_bytes(), str(plain), chance)
            assert_same(parts, last.selected[0], log)
            assert (last.lines, last.end, last.ooms) == (log.facts.lines, log.facts.bytes, len(log.facts.ooms))
            compared.add(log.facts.layer)
    assert compared >= (
        {"auto_growth"} if folder == "traps" else {"rmm"} if folder == "rmm" else {"stream_safe", "naive_best_fit"}
    )


def test_a_reader_forgets_what_was_taken() -> None:
    assert PADDLE.lines is not None
    reader = PADDLE.lines(TextSource("log"), Request())
    for size in (256, 512):
        for block in Blocks(io.BytesIO(b"] Alloc %d bytes, ptr = 0x10\n" % size)):
            reader.add(reader.read(block))
        assert reader.take().columns["size"].tolist() == [size]
    assert reader.take().columns["size"].tolist() == []
