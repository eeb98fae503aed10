"""The phases of a step: what lines like START BACKWARD, START OPT … END cut each step of a run into, over all steps.

A line marks a phase where it says START or END (:func:`~memlens.windows.anchor_templates.phase_template`), or is an annotation of an input
that has no lines and comes once a step, and comes in most steps at the
same place among the others: the first, second, … of its kind in its step.  Its number may be always the same, that of the step, or go on
counting from step to step.  A phase reaches to the next such line of its step, so the phases of a step share it out without a rest, and
their bytes add up to those of the step.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from msgspec import Struct

from memlens.folding import figures
from memlens.results import Result, Tables
from memlens.windows.anchor_templates import Place, named_as_it_is, phase_template, skeleton
from memlens.windows.anchors import numbered
from memlens.windows.windows import BEFORE, edges_of, judged, names_of, some_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.columns import Ints
    from memlens.windows.anchor_templates import Template
    from memlens.windows.landmarks import Landmarks
    from memlens.windows.windows import Window


#: The name of what precedes the first phase of a step.
START = "(start)"


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
        hi: The event after its last, int64.
    """

    steps: Sequence[Window]
    names: tuple[str, ...]
    step: Ints
    phase: Ints
    lo: Ints
    hi: Ints


class _Mark(Struct, frozen=True):
    """A line of a step that may mark a phase.

    Attributes:
        key: Of which kind it is, by its expression, and the how manieth of it in its step, from 0.
        offset: Where it begins, in bytes.
        name: What it says.
    """

    key: tuple[str, int]
    offset: int
    name: str


def phases(pieces: Pieces) -> Phases:
    """Analyze phases in one pass over the events."""
    found = figures(pieces.steps[0].log, pieces.lo, pieces.hi)
    rows = []
    for phase, name in enumerate(pieces.names):
        at = np.flatnonzero(pieces.phase == phase)
        if not (pieces.hi[at] > pieces.lo[at]).any():
            continue
        peak, rise, remaining = (found[column][at] for column in ("peak_bytes", "rise_bytes", "remaining_bytes"))
        rise, left = np.sort(rise), np.sort(remaining)
        highest, middle = int(peak.argmax()), (len(at) - 1) // 2
        rows.append(
            Phase(
                name,
                len(at),
                int(peak[highest]),
                pieces.steps[int(pieces.step[at[highest]])].name,
                int(rise[middle]),
                int(rise[-1]),
                int(left[0]),
                int(left[middle]),
                int(left[-1]),
                int(left.sum()),
            )
        )
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
    names = _names(order, marks, steps)
    # int64, one entry a piece: where it begins; the first piece of each step begins with it
    begun = [offset for step, of_step in zip(steps, marks, strict=True) for offset in (step.start_offset, *(mark.offset for mark in of_step))]  # fmt: skip
    phase = [number for of_step in marks for number in (0, *(order[mark.key] for mark in of_step))]
    step = np.repeat(np.arange(len(steps)), [len(of_step) + 1 for of_step in marks])
    log = steps[0].log
    lo = log.offset.searchsorted(np.array(begun, np.int64), "left")
    lo = np.maximum(lo, edges_of(steps, "lo")[step])
    last = np.append(step[1:] != step[:-1], True)
    hi = np.where(last, edges_of(steps, "hi")[step], np.append(lo[1:], 0))
    return Pieces(steps, names, step, np.array(phase, np.int64), lo.astype(np.int64), hi.astype(np.int64))


def _marks(steps: Sequence[Window], landmarks: Landmarks, between: tuple[Ints, Ints]) -> list[list[_Mark]]:
    """The lines of each step that may mark phases, but for the one that begins it; ``between``: of each step the first one, and the one after the last."""
    known: dict[bytes, Template | None] = {}  # by the skeletons of lines
    annotated = bool(steps) and steps[0].log.marks is not None
    found: list[list[_Mark]] = []
    for a, b in zip(*(edge.tolist() for edge in between), strict=True):
        times: Counter[str] = Counter()
        of_step = []
        for offset, text in zip(landmarks.offsets[a:b], landmarks.texts[a:b], strict=True):
            kind = skeleton(text)
            if kind not in known:
                known[kind] = phase_template(kind) or (named_as_it_is(kind) if annotated else None)
            template = known[kind]
            match = None if template is None else re.search(template.by.encode(), text)
            if template is None or match is None:
                continue
            name = match[1].decode("utf-8", "replace")
            name = f"after {name}" if template.place is Place.CLOSING else name
            mark = _Mark((template.by, times[template.by]), offset, name)
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
    """Return a name for each phase, in order; no two alike."""
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
    return tuple(numbered(names))
