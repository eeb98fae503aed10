"""glog time stamps as microseconds: of columns of numbers, and of a few events looked up in their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.inputs.paddle import events as paddle
from memlens.scanner.plain import Header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.columns import Ints
    from memlens.events import EventLog


#: Days of the year before each month, 1-based; a year with a 29th of February, since a stamp without a year may have one.
_DAYS_BEFORE_MONTH = (0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)


def column_of_times(year: Ints, date: Ints, clock: Ints) -> Ints:
    """Microseconds of glog stamps, int64: since the start of the year, or since 1970 where there is a year; -1 where there is no stamp.

    The clock is the machine's local one; only differences mean something.

    Args:
        year: ``yyyy``, -1 where there is none.
        date: ``mmdd``, -1 where there is no stamp.
        clock: ``hhmmssuuuuuu``, the same.
    """
    month, day = np.divmod(date, 100)
    real = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    days = np.array(_DAYS_BEFORE_MONTH)[np.where(real, month, 0)] + day - 1
    if (year >= 0).any():
        days = np.where(year >= 0, _days_since_1970(year, month, day), days)
    rest, micros = np.divmod(clock, 1_000_000)
    rest, seconds = np.divmod(rest, 100)
    hours, minutes = np.divmod(rest, 100)
    return np.where(real, ((days * 24 + hours) * 60 + minutes) * 60_000_000 + seconds * 1_000_000 + micros, -1)


def _days_since_1970(year: Ints, month: Ints, day: Ints) -> Ints:
    """Days from 1970-01-01 to dates of the Gregorian calendar.

    Months are counted from March, so that the leap day ends a year: 153 days make five months.
    """
    from_march = (month + 9) % 12
    year = year - from_march // 10
    leap_days = year // 4 - year // 100 + year // 400
    return year * 365 + leap_days + (from_march * 153 + 2) // 5 + day - 1 - 719468


def times_of(log: EventLog, events: Sequence[int]) -> list[int | None]:
    """When each of some events was logged, in microseconds as in :attr:`EventLog.time_us`.

    Looks the text up where the log has no times and can be read again at little cost, which is cheaper than a column of times when a screen
    shows one or two; ``None`` where no time is known.
    """
    if log.time_us is not None:
        return [time if time >= 0 else None for time in log.time_us[list(events)].tolist()]
    if not log.source.rereadable or getattr(
        log.source, "numbered", log.line is not None
    ):  # where a second look is dear
        return [None] * len(events)
    return [_time(line) for line in log.source.lines(log.offset[list(events)].tolist())]


def _time(line: bytes | None) -> int | None:
    if line is None:
        return None
    places = [match.start() for form in paddle.EVENTS if (match := form.search(line))]
    stamp = Header(paddle.HEADER, ("year", "date", "time"))
    header = stamp.before(line[: min(places)]) if places else None
    (time,) = column_of_times(*stamp.values([header])).tolist()
    return time if time >= 0 else None
