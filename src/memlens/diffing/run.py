"""``memlens.diff``: two runs, or two windows, compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.analyzers.result import Later
from memlens.diffing.anchor_discovery import common_family
from memlens.diffing.compare import compare
from memlens.diffing.devices import joined, pair_devices, with_device
from memlens.diffing.factor import common_factor
from memlens.diffing.findings import repeated_in
from memlens.diffing.renumbered import pair_by_name_or_work
from memlens.diffing.result import Diff, RunSide, WindowDiff
from memlens.diffing.window_pairs import WindowPairs
from memlens.errors import AnchorError, InputError, NoEventsError, UsageError
from memlens.events import Kind as EventKind
from memlens.inputs import Reading, check_alike
from memlens.keywords import with_keywords
from memlens.options import Cut, as_list
from memlens.options import Diff as Options
from memlens.windows.windows import Window, judged, suspect_anchors

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs import Input

__all__ = ["diff", "diff_windows", "diff_with"]


def diff_with(base: Window | Input, head: Window | Input, options: Options) -> Diff:
    """Compare two runs: which allocation one frees and the other keeps, and what that explains.

    Args:
        base: The run that is compared against: a window, or a log as :func:`memlens.analyze` takes it.
        head: The run that is judged, likewise.  The two may be one log.  Of two inputs with several devices each device is compared
            with the one of its number, and the only GPU of one with the only GPU of the other.
        options: See :class:`memlens.options.Diff`.

    Raises:
        UsageError: Arguments that make no sense together.
        AnchorError: An anchor marks no line, or no window of base has a partner in head.
        InputError: A log cannot be read, or the two logs cannot be compared.
        NoEventsError: A log holds no allocator event, or none of blocks.
    """
    if options.context < 0:
        raise UsageError(f"there are no {options.context} lines of context", "0 shows none.")
    cuts = options.cuts
    given = any(cut.given for cut in cuts)
    if options.whole and given:
        raise UsageError("whole and anchors exclude each other", "Leave out --whole to cut the logs.")
    if isinstance(base, Window) and isinstance(head, Window):
        if given or options.whole:
            raise UsageError("two windows are cut already", "Leave the anchors out, or give the logs.")
        found = [_Windows(WindowPairs(((base, head),), (), ()), (base.log, head.log))]
        left_out: list[str] = []
    elif isinstance(base, Window) or isinstance(head, Window):
        raise UsageError("a window can only be compared with a window", "Cut the other log with EventLog.window().")
    else:
        logs, left_out = _read_both((base, head), cuts, options)
        found = [_cut_both(pair, cuts, look=not given and not options.whole) for pair in logs]
        if len(found) > 1:
            found = [windows.with_devices() for windows in found]
    diffs = [_compared(windows, given, options) for windows in found]
    if len(diffs) == 1 and not left_out:
        return diffs[0]
    return joined(diffs, left_out)


diff = with_keywords("diff", diff_with, Options)


def _compared(found: _Windows, given: bool, options: Options) -> Diff:
    _check_comparable(*found.logs)
    pairs = found.pairs.pairs
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    everything = options.open_windows or found.by is None
    fates = [True] * len(pairs) if everything else judged([head if head.open_end else base for base, head in pairs])
    # What is said of all windows is told from those that are judged.
    chosen = {fate: [pair for pair, of in zip(pairs, fates, strict=True) if of is fate] for fate in (True, False)}
    factor = common_factor(*zip(*chosen[True], strict=True))
    compared = {
        fate: compare(*zip(*some, strict=True), context=options.context, factor=factor)
        for fate, some in chosen.items()
        if some
    }
    windows = {fate: iter(of.windows) for fate, of in compared.items()}
    return Diff(
        _side(found.logs[0], sides[0], found.pairs.only_base),
        _side(found.logs[1], sides[1], found.pairs.only_head),
        tuple(replace(next(windows[fate]), judged=fate) for fate in fates),
        found.by,
        found.by is not None and options.by is None,
        (
            *_notes(found.logs, sides, given or found.by is not None),
            *_pairing_notes(found, fates, options.open_windows),
        ),
        Later(repeated_in, compared[True].runs) if found.by is not None else (),
        None if factor is None else factor.value,
        options.top,
        options.min_size,
        found.pairs.by_work,
    )


def _pairing_notes(found: _Windows, fates: Sequence[bool], open_windows: bool) -> Iterator[str]:
    """Which windows are open, and whether they are judged; and that names mislead."""
    for (base, head), fate in zip(found.pairs.pairs, fates, strict=True):
        which = [name for name, window in (("base", base), ("head", head)) if window.open_end]
        if not which:
            continue
        name = base.name if base.name == head.name else f"{base.name} / {head.name}"
        at = f"{name} runs to the end of the log in {' and '.join(which)}: no end anchor closes it"
        if found.by is None:
            yield f"{at}, so it may be cut short, or hold what comes after; doubt what differs in it"
        elif not fate:
            yield f"{at}, so it is shown and not judged (--open judges it)"
        elif open_windows:
            yield f"{at}; it is judged all the same, as asked"
        else:
            yield f"{at}; it is judged all the same, for there is no closed one"
    unlike = [(base.name, head.name) for base, head in found.pairs.pairs if base.name != head.name]
    if found.pairs.by_work and unlike:
        yield (
            f"numbers were inserted or lost, or start elsewhere: the windows pair by what they do, {len(unlike):,} of "
            f"{len(found.pairs.pairs):,} pairs under two names, from {' / '.join(unlike[0])} on"
        )


def diff_windows(pairs: Sequence[tuple[Window, Window]], *, context: int = 3) -> list[WindowDiff]:
    """Compare many pairs of windows of the same two logs at once.

    Args:
        pairs: Windows of base, each with its partner in head.
        context: Log lines to keep on each side of an event.
    """
    if not pairs:
        return []
    return list(compare([base for base, _ in pairs], [head for _, head in pairs], context=context).windows)


@dataclass(frozen=True)
class _Windows:
    """The windows to compare, of which logs, and what cut a series of them."""

    pairs: WindowPairs
    logs: tuple[EventLog, EventLog]
    by: str | None = None

    def with_devices(self) -> _Windows:
        """The same, with names that tell the device."""
        pairs = WindowPairs(
            tuple((with_device(base), with_device(head)) for base, head in self.pairs.pairs),
            tuple(map(with_device, self.pairs.only_base)),
            tuple(map(with_device, self.pairs.only_head)),
            self.pairs.by_work,
        )
        return _Windows(pairs, self.logs, self.by)


def _read_both(
    inputs: tuple[Input, Input], cuts: Sequence[Cut], options: Options
) -> tuple[list[tuple[EventLog, EventLog]], list[str]]:
    """Read the two inputs, a pair of logs for each device, and what is left out; a file that is both is read once."""
    from memlens.windows.windows import as_patterns

    patterns = tuple(dict.fromkeys(pattern for cut in cuts for pattern in cut.patterns))
    owners = as_patterns(as_list(options.owners), regex=True)
    reading = Reading(patterns, options.strict, owners=owners, how=options, threads=True)
    first = reading.read_all(inputs[0])
    same = inputs[0] is inputs[1] or (
        all(isinstance(given, (str, Path)) for given in inputs) and str(inputs[0]) == str(inputs[1])
    )
    return pair_devices(first, first if same else reading.read_all(inputs[1]))


def _cut_both(logs: tuple[EventLog, EventLog], cuts: Sequence[Cut], *, look: bool) -> _Windows:
    """The windows of both logs that are to be compared."""
    family = common_family(*logs) if look and logs[0] is not logs[1] else None
    if family is not None:
        cuts = [Cut(by=family.by)] * 2
        # The search has found the lines already.
        logs = tuple(  # type: ignore[assignment]
            log.without_cache(anchors=(*log.anchors, anchor)) for log, anchor in zip(logs, family.anchors, strict=True)
        )
    base, head = (cut.windows(log) for cut, log in zip(cuts, logs, strict=True))
    if not cuts[0].series:
        return _Windows(WindowPairs(((base[0], head[0]),), (), ()), logs)
    try:
        return _Windows(pair_by_name_or_work(base, head), logs, cuts[0].by)
    except AnchorError:
        if family is None:
            raise
        # Lines that count alike, but not the same work.
        return _Windows(WindowPairs(((logs[0].whole, logs[1].whole),), (), ()), logs)


def _check_comparable(base: EventLog, head: EventLog) -> None:
    """Refuse two logs whose allocations cannot be told apart or do not mean the same.

    Raises:
        InputError: They are of different kinds.
        NoEventsError: A log has no blocks to compare.
    """
    check_alike(base, head)
    if base.facts.addresses != head.facts.addresses:
        blind = head if base.facts.addresses else base
        raise InputError(
            f"{blind.source.name}: its lines have no addresses, so no ALLOC of it pairs with a FREE, and those of the other run do",
            "Compare logs of one layer: --layer chooses it where both have it, or record both runs in the same way.",
        )
    for log in (base, head):
        if len(log) and not (log.kind <= EventKind.FREE).any():
            raise NoEventsError(
                f"{log.source.name}: only chunks were logged here, no allocations, so there is nothing to align",
                "Record with GLOG_vmodule='auto_g*=10' (level 6 logs chunks only); memlens analyze shows the reserved bytes.",
            )


def _side(log: EventLog, paired: Sequence[Window], unpaired: Sequence[Window]) -> RunSide:
    names = tuple(window.name for window in unpaired)
    return RunSide(log.source.name, log.trust, len(paired) + len(unpaired), names)


def _notes(logs: tuple[EventLog, EventLog], sides: Sequence[Sequence[Window]], cut: bool) -> tuple[str, ...]:
    """What to doubt of the windows, and what the comparison could not use."""
    notes = []
    for log, windows in zip(logs, sides, strict=True):
        if cut and (doubt := suspect_anchors(windows)) is not None:
            notes.append(f"{log.source.name}: {doubt}")
    if not logs[0].facts.addresses:
        notes.append("no line has an address, so every block looks held: only levels and peaks can be compared")
    for what, known in (
        ("requested sizes", [log.requested is not None for log in logs]),
        ("owners", [log.owner is not None for log in logs]),
    ):
        if known[0] != known[1]:
            here = logs[known.index(True)].source.name
            notes.append(f"only {here} has {what}, so allocations were paired without them")
    return tuple(notes)
