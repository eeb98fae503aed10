"""How much a figure may grow, and how high it may be at all: in exact integers and fractions, never in floats."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Literal

from memlens.errors import UsageError
from memlens.units import format_bytes, parse_bytes

__all__ = [
    "BUDGETED",
    "DEFAULT_LIMITS",
    "METRICS",
    "WATCHED",
    "Limit",
    "Metric",
    "parse_budgets",
    "parse_limits",
    "parse_watched",
]

Metric = Literal["peak", "rise", "remaining", "growth", "reserved"]
#: Every figure that can be gated, in the order of reports.
METRICS: tuple[Metric, ...] = ("peak", "rise", "remaining", "growth", "reserved")
#: Those that a budget may hold for: what the device had to hold.
BUDGETED: tuple[Metric, ...] = ("peak", "reserved")
#: Those that a log is watched for while it grows.
WATCHED: tuple[Metric, ...] = ("peak", "reserved", "growth")

#: A limit that is longer than this is no limit: reading a number of a million digits takes minutes.
_LONGEST = 60
#: Holds every percentage that fits into a limit to its last digit.
_EXACT = Context(prec=2 * _LONGEST)
_PERCENT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%")
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<unit>[A-Za-z]*)")
_LIKE_A_LIMIT = "Write METRIC=PERCENT,SIZE with one of the two or both, like peak=2%,1MiB, remaining=0 or reserved=5%."
_LIKE_A_BUDGET = "Write METRIC=SIZE, like peak=12GiB."
_LIKE_A_WATCHED = "Write METRIC=SIZE, like peak=10GiB, reserved=12GiB or growth=64MiB."


@dataclass(frozen=True)
class Limit:
    """How much a figure may grow over the one that it is compared with.

    Attributes:
        relative: The relative part: this share of the base figure, of its magnitude where it is negative.
        absolute_bytes: The absolute part.
    """

    relative: Fraction = Fraction(0)
    absolute_bytes: int = 0

    def allows(self, base_bytes: int) -> int:
        """The bytes by which a figure may grow over a base: the larger one of the two parts, in whole bytes.

        A growth is over the limit when it exceeds *both* parts.  Bytes are whole, so it exceeds a share of them exactly when it exceeds
        that share cut to whole bytes.  Of a base of 0 every share is 0: the absolute part alone decides.
        """
        return max(self.absolute_bytes, int(self.relative * abs(base_bytes)))

    @property
    def percent(self) -> str:
        """The relative part in percent, a decimal number: ``2``, ``0.5``."""
        share = self.relative * 100
        return f"{_EXACT.divide(Decimal(share.numerator), Decimal(share.denominator)):f}"

    def __str__(self) -> str:
        parts = [f"{self.percent}%"] if self.relative else []
        if self.absolute_bytes or not parts:
            parts.append(format_bytes(self.absolute_bytes))
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Both parts, exactly: the share in percent as text, for a JSON number may be read as a float."""
        return {"percent": self.percent, "absolute_bytes": self.absolute_bytes}


#: What is gated, and how, where nobody says otherwise: what blocks hold.  A change of pool strategy moves what is reserved alone.
DEFAULT_LIMITS: Mapping[Metric, Limit] = dict.fromkeys(
    ("peak", "rise", "remaining", "growth"), Limit(Fraction(2, 100), 1 << 20)
)


def parse_limits(texts: str | Sequence[str]) -> dict[Metric, Limit]:
    """The limits to judge by: the default ones, each replaced by the one given for its metric.

    Args:
        texts: Limits as people type them: ``peak=2%,1MiB``, ``remaining=0``, ``reserved=5%``; ``remaining=off`` leaves a metric out.

    Raises:
        UsageError: A text is no limit, its size has no unit, there is no such metric, or one metric is given twice.
    """
    found: dict[Metric, Limit | None] = dict(DEFAULT_LIMITS)
    for metric, value in _by_metric(texts, "limit", _LIKE_A_LIMIT).items():
        found[metric] = None if value.lower() == "off" else _limit(value)
    return {metric: limit for metric in METRICS if (limit := found.get(metric)) is not None}


