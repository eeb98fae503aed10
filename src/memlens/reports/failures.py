"""Out-of-memory failures on a screen: what was asked for, what there was, why it did not suffice, and who held it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.analyzers.failures import UNKNOWN, LiveBlock, MemoryFailure, device_among, most_telling
from memlens.analyzers.groups import columns_of, largest_of
from memlens.claims.template import write
from memlens.claims.words import LARGEST
from memlens.reports.blocks import ALIKE, Block, Column, Figure, Figures, Line, ListOptions
from memlens.reports.lists import held_by, owned
from memlens.text import format_bytes, format_count, innermost, plural, short_name, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.replaying.remedy import FailureRemedy

#: Columns that an owner takes beside a figure.
_OWNER = 48
_ALL = (
    *(Column("line", "Line", "count"), Column("requested_bytes", "Asked for", "bytes", strong=True)),
    *(Column("allocated_bytes", "Allocated", "bytes"), Column("reserved_bytes", "Reserved", "bytes")),
    *(Column("largest_gap_bytes", "Largest gap", "bytes", drop=1), Column("cause", "Cause", "word")),
)


def failure_blocks(
    ooms: Sequence[MemoryFailure], options: ListOptions, *, full: bool = False, remedy: FailureRemedy | None = None
) -> Iterator[Block]:
    """The failures of a log: the one that it ended in, or else the first, in about ten lines; no empty line before or after.

    Args:
        ooms: All failures; nothing is shown where there are none.
        options: The rows of lists, and the smallest block in them.
        full: Show all that is known of it, and a row for each of the others.
        remedy: What other settings would have done.
    """
    if not ooms:
        return
    failure = ooms[most_telling(ooms)]
    device = f" on {short_name(name)}" if (name := device_among(ooms, failure)) else ""
    why = f": {failure.cause}" if failure.cause != UNKNOWN else ""
    others = len(ooms) - 1
    more = f" (and {plural(others, 'more failure')}: --full)" if others and not full else ""
    yield Line(f"Out of memory{device} at {options.terms.at(failure.line)}{why}{more}", "bad")
    yield Figures(tuple(_figures(failure, options, full=full)))
    if remedy is not None:
        words = remedy.message.removeprefix(remedy.line).lstrip()
        yield Line(words, "good" if remedy.line else "plain", remedy.line, label="Setting")
    if full:
        yield from _blocks(failure, options)
    if others and full:
        yield None
        yield ListOptions(options.top, terms=options.terms).table("All out-of-memory failures", _ALL, ooms, "failure")


def _figures(failure: MemoryFailure, options: ListOptions, *, full: bool) -> Iterator[Figure]:
    chunk, needed = options.terms.chunk, failure.requested_bytes
    yield Figure("Asked for", "?" if needed is None else format_bytes(needed), _of(failure.owner).strip())
    if failure.allocated_bytes is not None:
        yield Figure("Allocated", format_bytes(failure.allocated_bytes), _reserved(failure, chunk))
    if failure.device_free_bytes is not None:
        yield Figure("Left", format_bytes(failure.device_free_bytes), _on_device(failure, chunk))
    if failure.cause == UNKNOWN:
        yield Figure("Cause", "unknown", failure.explanation)
    elif failure.missing_bytes is not None:
        yield Figure("Missing", format_bytes(failure.missing_bytes), _missing(failure))
    if failure.idle_bytes and needed is not None and failure.idle_bytes + (failure.device_free_bytes or 0) >= needed:
        words = f"in {plural(failure.idle_chunks or 0, chunk)} without a block, which could be given back"
        yield Figure("Idle", format_bytes(failure.idle_bytes), words)
    if options.large(failure.live[:1]):
        largest = largest_of(failure.live, failure.allocated_bytes or 0)
        yield Figure(
            "Largest",
            format_bytes(largest["total_bytes"]),
            f"{visible(write(LARGEST, largest)).strip()}; {_all_live(failure)}",
        )
    if full and failure.oldest and failure.youngest and failure.oldest != failure.youngest:
        youngest = f"the youngest {format_bytes(failure.youngest.size_bytes)} {_born(failure.youngest, options)}"
        words = "; ".join(filter(None, [_born(failure.oldest, options), youngest.strip()]))
        yield Figure("Oldest", format_bytes(failure.oldest.size_bytes), words)


def _reserved(failure: MemoryFailure, chunk: str) -> str:
    if failure.reserved_bytes is None:
        return ""
    words = f"of {format_bytes(failure.reserved_bytes)} reserved"
    if failure.free_bytes is not None:
        words += f"; {format_bytes(failure.free_bytes)} free inside {chunk}s"
    if failure.gaps == 1:
        words += ", in 1 gap"
    elif failure.gaps:
        words += f", {plural(failure.gaps, 'gap')}, largest {format_bytes(failure.largest_gap_bytes or 0)}"
    return words


def _on_device(failure: MemoryFailure, chunk: str) -> str:
    if failure.device_total_bytes is None:
        return "on the device"
    if failure.limit_bytes is not None:
        who = "FLAGS_gpu_memory_limit_mb allows" if chunk == "chunk" else "this process may have"
        return f"of the {format_bytes(failure.limit_bytes)} that {who}"
    words = f"of the device's {format_bytes(failure.device_total_bytes)}"
    if failure.elsewhere_bytes:
        words += f"; {format_bytes(failure.elsewhere_bytes)} held elsewhere"
    return words


def _missing(failure: MemoryFailure) -> str:
    if failure.cause != "too much":
        return "in one piece"
    total = failure.device_total_bytes
    if failure.requested_bytes is not None and total is not None and failure.requested_bytes > total:
        return f"it can never fit: {'the device has' if failure.limit_bytes is None else 'the limit is'} {format_bytes(total)}"
    if failure.must_go_blocks is None:
        return "more than all live blocks hold"
    most = failure.must_go_blocks
    blocks = "the largest block" if most == 1 else f"the {format_count(most)} largest blocks"
    return f"so {blocks}, {format_bytes(failure.must_go_bytes or 0)}, would have had to go"


def _all_live(failure: MemoryFailure) -> str:
    live = columns_of(failure.live)
    return f"{format_bytes(live.bytes)} live in {plural(live.blocks, 'block')}"


def _of(owner: str | None) -> str:
    return "" if owner is None else f" by {short_name(innermost(owner))}"


def _blocks(failure: MemoryFailure, options: ListOptions) -> Iterator[Block]:
    """The lines beside the figures where all is asked for."""
    if not failure.ended:
        yield Figures((Figure("After it", format_count(failure.allocs_after), "blocks allocated"),))
    if len(failure.owner or "") > _OWNER:
        yield Line("", name=failure.owner or "", label="By")
    if failure.cause != UNKNOWN:
        yield Line(failure.explanation, label="Cause")
    if failure.live:
        yield None
        columns, _ = owned(ALIKE, failure.live)
        yield options.table(f"{_all_live(failure)} then", columns, failure.live, "group", holder=held_by)


def _born(block: LiveBlock, options: ListOptions) -> str:
    if block.event is None:
        return f"from before the input{_of(block.owner)}"
    return f"{'' if block.line is None else f'at {options.terms.at(block.line)}'}{_of(block.owner)}".strip()
