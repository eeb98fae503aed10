"""What a still shows: runs, the areas of each stacked up to its level as a page stacks them; of two the difference as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.places import rising_us
from memlens.analyzers.series.curve import Curve, curve
from memlens.drawing.aligned import aligned, aligned_curves
from memlens.drawing.differences import groups_of, parting_of, spans_of, window_rows
from memlens.drawing.stacks import Way, group_bytes
from memlens.errors import InputError, NoEventsError
from memlens.text import file_names, format_bytes, format_exact, terms_of
from memlens.trust.failures import failures_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.diffing.result import Diff
    from memlens.drawing.lifetimes import WindowBlocks
    from memlens.events import EventLog
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


class Area(NamedTuple):
    """An area, from 0 to a level; later ones are painted over it.

    ``ink`` is its colour in the style sheet, ``top`` is bytes, one entry a bucket, int64.
    """

    ink: str
    name: str
    top: Ints


class Track(Struct, frozen=True, eq=False):
    """One panel of a still.

    Attributes:
        name: What the log is called; a file name, or a part of a path.
        x: Where each bucket begins and where the last one ends, rising, float64; one more than there are buckets.  In numbers of events, of slots, or in
            seconds.
        areas: What is allocated, as it is painted.
        lines: Levels that are drawn as lines, above the areas.
        words: The title, as exactly as it is known, and in short.
        floor_bytes: The lowest level, at most 0: a log that frees what it never allocated goes below.
        peak: Where on the axis the peak is, and its bytes; ``None`` where nothing was allocated.
        failures: Where it runs out of memory.
        bands: The windows of a series: names (text from the log), where each begins and ends.
        parting: Where the window begins and ends in which two runs part.
        signed: Whether it is the difference of two runs, which has a scale of its own.
    """

    name: str
    x: Floats
    areas: Sequence[Area]
    lines: Sequence[Area]
    words: tuple[str, str]
    floor_bytes: int = 0
    peak: tuple[float, int] | None = None
    failures: Sequence[float] = ()
    bands: Sequence[tuple[str, float, float]] = ()
    parting: tuple[float, float] | None = None
    signed: bool = False

    @property
    def top_bytes(self) -> int:
        """The highest level of all that is known."""
        return max((int(one.top.max(initial=0)) for one in (*self.lines, *self.areas)), default=0)


def track(
    window: Window,
    name: str,
    blocks: WindowBlocks | None = None,
    way: Way | None = None,
    *,
    steps: Sequence[Window] = (),
    columns: int,
    time: bool = False,
    from_zero: bool = False,
) -> Track:
    """The levels of a window.

    Args:
        window: The window.
        name: What its log is called.
        blocks: Its blocks.
        way: How these are grouped.
        steps: A series that cuts it.
        columns: Buckets of an axis of events; one of time has up to twice as many.
        time: The axis is the seconds since the window's first event; else it is the number of the event in the log.
        from_zero: Count events from the window's first one.

    Raises:
        NoEventsError: The window holds no event.
        InputError: The axis is to be time, and nothing in the log has one.
    """
    log = window.log
    if not len(window):
        state = "the state at one moment, and no event" if log.facts.opening else f"no event in {window.name}"
        raise NoEventsError(f"{log.source.name}: {state}, so there is no curve", "memlens report draws a memory map.")
    seconds = seconds_of(window) if time else None
    made = curve(window, buckets=columns, edges=None if seconds is None else window.lo + _edges(seconds, columns))

    def places(events: Sequence[int] | Ints) -> Floats:
        """Where events are on the axis, float64; the one after the last is where that is by time."""
        within = np.asarray(events, np.int64)
        if seconds is None:
            return (within - (window.lo if from_zero else 0)).astype(np.float64)
        return seconds[np.clip(within - window.lo, 0, len(window) - 1)]

    top, terms = int(made.high_bytes.max()), terms_of(log.facts.has_lines)
    shown = curve_track(made, name, places, _where(log, made.peak_event))
    exact, short = shown.words
    if not log.tells_of_blocks:
        exact = short = f"{format_bytes(int(made.reserved_bytes.max()))} reserved"
    if made.failures:
        short, exact = f"{short}, out of memory", f"{exact}; out of memory at {terms.at(failures_in(window)[0].line)}"
    areas = shown.areas if log.tells_of_blocks else ()
    if areas and blocks is not None and way is not None:
        areas = _stacked(blocks, way, made.high_event, made.high_bytes)
    peak = (float(places([window.lo])[0]), top) if shown.peak is None and top > 0 else shown.peak
    held = [step for step in steps if len(step)]
    starts, ends = (places([getattr(step, edge) for step in held]).tolist() for edge in ("lo", "hi"))
    bands = list(zip((step.name for step in held), starts, ends, strict=True))
    return replace(shown, areas=areas, words=(exact, short), peak=peak, bands=bands)


def _where(log: EventLog, event: int | None) -> str:
    """Where an event stands, in words behind others; nothing of none, or where that is not known."""
    line = None if event is None else log.line_numbers([event])[0]
    return "" if line is None else f", {terms_of(log.facts.has_lines).at(line)}"


def _stacked(of: WindowBlocks, way: Way, events: Ints, level: Ints) -> list[Area]:
    """What is live by groups right after some events, one on the other up to the level."""
    asked, at = np.unique(events, return_inverse=True)
    # The last group reaches to the level, which is lower than what is live where more is freed than was allocated.
    tops = np.minimum(group_bytes(of, [way], asked)[0].cumsum(axis=0)[:, at], level)
    tops[-1] = level
    return [Area(group["ink"], group["name"], top) for group, top in zip(way.groups, tops, strict=True)][::-1]


def curve_track(
    made: Curve, name: str, places: Callable[[Sequence[int] | Ints], Floats] | None = None, where: str = ""
) -> Track:
    """The levels of a log of which no more than these may be known; see :func:`track`.

    Args:
        made: The levels.
        name: What the log is called.
        places: Where events are on the axis; else their numbers from the first one on.
        where: Where the peak is, in words.
    """
    lo, top = int(made.edges[0]), int(made.high_bytes.max())
    at = places or (lambda events: np.asarray(events, np.float64) - lo)
    peak = None if made.peak_event is None else (float(at([made.peak_event])[0]), top)
    begins = at([begin for begin, _ in made.steps]).tolist()
    exact, short = (f"peak {form(top)}" if top > 0 else "nothing allocated" for form in (format_exact, format_bytes))
    return Track(
        name,
        at(made.edges),
        [Area("allocated", "allocated", made.high_bytes)],
        [Area("reserved", "reserved", made.reserved_bytes)] if made.reserved_bytes.any() else [],
        (exact + where, short),
        int(min(made.low_bytes.min(), 0)),
        peak,
        at(made.failures).tolist(),
        [*zip((step for _, step in made.steps), begins, [*begins[1:], float(at(made.edges)[-1])], strict=False)],
    )


def compared_tracks(diff: Diff, columns: int) -> tuple[Track, Track, Track]:
    """Two runs over the axis that they share: what is live in base and in head by the same groups, and by how much head has more or less."""
    (pairs,) = diff.in_order
    axis = aligned(pairs)
    made = aligned_curves(axis, columns)
    x, rows, sides = made["edges"].astype(np.float64), [*window_rows(axis, diff)], ("base", "head")
    bands = [(name, float(lo), float(hi)) for lo, hi, name in spans_of(rows)]
    cut: dict[str, Any] = {"bands": bands, "parting": parting_of(rows, diff)}
    names = file_names([diff.base.path, diff.head.path])
    tracks = []
    for side, run, (blocks, (way, *_)) in zip(sides, (axis.base, axis.head), groups_of(axis), strict=True):
        level, events = made[f"{side}_high"], made[f"{side}_top"]
        k = int(level.argmax())
        top, event = int(level[k]), int(events[k])
        where = _where(run.log, event if event >= run.lo else None)
        tracks.append(
            Track(
                f"{side}, {names[getattr(diff, side).path]}",
                x,
                _stacked(blocks, way, events, level),
                [Area(side, side, level)],
                (f"peak {format_exact(top)}{where}", f"peak {format_bytes(top)}"),
                int(min(made[f"{side}_low"].min(), 0)),
                (float(x[k]), top) if top > 0 else None,
                **cut,
            )
        )
    low, high = np.minimum(made["low"], 0), np.maximum(made["high"], 0)
    words = [
        f"at most {form(int(high.max()))} more in head, {form(-int(low.min()))} more in base"
        for form in (format_exact, format_bytes)
    ]
    areas = [Area("head", "more in head", high), Area("base", "more in base", low)]
    base, head = tracks
    return base, head, Track("head less base", x, areas, [], (words[0], words[1]), int(low.min()), signed=True, **cut)


def seconds_of(window: Window) -> Floats:
    """The seconds from the first event of a window to each of them, float64, not falling.

    Order is that of the file, and stamps step back: see :func:`memlens.analyzers.places.rising_us`.

    Raises:
        InputError: Nothing in the window has a time.
    """
    log = window.log
    rising = None if log.time_us is None else rising_us(log.time_us[window.lo : window.hi])
    if rising is None:
        raise InputError(f"{log.source.name}: its events have no time", "Draw it over events: --x events.")
    seconds: Floats = (rising - rising[0]) / 1e6
    return seconds


def _edges(seconds: Floats, columns: int) -> Ints:
    """The first event of each column of an axis of time, and their number at the end, rising, int64.

    The last event before columns without any has a bucket of its own, for its level is the one that lasts.
    """
    column = (seconds * (columns / max(float(seconds[-1]), 1e-9))).astype(np.int64)
    step = np.diff(column)
    begins = np.flatnonzero(step) + 1
    lasting = np.flatnonzero(step > 1)
    return np.unique(np.concatenate(([0], lasting, begins, [len(seconds)])))