def parse_budgets(texts: str | Sequence[str]) -> dict[Metric, int]:
    """The budgets to judge by, in bytes: how high a figure may be, whatever it was before.

    Args:
        texts: Budgets as people type them: ``peak=12GiB``.

    Raises:
        UsageError: A text is no budget, its size has no unit, there is no budget for such a metric, or one metric is given twice.
    """
    return _sizes(
        *(texts, "budget", _LIKE_A_BUDGET, BUDGETED),
        lambda metric: UsageError(
            f"there is no budget for {metric}: a budget is how much the device may hold, in all",
            f"Budgets: {', '.join(BUDGETED)}. --limit {metric}=SIZE says how much {metric} may grow over a base.",
        ),
    )


def parse_watched(texts: str | Sequence[str]) -> dict[Metric, int]:
    """The limits of a log that grows, in bytes: how high its peak and what is reserved may be, and how much its series may gain.

    Args:
        texts: Limits as people type them: ``peak=10GiB``, ``growth=64MiB``.

    Raises:
        UsageError: A text is no such limit, its size has no unit, such a metric is not watched, or one metric is given twice.
    """
    return _sizes(
        *(texts, "limit", _LIKE_A_WATCHED, WATCHED),
        lambda metric: UsageError(
            f"{metric} is not watched",
            f"Limits of a log that grows: {', '.join(WATCHED)}. memlens gate judges {metric}.",
        ),
    )


def _sizes(
    texts: str | Sequence[str],
    what: str,
    hint: str,
    offered: Sequence[Metric],
    refusal: Callable[[Metric], UsageError],
) -> dict[Metric, int]:
    """The size given for each metric, in the order of those that there are; the others are refused."""
    given = _by_metric(texts, what, hint, offered)
    for metric in given:
        if metric not in offered:
            raise refusal(metric)
    return {metric: _size(given[metric], given[metric], hint) for metric in offered if metric in given}


def _by_metric(
    texts: str | Sequence[str], what: str, hint: str, offered: Sequence[Metric] = METRICS
) -> dict[Metric, str]:
    found: dict[Metric, str] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        name, equals, value = text.partition("=")
        metric = next((known for known in METRICS if known == name.strip().lower()), None)
        if not equals or len(text) > _LONGEST:
            raise UsageError(f"{_quoted(text)} is no {what}", hint)
        if metric is None:
            raise UsageError(f"there is no metric {_quoted(name)}", f"Metrics: {', '.join(offered)}.")
        if metric in found:
            raise UsageError(f"the {what} of {metric} is given twice", "Give one for each metric.")
        found[metric] = value.strip()
    return found


def _limit(text: str) -> Limit:
    relative: list[Fraction] = []
    absolute: list[int] = []
    for part in text.split(","):
        if match := _PERCENT.fullmatch(part.strip()):
            relative.append(_number(match["number"]) / 100)
        else:
            absolute.append(_size(part, text, _LIKE_A_LIMIT))
    if len(relative) > 1 or len(absolute) > 1:
        raise UsageError(f"{_quoted(text)} is no limit: it has two parts of one kind", _LIKE_A_LIMIT)
    return Limit(sum(relative, Fraction(0)), sum(absolute))


def _size(part: str, text: str, hint: str) -> int:
    """A size in whole bytes, exactly, where :func:`memlens.units.parse_bytes` rounds a number with a point.

    A number without a unit is refused, but 0: of ``peak=10`` nobody knows whether bytes or MiB are meant.
    """
    match = _SIZE.fullmatch(part.strip())
    if match is not None:
        number, unit = match["number"], match["unit"]
        if not unit and _number(number):
            raise UsageError(
                f"{_quoted(text)}: the size {number} has no unit", f"Is it {number}MiB, or {number}B? {hint}"
            )
        with suppress(UsageError):
            return int(_number(number) * parse_bytes(f"1{unit}"))
    raise UsageError(f"{_quoted(text)} holds no size", hint)


def _number(text: str) -> Fraction:
    return Fraction(f"0{text}".rstrip("."))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
