"""``memlens.gate`` and ``memlens.accept``: judge a log against what an earlier one gave, and keep what it gives."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.composition import peak_by_role
from memlens.analyzers.failures import failure_claim, failures
from memlens.analyzers.series.growth import Growth, Pile, growth
from memlens.analyzers.series.shapes import MINIMUM
from memlens.errors import InputError, MemlensError, OutputError, UsageError
from memlens.facts import CPU, Kind
from memlens.gating.baseline import Anchors, Baseline, RunFigures, anchors_for, parse_baseline, read_baseline
from memlens.gating.judging import Judged, PairedRuns, judge, pair_runs, why_unjudged
from memlens.gating.limits import Rules
from memlens.gating.verdict import Blame, Verdict, claims_of
from memlens.inputs import Reading, input_key, input_name, several_devices, without_cpu
from memlens.inputs.registry import check_alike
from memlens.options import Cut, as_list
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Accept, Gate
from memlens.results import claimed
from memlens.summarizing.summary import Run, summarize
from memlens.summarizing.workers import Order, spread_out
from memlens.text import terms_of
from memlens.trust import pairing_beside
from memlens.trust.case import RESERVED_DOUBTS
from memlens.windows.anchor_discovery import find_steps
from memlens.windows.windows import WHOLE, edges_of, names_of, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from memlens.analyzers.composition import Share
    from memlens.claims.claim import Claim
    from memlens.gating.limits import Metric
    from memlens.log import Input, Log
    from memlens.options import ReadAs
    from memlens.windows.windows import Window


_ACCEPT = "memlens gate LOG --baseline FILE --accept takes one"
#: What is compared, the worst first: a gate is to say what broke, and not to compare it all.
_BLAMED = 10
#: Doubts of the trust report that leave some figures unknown and nothing wrong: these figures are not judged, and all others are.
_PARTIAL = RESERVED_DOUBTS | {"no_tensor_events"}


def gate_with(log: Input, options: Gate) -> Verdict:
    """Judge a log: is it within limits of what an earlier one gave, and within its budgets?

    Args:
        log: What to judge: a path (``-`` is standard input), a binary file, or a log already read.  Where no anchor is given, it is
            cut by those of the baseline.
        options: See :class:`memlens.options.verbs.Gate`.

    Raises:
        UsageError: Nothing to compare with, anchors that are not the baseline's, or a limit that is none.
        InputError: A log or the baseline cannot be read.
        AnchorError: An anchor marks no line.
    """
    baseline = options.baseline
    kept = None if baseline is None else read_baseline(baseline)
    cut = anchors_for(Cut(**options.of(Cut)), kept, baseline)
    order = Order(log, options, (cut, _rules(options, cut), kept), options.base)
    (found,) = spread_out(_judged, [order], options, options.progress)
    if isinstance(found, MemlensError):
        raise found
    return found


gate = with_keywords("gate", gate_with, Gate)


class _Read(Struct, frozen=True, eq=False):
    """A log that was read, cut and summed up.

    Attributes:
        log: Its events.
        windows: Its windows.
        steps: The windows over which growth is judged: those of a series, or the steps that are found; none where there are neither.
        unit: What each of them is: a ``step``, or a ``window``.
        parts: Lines that mark parts of steps were found instead.
        run: Its summary.
        figures: What of that is judged, and kept.
        shares: What is live at the peak, by role, where that is asked for.
    """

    log: Log
    windows: Sequence[Window]
    steps: Sequence[Window]
    unit: str
    parts: bool
    run: Run
    figures: RunFigures
    shares: Sequence[Share]


def _read(logs: Sequence[Input], cut: Cut, how: ReadAs, *, trust: bool, roles: bool) -> list[_Read]:
    """Read, cut and sum up logs of one kind, and, if asked for, their peaks by role; one that is given twice is read once.

    Of an input with the CPU and one GPU it is the GPU.

    Raises:
        UsageError: One has several GPUs, and none was named.
        InputError: One of them cannot be read, or is of another kind than the first.
        AnchorError: An anchor marks no line of one.
    """
    reading = Reading(cut.patterns, how=how, landmarks=not cut.series)
    found: dict[object, _Read] = {}
    keys = list(map(input_key, logs))
    first: Run | None = None
    for key, given in dict(zip(keys, logs, strict=True)).items():
        name = input_name(given)
        (log, *more), left_out = without_cpu(reading.read_all(given))
        if more:
            raise several_devices(name, [log, *more])
        kind = Run(name, {}, "ok", device=log.device, layer=log.facts.layer)
        _check_alike(first := first or kind, kind)
        with pairing_beside(log):
            windows = cut.windows(log)
            family = None if cut.series else find_steps(log)
        by, steps, unit, parts = cut.by or "", windows if cut.series else (), "window", False
        if family is not None:
            parts = not family.repeated
            by, steps, unit = ("", (), unit) if parts else (family.family.by, family.windows, family.unit)
        run = summarize(log, windows, cut, path=name, steps=steps, left_out=left_out)
        shares = [*peak_by_role(whole(log))] if roles else []
        figures = RunFigures.of(run, by, trust=trust, shares=shares)
        found[key] = _Read(log, windows, steps, unit, parts, run, figures, shares)
    return [found[key] for key in keys]


def _check_alike(first: Run, run: Run) -> None:
    """Refuse to compare logs of two kinds, or memory of a GPU with memory of the CPU.

    Raises:
        InputError: They are of two kinds.
    """
    check_alike(first.path, first.layer, run.path, run.layer)
    if None in (run.device, first.device) or (run.device == CPU) == (first.device == CPU):
        return
    gpu, cpu = (first.path, run.path) if run.device == CPU else (run.path, first.path)
    raise InputError(
        f"{gpu} has memory of a GPU and {cpu} of the CPU: these cannot be compared",
        "Record both runs in the same way, or take the CPU of both (--device cpu).",
    )


def _doubts(run: Run) -> Iterator[str]:
    """Why its figures may be wrong."""
    if not _PARTIAL.issuperset(run.doubts):
        yield f"{run.path} is doubtful: {', '.join(code.replace('_', ' ') for code in run.doubts)}"
    yield from (f"{run.path}: {note}" for note in run.notes)


def _out_of_memory(run: Run) -> Iterator[str]:
    """That it ran out of memory, where it did."""
    if run.oom_line is not None:
        where = terms_of(run.has_lines).at(run.oom_line)
        yield f"{run.path}: the run ran out of memory ({where}), so what it held is not what it needs"


def _judged(order: Order) -> Verdict:
    """The verdict on a log.  Its blame needs the events of both runs, so one process reads both, and judges and blames."""
    options: Gate = order.options
    cut, rules, kept = order.about
    given = [order.given] if order.base is None else [order.given, order.base]
    head, *others = _read(given, cut, options, trust=options.trust, roles=bool(rules.roles))
    old = others[0] if others else None
    base = kept.runs if kept is not None else () if old is None else (old.figures,)
    paired = pair_runs(base, head.figures, series=cut.series)
    lines = dict(zip(names_of(head.windows), edges_of(head.windows, "start_line").tolist(), strict=True))
    rows = judge(base, head.figures, paired, rules, start_lines=lines, no_steps=_no_steps(head, kept))
    failing = not all(row.ok for row in rows)
    doubts = [*_doubts(head.run)]
    if old is not None and kept is None and old is not head:
        doubts += [*_doubts(old.run), *_out_of_memory(old.run)]
    doubtful = bool(doubts) and options.trust
    # That the last window of a series is open is what it says itself.
    remarks = head.run.remarks[int(cut.series and head.run.windows[-1].open_end) :]
    said = [f"{head.run.path}: {remark}" for remark in reversed(remarks)]
    reasons, notes = (doubts, said) if doubtful else ([], [*doubts, *said])
    # The figures of a run that died are those of the part that fitted: they must not pass, and may well fail.
    died = [*_out_of_memory(head.run)]
    told = failing or not options.trust
    (notes if told else reasons).extend(died)
    doubtful |= bool(died) and not told
    if not failing:
        reasons += why_unjudged(rows, paired, rules, needs_window=cut.given and bool(base))
    if old is not None and kept is not None and failing:
        notes += _other_run(old, kept, os.fspath(cast("str", options.baseline)))
    verdict = Verdict(
        "unjudged" if reasons else "regression" if failing else "pass",
        head.run.path,
        os.fspath(options.baseline) if options.baseline is not None else "" if old is None else old.run.path,
        () if doubtful else rows,
        head.log.trust,
        cut,
        rules.limits,
        rules.peak_of_windows if cut.given else None,
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
        _growth(head, old),
        _failed(head.log),
        unit=head.unit,
        ended=head.run.ended,
        is_baseline=options.baseline is not None,
        shares=tuple(head.shares),
        top=options.top,
    )
    found = claimed(verdict, claims_of)
    if old is None or old is head or found.verdict != "regression":
        return found
    blame, unblamed = _blame(found.failing, paired, head, old, cut, options.context)
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


def _no_steps(head: _Read, kept: Baseline | None) -> str:
    """Why growth is not judged of a log that has no steps."""
    none = "no step lines" if head.log.facts.has_lines else "no annotated steps"
    what = "only parts of steps" if head.parts else none
    advice = "" if not head.log.can_be_cut else "; use --by" if kept is None else "; accept a run with --by"
    return f"{what} found{advice}"


def _growth(head: _Read, old: _Read | None) -> Growth | None:
    """How memory develops over the steps of a log, with what piles up, most of what does not in the other run first; ``None`` where it has too few."""
    if len(head.figures.step_levels) < MINIMUM:
        return None
    found = growth(head.steps)
    piling, more = found.piling, Counter[tuple[int, str]]()  # looked up now, for the events may be dropped later
    if len(piling) > 1 and old is not None and old is not head and len(old.figures.step_levels) >= MINIMUM:
        for pile in piling:
            more[_alike(pile)] += pile.total_bytes
        for pile in growth(old.steps).piling:
            more[_alike(pile)] -= pile.total_bytes
    return replace(found, piling=tuple(sorted(piling, key=lambda pile: -max(more[_alike(pile)], 0))))


def _alike(pile: Pile) -> tuple[int, str]:
    """The size and the owner of blocks, whose lines may have moved."""
    return pile.size_bytes, re.sub(r"\d+", "", pile.owner or "")


def _failed(log: Log) -> Claim | None:
    """The failure that a run ran out of memory in; ``None`` where there is none."""
    if not (found := failures(log)):
        return None
    return replace(failure_claim(found, has_lines=log.facts.has_lines, run="head"), kind="run_out_of_memory")


def _other_run(old: _Read, kept: Baseline, path: str) -> Iterator[str]:
    """Doubts of the log that blames: its own, and that it is none of the runs that the baseline was taken of."""
    yield from _doubts(old.run)
    if old.figures.of_levels not in [run.of_levels for run in kept.runs]:
        yield f"{old.run.path} has other figures than {path}: it was not this run that was accepted"


def _blame(
    rows: Sequence[Judged], paired: PairedRuns, head: _Read, old: _Read, cut: Cut, context: int
) -> tuple[list[Blame], int]:
    """Compare the two runs in the worst that fails; return this, and how much more fails and could be compared."""
    from memlens.diffing.run import diff_windows

    theirs = {window.name: window for window in old.windows}
    ours = {window.name: window for window in head.windows}
    pairs = {WHOLE: (whole(old.log), whole(head.log))}
    rises = {}
    for figures, new in paired.pairs:
        name = figures[0].name
        base = theirs.get(name) if cut.series else old.windows[0]
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
        options: See :class:`memlens.options.verbs.Accept`.

    Returns:
        What was written.

    Raises:
        OutputError: The file exists and is no baseline, or cannot be written.
        UsageError: It is the log itself.
        InputError: The log cannot be read, is in doubt, or its run ran out of memory.
        AnchorError: An anchor marks no line.
    """
    from memlens.inputs.custom import formats_file
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
    taken = Baseline(Anchors.of(cut), tuple(_accepted(logs, cut, options)))
    text = taken.render().encode()
    try:
        parse_baseline(text)
    except InputError as error:
        names = ", ".join(map(input_name, logs))
        raise InputError(
            f"{names}: no baseline can be taken of this: {error.message}", "Was logging on from the start?"
        ) from None
    with open_output(baseline, force=True) as out:
        out.write(text)
    return taken


