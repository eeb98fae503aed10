"""The verdict of :func:`memlens.gate`, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import structs

from memlens.analyzers.series.growth import Grown, Pile, bytes_of
from memlens.claims.claim import Claim, Tone, Weight, difference, values_of
from memlens.claims.roles import variable_of
from memlens.gating.judging import NOT_NAMED, Judged
from memlens.results import OnDemand, Result, Tables, Tabular
from memlens.text import MOST_NAMES, innermost
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.analyzers.composition import Share
    from memlens.analyzers.series.growth import Growth
    from memlens.diffing.result import WindowDiff
    from memlens.gating.limits import Limit, Metric
    from memlens.options import Cut
    from memlens.trust import Trust


SCHEMA = "memlens.gate/2"

_EXIT_CODES = {"pass": 0, "regression": 3, "unjudged": 1}
#: Reasons, and figures that are not judged, that a claim names; and how much of a reason.
_NAMED, _LONGEST = 2, 300


class Blame(Result, frozen=True, eq=False):
    """A failure, with the differences of the two runs there.

    Attributes:
        name: The window's name, as in :class:`~memlens.gating.judging.Judged`; ``(whole log)`` for the run.
        metrics: The metrics that failed.
        diff: It, compared with that of the base.
    """

    in_json: ClassVar[tuple[str, ...]] = ("metrics", "diff", "name")
    spliced: ClassVar[frozenset[str]] = frozenset({"diff"})

    name: str
    metrics: tuple[Metric, ...]
    diff: WindowDiff


class SeriesGrowth(Result, frozen=True):
    """How memory develops over the steps of the log; see :class:`~memlens.analyzers.series.growth.Growth`.

    Attributes:
        windows: How many steps were judged.
    """

    windows: int
    verdict: str
    gained_bytes: int
    gained_bytes_per_window: float
    since: str | None


class Verdict(Tabular, frozen=True, eq=False):
    """The verdict of :func:`memlens.gate`.

    Attributes:
        verdict: ``pass``, ``regression``, or ``unjudged`` where nothing can be said.
        path: The log as it was named.
        base: The baseline or the log that it is compared with, as it was named; ``""`` for budgets alone.
        windows: Every metric of the run and of its windows that has a limit or a budget: those that fail first, the worst of them at the top, then
            windows that are missing, then the others, the largest growth first, then what is not judged; none where figures are in doubt.
        trust: What to believe of the log.
        anchors: Where the logs were cut.
        limits: How much each metric may grow.
        peak_of_windows: How much the peak of a window may grow, where that of the run may grow by another limit.
        budgets: How high each metric may be, in bytes.
        allow_missing: Windows that the log lacks do not fail.
        reasons: Why nothing can be said; empty unless ``unjudged``.
        doubtful: It is not judged because figures are in doubt, and would be with ``trust=False``.
        notes: What to doubt or to know all the same, in words.
        missing: Names of windows that the base has and the log lacks.
        not_reached: Names of windows that it lacks because it ends before them.
        new: Names of windows that the log has and the base lacks.
        base_windows: How many windows the base has.
        judged_windows: How many of them were judged.
        runs: How many runs the base was taken of; 0 where there is none.
        steps_by: The regular expression that cuts the log into the steps over which growth is judged; ``""`` where there are none.
        growth: How memory develops over these steps; ``None`` where there are none, or too few to tell.
        unit: What they are called: a ``step``, or a ``window`` where that may hold several.
        failed: How the log ran out of memory; ``None`` where it did not.
        ended: How it ended early, by the values of the claim ``run_ended``; nothing where it ran to its end, or out of memory.
        blame: What failed first compared with the base's, where the base's events are known.
        unblamed: Further windows that failed and could have been compared.
        is_baseline: ``base`` is a baseline file, and could be written anew.
        shares: What is live at the peak, by role, where that is asked for.
        top: Findings, and kinds of blocks that pile up, that :meth:`to_dict` lists.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = (
        "schema", "verdict", "claims", "explanation", "path", "base=base_named", "runs", "by", "steps_by=counted_by", "reasons",
        "notes", "limits", "budgets", "missing", "not_reached", "new", "allow_missing", "base_windows",
        "judged_windows", "windows=listed", "growth=series_growth", "piling", "blame", "unblamed", "trust",
    )  # fmt: skip
    tables: ClassVar[Tables] = {"piling": Pile}

    verdict: Literal["pass", "regression", "unjudged"]  # in words it is the explanation
    path: str
    base: str
    windows: tuple[Judged, ...]
    trust: Trust
    anchors: Cut
    limits: Mapping[Metric, Limit] = {}
    peak_of_windows: Limit | None = None
    budgets: Mapping[Metric, int] = {}
    allow_missing: bool = False
    reasons: tuple[str, ...] = ()
    doubtful: bool = False
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    not_reached: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    base_windows: int = 0
    judged_windows: int = 0
    runs: int = 0
    steps_by: str = ""
    growth: Growth | None = None
    failed: Claim | None = None
    ended: Mapping[str, Any] = {}
    blame: tuple[Blame, ...] = ()
    unblamed: int = 0
    unit: str = "window"
    is_baseline: bool = False
    shares: tuple[Share, ...] = ()
    top: int | None = 10

    @property
    def ok(self) -> bool:
        """Whether everything that was judged is within limits."""
        return self.verdict == "pass"

    @property
    def explanation(self) -> str:
        """One to three sentences with exact figures: what was judged, what is worst, what grows and what could not be judged."""
        return str(self.answer)

    @property
    def exit_code(self) -> int:
        """0 within limits, 3 a regression, 1 unjudged."""
        return _EXIT_CODES[self.verdict]

    @property
    def judged(self) -> tuple[Judged, ...]:
        """The figures that were held against a limit or a budget."""
        return tuple(row for row in self.windows if row.limit_bytes is not None)

    @property
    def failing(self) -> tuple[Judged, ...]:
        """The figures that fail, worst first, missing windows last."""
        return tuple(row for row in self.windows if not row.ok)

    @property
    def improved(self) -> tuple[Judged, ...]:
        """The figures that fell by more than they may grow, the largest change first."""
        return tuple(sorted((row for row in self.windows if row.improved), key=lambda row: row.d_bytes or 0))

    @property
    def piling(self) -> tuple[Pile, ...]:
        """The blocks that pile up where memory grows, the largest total first."""
        return () if self.growth is None else self.growth.piling

    @property
    def base_named(self) -> str | None:
        """The base, ``None`` for budgets alone."""
        return self.base or None

    @property
    def by(self) -> str | None:
        """The regular expression that cut the logs into windows."""
        return self.anchors.by

    @property
    def counted_by(self) -> str | None:
        """The regular expression that cut the log into steps, ``None`` where there are none."""
        return self.steps_by or None

    @property
    def listed(self) -> Sequence[Judged]:
        """The rows, to be written one by one: there may be very many."""
        return OnDemand(len(self.windows), self.windows.__getitem__)

    @property
    def series_growth(self) -> SeriesGrowth | None:
        """How memory develops over the steps, in figures."""
        if (grown := self.growth) is None:
            return None
        return SeriesGrowth(grown.judged, grown.verdict, grown.gained_bytes, grown.gained_bytes_per_window, grown.since)

    def lazy_rows(self) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
        """The names of their columns, and the rows of :meth:`rows` one by one."""
        names = list(Judged.__struct_fields__) if self.windows else []
        return names, (row.to_dict() for row in self.windows)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each figure that has a limit or a budget, the worst first."""
        return [row.to_dict() for row in self.windows]


def claims_of(verdict: Verdict) -> Iterator[Claim]:
    """Yield how the run ran out of memory, what was judged, what is worst, what grows and piles up, and what could not be judged."""
    tone: Tone = "plain" if verdict.verdict == "unjudged" else "good" if verdict.ok else "bad"
    if verdict.failed is not None:
        yield structs.replace(verdict.failed, tone=tone)
    elif verdict.ended:
        yield Claim("run_ended", Weight.ENDING, verdict.ended, tone)
    if verdict.verdict == "unjudged":
        reasons = [_reason(reason, verdict.path) for reason in verdict.reasons[:_NAMED]]
        yield difference("not_judged", reasons=reasons, more=_left(verdict.reasons, _NAMED))
        return
    yield from _first(verdict, tone)
    growth = [*_growing(verdict)]
    yield from growth
    # Three sentences are read at a glance.
    weight = Weight.CAUSE if verdict.failed and growth else Weight.LIMITS
    yield from (structs.replace(claim, weight=weight) for claim in _unjudged(verdict))


def _left(names: Sequence[object], most: int) -> int | None:
    """How many of some names are not among the first few; ``None`` for none."""
    return max(len(names) - most, 0) or None


def _reason(reason: str, path: str) -> str:
    """A reason as it stands in a sentence: of the log, without its name."""
    reason = reason.replace(f"{path} is ", "the log is ").removeprefix(f"{path}: ")
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"


def _first(verdict: Verdict, tone: Tone) -> Iterator[Claim]:
    """Yield the worst that fails, of the run before its windows, or the peak where nothing does; and how much was judged."""
    over = [row for row in verdict.failing if not row.missing]
    judged = [*counted(verdict)]
    worst = next((row for row in over if row.name == WHOLE), over[0] if over else None)
    if verdict.ok:
        peak = next((row for row in verdict.judged if row.name == WHOLE and row.metric == "peak"), None)
        lead = difference("within_limits", **({} if peak is None else _figures(peak)))
    elif worst is None:
        lead = difference("regression")
        # All that fails is what is missing.
        names = {"names": list(verdict.missing[:MOST_NAMES]), "more": _left(verdict.missing, MOST_NAMES)}
        judged[0] = structs.replace(judged[0], values={**judged[0].values, "only": True, **names})
    else:
        lead = difference("regression", whole=worst.name == WHOLE, window=None if worst.name == WHOLE else worst.name)
        judged[:0] = [claim_of(worst), *_largest_of(worst, verdict)]
    yield structs.replace(lead, tone=tone)
    yield from judged


def _largest_of(row: Judged, verdict: Verdict) -> Iterator[Claim]:
    """Yield who holds, and what made, the largest part of a role that fails, as far as that is known."""
    share = next((share for share in verdict.shares if share.role == row.metric), None)
    if share is not None:
        owner = None if share.owner is None or share.owner.startswith("(") else share.owner
        values = {"role": share.role, "told_by": share.told_by, "holder": variable_of(share.holder), "owner": owner}
        if values["holder"] or owner:
            yield difference("largest_of_role", **values)


def _figures(row: Judged) -> dict[str, Any]:
    """What is known of a figure."""
    values = values_of(row, "metric", "base_bytes", "head_bytes", "d_bytes", "limit_bytes", "limit_from")
    if row.limit_from == "floor":
        values["allowed_bytes"] = (row.limit_bytes or 0) - (row.base_bytes or 0)
    return values


def claim_of(row: Judged) -> Claim:
    """One figure that fails or improved; in words it goes without the window's name."""
    if row.missing or row.head_bytes is None:
        return difference("missing_window", window=row.name, metric=row.metric, base_bytes=row.base_bytes or 0)
    over = row.limit_bytes is not None and not row.ok
    kind = "within_limit" if not over else "over_budget" if row.limit_from == "budget" else "over_limit"
    compared = row.base_bytes is not None
    return difference(kind, window=row.name, over_bytes=row.over_bytes, compared=compared, **_figures(row))


