"""The time of a few events, read from their lines: cheaper than a column of times when a screen shows one or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlens.inputs.paddle import events as paddle
from memlens.inputs.paddle.plain import header_before
from memlens.inputs.paddle.times import microseconds

if TYPE_CHECKING:
    from memlens.events import EventLog

__all__ = ["times_of"]

_EVENTS = (paddle.BLOCK, paddle.CHUNK_NEW, paddle.CHUNK_BACK)


def times_of(log: EventLog, events: Sequence[int]) -> list[int | None]:
    """When each of some events was logged, in microseconds as in :attr:`EventLog.time_us`.

    Looks the text up where the log has no times and can be read again at little cost; ``None`` where no time is known.
    """
    if log.time_us is not None:
        return [time if time >= 0 else None for time in log.time_us[list(events)].tolist()]
    if not log.source.rereadable or log.line is not None:  # lines are kept where a second look is dear or impossible
        return [None] * len(events)
    return [_time(line) for line in log.source.lines(log.offset[list(events)].tolist())]


def _time(line: bytes | None) -> int | None:
    if line is None:
        return None
    places = [match.start() for form in _EVENTS if (match := form.search(line))]
    header = header_before(line[: min(places)]) if places else None
    time = -1 if header is None else microseconds(header["date"], header["time"])
    return time if time >= 0 else None