accept = with_keywords("accept", accept_with, Accept)


def _accepted(logs: Sequence[Input], cut: Cut, options: Accept) -> list[RunFigures]:
    """Read each log down to its figures; one that is given twice is read once.

    Raises:
        InputError: One is in doubt, or is no run of the program of the first.
    """
    keys = list(map(input_key, logs))
    orders = {key: Order(given, options, cut) for key, given in zip(keys, logs, strict=True)}
    found = spread_out(_summed_up, [*orders.values()], options, options.progress)
    if failed := [one for one in found if isinstance(one, MemlensError)]:
        raise failed[0]
    by_key = dict(zip(orders, cast("list[tuple[Run, RunFigures]]", found), strict=True))
    summed_up = [by_key[key] for key in keys]
    first, of_first = summed_up[0]
    for run, figures in summed_up:
        _check_alike(first, run)
        if options.trust and (doubts := [*_doubts(run), *_out_of_memory(run)]):
            raise InputError(f"not accepted: {doubts[0]}", "--no-trust accepts it all the same.")
        if cut.series and pair_runs([of_first], figures, series=True).unlike:
            raise InputError(
                f"not accepted: {run.path} has no window of {first.path}",
                "Accept several runs of one program together.",
            )
    return [figures for _, figures in summed_up]


def _summed_up(order: Order) -> tuple[Run, RunFigures]:
    """A log's summary without its windows, which are among its figures."""
    options: Accept = order.options
    (one,) = _read([order.given], order.about, options, trust=options.trust, roles=True)
    return replace(one.run, windows=()), one.figures


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
