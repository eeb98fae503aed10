"""The phases of a step: what lines like START BACKWARD, START OPT … END cut each step of a run into, over all steps.

A line marks a phase where it says START or END (:func:`~memlens.windows.anchor_templates.phase_template`), or is an annotation of an input
that has no lines and comes once a step, and comes in most steps at the
same place among the others: the first, second, … of its kind in its step.  Its number may be always the same, that of the step, or go on
counting from step to step.  A phase reaches to the next such line of its step, or, of an annotation with an end, to that end: an event is
in the annotation that begins last of those around it.  What is in none is a row of its own, so the bytes of all add up to those of the step.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct

from memlens.folding import figures
from memlens.results import Result, Tables
from memlens.windows.anchor_lines import skeleton
from memlens.windows.anchor_templates import Place, Template, named_as_it_is, phase_template
from memlens.windows.anchors import numbered
from memlens.windows.windows import BEFORE, NEVER, Window, edges_of, judged, names_of, some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.windows.landmarks import Landmarks


#: The names of what precedes the first phase of a step, and of what lies in none where phases have ends.
START, NO_PHASE = "(start)", "(no phase)"


class Phase(Result, frozen=True):
    """One phase, over the steps that have it.

    Attributes:
        name: What its line says; a number that is the step's is left out, and ``n`` stands for one that goes on counting.  ``after …``
            follows a line that says END, and ``(start)`` precedes the first line of all.
        steps: How many steps have it.
        peak_bytes: The highest allocated level in it, over these steps.
        peak_step: The first step that reaches it; a window's name, text from the log.
        rise_median_bytes: By how much it rises above what was live at its start: the middle one of these steps (of an even number the lower).
        rise_max_bytes: The most of them.
        remaining_min_bytes: What it leaves behind (Σ ALLOC - Σ FREE): the least of these steps.
        remaining_median_bytes: The middle one, likewise.
        remaining_max_bytes: The most.
        remaining_bytes: The sum over these steps.
    """

    name: str
    steps: int
    peak_bytes: int
    peak_step: str
    rise_median_bytes: int
    rise_max_bytes: int
    remaining_min_bytes: int
    remaining_median_bytes: int
    remaining_max_bytes: int
    remaining_bytes: int


class Phases(Result, frozen=True):
    """The phases of the steps of one log.

    Attributes:
        steps: How many steps were looked at: all but an open one, and not what precedes them.
        phases: In the order in which they come; without those in which nothing is ever allocated or freed.
    """

    tables: ClassVar[Tables] = {"phases": Phase}
    top: ClassVar[None] = None  # few, and all of them are the answer

    steps: int
    phases: tuple[Phase, ...]


class Pieces(Struct, frozen=True):
    """The phases of all steps, one entry each time that one comes.

    Attributes:
        steps: The steps.
        names: The names of the phases, in the order in which they come.
        step: Index of its step, int64.
        phase: Index of its name, int64.
        lo: Its first event, int64.
        hi: The event after its last, int64.  A phase within which another one comes goes on after it.
    """

    steps: Sequence[Window]
    names: tuple[str, ...]
    step: Ints
    phase: Ints
    lo: Ints
    hi: Ints

    def of(self, events: NDArray[np.integer[Any]]) -> Ints:
        """The index of the name of the phase that each event is in, int64; -1 for none."""
        if not len(self.lo):
            return np.full(len(events), -1, np.int64)
        order = np.argsort(self.lo, kind="stable")
        at = order[np.maximum(np.searchsorted(self.lo[order], events, "right") - 1, 0)]
        return np.where((self.lo[at] <= events) & (events < self.hi[at]), self.phase[at], -1)

    def inside(self) -> Pieces:
        """Those that are a phase's."""
        if self.names[0] != NO_PHASE:
            return self
        at = np.flatnonzero(self.phase)
        return Pieces(self.steps, self.names, self.step[at], self.phase[at], self.lo[at], self.hi[at])


