"""glog time stamps as microseconds: of numbers, of columns, and of a few events looked up in their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from memlens.inputs.paddle import events as paddle
from memlens.scanner.plain import Header

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["DAYS_BEFORE_MONTH", "column_of_times", "days_since_1970", "microseconds", "times_of"]

Integer = TypeVar("Integer", int, "NDArray[np.int64]")

#: Days of the year before each month, 1-based; a year with a 29th of February, since a stamp without a year may have one.
DAYS_BEFORE_MONTH = (0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
_EVENTS = (paddle.BLOCK, paddle.CHUNK_NEW, paddle.CHUNK_BACK)


def days_since_1970(year: Integer, month: Integer, day: Integer) -> Integer:
    """Days from 1970-01-01 to a date of the Gregorian calendar, for numbers or for arrays of them.

    Months are counted from March, so that the leap day ends a year: 153 days make five months.
    """
    from_march = (month + 9) % 12
    year = year - from_march // 10
    leap_days = year // 4 - year // 100 + year // 400
    return year * 365 + leap_days + (from_march * 153 + 2) // 5 + day - 1 - 719468


def microseconds(date: bytes, time: bytes) -> int:
    """Microseconds of a glog stamp: since the start of the year (``mmdd``) or since 1970 (``yyyymmdd``).

    The clock is the machine's local one; only differences mean something.  Returns -1 for a month or day that does not exist.
    """
    month, day = int(date[-4:-2]), int(date[-2:])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return -1
    if len(date) == 8:
        days = days_since_1970(int(date[:4]), month, day)
    else:
        days = DAYS_BEFORE_MONTH[month] + day - 1
    hours, minutes, seconds = int(time[0:2]), int(time[3:5]), int(time[6:8])
    return ((days * 24 + hours) * 60 + minutes) * 60_000_000 + seconds * 1_000_000 + int(time[9:15])


def column_of_times(year: NDArray[np.int64], date: NDArray[np.int64], clock: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same for columns of numbers: ``yyyy`` (-1 where there is none), ``mmdd`` and ``hhmmssuuuuuu``, all -1 where there is no stamp."""
    month, day = np.divmod(date, 100)
    real = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    days = np.array(DAYS_BEFORE_MONTH)[np.where(real, month, 0)] + day - 1
    if (year >= 0).any():
        days = np.where(year >= 0, days_since_1970(year, month, day), days)
    rest, micros = np.divmod(clock, 1_000_000)
    rest, seconds = np.divmod(rest, 100)
    hours, minutes = np.divmod(rest, 100)
    return np.where(real, ((days * 24 + hours) * 60 + minutes) * 60_000_000 + seconds * 1_000_000 + micros, -1)


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
    places = [match.start() for form in _EVENTS if (match := form.search(line))]
    header = Header(paddle.HEADER, ()).before(line[: min(places)]) if places else None
    time = -1 if header is None else microseconds((header["year"] or b"") + header["date"], header["time"])
    return time if time >= 0 else None
