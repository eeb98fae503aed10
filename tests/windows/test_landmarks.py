"""Lines that may mark the work of a run are all found while a log is read, however it is read, and no others."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.errors import MemlensError
from memlens.inputs import Reading, blocks
from memlens.inputs.input_format import Request
from memlens.options import ReadAs
from memlens.windows import landmarks
from memlens.windows.anchor_discovery import family
from memlens.windows.anchors import landmarks_of
from memlens.windows.landmarks import Landmarks, landmarks_in_block
from memlens.windows.patterns import clean_line

ALLOC = b"I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x5606f8aeb000\n"
SAYS_SO = re.compile(
    rb"round|ROUND|Round|request|REQUEST|Request|sample|SAMPLE|Sample|start|START|Start|begin|BEGIN|Begin|step|STEP|Step|epoch|EPOCH|Epoch|iter|ITER|Iter|batch|BATCH|Batch|loss|LOSS|Loss|END|End|it/s|s/it"
)
AT_MARGIN = re.compile(rb"(?![IWEF][0-9]|\r\n)[A-Za-z0-9 \t\[({#=*\-<>_+~|'\r\b\x1b\x80-\xff]")


def by_hand(text: bytes, *, thinned: bool = False) -> Landmarks:
    """Line by line: it begins at the margin, without a header of glog, and, where there are very many, holds a word of anchors."""
    rows, offset, seen = [], 0, False
    for number, line in enumerate(
        text.splitlines(keepends=True) if b"\r" not in text else re.findall(rb"[^\n]*\n|[^\n]+", text), 1
    ):
        at_margin = AT_MARGIN.match(line) is not None
        seen |= at_margin
        if at_margin and (SAYS_SO.search(line) or not thinned):
            rows.append((offset, number, clean_line(line)[:401]))
        offset += len(line)
    offsets, numbers, texts = zip(*rows, strict=True) if rows else ((), (), ())
    return Landmarks(offsets, numbers, texts, thinned=thinned and seen)


def read(where: object) -> Landmarks | None:
    (log,) = Reading(landmarks=True).read_all(where)  # type: ignore[arg-type]
    return log.landmarks


WORDS = [b"START", b"start", b"Begin", b"STEP 3", b"restarted", b"ITER", b"END", b"append", b"End", b"epoch: 3", b"batch", b"loss=0.5",
         b"I1120 10:22:32.856307 13292 x.cc:1] step", b"\x1b[32m", b"\xe5\xa7\x8b", b" ", b"\t", b"\r", b'{"step": 1}', b"[", b"W0 ", b"x" * 500, b"\0"]  # fmt: skip


def hostile(chance: random.Random, lines: int) -> bytes:
    made = [b"".join(chance.choices(WORDS, k=chance.randint(0, 6))) + b"\n" if chance.random() < 0.5 else ALLOC for _ in range(lines)]  # fmt: skip
    return ALLOC + b"".join(made) + chance.choice([b"", b"STEP 9 START", b"noise"])


def test_a_reader_finds_the_lines_that_a_look_at_each_line_finds(
    tmp_path: Path, rounds: Callable[[int], range], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in rounds(20):
        chance = random.Random(seed)
        text = hostile(chance, chance.randint(1, 300))
        path = tmp_path / f"{seed}.log"
        path.write_bytes(text)
        monkeypatch.setattr(blocks, "BLOCK_BYTES", chance.choice([1 << 10, 1 << 13, 1 << 21]))
        for few, thinned in ((1 << 30, False), (-1, True)):
            monkeypatch.setattr(landmarks, "_FEW", few)
            monkeypatch.setattr(landmarks, "_SPARSE", 1 << 30 if thinned else 1)
            assert read(path) == by_hand(text, thinned=thinned), seed
            assert read(io.BytesIO(text)) == by_hand(text, thinned=thinned), seed
            found = landmarks_in_block(np.frombuffer(text, np.uint8), 0, 1)
            assert found == by_hand(text, thinned=thinned), seed


@given(st.lists(st.sampled_from([*b"\n\nI0W xa\r\xe5"])).map(bytes), st.integers(0, 3), st.integers(1, 90))
def test_the_lines_at_the_margin_compiled_are_those_of_the_reference(text: bytes, room: int, times: int) -> None:
    """Of short texts, and of those beyond the 1,024 bytes that are looked at together."""
    block = np.frombuffer(text * times, np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landmarks, "_ROOM", room)
        starts, lines, every = landmarks.lines_at_margin(block)
    wanted = landmarks.reference_lines_at_margin(block)
    assert (starts.tolist(), lines.tolist(), every) == (wanted[0].tolist(), wanted[1].tolist(), wanted[2])


def test_a_log_full_of_lines_at_the_margin_keeps_those_with_a_word_of_anchors(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"".join(b"STEP %d START\n" % k + b"noise\n" * 30 + ALLOC * 2 for k in range(20)))
    assert read(path) == by_hand(path.read_bytes(), thinned=True)


def test_where_there_are_more_than_are_kept_of_a_block_those_with_a_word_of_anchors_are() -> None:
    """However few they are among the lines of the framework: one in twelve here, 3,000 in all."""
    text = b"".join((b"STEP %d START\n" % k + b"noise\n" * 300 + ALLOC * 3600) for k in range(10))
    found = landmarks_in_block(np.frombuffer(text, np.uint8), 0, 1)
    assert found == by_hand(text, thinned=True)


def test_logs_of_rmm_and_of_users_have_them(tmp_path: Path) -> None:
    rows = ["Thread,Time,Action,Pointer,Size,Stream"]
    for step in range(4):
        rows += [f"STEP {step} START", f"1,10:00:00.00000{step},allocate,0x{step + 1}00,256,0"]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(rows) + "\n")
    assert read(path) == by_hand(path.read_bytes())
    formats = tmp_path / "formats.toml"
    formats.write_text(
        '[[format]]\nname = "mine"\nliteral = "take "\nregex = "(?P<kind>take) (?P<size>[0-9]+) at (?P<addr>0x[0-9a-f]+)"\n'
        'alloc = ["take"]\nsamples = ["take 1 at 0x1"]\n'
    )
    own = tmp_path / "own.log"
    own.write_text("".join(f"iteration {k} begins\ntake 256 at 0x{k + 1}\n" for k in range(4)))
    (log,) = Reading(landmarks=True, how=ReadAs(formats=formats)).read_all(own)
    assert log.landmarks == by_hand(own.read_bytes())


def test_they_are_looked_for_where_they_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"STEP 0 START\n" + ALLOC)
    (log,) = Reading().read_all(path)
    assert log.landmarks is None
    assert landmarks_of(log) == by_hand(path.read_bytes())
    assert not Request().landmarks


def test_a_log_full_of_them_says_that_there_are_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"".join(b"STEP %d START\n" % k + ALLOC * 2 for k in range(50)))
    assert read(path) == by_hand(path.read_bytes())
    for name, most in (("_MOST_OF_BLOCK", 20), ("MOST_LANDMARKS", 30)):
        with monkeypatch.context() as patch:
            patch.setattr(landmarks, name, most)
            (log,) = Reading(landmarks=True).read_all(path)
            assert log.landmarks is not None
            assert (len(log.landmarks.offsets), log.landmarks.complete) == (most, False)
            # The family is that of all lines, or none where they cannot be seen again.
            found = family(log)
            assert found is not None
            assert len(found.anchors[0]) == 50
            (piped,) = Reading(landmarks=True).read_all(io.BytesIO(path.read_bytes()))
            assert family(piped) is None


def test_real_logs_have_them(shared: Path) -> None:
    for path in sorted((shared / "data" / "paddle").glob("*.log")):
        try:
            found = read(path)
        except MemlensError:
            continue  # logs without events
        assert found == by_hand(path.read_bytes(), thinned=found is not None and found.thinned), path.name
        assert (found is not None and found.thinned) == (path.name == "06_noprefix.log"), path.name
