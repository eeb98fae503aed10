"""``memlens.diff``: two runs, or two windows, compared."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memlens.analyzers.composition import Roles
from memlens.diffing.attribution import by_effect, causes_at_peak, causes_left_behind
from memlens.diffing.claims import claims_of
from memlens.diffing.compare import common_factor, compare, pairs_in_order
from memlens.diffing.differences import levels
from memlens.diffing.explaining import costs_of
from memlens.diffing.failed import failed_runs
from memlens.diffing.finding import by_weight, repeated_in
from memlens.diffing.result import Diff, RoleChange, RunSide, WindowDiff, shares_little
from memlens.diffing.window_pairs import WindowPairs, pair_by_name_or_work
from memlens.errors import AnchorError, InputError, NoEventsError, UsageError
from memlens.events import EventLog
from memlens.events import Kind as EventKind
from memlens.folding import profile
from memlens.inputs import Reading, check_alike, device_label, input_key, without_cpu
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Diff as Options
from memlens.results import claimed, deferred
from memlens.trust import trust_of
from memlens.windows.anchor_discovery import common_family
from memlens.windows.windows import Window, judged, suspect_anchors, whole, windows_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.columns import Ints
    from memlens.log import Input, Log
    from memlens.options import Cut


def diff_with(base: Window | Input, head: Window | Input, options: Options) -> Diff:
    """Compare two runs: which allocation one frees and the other keeps, and what that explains.

    Args:
        base: The run that is compared against: a window, or a log as :func:`memlens.analyze` takes it.
        head: The run that is judged, likewise.  The two may be one log.  Of two inputs with several devices each device is compared
            with the one of its number, and the only GPU of one with the only GPU of the other.
        options: See :class:`memlens.options.verbs.Diff`.

    Raises:
        UsageError: Arguments that make no sense together.
        AnchorError: An anchor marks no line, or no window of base has a partner in head.
        InputError: A log cannot be read, or the two logs cannot be compared.
        NoEventsError: A log holds no allocator event, or none of blocks.
    """
    return diff_to_draw(base, head, options, drawn=False)


def diff_to_draw(base: Window | Input, head: Window | Input, options: Options, *, drawn: bool = True) -> Diff:
    """The same with what an axis that both runs share is made of: where it is not ``drawn``, they are aligned once more for that."""
    if options.context < 0:
        raise UsageError(f"there are no {options.context} lines of context", "0 shows none.")
    cuts = options.cuts
    given = any(cut.given for cut in cuts)
    if options.whole and given:
        raise UsageError("whole and anchors exclude each other", "Leave out --whole to cut the logs.")
    if isinstance(base, Window) and isinstance(head, Window):
        if given or options.whole:
            raise UsageError("two windows are cut already", "Leave the anchors out, or give the logs.")
        found = [WindowPairs(((base, head),))]
        left_out: list[str] = []
    elif isinstance(base, Window) or isinstance(head, Window):
        raise UsageError("a window can only be compared with a window", "Cut the other log with EventLog.window().")
    else:
        patterns = tuple(dict.fromkeys(pattern for cut in cuts for pattern in cut.patterns))
        owners = options.owner_patterns
        look = not given and not options.whole
        reading = Reading(patterns, options.strict, owners=owners, how=options, threads=True, landmarks=look)
        of_base = reading.read_all(base)
        logs, left_out = _pair_devices(
            of_base, of_base if input_key(base) == input_key(head) else reading.read_all(head)
        )
        found = [_cut_both(pair, cuts, look=look) for pair in logs]
        if len(found) > 1:
            found = [_with_device(pairs) for pairs in found]
    diffs = [_compared(pairs, given, options, drawn) for pairs in found]
    joined = diffs[0] if len(diffs) == 1 and not left_out else _joined(diffs, left_out)
    return claimed(joined, claims_of)


diff = with_keywords("diff", diff_with, Options)


def _with_device(found: WindowPairs) -> WindowPairs:
    """The same windows, with names that tell the device."""

    def named(windows: Sequence[Window]) -> tuple[Window, ...]:
        return tuple(replace(window, name=f"{window.name} {device_label(window.log)}") for window in windows)

    pairs = zip(*map(named, zip(*found.pairs, strict=True)), strict=True)
    return replace(found, pairs=tuple(pairs), only_base=named(found.only_base), only_head=named(found.only_head))


def _compared(found: WindowPairs, given: bool, options: Options, drawn: bool) -> Diff:
    logs, sides, alone = found.logs, tuple(zip(*found.pairs, strict=True)), (found.only_base, found.only_head)
    _check_comparable(*logs)
    counts = [True] * len(found.pairs)
    if found.by is not None and not options.open_windows:
        counts = judged([two if two.open_end else one for one, two in found.pairs])
    peaks = None
    if found.by is not None:
        ends = [int(levels([whole(log)]).peak_end[0]) for log in logs]
        peaks = ends[0], ends[1]
    aligned: list[Ints] | None = [] if drawn else None
    windows, runs = compare(*sides, context=options.context, judged=counts, peaks=peaks, in_order=aligned)
    of_base, of_head, kept = (tuple(compress(column, counts)) for column in (*sides, windows))
    base, head = (
        _run_side(log, [*paired, *others], tuple(window.name for window in others))
        for log, paired, others in zip(logs, sides, alone, strict=True)
    )
    runs = runs._replace(alone=alone)
    compared = Diff(
        base,
        head,
        windows,
        found.by,
        found.by is not None and options.by is None,
        (*_notes(logs, sides, given or found.by is not None), *_pairing_notes(found, counts, options.open_windows)),
        deferred(repeated_in, runs, counts) if found.by is not None else (),
        common_factor(of_base, of_head) if shares_little(kept) else None,
        options.top,
        options.min_size,
        found.by_work,
        deferred(failed_runs, found.pairs, logs),
        deferred(pairs_in_order, found, aligned),
        deferred(causes_at_peak, runs, counts),
        ends=found.ends,
        roles=deferred(_by_role, logs, runs.peaks),
    )
    costs = {id(window) for window in costs_of(compared) or compared.judged}
    left = deferred(causes_left_behind, runs, [id(window) in costs for window in windows])
    return replace(compared, causes_left_behind=left)


def _by_role(logs: tuple[EventLog, EventLog], peaks: tuple[int, int]) -> tuple[RoleChange, ...]:
    """What is live at both peaks by role, the largest change first.

    Args:
        logs: Base's and head's.
        peaks: The event after the one that reaches each peak.
    """
    told = [*map(Roles, logs)]
    if told[0].told_by != told[1].told_by:
        return ()
    base, head = (roles.bytes_at(peak) for roles, peak in zip(told, peaks, strict=True))
    sizes = {role: (base.get(role, 0), head.get(role, 0)) for role in {**base, **head}}
    rows = (RoleChange(role, one, two, two - one) for role, (one, two) in sizes.items())
    return tuple(sorted(rows, key=lambda row: -abs(row.d_bytes)))


def _run_side(log: EventLog, windows: Sequence[Window], unpaired: tuple[str, ...]) -> RunSide:
    """A run with the figures of all of it, and in which of its windows its peak is."""
    levels = profile([whole(log)])
    summit = int(levels.summit[0]) if levels["rise_bytes"][0] else -1
    at_peak = (window.name for window in windows if window.lo <= summit < window.hi)
    return RunSide(
        log.source.name,
        trust_of(log),
        len(windows),
        unpaired,
        int(levels["peak_bytes"][0]),
        next(at_peak, None),
        int(levels["live_bytes"][0]),
        int(levels["reserved_peak_bytes"][0]) if log.tells_of_chunks else None,
    )


def _pairing_notes(found: WindowPairs, counts: Sequence[bool], open_windows: bool) -> Iterator[str]:
    """Yield which windows are open, and whether they are judged; and that names mislead."""
    for (base, head), is_judged in zip(found.pairs, counts, strict=True):
        which = [name for name, window in (("base", base), ("head", head)) if window.open_end]
        if not which:
            continue
        name = base.name if base.name == head.name else f"{base.name} / {head.name}"
        at = f"{name} runs to the end of the log in {' and '.join(which)}"
        if found.by is None:
            yield f"{at}, so it may be cut short, or hold what comes after; doubt what differs in it"
        elif not is_judged:
            yield f"{at}, so it is shown and not judged (--open judges it)"
        else:
            yield f"{at}; it is judged all the same, {'as asked' if open_windows else 'for there is no closed one'}"
    unlike = [(base.name, head.name) for base, head in found.pairs if base.name != head.name]
    if found.by_work and unlike:
        yield (
            f"numbers were inserted or lost, or start elsewhere: the windows pair by what they do, {len(unlike):,} of "
            f"{len(found.pairs):,} pairs under two names, from {' / '.join(unlike[0])} on"
        )


def diff_windows(pairs: Sequence[tuple[Window, Window]], *, context: int = 3) -> list[WindowDiff]:
    """Compare many pairs of windows of the same two logs at once.

    Args:
        pairs: Windows of base, each with its partner in head.
        context: Log lines to keep on each side of an event.
    """
    return list(compare(*zip(*pairs, strict=True), context=context)[0]) if pairs else []


def _cut_both(logs: tuple[EventLog, EventLog], cuts: Sequence[Cut], *, look: bool) -> WindowPairs:
    """The windows of both logs that are to be compared."""
    family = common_family(*logs) if look and logs[0] is not logs[1] else None
    windows: list[Sequence[Window]]
    if family is not None:
        windows = [windows_at(log, one, ends=family.ends) for log, one in zip(logs, family.anchors, strict=True)]
    else:
        windows = [cut.windows(log) for cut, log in zip(cuts, logs, strict=True)]
        if not cuts[0].series:
            return WindowPairs(((windows[0][0], windows[1][0]),))
    try:
        found = pair_by_name_or_work(*windows)
        return replace(found, by=cuts[0].by if family is None else family.by, ends=family is not None and family.ends)
    except AnchorError:
        if family is None:
            raise
        # Lines that count alike, but not the same work.
        return WindowPairs(((whole(logs[0]), whole(logs[1])),))


def _check_comparable(base: EventLog, head: EventLog) -> None:
    """Refuse two logs whose allocations cannot be told apart or do not mean the same.

    Raises:
        InputError: They are of different kinds.
        NoEventsError: A log has no blocks to compare.
    """
    check_alike(base.source.name, base.facts.layer, head.source.name, head.facts.layer)
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


def _notes(logs: tuple[EventLog, EventLog], sides: Sequence[Sequence[Window]], cut: bool) -> Iterator[str]:
    """Yield doubts about the windows, and columns that the comparison could not use."""
    for log, windows in zip(logs, sides, strict=True):
        if cut and (doubt := suspect_anchors(windows)) is not None:
            yield f"{log.source.name}: {doubt}"
    if not logs[0].facts.addresses:
        yield "no line has an address, so every block looks held: only levels and peaks can be compared"
    for what, column in (("requested sizes", "requested"), ("owners", "owner")):
        known = [log.source.name for log in logs if getattr(log, column) is not None]
        if len(known) == 1:
            yield f"only {known[0]} has {what}, so allocations were paired without them"


def _pair_devices(base: Sequence[Log], head: Sequence[Log]) -> tuple[list[tuple[Log, Log]], list[str]]:
    """Pair the logs of two inputs by the number of their device; two single ones pair whatever theirs are, and so do two single GPUs.

    Returns:
        The pairs, by rising number, and what is left out, in words.

    Raises:
        UsageError: No device is in both.
    """
    if len(base) == len(head) == 1:
        return [(base[0], head[0])], []
    ours, theirs = ({log.device: log for log in logs} for logs in (base, head))
    pairs = [(log, theirs[number]) for number, log in ours.items() if number in theirs]
    (gpu, *more), (other, *others) = (without_cpu(logs)[0] for logs in (base, head))
    if not more and not others and gpu.device != other.device and -1 not in (gpu.device, other.device):
        pairs.append((gpu, other))  # of two ranks, say
    if not pairs:
        listed = [f"{logs[0].source.name} has {', '.join(map(device_label, logs))}" for logs in (base, head)]
        raise UsageError(
            f"no device is in both runs: {'; '.join(listed)}",
            "Cut them with memlens.read(…, device=N) and compare the logs.",
        )
    notes = [
        f"{log.source.name}: {device_label(log)} has no partner in the other run, and is left out"
        for side, logs in enumerate((base, head))
        for log in logs
        if all(pair[side] is not log for pair in pairs)
    ]
    return pairs, notes


def _joined(diffs: Sequence[Diff], notes: Sequence[str]) -> Diff:
    """The comparisons of several devices as one.

    Args:
        diffs: One a device; their windows' names tell the devices.
        notes: What to doubt beside what each of them says.
    """
    first = diffs[0]
    base, head = (_joined_side([getattr(diff, side) for diff in diffs]) for side in ("base", "head"))
    # The fullest devices of both runs may be two.
    peaks = base.peak_bytes, head.peak_bytes
    at_peak = next((diff for diff in diffs if (diff.base.peak_bytes, diff.head.peak_bytes) == peaks), None)
    return replace(
        first,
        base=base,
        head=head,
        windows=tuple(window for diff in diffs for window in diff.windows),
        notes=(*notes, *dict.fromkeys(note for diff in diffs for note in diff.notes)),
        factor=first.factor if len({diff.factor for diff in diffs}) == 1 else None,
        repeated=deferred(lambda: by_weight(row for diff in diffs for row in diff.repeated)),
        paired_by_work=any(diff.paired_by_work for diff in diffs),
        failed=deferred(lambda: tuple(run for diff in diffs for run in diff.failed)),
        in_order=deferred(lambda: tuple(one for diff in diffs for one in diff.in_order)),
        causes_at_peak=() if at_peak is None else deferred(lambda: at_peak.causes_at_peak),
        roles=() if at_peak is None else deferred(lambda: at_peak.roles),
        causes_left_behind=deferred(lambda: by_effect(cause for diff in diffs for cause in diff.causes_left_behind)),
    )


def _joined_side(sides: Sequence[RunSide]) -> RunSide:
    """One run of several devices: sums of counts, and what is said of any of them once."""
    first, *_ = trusts = [side.trust for side in sides]
    own = ("lines", "bytes", "threads")
    counts = [name for name in first.__struct_fields__ if name not in own and type(getattr(first, name)) is int]
    trust = replace(
        first,
        ok=all(trust.ok for trust in trusts),
        doubts=tuple(dict.fromkeys(doubt for trust in trusts for doubt in trust.doubts)),
        notes=tuple(dict.fromkeys(note for trust in trusts for note in trust.notes)),
        ooms=tuple(oom for trust in trusts for oom in trust.ooms),
        lines=max(trust.lines for trust in trusts),
        bytes=max(trust.bytes for trust in trusts),
        **{name: sum(getattr(trust, name) for trust in trusts) for name in counts},
    )
    unpaired = tuple(name for side in sides for name in side.unpaired)
    fullest = max(sides, key=lambda side: side.peak_bytes or 0)
    return replace(
        fullest,
        path=sides[0].path,
        trust=trust,
        windows=sum(side.windows for side in sides),
        unpaired=unpaired,
        live_bytes=sum(side.live_bytes or 0 for side in sides),
        devices=len(sides),
    )
