"""Inputs are cut into blocks at line ends, and nothing is lost or doubled, whatever the threads do."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import in_small_blocks
from night import many

from memlens.inputs import blocks
from memlens.inputs.blocks import Block, in_order
from memlens.inputs.streams import open_bytes

Piece = tuple[int, bytes, bool]


def piece(block: Block) -> Piece:
    return block.offset, block.text.tobytes(), block.cut


def check(pieces: list[Piece], text: bytes, size: int, longest: int) -> None:
    assert b"".join(part for _, part, _ in pieces) == text
    assert [offset for offset, _, _ in pieces] == [
        sum(len(part) for _, part, _ in pieces[:k]) for k in range(len(pieces))
    ]
    for _, part, cut in pieces[:-1]:
        assert part.endswith(b"\n") != cut
        assert not cut or len(part) >= longest
        assert len(part) <= size or b"\n" not in part[:-1]  # more than a block only where a line is longer


lines = st.lists(st.integers(0, 400), max_size=40).map(lambda sizes: b"\n".join(b"x" * size for size in sizes))


@given(lines, st.booleans(), st.integers(20, 300), st.sampled_from([100, 700]), st.sampled_from([1, 3]))
@settings(max_examples=many(150))
def test_files_and_streams_are_cut_at_line_ends(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, ended: bool, size: int, longest: int, threads: int
) -> None:
    text += b"\n" * ended
    path = tmp_path_factory.mktemp("cut") / "run.log"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch, in_small_blocks(size, threads):
        patch.setattr(blocks, "LONGEST_LINE", longest)
        patch.setattr(blocks, "_LOOK_BACK", 16)
        with open_bytes(path) as stream:
            check(list(in_order(stream, piece, size=len(text))) if text else [], text, size, longest)
        check(list(in_order(open_bytes(io.BytesIO(text)), piece)), text, 2 * size + longest, longest)


def test_what_is_not_wanted_any_more_is_not_read_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"line\n" * 10_000)
    seen: list[int] = []
    with in_small_blocks(100, 2), open_bytes(path) as stream:
        results = in_order(stream, lambda block: seen.append(block.offset), size=path.stat().st_size)
        next(results)
        results.close()
    assert 1 <= len(seen) < 20