class _Mark(Struct, frozen=True):
    """A line of a step that may mark a phase.

    Attributes:
        key: Of which kind it is, by its expression, and the how manieth of it in its step, from 0.
        offset: Where it begins, in bytes.
        name: What it says.
        end: Where the phase ends, likewise; :data:`NEVER` where the next line says so.
    """

    key: tuple[str, int]
    offset: int
    name: str
    end: int


def phases(pieces: Pieces) -> Phases:
    """Analyze phases in one pass over the events."""
    found = figures(pieces.steps[0].log, pieces.lo, pieces.hi)
    rows = []
    for phase, name in enumerate(pieces.names):
        at = np.flatnonzero(pieces.phase == phase)
        if not (pieces.hi[at] > pieces.lo[at]).any():
            continue
        first = np.flatnonzero(np.diff(pieces.step[at], prepend=-1))  # of each step
        peak = np.maximum.reduceat(found["peak_bytes"][at], first)
        rise = np.sort(peak - found["carried_in_bytes"][at][first])
        left = np.sort(np.add.reduceat(found["remaining_bytes"][at], first))
        highest, middle = int(peak.argmax()), (len(first) - 1) // 2
        step = pieces.steps[int(pieces.step[at[first[highest]]])].name
        of_left = map(int, (left[0], left[middle], left[-1], left.sum()))
        rows.append(Phase(name, len(first), int(peak[highest]), step, int(rise[middle]), int(rise[-1]), *of_left))
    return Phases(len(pieces.steps), tuple(rows))


def cut_phases(windows: Sequence[Window], landmarks: Landmarks) -> Pieces | None:
    """Cut the steps of a log into phases.

    Args:
        windows: The steps: a series of windows, in file order.
        landmarks: The lines that may mark them.

    Returns:
        ``None`` where no line comes in most steps, or lines come in another order in most of them.
    """
    named = [window_name != BEFORE for window_name in names_of(windows)]
    steps = some_of(windows, np.array(judged(windows), np.bool_) & np.array(named, np.bool_))
    offsets = np.array(landmarks.offsets, np.int64)
    begins, ends = (edges_of(steps, edge) for edge in ("start_offset", "end_offset"))
    between = offsets.searchsorted(begins, "right"), offsets.searchsorted(ends, "left")
    if not (between[1] > between[0]).any():
        return None
    marks = _marks(steps, landmarks, between)
    seen = Counter(mark.key for of_step in marks for mark in of_step)
    common = {key for key, count in seen.items() if 2 * count > len(steps)}
    if not common:
        return None
    marks = [[mark for mark in of_step if mark.key in common] for of_step in marks]
    order = _order(marks)
    if order is None:
        return None
    with_ends = any(mark.end < NEVER for of_step in marks for mark in of_step)
    names = (NO_PHASE if with_ends else START, *_names(order, marks, steps))
    # int64, a row a piece: its step, where it begins, and its phase; the first piece of each step begins with it
    rows = [(k, *row) for k, of_step in enumerate(marks) for row in _begins(steps[k], of_step, order)]
    step, begun, phase = np.array(rows, np.int64).T
    log = steps[0].log
    lo = log.offset.searchsorted(begun, "left")
    lo = np.maximum(lo, edges_of(steps, "lo")[step])
    last = np.append(step[1:] != step[:-1], True)
    hi = np.where(last, edges_of(steps, "hi")[step], np.append(lo[1:], 0))
    return Pieces(steps, names, step, phase, lo.astype(np.int64), hi.astype(np.int64))


