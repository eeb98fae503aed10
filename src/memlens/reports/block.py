"""The life of one block as people see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, Excerpt, Figure, Figures, Line, answered, apart
from memlens.reports.terminal import SCREEN, Part, Size, fitted
from memlens.text import format_bytes, format_count, format_exact, format_moment, innermost, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.analyzers.places import ContextLine
    from memlens.analyzing.block import BlockLife


def life_blocks(block: BlockLife, size: Size = SCREEN, *, full: bool = False) -> list[Block]:
    """The blocks of one block's life: one screen, with fewer log lines where they do not fit, or all of it."""
    figures = Figures(tuple(_figures(block)))
    parts = [Part((answered(block.answer),)), Part((apart(Line("", "quiet", block.path), figures),))]
    if block.owner is not None and " < " in block.owner:
        heading = Line("The call stack of its allocation, the innermost frame first", "heading")
        parts.append(Part((apart(heading, *(Line("", name=frame) for frame in block.owner.split(" < "))),)))
    around = (("Around its ALLOC:", block.alloc_context), ("Around its FREE:", block.free_context))
    parts += [Part(tuple(_excerpts(title, lines))) for title, lines in around if lines]
    return [one for part in parts for one in part.versions[0]] if full else fitted(parts, size)


def _excerpts(title: str, lines: Sequence[ContextLine]) -> Iterator[Sequence[Block]]:
    """The lines around one of them, and fewer and fewer of them."""
    at = next(k for k, one in enumerate(lines) if one.is_event)
    for each_side in range(max(at, len(lines) - at - 1), -1, -1):
        yield apart(Excerpt(title, tuple(lines[max(at - each_side, 0) : at + each_side + 1])))


def _figures(block: BlockLife) -> Iterator[Figure]:
    terms, life = terms_of(block.has_lines), block.life
    asked = "" if block.requested_bytes is None else f"{format_bytes(block.requested_bytes)} asked for"
    yield Figure("Size", format_exact(life.size_bytes), asked)
    where = [f"in {block.pool}"] if block.pool else []
    where += [] if block.stream is None else [f"stream {block.stream}"]
    if block.chunk_bytes is not None and block.chunk_offset is not None:
        where.insert(0, f"{format_bytes(block.chunk_offset)} into a {terms.chunk} of {format_bytes(block.chunk_bytes)}")
    yield Figure("Address", f"0x{block.address:x}", ", ".join(where))
    for label, line, time, thread in (
        ("Allocated", life.alloc_line, block.alloc_time_us, block.alloc_thread),
        ("Freed", life.free_line, block.free_time_us, block.free_thread),
    ):
        if line is not None:
            parts = [] if time is None else [format_moment(time)]
            parts += [] if thread is None else [f"thread {thread}"]
            yield Figure(label, terms.at(line), ", ".join(parts))
    if block.holder is not None:
        yield Figure("Held by", "", block.holder)
    for neighbour in block.neighbours:
        size = "" if neighbour.what == "edge" else format_bytes(neighbour.size_bytes)
        words = f"the edge of the {terms.chunk}" if neighbour.what == "edge" else neighbour.what
        words += "" if neighbour.alloc_line is None else f" of {terms.at(neighbour.alloc_line)}"
        words += "" if neighbour.owner is None else f", {innermost(neighbour.owner)}"
        yield Figure(neighbour.side.capitalize(), size, words)
    if block.earlier_lines:
        lines = ", ".join("?" if line is None else format_count(line) for line in block.earlier_lines)
        yield Figure("Earlier", "", f"blocks that held the address were allocated at {terms.lines} {lines}")
    when = "as the input begins" if block.before_input else "right after its ALLOC"
    yield Figure("Level", format_bytes(block.allocated_bytes), f"allocated {when}")
    alike = "the only block" if block.alike == 1 else "blocks"
    yield Figure("Alike", format_count(block.alike), f"{alike} of its size and owner in the log")
