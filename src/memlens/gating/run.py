"""``memlens.gate`` and ``memlens.accept``: judge a log against what an earlier one gave, and keep what it gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.cut import Cut, as_list
from memlens.errors import InputError, OutputError, UsageError
from memlens.gating.baseline import Baseline, WindowFigures, figures_of, read_baseline
from memlens.gating.limits import Metric, parse_budgets, parse_limits
from memlens.gating.verdict import Paired, Verdict, judge, pair_figures
from memlens.parsing.inputs import check_alike
from memlens.reading import ReadAs, Reading, input_name
from memlens.slicing import suspect_anchors

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.gating.verdict import Blame
    from memlens.reading import Input
    from memlens.slicing import Window

__all__ = ["accept", "gate"]

#: Failing windows that are compared with the base's, the worst first: a gate is to say what broke, and not to compare it all.
_BLAMED = 10
_ACCEPT = "memlens gate LOG --baseline FILE --accept takes one"


def gate(
    log: Input,
    *,
    baseline: str | Path | None = None,
    limits: str | Sequence[str] = (),
    budgets: str | Sequence[str] = (),
    start: str | None = None,
    end: str | Sequence[str] = (),
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
    by: str | None = None,
    base_log: Input | None = None,
    allow_missing: bool = False,
    trust: bool = True,
    context: int = 3,
    top: int | None = 10,
    progress: Callable[[int], None] | None = None,
    input_format: str | None = None,
    device: int | None = None,
    layer: str | None = None,
    formats: str | Path | None = None,
) -> Verdict:
    """Judge a log: is it within limits of what an earlier one gave, and within its budgets?

    Args:
        log: What to judge: a path (``-`` is standard input), a binary file, or a log already read.
        baseline: The file that :func:`accept` wrote.
        limits: How much a metric may grow: ``peak=2%,1MiB``, ``remaining=0``, ``reserved=5%``.  It fails when it grows by more than both
            parts.  Given limits replace the default ones of their metrics (2 % and 1 MiB for ``peak`` and ``remaining``), and
            ``remaining=off`` takes one away.
        budgets: How high a metric may be, whatever it was: ``peak=12GiB``.
        start: A window starts with the line that contains this as whole words.  Where no anchor is given, those of the baseline are taken.
        end: It ends before the first later line that contains any of these.
        start_regex: Like ``start``, a regular expression.
        end_regex: Like ``end``, regular expressions.
        nth: Which of the lines that match the start.
        by: Cut into a series of windows, which pair by name.
        base_log: The log of an earlier run: failing windows are compared with its windows, and without a baseline its figures are the ones
            to compare with.
        allow_missing: Windows that the base has and the log lacks do not fail.
        trust: A doubtful log is not judged.
        context: Log lines to keep on each side of the event that tells the runs apart.
        top: Findings of each window that the machine output lists; ``None`` is all.
        progress: Called with the bytes read so far, over all logs, as they lie on disk.
        input_format: The format of the inputs, where it is not to be looked for; see :func:`memlens.read`.
        device: The device to judge of inputs that have several; -1 is the CPU.
        layer: The allocator layer of Paddle to take blocks from; see :func:`memlens.read`.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Raises:
        UsageError: Nothing to compare with, anchors that are not the baseline's, or a limit that is none.
        InputError: A log or the baseline cannot be read.
        AnchorError: An anchor marks no line.
    """
    allowed, ceilings = parse_limits(limits), parse_budgets(budgets)
    if baseline is None and base_log is None:
        if not ceilings:
            raise UsageError(
                "there is nothing to judge this log by",
                f"Name a baseline (--baseline FILE; {_ACCEPT}), a budget (--budget peak=12GiB), or an earlier log (--base-log LOG).",
            )
        if as_list(limits):
            raise UsageError("a limit says how much a figure may grow over a base, and there is none",
                             f"Name a baseline (--baseline FILE; {_ACCEPT}) or an earlier log (--base-log LOG).")  # fmt: skip
        allowed = {}
    if not allowed and not ceilings:
        raise UsageError("every limit is off and there is no budget, so nothing would be judged", "Leave one on.")
    kept = None if baseline is None else read_baseline(baseline)
    given = Cut(start, tuple(as_list(end)), start_regex, tuple(as_list(end_regex)), nth, by)
    cut = _anchors(given, kept, baseline)
    head, old = _read(log, base_log, cut, progress, ReadAs(input_format, device, formats, layer))
    base_figures = kept.windows if kept is not None else () if old is None else old.figures
    paired = (
        pair_figures(base_figures, head.figures, series=cut.series) if base_figures else Paired(new=tuple(head.figures))
    )
    lines = {window.name: int(window.start_line) for window in head.windows}
    rows = judge(paired, allowed, ceilings, allow_missing=allow_missing, start_lines=lines)
    failing = not all(row.ok for row in rows)
    doubts = [*head.doubts()]
    if old is not None and kept is None and old is not head:
        doubts += [*old.doubts(), *filter(None, [old.out_of_memory()])]
    reasons = list(doubts) if trust else []
    notes = [*([] if trust else doubts), *head.notes()]
    if oom := head.out_of_memory():
        # The figures of a run that died are those of the part that fitted: they must not pass, and may well be told to fail.
        (reasons if trust and not failing else notes).append(oom)
    doubtful = bool(reasons)
    if not failing and not any(row.limit_bytes is not None and not row.missing for row in rows):
        reasons.append("no window of the log could be judged: the base has none of them, and no budget holds for them")
    found = Verdict(
        "unjudged" if reasons else "regression" if failing else "pass",
        head.name,
        os.fspath(baseline) if baseline is not None else "" if old is None else old.name,
        () if reasons else rows,
        head.log.trust,
        cut,
        tuple(reasons),
        doubtful,
        tuple(notes),
        tuple(window.name for window in paired.missing),
        tuple(window.name for window in paired.new) if base_figures else (),
        allow_missing,
        allowed,
        ceilings,
        is_baseline=baseline is not None,
        top=top,
    )
    return found if found.verdict != "regression" else _blamed(found, paired, head, old, kept, baseline, context)


def accept(
    log: Input,
    baseline: str | Path,
    *,
    start: str | None = None,
    end: str | Sequence[str] = (),
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
    by: str | None = None,
    with_events: bool | None = None,
    trust: bool = True,
    progress: Callable[[int], None] | None = None,
    input_format: str | None = None,
    device: int | None = None,
    layer: str | None = None,
    formats: str | Path | None = None,
) -> Baseline:
    """Write what a log gives as the baseline to judge later logs by.

    Args:
        log: What to take it from; see :func:`gate`.
        baseline: The file to write.  It may exist if it is a baseline; what is not one is never written over.
        start: Where to cut the log, here and whenever it is compared; see :func:`gate`.  Where no anchor is given, those of the baseline
            that is written over are kept.
        end: Likewise.
        start_regex: Likewise.
        end_regex: Likewise.
        nth: Likewise.
        by: Likewise.
        with_events: Keep the events too, in a file beside it, so that a later failure can be blamed; ``None`` as it was before.
        trust: A doubtful log is not accepted.
        progress: Called with the bytes read so far.
        input_format: The format of the inputs, where it is not to be looked for; see :func:`memlens.read`.
        device: The device to take it from of inputs that have several; -1 is the CPU.
        layer: The allocator layer of Paddle to take blocks from; see :func:`memlens.read`.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Returns:
        What was written.

    Raises:
        OutputError: The file exists and is no baseline, or cannot be written.
        UsageError: It is the log itself.
        InputError: The log cannot be read, is in doubt, or its run ran out of memory.
        AnchorError: An anchor marks no line.
    """
    from memlens.gating import stored
    from memlens.output import open_output, refuse_inputs, refuse_overwrite
    from memlens.parsing.user_formats import formats_file

    if os.fspath(baseline) == "-":
        raise UsageError("a baseline is a file, to be read again", "Name a file: --baseline memory.json.")
    events_file = stored.events_path(baseline)
    refuse_inputs([baseline, events_file], [log, formats_file(formats)])
    before = _written_before(baseline)
    keep = with_events if with_events is not None else before is not None and before.events_sha256 is not None
    refuse_overwrite(baseline, force=True)
    if keep and events_file.exists() and not stored.is_events(events_file):
        raise OutputError(
            f"{events_file} exists and holds no events of a baseline", "Move it away, or name another baseline."
        )
    given = Cut(start, tuple(as_list(end)), start_regex, tuple(as_list(end_regex)), nth, by)
    cut = given if given.given or before is None else before.anchors
    head, _ = _read(log, None, cut, progress, ReadAs(input_format, device, formats, layer))
    doubts = [*head.doubts(), *filter(None, [head.out_of_memory()])]
    if trust and doubts:
        raise InputError(f"not accepted: {doubts[0]}", "--no-trust accepts it all the same.")
    columns = stored.to_columns(head.windows) if keep else None
    try:
        taken = Baseline(cut, tuple(head.figures), events_sha256=None if columns is None else stored.digest(columns))
    except InputError as error:
        raise InputError(f"{head.name}: no baseline can be taken of this log: {error.message}", error.hint) from None
    # The events first: they count for nothing until the baseline names them.
    if columns is not None:
        with open_output(events_file, force=True) as out:
            stored.write_events(columns, out)
    with open_output(baseline, force=True) as out:
        out.write(taken.render().encode())
    return taken


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
            f"these are not the anchors that {path} was taken with: {_said(taken)}",
            "Leave the anchors out to cut the log as the baseline was, or take the baseline anew with these (--accept).",
        )
    return taken


def _plain(cut: Cut) -> Cut:
    """The same cut with its ends in one order: any of them ends a window."""
    return replace(cut, end=tuple(sorted(set(cut.end))), end_regex=tuple(sorted(set(cut.end_regex))))


def _said(cut: Cut) -> str:
    """A cut in the words of the command line."""
    options = [("--by", cut.by), ("--start", cut.start), ("--start-regex", cut.start_regex)]
    options += [("--end", end) for end in cut.end] + [("--end-regex", end) for end in cut.end_regex]
    said = [f"{name} {text!r}" for name, text in options if text is not None]
    return " ".join([*said, *([f"--nth {cut.nth}"] if cut.nth != 1 else [])]) or "none, the whole log"


@dataclass(frozen=True, eq=False)
class _Run:
    """A log, cut, with its figures.

    Attributes:
        name: The log as it was named.
        figures: One entry a window.
    """

    name: str
    log: EventLog
    cut: Cut
    windows: tuple[Window, ...]
    figures: list[WindowFigures]

    def doubts(self) -> Iterator[str]:
        """Why its figures may be wrong."""
        if not self.log.trust.ok:
            yield f"{self.name} is {self.log.trust.summary()}"
        if self.cut.given and (late := suspect_anchors(self.windows)) is not None:
            yield f"{self.name}: {late}"

    def notes(self) -> Iterator[str]:
        """What to know of it."""
        for note in self.log.trust.notes:
            if note.code == "traceback":
                yield f"{self.name}: {note.message}"
        for window in self.windows:
            if window.open_end:
                yield f"{self.name}: {window.name} runs to the end of the log: no line ends it"

    def out_of_memory(self) -> str:
        """That it ran out of memory, in words; ``""`` where it did not."""
        ooms = self.log.trust.ooms
        return (
            f"{self.name}: the run ran out of memory (line {ooms[0].line:,}), so what it held is not what it needs"
            if ooms
            else ""
        )


def _read(
    log: Input, base_log: Input | None, cut: Cut, progress: Callable[[int], None] | None, how: ReadAs
) -> tuple[_Run, _Run | None]:
    """Read and cut the log and, where one is given, the earlier one; a file that is both is read once."""
    reading = Reading(cut.patterns, progress=progress, how=how)
    head = _run(reading.read(log), log, cut)
    if base_log is None:
        return head, None
    if base_log is log or (
        isinstance(log, (str, Path)) and isinstance(base_log, (str, Path)) and str(log) == str(base_log)
    ):
        return head, head
    old = reading.read(base_log)
    check_alike(old, head.log)
    return head, _run(old, base_log, cut)


def _run(log: EventLog, given: Input, cut: Cut) -> _Run:
    windows = cut.windows(log)
    return _Run(input_name(given), log, cut, windows, figures_of(windows))


def _blamed(
    found: Verdict,
    paired: Paired,
    head: _Run,
    old: _Run | None,
    kept: Baseline | None,
    path: str | Path | None,
    context: int,
) -> Verdict:
    """The verdict, with the worst failing windows compared where the base's events are known."""
    failed: dict[str, list[Metric]] = {}
    for row in found.failing:
        # What chunks hold is not told from blocks.
        if not row.missing and row.metric != "reserved":
            failed.setdefault(row.name, []).append(row.metric)
    if not failed:
        return found
    notes = list(found.notes)
    try:
        base_windows = _base_windows(old, kept, path)
    except InputError as error:
        notes.append(f"no blame: {error.message}")
        base_windows = {}
    if old is not None and kept is not None:
        notes.extend(_other_run(old, kept, path))
    places = {id(figures): window for figures, window in zip(head.figures, head.windows, strict=True)}
    of_name = {base.name: places[id(new)] for base, new in paired.pairs} | {
        new.name: places[id(new)] for new in paired.new
    }
    if len(base_windows) == 1 and not head.cut.series:
        base_windows = dict.fromkeys(of_name, *base_windows.values())
    known = [name for name in failed if name in base_windows]
    chosen = known[:_BLAMED]
    blame = _compare({name: (base_windows[name], of_name[name]) for name in chosen}, failed, context)
    return replace(found, blame=tuple(blame), unblamed=len(known) - len(chosen), notes=tuple(notes))


