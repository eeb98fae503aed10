"""``memlens.gate`` and ``memlens.accept``: judge a log against what an earlier one gave, and keep what it gives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memlens.errors import InputError, MemlensError, OutputError, UsageError
from memlens.gating import stored
from memlens.gating.baseline import Baseline, anchor_options, read_baseline
from memlens.gating.blame import explain
from memlens.gating.figures import Summary, check_runs_alike, read_runs
from memlens.gating.growth import growth_of
from memlens.gating.judging import Judged, PairedRuns, Rules, Side, judge, pair_runs
from memlens.gating.limits import parse_budgets, parse_limits
from memlens.gating.verdict import Verdict
from memlens.inputs import input_key
from memlens.keywords import with_keywords
from memlens.options import Accept, Cut, Gate, as_list
from memlens.options.parts import values_of
from memlens.scheduling.spreading import spread_out
from memlens.text import name_list, plural
from memlens.windows.windows import BEFORE, edges_of, names_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.gating.figures import Run
    from memlens.inputs import Input

__all__ = ["accept", "accept_with", "gate", "gate_with"]

_ACCEPT = "memlens gate LOG --baseline FILE --accept takes one"


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
    baseline, base_log = options.baseline, options.base_log
    rules = _rules(options)
    kept = None if baseline is None else read_baseline(baseline)
    cut = _anchors(Cut(**values_of(options, Cut)), kept, baseline)
    events = None
    if kept is not None and kept.events_sha256 is not None and (options.executor or options.scheduler):
        events = stored.content(str(baseline))  # which lies beside the baseline, and perhaps not where workers are
    order = _Order(log, base_log, options, rules, kept, cut, events)
    ((_, found),) = spread_out(_judged, [order], options, options.progress)
    if isinstance(found, MemlensError):
        raise found
    return found


gate = with_keywords("gate", gate_with, Gate)


@dataclass(frozen=True)
class _Order:
    """A log to be judged.

    Attributes:
        given: The log.
        base: The log of an earlier run.
        options: How to judge it.
        rules: The limits and budgets that they name.
        kept: The baseline.
        cut: Where to cut both logs.
        events: The file beside the baseline, where it is not to be opened by its name.
    """

    given: Input
    base: Input | None
    options: Gate
    rules: Rules
    kept: Baseline | None
    cut: Cut
    events: bytes | None


def _judged(order: _Order) -> Verdict:
    """The verdict on a log.  Its blame needs the events of both runs, so one process reads both, and judges and blames."""
    options, rules, kept, cut = order.options, order.rules, order.kept, order.cut
    baseline, trust = options.baseline, options.trust
    given = [order.given] if order.base is None else [order.given, order.base]
    head, *others = read_runs(given, cut, options, trust=trust, most_events=options.most_events)
    old = others[0] if others else None
    base = kept.runs if kept is not None else () if old is None else (old.figures,)
    paired = pair_runs(base, head.figures, series=cut.series)
    lines = dict(zip(names_of(head.windows), edges_of(head.windows, "start_line").tolist(), strict=True))
    died_in = head.died_in() if trust else ()
    late: Side | None = None
    if trust and kept is None and old is not None:
        limit = rules.limits.get("peak")
        late = "head" if head.begins_later(old, limit) else "base" if old.begins_later(head, limit) else None
    rows = judge(base, head.figures, paired, rules, start_lines=lines, died_in=died_in, later=late)
    failing = not all(row.ok for row in rows)
    doubts = [*head.doubts()]
    if old is not None and kept is None and old is not head:
        doubts += [*old.doubts(), *old.out_of_memory()]
    reasons = list(doubts) if trust else []
    notes = [*([] if trust else doubts), *head.notes(), *_windows_left_out(head.name, paired), *_not_counted(rows)]
    # The figures of a run that died are those of the part that fitted: they must not pass, and may well fail.
    (reasons if trust and not failing else notes).extend(head.out_of_memory())
    doubtful = bool(reasons)
    windows = [window for window, _ in paired.judged if window.name != BEFORE]
    if not failing:
        reasons += _nothing_judged(rows, paired, bool(windows) or not base)
    found = Verdict(
        "unjudged" if reasons else "regression" if failing else "pass",
        head.name,
        os.fspath(baseline) if baseline is not None else "" if old is None else old.name,
        () if reasons else rows,
        head.log.trust,
        cut,
        rules,
        tuple(reasons),
        doubtful,
        tuple(notes),
        tuple(window.name for window in paired.missing),
        tuple(window.name for window in paired.not_reached),
        tuple(window.name for window in paired.new) if base else (),
        len(paired.pairs) + len(paired.missing) + len(paired.not_reached) + len(paired.optional),
        len(paired.judged),
        len(base),
        growth_of(head.figures),
        head.failed(),
        is_baseline=baseline is not None,
        top=options.top,
    )
    if found.verdict == "unjudged":
        return found
    can_blame = old is not None or (kept is not None and kept.events_sha256 is not None)
    if can_blame and failing:
        runs = (head, *others)
        try:  # what differs between two runs is told by their events
            head, *others = _with_events(given, runs, cut, options)
        except MemlensError as error:
            return replace(found, notes=(*found.notes, f"no blame: {error.message}"))
        old = others[0] if others else None
    return explain(found, paired, head, old, kept, options.context, order.events)


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
                f"{run.name}: not all its events are kept, and it can be read only once (--memory 0 keeps all)"
            )
    logs = [one if run.log.condensed is not None else run.log for one, run in zip(given, runs, strict=True)]
    again = read_runs(logs, cut, options, trust=options.trust, needed_by="saying what fails")
    for run, other in zip(runs, again, strict=True):
        if run.figures != other.figures:
            raise InputError(f"{run.name}: it was written to since it was judged")
    return again


def _rules(options: Gate) -> Rules:
    """What to judge by.

    Raises:
        UsageError: A limit or a budget is none, or there is nothing to judge by.
    """
    allowed, ceilings = parse_limits(options.limits), parse_budgets(options.budgets)
    if options.baseline is None and options.base_log is None:
        if not ceilings:
            raise UsageError(
                "there is nothing to judge this log by",
                f"Name a baseline (--baseline FILE; {_ACCEPT}), a budget (--budget peak=12GiB), or an earlier log (--base-log LOG).",
            )
        if as_list(options.limits):
            raise UsageError("a limit says how much a figure may grow over a base, and there is none",
                             f"Name a baseline (--baseline FILE; {_ACCEPT}) or an earlier log (--base-log LOG).")  # fmt: skip
        allowed = {}
    if not allowed and not ceilings:
        raise UsageError("every limit is off and there is no budget, so nothing would be judged", "Leave one on.")
    return Rules(allowed, ceilings, options.allow_missing)


def _windows_left_out(name: str, paired: PairedRuns) -> Iterator[str]:
    """Which windows are not judged, and why."""
    for base, head in paired.pairs:
        if paired.is_open((base, head)):
            where = "the log" if head.open_end else "its log in the base"
            yield f"{name}: {base.name} is shown and not judged: no end anchor closes it, so it runs to the end of {where}"
    if paired.not_reached:
        total = len(paired.pairs) + len(paired.missing) + len(paired.not_reached)
        yield (
            f"{name}: the run ends before {paired.not_reached[0].name}, so {len(paired.judged):,} of the {total:,} windows of the base"
            " were judged"
        )
    if paired.optional:
        yield f"{name}: it lacks {len(paired.optional):,} windows that some of the accepted runs lack, too"


def _not_counted(rows: Sequence[Judged]) -> Iterator[str]:
    """Which figures are above their limits by bytes that are not counted, and why they are not."""
    if found := [row for row in rows if row.slipped_bytes]:
        yield (
            f"not counted in {plural(len(found), 'figure')} above the limit ({found[0].metric} of {found[0].name} the first): events right at an"
            " anchor that stand on its other side in the base, and what the base gives back there and the log never left behind"
        )


def _nothing_judged(rows: Sequence[Judged], paired: PairedRuns, some_window: bool) -> Iterator[str]:
    """Why a log in which nothing is over its limit does not pass all the same: too little of it was judged."""
    if not any(row.limit_bytes is not None for row in rows):
        unknown = next((row.unjudged for row in rows if row.unjudged is not None and not row.open_end), None)
        yield f"nothing could be judged{f': {unknown}' if unknown else ''}"
    elif paired.unlike:
        new, lacking = ([one.name for one in windows if one.name != BEFORE] for windows in (paired.new, paired.missing))
        yield f"no window of the log could be judged: the base has none of them, it has {name_list(lacking)} and the log {name_list(new)}"
    elif not some_window:
        yield "no window of the log could be judged: the base has none of them, or none that a line ends"


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
    events_file = stored.events_path(baseline)
    logs: list[Input] = list(log) if isinstance(log, (list, tuple)) else [cast("Input", log)]
    refuse_inputs([baseline, events_file], [*logs, formats_file(options.formats)])
    before = _written_before(baseline)
    keep = options.with_events
    if keep is None:
        keep = before is not None and before.events_sha256 is not None
    refuse_overwrite(baseline, force=True)
    if keep and events_file.exists() and not stored.is_events(events_file):
        raise OutputError(
            f"{events_file} exists and holds no events of a baseline", "Move it away, or name another baseline."
        )
    cut = Cut(**values_of(options, Cut)) if options.given or before is None else before.anchors
    if not logs:
        raise UsageError("there is no log to accept", "Give one, or several of one program.")
    runs, columns = _accepted(logs, cut, options, keep=keep)
    for run in runs:
        if options.trust and run.doubts:
            raise InputError(f"not accepted: {run.doubts[0]}", "--no-trust accepts it all the same.")
        if cut.series and pair_runs([runs[0].figures], run.figures, series=True).unlike:
            raise InputError(
                f"not accepted: {run.name} has no window of {runs[0].name}",
                "Accept several runs of one program together.",
            )
    try:
        figures = tuple(run.figures for run in runs)
        taken = Baseline(cut, figures, events_sha256=None if columns is None else stored.digest(columns))
    except InputError as error:
        names = ", ".join(run.name for run in runs)
        raise InputError(f"{names}: no baseline can be taken of this: {error.message}", error.hint) from None
    # The events first: they count for nothing until the baseline names them.
    if columns is not None:
        with open_output(events_file, force=True) as out:
            stored.write_events(columns, out)
    with open_output(baseline, force=True) as out:
        out.write(taken.render().encode())
    return taken


accept = with_keywords("accept", accept_with, Accept)


@dataclass(frozen=True)
class _AcceptOrder:
    """A log whose figures are to be accepted: the log, where to cut it, and how to read it."""

    given: Input
    cut: Cut
    options: Accept


def _accepted(
    logs: Sequence[Input], cut: Cut, options: Accept, *, keep: bool
) -> tuple[list[Summary], dict[str, NDArray[Any]] | None]:
    """What is kept of each log, and, if asked for, the events of the first one, which is then read by this process."""
    columns: dict[str, NDArray[Any]] | None = None
    found: dict[object, Summary | MemlensError] = {}
    keys = list(map(input_key, logs))
    orders = {key: _AcceptOrder(given, cut, options) for key, given in dict(zip(keys, logs, strict=True)).items()}
    if keep:
        (run,) = read_runs([logs[0]], cut, options, trust=options.trust, needed_by="keeping them beside the baseline")
        columns = stored.to_columns([*run.windows, run.log.whole])
        found[keys[0]] = run.summary()
    left = [key for key in orders if key not in found]
    for index, one in spread_out(_summary, [orders[key] for key in left], options, options.progress):
        found[left[index]] = one
    runs: list[Summary] = []
    for key in keys:
        one = found[key]
        if isinstance(one, MemlensError):
            raise one
        if runs:
            check_runs_alike(runs[0], one)
        runs.append(one)
    return runs, columns


def _summary(order: _AcceptOrder) -> Summary:
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
    """Where to cut: as asked for, which must be as the baseline was, or as the baseline was."""
    if baseline is None:
        return given
    taken = baseline.anchors
    if given.given and _plain(given) != _plain(taken):
        raise UsageError(
            f"these are not the anchors that {path} was taken with: {anchor_options(taken) or 'none, the whole log'}",
            "Leave the anchors out to cut the log as the baseline was, or take the baseline anew with these (--accept).",
        )
    return taken


def _plain(cut: Cut) -> Cut:
    """The same cut with its ends in one order: any of them ends a window."""
    return replace(cut, end=tuple(sorted(set(cut.end))), end_regex=tuple(sorted(set(cut.end_regex))))
