"""glog time stamps as microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DAYS_BEFORE_MONTH", "days_since_1970", "microseconds"]

Integer = TypeVar("Integer", int, "NDArray[np.int64]")

#: Days of the year before each month, 1-based; a year with a 29th of February, since a stamp without a year may have one.
DAYS_BEFORE_MONTH = (0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)


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
