"""Runs with several devices: which device of base goes with which of head, and their comparisons put together as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memlens.analyzers.result import Later
from memlens.diffing.result import Diff, Repeated, RunSide
from memlens.errors import UsageError
from memlens.inputs import device_label, without_cpu

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.trust import Trust
    from memlens.windows.windows import Window

__all__ = ["joined", "pair_devices", "with_device"]

_SUMS = (
    "events", "allocs", "frees", "reserves", "releases", "malformed", "unknown_frees", "unknown_free_bytes", "double_allocs",
    "double_alloc_bytes", "size_mismatches", "unstamped", "distinct_ooms", "figures_checked", "figures_agreeing",
    "figures_explained",
)  # fmt: skip


def pair_devices(
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


def with_device(window: Window) -> Window:
    """A window whose name tells the device."""
    return replace(window, name=f"{window.name} {device_label(window.log)}")


def joined(diffs: Sequence[Diff], notes: Sequence[str]) -> Diff:
    """The comparisons of several devices as one.

    Args:
        diffs: One a device; their windows' names tell the devices.
        notes: What to doubt beside what each of them says.
    """
    first = diffs[0]
    return replace(
        first,
        base=_side([diff.base for diff in diffs]),
        head=_side([diff.head for diff in diffs]),
        windows=tuple(window for diff in diffs for window in diff.windows),
        notes=(*notes, *dict.fromkeys(note for diff in diffs for note in diff.notes), *_factors(diffs)),
        factor=first.factor if len({diff.factor for diff in diffs}) == 1 else None,
        repeated=Later(_repeated, diffs) if first.by is not None else (),
        paired_by_work=any(diff.paired_by_work for diff in diffs),
    )


def _factors(diffs: Sequence[Diff]) -> list[str]:
    """What is to be said where the sizes of some devices differ by a factor, and those of others by none or by another."""
    if len({diff.factor for diff in diffs}) == 1:
        return []
    return [
        f"{diff.windows[0].name}: nearly all sizes of head are those of base times {diff.factor}, which is taken out"
        for diff in diffs
        if diff.factor is not None
    ]


def _repeated(diffs: Sequence[Diff]) -> tuple[Repeated, ...]:
    rows = [row for diff in diffs for row in diff.repeated]
    return tuple(sorted(rows, key=lambda row: row.weight, reverse=True))


def _side(sides: Sequence[RunSide]) -> RunSide:
    return RunSide(
        sides[0].path,
        _together([side.trust for side in sides]),
        sum(side.windows for side in sides),
        tuple(name for side in sides for name in side.unpaired),
    )


def _together(trusts: Sequence[Trust]) -> Trust:
    """One report of several devices of an input: sums of counts, and what is said of any of them once."""
    first = trusts[0]
    sums = {name: sum(getattr(trust, name) for trust in trusts) for name in _SUMS}
    return replace(
        first,
        ok=all(trust.ok for trust in trusts),
        doubts=tuple(dict.fromkeys(doubt for trust in trusts for doubt in trust.doubts)),
        notes=tuple(dict.fromkeys(note for trust in trusts for note in trust.notes)),
        ooms=tuple(oom for trust in trusts for oom in trust.ooms),
        lines=max(trust.lines for trust in trusts),
        bytes=max(trust.bytes for trust in trusts),
        **sums,
    )