def counted(verdict: Verdict) -> Iterator[Claim]:
    """Yield how much was judged and how much of it fails, and what is missing or was not reached."""
    if verdict.verdict == "unjudged":
        yield difference("not_judged")
        return
    figures = verdict.judged
    if over := [row for row in figures if not row.ok]:
        of_run = [row.metric for row in over if row.name == WHOLE] or None
        windows = len({row.name for row in over if row.name != WHOLE})
        yield difference("figures_over", over=len(over), figures=len(figures), of_run=of_run, windows=windows)
    elif verdict.ok:
        yield difference("figures_within", figures=len(figures))
    if verdict.missing:
        yield difference("windows_missing", missing=len(verdict.missing), allowed=verdict.allow_missing)
    if verdict.not_reached:
        yield difference("ends_earlier", **values_of(verdict, "judged_windows", "base_windows"))


def grows(verdict: Verdict) -> bool:
    """Whether memory grows over the steps."""
    return verdict.growth is not None and verdict.growth.verdict == "growing"


def _growing(verdict: Verdict) -> Iterator[Claim]:
    """Yield what the steps gain, and what it consists of."""
    found = verdict.growth
    if found is None or not grows(verdict):
        return
    values = values_of(found, "gained_bytes", "since", "until", windows=found.judged)
    values["unit"] = verdict.unit
    values["gained_bytes_per_window"] = round(found.gained_bytes_per_window)
    values["last_windows"] = found.growing_windows if found.growing_windows < found.judged else None
    values["within_limit"] = any(row.metric == "growth" and row.ok for row in verdict.judged)
    yield Claim("grows", Weight.CAUSE, values)
    if isinstance(grown := found.most, Grown):
        values = values_of(grown, "owner", "holder", held_in_part=grown.held_in_part or None)
        yield Claim("grown_by", Weight.CAUSE, values)
    elif verdict.piling:
        pile, holder = verdict.piling[0], variable_of(verdict.piling[0].holder)
        alike = next(one for one in found.piles_alike if pile in one)
        owner = innermost(pile.owner) if pile.owner and len(alike) > 1 else pile.owner
        blocks = values_of(pile, "size_bytes", total_bytes=bytes_of(alike), blocks=sum(one.count for one in alike))
        blocks |= {"owner": owner or None, "holder": holder, "kinds": len(found.piles_alike)}
        if holder is not None and any(one.held_in_part or one.holder != pile.holder for one in alike):
            blocks["held_in_part"] = True
        yield Claim("piles_up", Weight.CAUSE, blocks)


