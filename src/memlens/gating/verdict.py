"""The verdict of :func:`memlens.gate`, and the same in one to three sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from memlens.analyzers.series.growth import Pile
from memlens.gating.judging import Judged
from memlens.results import Answer, OnDemand, Result, Tables, Tabular
from memlens.text import format_change, format_count, format_exact, name_list, short_name
from memlens.units import format_bytes, format_signed, plural
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.analyzers.series.growth import Growth
    from memlens.diffing.result import WindowDiff
    from memlens.gating.limits import Limit, Metric
    from memlens.options import Cut
    from memlens.trust import Trust


SCHEMA = "memlens.gate/2"

_EXIT_CODES = {"pass": 0, "regression": 3, "unjudged": 1}
#: Reasons, and figures that are not judged, that a sentence names; and how much of a reason.
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
        failed: The sentence on how the log ran out of memory; ``""`` where it did not.
        blame: What failed first compared with the base's, where the base's events are known.
        unblamed: Further windows that failed and could have been compared.
        is_baseline: ``base`` is a baseline file, and could be written anew.
        top: Findings, and kinds of blocks that pile up, that :meth:`to_dict` lists.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = (
        "schema", "verdict", "explanation", "path", "base=base_named", "runs", "by", "steps_by=counted_by", "reasons",
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
    failed: str = ""
    blame: tuple[Blame, ...] = ()
    unblamed: int = 0
    is_baseline: bool = False
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


def answer_of(verdict: Verdict) -> Answer:
    """Word the verdict: what was judged, what is worst, what grows and piles up, what could not be judged."""
    failed = (verdict.failed,) if verdict.failed else ()
    if verdict.verdict == "unjudged":
        reasons = "; ".join(_reason(reason, verdict.path) for reason in verdict.reasons[:_NAMED])
        more = f"; and {plural(len(verdict.reasons) - _NAMED, 'more reason')}" if len(verdict.reasons) > _NAMED else ""
        return Answer((*failed, f"Not judged: {reasons}{more}."))
    parts = ["; ".join(_growing(verdict)), "; ".join(_not_judged(verdict))]
    if failed:  # which is the first of three sentences
        parts = ["; ".join(filter(None, parts))]
    sentences = tuple(f"{text[:1].upper()}{text[1:]}." for text in (_first(verdict), *filter(None, parts)))
    return Answer((*failed, *sentences), "good" if verdict.ok else "bad")


def _reason(reason: str, path: str) -> str:
    """A reason as it stands in a sentence: of the log, without its name."""
    reason = reason.replace(f"{path} is ", "the log is ").removeprefix(f"{path}: ")
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"


def _first(verdict: Verdict) -> str:
    """Word the worst that fails, of the run before its windows, or the peak where nothing does; and how much was judged."""
    rest = verdict_words(verdict, growth=False)
    if over := [row for row in verdict.failing if not row.missing]:
        worst = next((row for row in over if row.name == WHOLE), over[0])
        where = "the run" if worst.name == WHOLE else short_name(worst.name)
        return f"regression in {where}: {row_words(worst)}; {rest}"
    if not verdict.ok:
        return f"regression: {rest}, {name_list(verdict.missing)}"
    peak = next((row for row in verdict.judged if row.name == WHOLE and row.metric == "peak"), None)
    return f"within limits{'' if peak is None else f': {_within(peak)}'}; {rest}"


def _within(row: Judged) -> str:
    """A figure that passes, with what it may be."""
    head, base = row.head_bytes or 0, row.base_bytes
    against = "" if base is None else f", {format_signed(head - base)} against {format_bytes(base)}"
    what = "budget" if row.limit_from == "budget" else "limit"
    text = f"the {row.metric} of the run is {format_bytes(head)}{against}, {what} {format_bytes(row.limit_bytes or 0)}"
    return f"{text} ({_floor(row)})" if row.limit_from == "floor" else text


def _floor(row: Judged) -> str:
    """By how much a small figure may grow, where that is more than a share of it."""
    base, limit = row.base_bytes or 0, row.limit_bytes or 0
    return f"the floor of {format_bytes(limit - base)}{f', {format_change(base, limit)}' if base else ''}"


def _growing(verdict: Verdict) -> Iterator[str]:
    """Word what the steps gain, and what it consists of."""
    if not (words := growth_words(verdict)):
        return
    yield words
    if verdict.piling:
        pile = verdict.piling[0]
        owner = f" ({short_name(pile.owner)})" if pile.owner else ""
        kinds = f", first of {plural(len(verdict.piling), 'kind')}" if len(verdict.piling) > 1 else ""
        yield (
            f"{format_count(pile.count)} × {format_bytes(pile.size_bytes)}{owner} pile up, {format_bytes(pile.total_bytes)}{kinds}"
        )


def _not_judged(verdict: Verdict) -> Iterator[str]:
    """Word what could not be judged, and why; and why what was judged may be doubted."""
    why: dict[str, list[str]] = {}
    for row in verdict.windows:
        if row.unjudged is not None:
            name = f"{row.metric} of the run" if row.name == WHOLE else f"window {short_name(row.name)}"
            why.setdefault(row.unjudged, []).append(name)
    parts = [f"{name_list([*dict.fromkeys(names)][:_NAMED])}{_left(names)} ({reason})" for reason, names in why.items()]
    if parts:
        yield f"not judged: {', '.join(parts)}"
    if verdict.trust.peak_may_be_earlier and all(row.metric != "peak" for row in verdict.windows if row.unjudged):
        yield "the peak may be higher, for the log begins late"
    if verdict.failed:
        yield "what a run held when it ran out is not what it needs"


def _left(names: list[str]) -> str:
    left = len(dict.fromkeys(names)) - _NAMED
    return f" and {format_count(left)} more" if left > 0 else ""


def verdict_words(verdict: Verdict, *, growth: bool = True) -> str:
    """All of it in one sentence, with or without what grows."""
    if verdict.verdict == "unjudged":
        return "not judged"
    figures = verdict.judged
    over = [row for row in figures if not row.ok]
    parts = []
    if over:
        count = f"{format_count(len(over))} of {plural(len(figures), 'figure')} {'is' if len(over) == 1 else 'are'} over the limit"
        of_run = [row.metric for row in over if row.name == WHOLE]
        windows = len({row.name for row in over if row.name != WHOLE})
        where = [of_the_run(of_run)] if of_run else []
        where += [f"{plural(windows, 'window')}"] if windows else []
        parts.append(f"{count}: {' and '.join(where)}")
    elif verdict.ok:
        few = {1: "the one figure", 2: "both figures"}
        all_of = few.get(len(figures), f"all {plural(len(figures), 'figure')}")
        parts.append(f"{all_of} judged {'is' if len(figures) == 1 else 'are'} within limits")
    if verdict.missing:
        gone = plural(len(verdict.missing), "window is", "windows are")
        parts.append(f"{gone} missing{', which is let go' if verdict.allow_missing else ''}")
    if verdict.not_reached:
        parts.append(
            f"{format_count(verdict.judged_windows)} of the base's {plural(verdict.base_windows, 'window')} judged, for the run ends earlier"
        )
    if growth and (words := growth_words(verdict)):
        parts.append(words)
    return "; ".join(parts)


def of_the_run(metrics: Sequence[str]) -> str:
    """Metrics of the run, in a sentence: ``the remaining, peak and rise of the run``."""
    *first, last = metrics
    return f"the {', '.join(first)}{' and ' if first else ''}{last} of the run"


def growth_words(verdict: Verdict) -> str:
    """By how much memory grows over the steps; ``""`` where it does not."""
    found = verdict.growth
    if found is None or found.verdict != "growing":
        return ""
    since = "" if found.since is None else f" from window {short_name(found.since)} on"
    within = next((", within the limit" for row in verdict.judged if row.metric == "growth" and row.ok), "")
    return (
        f"memory grows by {format_bytes(round(found.gained_bytes_per_window))} a window{since}, {format_bytes(found.gained_bytes)} over"
        f" {plural(found.judged, 'window')}{within}"
    )


def row_words(row: Judged) -> str:
    """One figure that fails or improved, in a sentence without the window's name."""
    metric = row.metric
    if row.missing or row.head_bytes is None:
        return f"{metric}: the log has no such window; it was {format_bytes(row.base_bytes or 0)}"
    if row.limit_from == "budget" and not row.ok:
        d_bytes = row.d_bytes or 0
        change = f", {format_signed(d_bytes)} against {format_bytes(row.base_bytes or 0)}" if d_bytes else ""
        over = f"over the budget of {format_bytes(row.limit_bytes or 0)} by {format_exact(row.over_bytes)}"
        return f"{metric} is {format_bytes(row.head_bytes)}{change}; {over}"
    if row.base_bytes is None:
        text = f"{metric} is {format_bytes(row.head_bytes)}"
    else:
        change = format_change(row.base_bytes, row.head_bytes)
        text = (
            f"{metric} went from {format_bytes(row.base_bytes)} to {format_bytes(row.head_bytes)},"
            f" {format_signed(row.head_bytes - row.base_bytes)}{f' ({change})' if change else ''}"
        )
    if row.limit_bytes is None or row.ok:
        return text
    why = {"spread": " (the spread of the accepted runs)", "floor": f" ({_floor(row)})"}.get(row.limit_from or "", "")
    return f"{text}; over the limit of {format_bytes(row.limit_bytes)}{why} by {format_exact(row.over_bytes)}"