def _base_windows(old: _Run | None, kept: Baseline | None, path: str | Path | None) -> dict[str, Window]:
    """The base's windows with their events, by name; none where these are not known.

    Raises:
        InputError: The events beside the baseline cannot be read.
    """
    if old is not None:
        return {window.name: window for window in old.windows}
    if kept is None or kept.events_sha256 is None or path is None:
        return {}
    from memlens.gating import stored

    names = [window.name for window in kept.windows]
    windows = stored.read_events(stored.events_path(path), kept.events_sha256, os.fspath(path), names)
    return {window.name: window for window in windows}


def _other_run(old: _Run, kept: Baseline, path: str | Path | None) -> Iterator[str]:
    """Say what to doubt of the log that blames: its own doubts, and that it is not the run that the baseline was taken of."""
    yield from old.doubts()
    figures = {window.name: window for window in kept.windows}
    differ = sum(window.name in figures and window != figures[window.name] for window in old.figures)
    if differ:
        yield f"{old.name} has other figures than {path} in {differ:,} of its windows: it was not this run that was accepted"


def _compare(
    pairs: Mapping[str, tuple[Window, Window]], failed: Mapping[str, Sequence[Metric]], context: int
) -> Iterator[Blame]:
    from memlens.diffing.run import diff_windows
    from memlens.events import Kind
    from memlens.gating.verdict import Blame

    if any(not (window.log.kind <= Kind.FREE).any() for pair in pairs.values() for window in pair):
        return
    for name, compared in zip(pairs, diff_windows(list(pairs.values()), context=context), strict=True):
        yield Blame(name, tuple(failed[name]), compared)
