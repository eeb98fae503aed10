"""RMM's CSV log: what its logging resource adaptor writes, or what Spark prints of it amid other text.

::

    Thread,Time,Action,Pointer,Size,Stream
    5563,10:29:36.035616,allocate,0x55639e0c6630,256,0
    5563,10:29:36.035619,free,0x55639e0c6630,256,0
    5563,10:29:36.035534,allocate failure,(nil),2147483648,0

Row order is the order of events: time stamps step back between threads, while the adaptor writes a ``free`` before the memory is given
back and an ``allocate`` after it was taken.  Sizes are those asked for.  A log is of one device, which only the name of the file tells
(``name.dev0.csv``).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from memlens.errors import NoEventsError
from memlens.facts import MAX_SIZE, Facts, Kind, OutOfMemory
from memlens.inputs.builder import SAMPLES, Builder, Part, Text, lines_wanted
from memlens.inputs.input_format import LineReader, NewEvents, Selection
from memlens.scanner import Scanner
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Scan
from memlens.spool import walk
from memlens.windows.landmarks import landmarks_in_block
from memlens.windows.patterns import Matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.blocks import Block
    from memlens.inputs.input_format import Request
    from memlens.log import Log
    from memlens.source import TextSource


#: The event that a row is; ``None``: an allocation that failed, which is no event.
_ACTIONS = {"allocate": Kind.ALLOC, "free": Kind.FREE, "deallocate": Kind.FREE, "allocate failure": None}
_THREAD = r"\b(?:(?P<thread>[0-9]{1,15}),)?"
_CLOCK = r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2}[.:][0-9]{6})"
#: Any time of day, or seconds.
_TIME = r"(?P<time>[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}[.:][0-9]{1,6}|[0-9]{1,12}(?:\.[0-9]{1,9})?)"
_REST = (
    r"(?:0x(?P<pointer>[0-9a-f]{1,16})|(?P<number>[0-9]{1,15})|(?P<nil>\(nil\)))"
    r",(?P<size>[0-9]{1,15})"
    r",(?:0x(?P<stream>[0-9a-f]{1,15})|(?P<queue>[0-9]{1,15})|\(nil\))[ \t]*\r*$"
)
_STAMP_MEANS = {
    "thread": "id of the thread; rows of 0.13 have none",
    "clock": "a colon stood before the microseconds until 2021",
}
_MEANS = {
    "pointer": "address",
    "number": "address, written as a decimal number",
    "nil": "no address",
    "size": "bytes that were asked for",
    "stream": "CUDA stream",
    "queue": "CUDA stream, written as a decimal number",
}
_SAMPLES = (
    "5563,10:29:36.035616,%s,0x55639e0c6630,<size=256>,0",
    "[stderr] 10:00:00:000001,%s,16,<size=256>,0x2\r",
    "7,1700000000.000001,%s,(nil),<size=256>,(nil) ",
)
_TRAPS = ("x5,%s,0x10,256,0", "1,10:29:36.035616,%s,0x10,256", "1,10:29,%s,0x10,256,0,")
#: Rows stand one a line, at its end, after anything that does not end in a word character.
ROWS = tuple(
    LineFormat(
        name=action.replace(" ", "_"),
        layer="rmm",
        literal=f",{action},".encode(),
        regex=f"{_THREAD}{_TIME},{action},{_REST}",
        means={"thread": _STAMP_MEANS["thread"], "time": "time of day, or seconds", **_MEANS},
        kinds={} if kind is None else {"": kind},
        samples=tuple(sample % action for sample in _SAMPLES),
        traps=tuple(trap % action for trap in _TRAPS),
    )
    for action, kind in _ACTIONS.items()
)
#: What the scanner looks for: an action between commas, and what follows it where that is the rest of a row; and what stands before it,
#: where that is a time of day as RMM writes it.
_LIKE_ROWS = tuple(replace(row, regex=f"{row.literal.decode()}(?:{_REST})?", means=_MEANS) for row in ROWS)
_STAMP = LineFormat("stamp", "rmm", b":", _THREAD + _CLOCK, _STAMP_MEANS)
_ANY_STAMP = re.compile((_THREAD + _TIME + r"\Z").encode())
#: Colours may stand within a stamp for the scanner, but not in a row.
_ESCAPE = LineFormat("escape", "rmm", b"\x1b", "\x1b", {})
_COLUMNS = {
    "kind": np.int8,
    "size": np.int64,
    "addr": np.uint64,
    **dict.fromkeys(("offset", "time_us", "thread", "stream"), np.int64),
}
#: Failures that are kept one by one; where memory is spilled and asked for again, they come by the thousand.
_MOST_FAILURES = 10_000
_HALF_DAY_US, _DAY_US = 12 * 3600 * 10**6, 24 * 3600 * 10**6
_HINT = (
    "To get a log, call rmm.reinitialize(logging=True, log_file_name='run.csv') before the first allocation,"
    " or set spark.rapids.memory.gpu.debug=STDERR."
)
_DEVICE = re.compile(r"\.dev(\d{1,4})(?=\.|\Z)")


def microseconds(text: bytes) -> int:
    """Of a time of day since midnight, of seconds as they are."""
    if b":" not in text:
        seconds, _, fraction = text.partition(b".")
        return int(seconds) * 10**6 + int(fraction[:6].ljust(6, b"0"))
    hours, minutes, seconds, fraction = re.split(rb"[:.]", text)
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 10**6 + int(fraction.ljust(6, b"0"))


@cache
def _scanner() -> Scanner:
    return Scanner(
        [*(Scan(row, header="before") for row in _LIKE_ROWS), _ESCAPE], header=_STAMP, header_values=tuple(_STAMP_MEANS)
    )


def _read_block(
    block: Block, matchers: Sequence[Matcher], *, numbered: bool, landmarks: bool
) -> tuple[Part, list[tuple[Text, int]]]:
    """The reading of one block: its events, and its failures as texts and bytes asked for."""
    rows = _scanner().scan(block.data, block.begin, block.end)
    values = dict(zip(_MEANS, rows.values.T, strict=True))
    (thread, clock), size = rows.header.T, values["size"]
    seconds = (clock // 10**10 * 60 + clock // 10**8 % 100) * 60 + clock // 10**6 % 100
    time_us = seconds * 10**6 + clock % 10**6
    # The digit is the end of a time.
    looks = (rows.format < len(ROWS)) & (block.data[rows.start - 1] - np.uint8(ord("0")) < 10)
    good = looks & (size >= 0) & (size <= MAX_SIZE)
    unsure = good & (clock < 0)
    if (escapes := rows.format == len(ROWS)).any():
        unsure |= good & np.isin(rows.line, rows.line[escapes])
    for row in np.flatnonzero(unsure).tolist():
        stamp = _ANY_STAMP.search(block.data[rows.line_start[row] : rows.start[row]].tobytes())
        good[row] = stamp is not None
        if stamp is not None:
            thread[row], time_us[row] = int(stamp["thread"] or -1), microseconds(stamp["time"])
    kind = np.array([*(-1 if kind is None else kind for kind in _ACTIONS.values()), -1], np.int8)[rows.format]
    number = values["number"]
    addr = np.where(values["nil"] == 0, 0, np.where(number < 0, values["pointer"], number))
    # What has no bytes and no address is no block: RMM gives it for a size of 0.
    events = np.flatnonzero(good & (kind >= 0) & ((addr != 0) | (size != 0)))
    columns = {
        "kind": kind,
        "size": size,
        "addr": addr.view(np.uint64),
        "offset": rows.line_start + (block.offset - block.begin),
        "time_us": time_us,
        "thread": thread,
        "stream": np.maximum(np.maximum(values["stream"], values["queue"]), 0),
    }
    wrong = rows.first_of_lines(np.flatnonzero(looks & ~good))

    def texts(some: NDArray[np.int64]) -> list[Text]:
        places = zip(rows.line_start[some].tolist(), rows.line[some].tolist(), strict=True)
        return [Text.of(block, start, line) for start, line in places]

    part = Part.of(
        block,
        rows,
        {name: column[events] for name, column in columns.items()},
        matchers,
        landmarks=landmarks_in_block(block.text, block.offset) if landmarks else None,
        line=rows.line[events] if numbered else None,
        malformed=len(wrong),
        samples=texts(wrong[:SAMPLES]),
    )
    failed = np.flatnonzero(good & (kind < 0))[:_MOST_FAILURES]
    return part, list(zip(texts(failed), size[failed].tolist(), strict=True))


class RmmReader(LineReader["tuple[Part, list[tuple[Text, int]]]"]):
    """Reads one log; all its events are of one group."""

    def __init__(self, source: TextSource, request: Request) -> None:
        self._source, self._builder = source, Builder(source, request, _COLUMNS, size=source.size)
        self._matchers = [Matcher(pattern) for pattern in request.patterns]
        self._wanted = {"numbered": lines_wanted(source), "landmarks": request.landmarks}
        device = _DEVICE.search(source.name)
        self._device = None if device is None else int(device[1])
        self._failures: list[OutOfMemory] = []
        self._threads: set[int] = set()

    def read(self, block: Block) -> tuple[Part, list[tuple[Text, int]]]:
        return _read_block(block, self._matchers, **self._wanted)

    def add(self, result: tuple[Part, list[tuple[Text, int]]]) -> None:
        part, failed = result
        for text, size in failed[: _MOST_FAILURES - len(self._failures)]:
            sample = self._builder.sample(text, self._builder.lines + 1)
            on = "" if self._device is None else f"GPU {self._device}"
            self._failures.append(OutOfMemory(sample.offset, sample.line, on, size, None, sample.text))
        self._threads.update(np.unique(part.columns["thread"]).tolist())
        self._builder.add(part)

    def take(self, *, ended: bool = False) -> NewEvents:  # noqa: ARG002
        all_of_it = frozenset({0})
        selected = Selection(self._device, "rmm", all_of_it, all_of_it, self._builder.malformed)
        return self._builder.take()._replace(sets=(all_of_it,), selected=(selected,), ooms=len(self._failures))

    def finish(self, problem: str) -> list[Log]:
        _over_midnight(self._builder.column("time_us"))
        return [
            self._builder.finish(
                cut_short=problem,
                facts={
                    "threads": tuple(sorted(self._threads - {-1})),
                    "layer": "rmm",
                    "has_chunks": False,
                    "ooms": tuple(self._failures),
                },
                columns={"device": self._device},
                nothing=self._nothing,
            )
        ]

    def _nothing(self, facts: Facts) -> NoEventsError:
        early = f" ({facts.cut_short})" if facts.cut_short else ""
        return NoEventsError(
            f"{self._source.name}: no allocate and no free in {facts.lines:,} lines of an RMM log{early}", _HINT
        )


def _over_midnight(time_us: NDArray[np.int64]) -> None:
    """Make times of day go on counting where a run goes on after midnight.

    A step back by more than half a day is a new day; one forward is a thread that is late with a row of the day before.
    """
    latest = int(time_us.max(initial=0))
    if (
        latest >= _DAY_US or latest - int(time_us.min(initial=0)) <= _HALF_DAY_US
    ):  # no times of day at all, or of one half of it
        return
    before, day = int(time_us[0]), 0
    for start, stop in walk(0, len(time_us)):
        times = time_us[start:stop]
        step = np.diff(times, prepend=before)
        before = int(times[-1])
        days = day + np.cumsum((step < -_HALF_DAY_US).astype(np.int64) - (step > _HALF_DAY_US))
        day = int(days[-1])
        times += days * _DAY_US


def recognise(head: bytes) -> str:
    """What in the first bytes of an input tells that it is an RMM log, in words; ``""`` where nothing does."""
    lines = head.split(b"\n")[:-1]
    if re.search(rb"(?m)^(?:Thread,)?Time,Action,Pointer,Size,Stream\s*$", head) or any(
        row.search(line[-512:]) for row in ROWS if row.literal in head for line in lines
    ):
        return "it holds RMM's header or whole rows of its log"
    return ""
