"""``memlens.gate`` and ``memlens.accept``: judge a log against what an earlier one gave, and keep what it gives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field
from msgspec.structs import replace

from memlens.analyzers.series.growth import Growth, growth
from memlens.analyzers.series.trend import MINIMUM
from memlens.errors import InputError, MemlensError, OutputError, UsageError
from memlens.facts import Kind
from memlens.gating.baseline import Anchors, Baseline, anchor_options, parse_baseline, read_baseline
from memlens.gating.figures import Run, Summary, check_runs_alike, read_runs
from memlens.gating.judging import Judged, PairedRuns, judge, pair_runs
from memlens.gating.limits import METRICS, Rules
from memlens.gating.verdict import Blame, Verdict, answer_of
from memlens.inputs import input_key
from memlens.options import Accept, Cut, Gate, as_list
from memlens.options.keywords import with_keywords
from memlens.results import answered
from memlens.scheduling.spreading import spread_out
from memlens.text import name_list
from memlens.windows.windows import BEFORE, WHOLE, edges_of, names_of, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from memlens.gating.limits import Metric
    from memlens.log import Input


_ACCEPT = "memlens gate LOG --baseline FILE --accept takes one"
#: What is compared, the worst first: a gate is to say what broke, and not to compare it all.
_BLAMED = 10


def gate_with(log: Input, options: Gate) -> Verdict:
    """Judge a log: is it within limits of what an earlier one gave, and within its budgets?

    Args:
        log: What to judge: a path (``-`` is standard input), a binary file, or a log already read.  Where no anchor is given, it is
            cut by those of the baseline.
        options: See :class:`memlens.options.Gate`.

    Raises:
        UsageError: Nothing to compare with, anchors that are not the baseline's, or a limit that is none.
        InputError: A log or the baseline cannot be read.
        AnchorError: An anchor marks no line.
    """
    baseline = options.baseline
    kept = None if baseline is None else read_baseline(baseline)
    cut = _anchors(Cut(**options.of(Cut)), kept, baseline)
    order = _Order(log, cut, options, _rules(options, cut), options.base, kept)
    ((_, found),) = spread_out(_judged, [order], options, options.progress)
    if isinstance(found, MemlensError):
        raise found
    return found


gate = with_keywords("gate", gate_with, Gate)


class _Order(Struct, frozen=True):
    """A log to be judged, or to be accepted.

    Attributes:
        given: The log.
        cut: Where to cut it.
        options: How to read and to judge it.
        rules: The limits and budgets that they name.
        base: The log of an earlier run.
        kept: The baseline.
    """

    given: Input
    cut: Cut
    options: Gate | Accept
    rules: Rules = field(default_factory=Rules)
    base: Input | None = None
    kept: Baseline | None = None


def _judged(order: _Order) -> Verdict:
    """The verdict on a log.  Its blame needs the events of both runs, so one process reads both, and judges and blames."""
    options, cut, rules, kept = cast("Gate", order.options), order.cut, order.rules, order.kept
    given = [order.given] if order.base is None else [order.given, order.base]
    head, *others = runs = read_runs(given, cut, options, trust=options.trust, most_events=options.most_events)
    old = others[0] if others else None
    base = kept.runs if kept is not None else () if old is None else (old.figures,)
    paired = pair_runs(base, head.figures, series=cut.series)
    lines = dict(zip(names_of(head.windows), edges_of(head.windows, "start_line").tolist(), strict=True))
    rows = judge(base, head.figures, paired, rules, start_lines=lines)
    failing = not all(row.ok for row in rows)
    doubts = [*head.doubts()]
    if old is not None and kept is None and old is not head:
        doubts += [*old.doubts(), *old.out_of_memory()]
    doubtful = bool(doubts) and options.trust
    reasons, notes = (doubts, [*head.notes()]) if doubtful else ([], [*doubts, *head.notes()])
    # The figures of a run that died are those of the part that fitted: they must not pass, and may well fail.
    died = [*head.out_of_memory()]
    if failing or not options.trust:
        notes += died
    else:
        reasons += died
        doubtful |= bool(died)
    if not failing:
        reasons += _not_judged(rows, paired, rules, needs_window=cut.given and bool(base))
    if old is not None and kept is not None and failing:
        notes += _other_run(old, kept, os.fspath(cast("str", options.baseline)))
    verdict = Verdict(
        "unjudged" if reasons else "regression" if failing else "pass",
        head.name,
        os.fspath(options.baseline) if options.baseline is not None else "" if old is None else old.name,
        () if doubtful else rows,
        head.trust,
        cut,
        rules.limits,
        rules.budgets,
        rules.allow_missing,
        tuple(reasons),
        doubtful,
        tuple(notes),
        tuple(figures[0].name for figures in paired.missing),
        paired.not_reached,
        paired.new,
        len(paired.pairs) + len(paired.missing) + len(paired.not_reached),
        len(paired.judged),
        len(base),
        head.figures.steps_by,
        _growth(head),
        head.failed(),
        is_baseline=options.baseline is not None,
        top=options.top,
    )
    found = answered(verdict, answer_of)
    if old is None or old is head or found.verdict != "regression":
        return found
    try:  # a comparison needs the events of both runs
        head, old = _with_events(given, runs, cut, options)
    except MemlensError as error:
        return replace(found, notes=(*found.notes, f"no blame: {error.message}"))
    blame, unblamed = _blame(found.failing, paired, head, old, options.context)
    return replace(found, blame=tuple(blame), unblamed=unblamed)


def _rules(options: Gate, cut: Cut) -> Rules:
    """Return the limits and budgets that options name.

    Raises:
        UsageError: A limit or a budget is none, or there is nothing to judge by.
    """
    rules = Rules.parse(options.limits, options.budgets, windows=cut.given, allow_missing=options.allow_missing)
    if options.baseline is None and options.base is None:
        hint = f"Name a baseline (--baseline FILE; {_ACCEPT}) or an earlier log (--base LOG)."
        if not rules.budgets:
            raise UsageError(
                "there is nothing to judge this log by", f"{hint[:-1]}, or a budget (--budget peak=12GiB)."
            )
        if as_list(options.limits):
            raise UsageError("a limit says how much a figure may grow over a base, and there is none", hint)
        rules = replace(rules, limits={})
    if not rules.limits and not rules.budgets:
        raise UsageError("every limit is off and there is no budget, so nothing would be judged", "Leave one on.")
    return rules


def _not_judged(rows: Sequence[Judged], paired: PairedRuns, rules: Rules, *, needs_window: bool) -> Iterator[str]:
    """Why a log in which nothing is over its limit does not pass all the same: its peak, or something that the user named, could not be judged."""
    if paired.unlike:
        lacking = [figures[0].name for figures in paired.missing if figures[0].name != BEFORE]
        new = [name for name in paired.new if name != BEFORE]
        yield f"no window of the log could be judged: the base has none of them, it has {name_list(lacking)} and the log {name_list(new)}"
    elif needs_window and not any(window.name != BEFORE for _, window in paired.judged):
        yield "no window of the log could be judged: the base has none of them, or none that a line ends"
    for metric in METRICS:
        if metric in rules.named or metric in rules.budgets or (metric == "peak" and rules.gated(metric)):
            mine = [row for row in rows if row.metric == metric and (metric != "peak" or row.name == WHOLE)]
            if not any(row.limit_bytes is not None for row in mine):
                why = next((row.unjudged for row in mine if row.unjudged), "the base has no such window")
                yield f"{metric} could not be judged: {why}"


def _growth(head: Run) -> Growth | None:
    """How memory develops over the steps of a log, with what piles up; ``None`` where it has too few."""
    if len(head.figures.step_levels) < MINIMUM:
        return None
    found = growth(head.steps)
    return replace(found, piling=found.piling)  # looked up now, for the events may be dropped later


def _other_run(old: Run, kept: Baseline, path: str) -> Iterator[str]:
    """Doubts of the log that blames: its own, and that it is none of the runs that the baseline was taken of."""
    yield from old.doubts()
    if old.figures not in kept.runs:
        yield f"{old.name} has other figures than {path}: it was not this run that was accepted"


def _with_events(given: Sequence[Input], runs: Sequence[Run], cut: Cut, options: Gate) -> Sequence[Run]:
    """Runs with all their events: those of which not all are kept are read again.

    Raises:
        MemlensError: One cannot be read again, or holds something else now.
    """
    if all(run.log.condensed is None for run in runs):
        return runs
    for run in runs:
        if run.log.condensed is not None and not run.log.source.rereadable:
            raise InputError(
                f"{run.name}: not all its events are kept, and it can be read only once (--event-memory 0 keeps all)"
            )
    logs = [one if run.log.condensed is not None else run.log for one, run in zip(given, runs, strict=True)]
    again = read_runs(logs, cut, options, trust=options.trust, needed_by="saying what fails")
    for run, other in zip(runs, again, strict=True):
        if run.figures != other.figures:
            raise InputError(f"{run.name}: it was written to since it was judged")
    return again


def _blame(rows: Sequence[Judged], paired: PairedRuns, head: Run, old: Run, context: int) -> tuple[list[Blame], int]:
    """Compare the two runs in the worst that fails; return this, and how much more fails and could be compared."""
    from memlens.diffing.run import diff_windows

    theirs = {window.name: window for window in old.windows}
    ours = {window.name: window for window in head.windows}
    pairs = {WHOLE: (whole(old.log), whole(head.log))}
    rises = {}
    for figures, new in paired.pairs:
        name = figures[0].name
        base = theirs.get(name) if head.cut.series else old.windows[0]
        if base is not None:
            pairs[name] = base, ours[new.name]
            rises[name] = new.rise_bytes - max(one.rise_bytes for one in figures)
    failed: dict[str, list[Metric]] = {}
    for row in rows:
        # What chunks hold does not follow from blocks; and a peak that is higher by what was carried in comes from elsewhere.
        carried_in = row.metric == "peak" and row.name != WHOLE and 2 * rises.get(row.name, 0) < (row.d_bytes or 0)
        if row.name in pairs and not (row.missing or carried_in or row.metric == "reserved"):
            failed.setdefault(row.name, []).append(row.metric)
    chosen = list(failed)[:_BLAMED]
    if any(not (window.log.kind <= Kind.FREE).any() for name in chosen for window in pairs[name]):
        return [], 0
    compared = diff_windows([pairs[name] for name in chosen], context=context)
    blame = [Blame(name, tuple(failed[name]), diff) for name, diff in zip(chosen, compared, strict=True)]
    return blame, len(failed) - len(chosen)


def accept_with(log: Input | Sequence[Input], baseline: str | Path, options: Accept) -> Baseline:
    """Write what a log gives as the baseline to judge later logs by.

    Args:
        log: What to take it from; see :func:`gate`.  Of several runs of one program the spread of each figure is kept, and no limit is
            narrower than that.
        baseline: The file to write.  It may exist if it is a baseline; what is not one is never written over.  Where no anchor is given,
            those of the baseline that is written over are kept.
        options: See :class:`memlens.options.Accept`.

    Returns:
        What was written.

    Raises:
        OutputError: The file exists and is no baseline, or cannot be written.
        UsageError: It is the log itself.
        InputError: The log cannot be read, is in doubt, or its run ran out of memory.
        AnchorError: An anchor marks no line.
    """
    from memlens.inputs.custom.formats import formats_file
    from memlens.output import open_output, refuse_inputs, refuse_overwrite

    if os.fspath(baseline) == "-":
        raise UsageError("a baseline is a file, to be read again", "Name a file: --baseline memory.json.")
    logs: list[Input] = list(log) if isinstance(log, (list, tuple)) else [cast("Input", log)]
    if not logs:
        raise UsageError("there is no log to accept", "Give one, or several of one program.")
    refuse_inputs([baseline], [*logs, formats_file(options.formats)])
    before = _written_before(baseline)
    refuse_overwrite(baseline, force=True)
    cut = Cut(**options.of(Cut)) if options.given or before is None else before.anchors.cut
    runs = _accepted(logs, cut, options)
    for run in runs:
        check_runs_alike(runs[0], run)
        if options.trust and run.doubts:
            raise InputError(f"not accepted: {run.doubts[0]}", "--no-trust accepts it all the same.")
        if cut.series and pair_runs([runs[0].figures], run.figures, series=True).unlike:
            raise InputError(
                f"not accepted: {run.name} has no window of {runs[0].name}",
                "Accept several runs of one program together.",
            )
    taken = Baseline(Anchors.of(cut), tuple(run.figures for run in runs))
    text = taken.render().encode()
    try:
        parse_baseline(text)
    except InputError as error:
        names = ", ".join(run.name for run in runs)
        raise InputError(
            f"{names}: no baseline can be taken of this: {error.message}", "Was logging on from the start?"
        ) from None
    with open_output(baseline, force=True) as out:
        out.write(text)
    return taken


accept = with_keywords("accept", accept_with, Accept)


def _accepted(logs: Sequence[Input], cut: Cut, options: Accept) -> list[Summary]:
    """Read each log down to its figures; one that is given twice is read once."""
    keys = list(map(input_key, logs))
    orders = {key: _Order(given, cut, options) for key, given in zip(keys, logs, strict=True)}
    found = dict(spread_out(_summary, [*orders.values()], options, options.progress))
    for one in found.values():
        if isinstance(one, MemlensError):
            raise one
    by_key = dict(zip(orders, (found[index] for index in range(len(orders))), strict=True))
    return [cast("Summary", by_key[key]) for key in keys]


def _summary(order: _Order) -> Summary:
    options = order.options
    (run,) = read_runs([order.given], order.cut, options, trust=options.trust, most_events=options.most_events)
    return run.summary()


def _written_before(path: str | Path) -> Baseline | None:
    if not os.path.lexists(path):
        return None
    try:
        return read_baseline(path)
    except InputError as error:
        raise OutputError(
            f"not written over, for it is no sound baseline: {error.message}",
            "Remove the file if it may go, or name another one.",
        ) from None


def _anchors(given: Cut, baseline: Baseline | None, path: str | Path | None) -> Cut:
    """Where to cut: as the baseline was; anchors that are given must be the same."""
    if baseline is None:
        return given
    taken = baseline.anchors.cut
    if given.given and _plain(given) != _plain(taken):
        raise UsageError(
            f"these are not the anchors that {path} was taken with: {anchor_options(taken) or 'none, the whole log'}",
            "Leave the anchors out to cut the log as the baseline was, or take the baseline anew with these (--accept).",
        )
    return taken


def _plain(cut: Cut) -> Cut:
    """The same cut with its ends in one order: any of them ends a window."""
    return cut.replace(end=tuple(sorted(set(cut.end))), end_regex=tuple(sorted(set(cut.end_regex))))