def _begins(step: Window, marks: Sequence[_Mark], order: dict[tuple[str, int], int]) -> Iterator[tuple[int, int]]:
    """Where each piece of a step begins, and its phase; 0 for none."""
    yield step.start_offset, 0
    running: list[tuple[int, int]] = []  # ends and phases, the innermost last
    for mark in (*marks, None):
        until = step.end_offset if mark is None else mark.offset
        while running and (end := min(running)[0]) < until:
            inner = running[-1]
            # What the next line ends does not outlast what it is in.
            running = [one for one in running if end < one[0] < NEVER or (one is not inner and one[0] > end)]
            if not running or running[-1] is not inner:
                yield end, running[-1][1] if running else 0
        if mark is not None:
            if running and running[-1][0] == NEVER:
                running.pop()
            running.append((mark.end, order[mark.key]))
            yield mark.offset, order[mark.key]


def _marks(steps: Sequence[Window], landmarks: Landmarks, between: tuple[Ints, Ints]) -> list[list[_Mark]]:
    """The lines of each step that may mark phases, but for the one that begins it; ``between``: of each step the first one, and the one after the last."""
    known: dict[bytes, Template | None] = {}  # by the skeletons of lines
    own_marks = steps[0].log.marks if steps else None
    ends = {mark.offset: mark.end for mark in own_marks or () if mark.end is not None and mark.end > mark.offset}
    found: list[list[_Mark]] = []
    for a, b in zip(*(edge.tolist() for edge in between), strict=True):
        times: Counter[str] = Counter()
        of_step = []
        for offset, text in zip(landmarks.offsets[a:b], landmarks.texts[a:b], strict=True):
            kind = skeleton(text)
            if kind not in known:
                known[kind] = phase_template(kind) or (None if own_marks is None else named_as_it_is(kind))
            template = known[kind]
            match = None if template is None else re.search(template.by.encode(), text)
            if template is None or match is None:
                continue
            name = match[1].decode("utf-8", "replace")
            name = f"after {name}" if template.place is Place.CLOSING else name
            mark = _Mark((template.by, times[template.by]), offset, name, ends.get(offset, NEVER))
            of_step.append((mark, template))
            times[template.by] += 1
        # What a profiler notes again and again is no phase.
        named = (mark for mark, template in of_step if template.place is not Place.UNNAMED or times[template.by] == 1)
        found.append([*named])
    return found


def _order(marks: Sequence[Sequence[_Mark]]) -> dict[tuple[str, int], int] | None:
    """The place of each phase among them, from 1; ``None`` where they come in another order in most steps."""
    # That of the fullest step; what it lacks follows what it follows where it comes first.
    ordered = [mark.key for mark in max(marks, key=len)]
    known = set(ordered)
    for of_step in marks:
        keys = [mark.key for mark in of_step]
        if known.issuperset(keys):
            continue
        place = 0
        for key in keys:
            if key not in known:
                known.add(key)
                ordered.insert(place, key)
            place = ordered.index(key) + 1
    order = {key: place for place, key in enumerate(ordered, 1)}
    rows = [[order[mark.key] for mark in of_step] for of_step in marks]
    return order if 2 * sum(row == sorted(row) for row in rows) > len(rows) else None


def _names(
    order: dict[tuple[str, int], int], marks: Sequence[Sequence[_Mark]], steps: Sequence[Window]
) -> tuple[str, ...]:
    """Return a name for each phase, in order; no two alike, and none like that of none."""
    # The parts of each mark's name, of which every other one is a number, beside the numbers of its step.
    found: defaultdict[tuple[str, int], list[tuple[list[str], list[str]]]] = defaultdict(list)
    for of_step, step in zip(marks, steps, strict=True):
        numbers = re.findall("[0-9]+", step.name)
        for mark in of_step:
            found[mark.key].append((re.split("([0-9]+)", mark.name), numbers))
    names = [START]
    for key in order:
        first = found[key][0][0]
        name = first[:]
        for at in range(1, len(first), 2):
            if all(parts[at] == first[at] for parts, _ in found[key]):
                continue
            steps_own = all(parts[at] in numbers for parts, numbers in found[key])
            name[at] = "" if steps_own else "n"
            name[at - 1] = name[at - 1].rstrip(" _#:=-") if steps_own else name[at - 1]
        names.append("".join(name))
    return tuple(numbered(names)[1:])
