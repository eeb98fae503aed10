"""``memlens.diff``: two runs, or two windows, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memlens.analyzers.result import Later
from memlens.diffing.anchor_discovery import common_family
from memlens.diffing.compare import compare
from memlens.diffing.factor import common_factor
from memlens.diffing.findings import repeated_in
from memlens.diffing.result import Diff, RunSide, WindowDiff
from memlens.diffing.window_pairs import WindowPairs, pair_by_name_or_work
from memlens.errors import AnchorError, InputError, NoEventsError, UsageError
from memlens.events import Kind as EventKind
from memlens.inputs import Reading, check_alike, device_label, without_cpu
from memlens.options import Cut, ReadAs, as_list
from memlens.windows.windows import Window, as_patterns, judged, suspect_anchors

if TYPE_CHECKING:
    from memlens.diffing.finding import Repeated
    from memlens.events import EventLog
    from memlens.inputs import Input

__all__ = ["diff", "diff_windows"]


def diff(
    base: Window | Input,
    head: Window | Input,
    *,
    start: str | None = None,
    end: str | Sequence[str] = (),
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
    by: str | None = None,
    base_start: str | None = None,
    head_start: str | None = None,
    base_start_regex: str | None = None,
    head_start_regex: str | None = None,
    base_end: str | Sequence[str] = (),
    head_end: str | Sequence[str] = (),
    base_nth: int | None = None,
    head_nth: int | None = None,
    whole: bool = False,
    open_windows: bool = False,
    owners: Sequence[str] = (),
    context: int = 3,
    top: int | None = None,
    min_size: int = 0,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
    input_format: str | None = None,
    device: int | None = None,
    layer: str | None = None,
    formats: str | Path | None = None,
) -> Diff:
    """Compare two runs: which allocation one frees and the other keeps, and what that explains.

    Args:
        base: The run that is compared against: a window, or a log as :func:`memlens.analyze` takes it.
        head: The run that is judged, likewise.  The two may be one log.  Of two inputs with several devices each device is compared
            with the one of its number, and the only GPU of one with the only GPU of the other.
        start: Compare from the line that contains this text as whole words.
        end: … to before the next line that contains this text, or one of several.
        start_regex: The start as a regular expression.
        end_regex: Further ends as regular expressions.
        nth: Which of the lines that match the start.
        by: Cut both runs into a series of windows (see :func:`memlens.windows.windows.windows`), which pair by name, or by what they do
            where the numbers in the names mislead.
        base_start: The start in base, where it is not the one in head.
        head_start: The start in head.
        base_start_regex: Likewise, as a regular expression.
        head_start_regex: Likewise, as a regular expression.
        base_end: Further ends in base only.
        head_end: Further ends in head only.
        base_nth: Which of the lines that match base's start; ``nth`` by default.
        head_nth: Which of the lines that match head's start.
        whole: Compare the whole logs as one window, instead of looking for a family of anchor lines that both have.
        open_windows: Judge the open windows of a series too: those that run to the end of a log because no end line closed them.
        owners: Regular expressions of further context lines; see :func:`memlens.read`.
        context: Log lines to keep on each side of the event that tells the runs apart.
        top: Findings that the machine output lists of each window; ``None`` is all.
        min_size: Leave findings of blocks smaller than this, in bytes, out of lists.
        strict: An input that is cut short is an error.
        progress: Called with the bytes read so far, over both logs, as they lie on disk.
        input_format: The format of the inputs, where it is not to be looked for; see :func:`memlens.read`.
        device: The device to compare of inputs that have several; -1 is the CPU.
        layer: The allocator layer of Paddle to take blocks from; see :func:`memlens.read`.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Raises:
        UsageError: Arguments that make no sense together.
        AnchorError: An anchor marks no line, or no window of base has a partner in head.
        InputError: A log cannot be read, or the two logs cannot be compared.
        NoEventsError: A log holds no allocator event, or none of blocks.
    """
    if context < 0:
        raise UsageError(f"there are no {context} lines of context", "0 shows none.")
    ends, end_regexes = tuple(as_list(end)), tuple(as_list(end_regex))
    cuts = tuple(
        Cut(
            own_start if own_start is not None else start if own_regex is None else None,
            (*ends, *as_list(own_end)),
            own_regex if own_regex is not None else start_regex if own_start is None else None,
            end_regexes,
            nth if own_nth is None else own_nth,
            by,
        )
        for own_start, own_regex, own_end, own_nth in (
            (base_start, base_start_regex, base_end, base_nth),
            (head_start, head_start_regex, head_end, head_nth),
        )
    )
    given = any(cut.given for cut in cuts)
    if whole and given:
        raise UsageError("whole and anchors exclude each other", "Leave out --whole to cut the logs.")
    if isinstance(base, Window) and isinstance(head, Window):
        if given or whole:
            raise UsageError("two windows are cut already", "Leave the anchors out, or give the logs.")
        found = [_Windows(WindowPairs(((base, head),), (), ()), (base.log, head.log))]
        left_out: list[str] = []
    elif isinstance(base, Window) or isinstance(head, Window):
        raise UsageError("a window can only be compared with a window", "Cut the other log with EventLog.window().")
    else:
        reading = Reading(
            tuple(dict.fromkeys(pattern for cut in cuts for pattern in cut.patterns)),
            strict,
            owners=as_patterns(owners, regex=True),
            progress=progress,
            how=ReadAs(input_format, device, formats, layer),
            threads=True,
        )
        of_base = reading.read_all(base)
        logs, left_out = _pair_devices(of_base, of_base if _same_input(base, head) else reading.read_all(head))
        found = [_cut_both(pair, cuts, look=not given and not whole) for pair in logs]
        if len(found) > 1:
            found = [windows._replace(pairs=windows.pairs.changed(_with_device)) for windows in found]
    diffs = [_compared(windows, given, by, context, top, min_size, open_windows) for windows in found]
    if len(diffs) == 1 and not left_out:
        return diffs[0]
    return _joined(diffs, left_out)


def _with_device(window: Window) -> Window:
    """A window whose name tells the device."""
    return replace(window, name=f"{window.name} {device_label(window.log)}")


def _compared(
    found: _Windows, given: bool, by: str | None, context: int, top: int | None, min_size: int, open_windows: bool
) -> Diff:
    _check_comparable(*found.logs)
    pairs = found.pairs.pairs
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    everything = open_windows or found.by is None
    fates = [True] * len(pairs) if everything else judged([head if head.open_end else base for base, head in pairs])
    # What is said of all windows is told from those that are judged.
    factor = common_factor(*([window for window, fate in zip(side, fates, strict=True) if fate] for side in sides))
    windows, runs = compare(*sides, context=context, factor=factor, judged=fates)
    base, head = (
        RunSide(log.source.name, log.trust, len(paired) + len(alone), tuple(window.name for window in alone))
        for log, paired, alone in zip(found.logs, sides, (found.pairs.only_base, found.pairs.only_head), strict=True)
    )
    return Diff(
        base,
        head,
        windows,
        found.by,
        found.by is not None and by is None,
        (*_notes(found.logs, sides, given or found.by is not None), *_pairing_notes(found, fates, open_windows)),
        Later(repeated_in, runs, fates) if found.by is not None else (),
        None if factor is None else factor.value,
        top,
        min_size,
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
    return list(compare(*zip(*pairs, strict=True), context=context)[0]) if pairs else []


class _Windows(NamedTuple):
    """The windows to compare, of which logs, and what cut a series of them."""

    pairs: WindowPairs
    logs: tuple[EventLog, EventLog]
    by: str | None = None


def _same_input(one: Input, other: Input) -> bool:
    """Whether two inputs are one log, which is read once."""
    paths = isinstance(one, (str, Path)) and isinstance(other, (str, Path))
    return one is other or (paths and str(one) == str(other))


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


def _notes(logs: tuple[EventLog, EventLog], sides: Sequence[Sequence[Window]], cut: bool) -> Iterator[str]:
    """What to doubt of the windows, and what the comparison could not use."""
    for log, windows in zip(logs, sides, strict=True):
        if cut and (doubt := suspect_anchors(windows)) is not None:
            yield f"{log.source.name}: {doubt}"
    if not logs[0].facts.addresses:
        yield "no line has an address, so every block looks held: only levels and peaks can be compared"
    for what, column in (("requested sizes", "requested"), ("owners", "owner")):
        known = [log.source.name for log in logs if getattr(log, column) is not None]
        if len(known) == 1:
            yield f"only {known[0]} has {what}, so allocations were paired without them"


def _pair_devices(
    base: Sequence[EventLog], head: Sequence[EventLog]
) -> tuple[list[tuple[EventLog, EventLog]], list[str]]:
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
    one_factor = len({diff.factor for diff in diffs}) == 1
    factors = [
        f"{diff.windows[0].name}: nearly all sizes of head are those of base times {diff.factor}, which is taken out"
        for diff in diffs
        if diff.factor is not None and not one_factor
    ]
    return replace(
        first,
        base=_joined_side([diff.base for diff in diffs]),
        head=_joined_side([diff.head for diff in diffs]),
        windows=tuple(window for diff in diffs for window in diff.windows),
        notes=(*notes, *dict.fromkeys(note for diff in diffs for note in diff.notes), *factors),
        factor=first.factor if one_factor else None,
        repeated=Later(_repeated, diffs),
        paired_by_work=any(diff.paired_by_work for diff in diffs),
    )


def _repeated(diffs: Sequence[Diff]) -> tuple[Repeated, ...]:
    return tuple(sorted((row for diff in diffs for row in diff.repeated), key=lambda row: row.weight, reverse=True))


def _joined_side(sides: Sequence[RunSide]) -> RunSide:
    """One run of several devices: sums of counts, and what is said of any of them once."""
    trusts = [side.trust for side in sides]
    lines, size = max(trust.lines for trust in trusts), max(trust.bytes for trust in trusts)
    counts = {spec.name for spec in fields(trusts[0]) if spec.type == "int"} - {"lines", "bytes", "threads"}
    trust = replace(
        trusts[0],
        ok=all(trust.ok for trust in trusts),
        doubts=tuple(dict.fromkeys(doubt for trust in trusts for doubt in trust.doubts)),
        notes=tuple(dict.fromkeys(note for trust in trusts for note in trust.notes)),
        ooms=tuple(oom for trust in trusts for oom in trust.ooms),
        lines=lines,
        bytes=size,
        **{name: sum(getattr(trust, name) for trust in trusts) for name in counts},
    )
    unpaired = tuple(name for side in sides for name in side.unpaired)
    return RunSide(sides[0].path, trust, sum(side.windows for side in sides), unpaired)
