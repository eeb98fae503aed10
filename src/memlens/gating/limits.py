"""How much a figure may grow (a limit), and how high it may be at all (a budget): in exact integers and fractions, never in floats."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from msgspec import Struct

from memlens.errors import UsageError
from memlens.results import Result
from memlens.text import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: Roles that can be gated (:data:`memlens.claims.roles.ROLES`): what of them is live at the peak of the run.
Role = Literal["parameter", "gradient", "optimizer", "buffer", "saved", "communication", "cache", "variable"]
Metric = Literal["peak", "rise", "remaining", "growth", "reserved"] | Role
BY_ROLE: tuple[Role, ...] = get_args(Role)
#: Every figure that can be gated, in the order of reports.
METRICS: tuple[Metric, ...] = ("peak", "rise", "remaining", "growth", "reserved", *BY_ROLE)
#: Those that a budget of a gate may hold for, what the device held; and of a log that is watched.
BUDGETED: tuple[Metric, ...] = ("peak", "reserved", *BY_ROLE)
WATCHED: tuple[Metric, ...] = ("peak", "reserved", "growth")

#: A limit that is longer than this is no limit: reading a number of a million digits takes minutes.
_LONGEST = 60
#: Holds every percentage that fits into a limit to its last digit.
_EXACT = Context(prec=2 * _LONGEST)
_PERCENT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%")
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<unit>[A-Za-z]*)")
_LIKE_A_LIMIT = "Write METRIC=PERCENT,SIZE with one of the two or both, like peak=2%,1MiB, remaining=0 or reserved=5%."
_LIKE_A_BUDGET = "Write METRIC=SIZE, like peak=12GiB."


class Limit(Result, frozen=True):
    """How much a figure may grow over the one that it is compared with.

    Attributes:
        relative: The relative part: this share of the base figure, of its magnitude where it is negative.
        absolute_bytes: The absolute part.
    """

    # A share as text: a JSON number may be read as a float.
    in_json: ClassVar[tuple[str, ...]] = ("percent", "absolute_bytes")

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


#: How much a figure of the run may grow, and one of a window, where nothing else is said.  The floors are what real runs of one program need that
#: were repeated: those of the run are alike to the byte, and next to an anchor threads move blocks to its other side (docs/gate.md).
DEFAULT_LIMIT = Limit(Fraction(2, 100), 64 << 10)
DEFAULT_OF_WINDOWS = Limit(Fraction(2, 100), 1 << 20)


class Rules(Struct, frozen=True):
    """The limits and budgets that a log is judged by.

    Attributes:
        limits: How much each metric may grow.
        budgets: How high each metric of the whole run may be, in bytes.
        peak_of_windows: How much the peak of a window may grow; ``None`` where that of the run may grow as much.
        named: The metrics that the user gave a limit, or switched off: a limit that cannot be judged is no pass.
        allow_missing: Windows that the log lacks do not fail.
    """

    limits: Mapping[Metric, Limit] = {}
    budgets: Mapping[Metric, int] = {}
    peak_of_windows: Limit | None = None
    named: frozenset[Metric] = frozenset()
    allow_missing: bool = False

    @classmethod
    def parse(
        cls,
        limits: str | Sequence[str] = (),
        budgets: str | Sequence[str] = (),
        *,
        windows: bool = True,
        allow_missing: bool = False,
    ) -> Rules:
        """The limits and budgets that people typed, and the default limits of the metrics that they left out.

        Args:
            limits: See :func:`parse_limits`.
            budgets: See :func:`parse_budgets`.
            windows: Windows are named, of which what they leave behind is judged, too.
            allow_missing: As above.

        Raises:
            UsageError: One of them is none.
        """
        given = parse_limits(limits)
        found: dict[Metric, Limit | None] = {"peak": DEFAULT_LIMIT, "growth": DEFAULT_LIMIT}
        found |= {"remaining": DEFAULT_OF_WINDOWS} if windows else {}
        found |= given
        return cls(
            {metric: limit for metric in METRICS if (limit := found.get(metric)) is not None},
            parse_budgets(budgets),
            None if "peak" in given else DEFAULT_OF_WINDOWS,
            frozenset(given),
            allow_missing,
        )

    def limit(self, metric: Metric, *, of_window: bool) -> Limit | None:
        """How much a figure of the run or of a window may grow; ``None`` where it has no limit."""
        own = self.peak_of_windows if of_window and metric == "peak" and metric in self.limits else None
        return own or self.limits.get(metric)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that have a limit or a budget."""
        return tuple(filter(self.gated, BY_ROLE))

    def gated(self, metric: Metric) -> bool:
        """Whether a metric has a limit or a budget."""
        return metric in self.limits or metric in self.budgets


def parse_limits(texts: str | Sequence[str]) -> dict[Metric, Limit | None]:
    """Limits as people type them: ``peak=2%,1MiB``, ``remaining=0``, ``reserved=5%``; ``remaining=off`` (``None``) leaves a metric out.

    Raises:
        UsageError: A text is no limit, its size has no unit, there is no such metric, or one metric is given twice.
    """
    given = _by_metric(texts, "limit", _LIKE_A_LIMIT, METRICS)
    return {metric: None if value.lower() == "off" else _limit(value) for metric, value in given.items()}


def parse_budgets(texts: str | Sequence[str], offered: Sequence[Metric] = BUDGETED) -> dict[Metric, int]:
    """Budgets as people type them, ``peak=12GiB``, in bytes: how high a figure may be, whatever it was before.

    Args:
        texts: The budgets.
        offered: The metrics that may have one.

    Raises:
        UsageError: A text is no budget, its size has no unit, there is no budget for such a metric, or one metric is given twice.
    """
    given = _by_metric(texts, "budget", _LIKE_A_BUDGET, offered)
    for metric in given:
        if metric not in offered:
            raise UsageError(
                f"there is no budget for {metric}: a budget is how much may be held, in all",
                f"Budgets: {', '.join(offered)}. memlens gate --limit {metric}=SIZE says how much {metric} may grow over a base.",
            )
    return {metric: _size(given[metric], given[metric], _LIKE_A_BUDGET) for metric in offered if metric in given}


def _by_metric(texts: str | Sequence[str], what: str, hint: str, offered: Sequence[Metric]) -> dict[Metric, str]:
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
    """A size in whole bytes, exactly, where :func:`memlens.text.parse_bytes` rounds a number with a point.

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
