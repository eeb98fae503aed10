"""What the page's memory map is made of: when each chunk is there, and the figures of the moments that matter.

What lies where right after an event the page works out by itself (``viewer/layout.js``): from these chunks, and from the blocks of which it knows when each
is live, those that have bars and others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.chunks import chunks_of
from memlens.analyzers.fates import joined
from memlens.analyzers.places import lines_at
from memlens.columns import Ints, distinct
from memlens.drawing.levels import merged
from memlens.drawing.lifetimes import WindowBlocks, block_columns, places_of
from memlens.text import terms_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.analyzers.segments import Moment, Segments
    from memlens.drawing.page import Owners
    from memlens.windows.windows import Window

#: Failures that are shown at most, chunks, the largest, and blocks without bars.
FAILURES, CHUNKS, OTHERS = 3, 1 << 14, 12_000
#: What moments are called.
_NAMES = {"peak": "The peak", "oom": "Out of memory", "end": "The end"}


def moments_of(window: Window, found: Segments) -> tuple[list[Moment], int]:
    """Return the moments of a window that matter, in its order, and how many failures come after those among them.

    Args:
        window: The window; one without events has one moment.
        found: What the segments analyzer says of it.
    """
    if not len(window):
        return [moment for moment in found.moments if moment.at == "end"], 0
    failed = [number for number, moment in enumerate(found.moments) if moment.at == "oom"]
    kept = set(range(len(found.moments))).difference(failed[FAILURES:])
    shown = sorted(kept, key=lambda number: (_event(window, found.moments[number]), number))
    return [found.moments[number] for number in shown], len(failed[FAILURES:])


def _event(window: Window, moment: Moment) -> int:
    """The event right after which a moment is."""
    return window.log.facts.opening - 1 if moment.event is None else moment.event


def events_of(window: Window, moments: list[Moment]) -> Ints:
    """The events right after which moments are, int64."""
    return np.array([_event(window, moment) for moment in moments], np.int64)


def maps_view(window: Window, moments: list[Moment], left_failures: int) -> dict[str, Any]:
    """Return what the page knows of the chunks of a window.

    Args:
        window: The window.
        moments: The moments that matter, in its order.
        left_failures: Failures that come after these.

    Returns:
        ``why`` there is no map; ``moments``, with the ``after``, the event right after which each is; ``chunks``, one entry each by rising address, at
        which event it is reserved (``born``) and given back (``dead``), where it is (``at``), its bytes, and its ``stream`` and ``pool``, -1 where unknown;
        ``left_bytes``, those of all others together; ``unmapped``, stretches of chunks that are given back at an ``event``; ``kept``, stretches that nothing else can be
        allocated in, from a ``born`` to a ``last`` event; the ``granule`` that blocks are rounded up to, and whether gaps go on in the next chunk
        (``joined``).
    """
    log, term = window.log, terms_of(window.log.facts.has_lines).chunk
    why = {
        "no_chunks": f"There is no map: this input does not say which {term}s are reserved.",
        "no_blocks": "There is no map: this input does not say which blocks are allocated.",
        "no_addresses": f"There is no map, only figures: it is not known at which addresses the {term}s lie, or several lie over each other.",
    }
    missing = "no_addresses" if moments else "no_blocks" if log.tells_of_chunks else "no_chunks"
    view = {
        "missing": missing,
        "why": why[missing],
        "left_failures": left_failures,
        "moments": [
            {**one.to_dict(), "after": _event(window, one), "name": _NAMES[one.at] if len(window) else "This state"}
            for one in moments
        ],
    }
    chunks = chunks_of(log)
    if chunks is None or all(one.chunks is None for one in moments):
        return view
    there = np.flatnonzero((chunks.born < window.hi) & (chunks.dead >= window.lo))
    places = places_of(chunks.addr[there])
    largest = np.lexsort((-chunks.size[there], places < 0))[:CHUNKS]
    order = largest[np.lexsort((chunks.born[there[largest]], places[largest]))]
    shown, kept = there[order], log.facts.kept
    no, none = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    held = (no, none, none, none) if kept is None else (kept.addr, kept.size, kept.born, kept.last)
    return view | {
        "missing": "",
        "chunks": {
            "at": places[order],
            "size_bytes": chunks.size[shown],
            **{name: getattr(chunks, name)[shown] for name in ("born", "dead", "stream", "pool")},
        },
        "left_bytes": int(chunks.size[there].sum() - chunks.size[shown].sum()),
        "unmapped": {
            "at": places_of(chunks.unmapped_addr),
            "size_bytes": chunks.unmapped_size,
            "event": chunks.unmapped_event,
        },
        "kept": {"at": places_of(held[0]), "size_bytes": held[1], "born": held[2], "last": held[3]},
        "granule": log.facts.block_granularity,
        "joined": log.facts.chunks_join,
    }


def other_blocks(
    of: WindowBlocks, owners: Owners, bars: Ints, named: Ints, stretches: Sequence[tuple[int, int]], grid: Ints
) -> dict[str, Any]:
    """Return the blocks without bars that are live at moments of which the page shows every block, as far as there is room for all of a moment.

    Args:
        of: The blocks of the window.
        owners: Gives the numbers of their owners.
        bars: Those that have bars, as their ALLOCs.
        named: Events right after which the page shows every block before any others.
        stretches: Stretches of which the page has every event, each its first one and the one after its last.
        grid: Events of which so many are taken, evenly, as there is room for.

    Returns:
        ``rows``, which blocks these are; ``columns`` (:func:`memlens.drawing.lifetimes.block_columns`); and ``known``, stretches of events, as above, right
        after which all blocks that are live have bars or are among these.
    """
    without = np.ones(len(of), np.bool_)
    without[of.alloc.searchsorted(bars)] = False
    if np.count_nonzero(without) <= OTHERS:
        rows, known = np.flatnonzero(without), [(of.lo - 1, of.hi)]
    else:
        rows, known = np.zeros(0, np.int64), []
        for begin, stop in [*((event, event + 1) for event in named.tolist()), *stretches]:
            more = distinct(joined([rows, np.flatnonzero(without & (of.alloc < stop) & (of.end > begin))]))
            if len(more) <= OTHERS:
                rows, known = more, [*known, (begin, stop)]
        near = without & (of.alloc <= grid[-1]) & (of.end > grid[0])
        born = of.each(lambda part: grid.searchsorted(of.alloc[part]), np.int16)
        gone = of.each(lambda part: grid.searchsorted(of.end[part]), np.int16)
        events = grid[:0]
        for stride in (1 << k for k in range(10, -1, -1)):
            more = distinct(joined([rows, np.flatnonzero(near & (-(-born // stride) * stride < gone))]))
            if len(more) > OTHERS:
                break
            rows, events = more, grid[::stride]
        known += [(event, event + 1) for event in events.tolist()]
    lines = lines_at(of.log, of.alloc[rows])
    return {"rows": rows, "columns": block_columns(of, rows, owners, lines), "known": merged(known)}