def _unjudged(verdict: Verdict) -> Iterator[Claim]:
    """Yield what could not be judged, and why; what grew and nobody asked for; and why what was judged may be doubted."""
    why: dict[str, dict[tuple[str, str], None]] = {}
    for row in verdict.windows:
        if row.unjudged not in (None, NOT_NAMED):
            figure = ("metric", row.metric) if row.name == WHOLE else ("window", row.name)
            why.setdefault(row.unjudged, {})[figure] = None
    if verdict.windows and verdict.new:
        why["not in the base"] = dict.fromkeys(("window", name) for name in verdict.new)
    groups = [
        {"reason": reason, "named": [dict([one]) for one in [*figures][:_NAMED]], "more": _left([*figures], _NAMED)}
        for reason, figures in why.items()
    ]
    if groups:
        yield difference("figures_unjudged", unjudged=groups)
    for row in verdict.windows:
        if row.unjudged == NOT_NAMED and verdict.ok:
            yield difference("reserved_not_judged", **values_of(row, "base_bytes", "head_bytes", "d_bytes"))
    if verdict.trust.peak_may_be_earlier and all(row.metric != "peak" for row in verdict.windows if row.unjudged):
        yield difference("peak_may_be_higher")
    if verdict.failed is not None:
        yield difference("held_and_not_needed")
