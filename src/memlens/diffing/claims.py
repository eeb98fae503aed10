"""What follows from a comparison of two runs: which one needs more, from which window on, what explains most, and what cannot be said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memlens.analyzers.failures import failure_claim
from memlens.analyzers.groups import in_common
from memlens.claims.claim import Claim, Tone, Weight, claim, difference, values_of
from memlens.claims.roles import large_changes, variable_of
from memlens.diffing.differences import OF_FREES
from memlens.diffing.explaining import Explained, costs_of, explained, is_one_window, peaks_of, sign_of
from memlens.diffing.result import Diff, RunSide, WindowDiff, unpaired_bytes
from memlens.trust.case import RESERVED_DOUBTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.diffing.attribution import Cause
    from memlens.diffing.failed import FailedRun
    from memlens.diffing.finding import Finding, Side

#: Doubts of a log, and windows, that a claim names.
_NAMED = 2
#: Changes of a window that does the same work in both runs.
_CHANGES = {
    "largest_peak_change": "d_peak_bytes",
    "carried_in_change": "d_carried_in_bytes",
    "reserved_change": "d_reserved_peak_bytes",
}


def claims_of(diff: Diff) -> Iterator[Claim]:
    """Yield who ran out of memory, both peaks and where the runs part, the finding that explains most, and what cannot be said."""
    # What is reserved decides nothing here.
    doubts = {side: _doubts(run) for side, run in (("base", diff.base), ("head", diff.head))}
    doubtful = any(doubts.values())
    if doubtful:
        yield Claim("runs_in_doubt", Weight.OPENING, doubts)
    entries = not diff.base.trust.has_lines
    yield from _failed(diff.failed, entries)
    for side, run in (("base", diff.base), ("head", diff.head)):
        if (ending := run.trust.ending) is not None and all(failed.side != side for failed in diff.failed):
            yield claim("run_ended", Weight.ENDING, ending, what=ending.what or None, side=side)
    if not diff.windows:
        yield difference("nothing_compared")
        return
    found = _Difference(diff, entries)
    tone = found.tone
    if any(run.side == "head" for run in diff.failed):
        tone = "bad"
    elif tone == "good" and (doubtful or found.maybe_earlier):
        tone = "plain"
    if diff.shares_little:
        (base, of_base), (head, of_head) = unpaired_bytes(diff.judged)
        sides = {"base_unpaired_bytes": base, "base_alloc_bytes": of_base}
        sides |= {"head_unpaired_bytes": head, "head_alloc_bytes": of_head}
        yield Claim("shares_little", Weight.UNLIKE, {**sides, "factor": diff.factor_text})
    first, *others = found.claims()
    yield replace(first, tone=tone)
    yield from others
    if found.cause is not None:
        yield from _explanation(found.cause, entries)
    elif diff.shares_little and diff.factor is None:
        yield from _largest_in_one(diff, entries)
    yield from (replace(claim, weight=Weight.LIMITS) for claim in (*found.rest(), *_limits(diff)))


def _doubts(run: RunSide) -> list[str] | None:
    return [doubt.code for doubt in run.trust.doubts if doubt.code not in RESERVED_DOUBTS] or None


def _failed(failed: Sequence[FailedRun], entries: bool) -> Iterator[Claim]:
    """Yield how the runs ran out of memory, and of one alone where the other one was then."""
    tone: Tone = "bad" if any(run.side == "head" for run in failed) else "good"
    own = {run.side: failure_claim([run.failure], has_lines=not entries).values for run in reversed(failed)}
    if len(own) > 1:
        yield Claim("both_out_of_memory", Weight.FAILURE, own, tone)
        return
    for run in failed[:1]:
        yield Claim("run_out_of_memory", Weight.FAILURE, {**own[run.side], "run": run.side}, tone)
        if (other := run.other) is not None and other.allocated_bytes is not None:
            figures = values_of(other, "window", "line", "allocated_bytes", "reserved_bytes", "largest_gap_bytes")
            side = "head" if run.side == "base" else "base"
            yield Claim("meanwhile", Weight.FAILURE, {"side": side, "entries": entries, **figures})


class _Difference:
    """Which run needs more.

    Attributes:
        pair: The pair of windows where one is looked at.
        cause: The finding that explains most.
        tone: Whether that is bad or good.
        maybe_earlier: The runs whose peak may lie before the recording, where that could turn it round.
    """

    def __init__(self, diff: Diff, entries: bool) -> None:
        self._diff, self._judged, self._entries = diff, diff.judged, entries
        self.pair = None if diff.series or len(diff.windows) != 1 else diff.windows[0]
        self._one_window = is_one_window(diff)
        self._base, self._head = peaks_of(diff)
        self._sign = sign_of(diff)
        self._same = bool(self._judged) and self._all_same()
        self._costs, self.cause = costs_of(diff), explained(diff)
        # Neither run needs more where peaks and what is left in all are equal, and windows of either kind are there.
        self._even = self._base == self._head and not sum(window.d_left_bytes for window in self._judged)
        self._even &= all(any(_needs(window, sign) for window in self._judged) for sign in (-1, 1))
        better = self._same or (self._sign < 0 and not self._costs and not self._even)
        self.tone: Tone = "bad" if self._sign > 0 and not self._even else "good" if better else "plain"
        failed = {run.side for run in diff.failed}
        if len(failed) == 1:
            self.tone = "bad" if "head" in failed else "good"
        lower = {1: [("base", diff.base)], -1: [("head", diff.head)]}.get(self._sign, [])
        moved = not self._one_window and self._base != self._head
        self.maybe_earlier = [name for name, run in lower if moved and run.trust.peak_may_be_earlier]

    def _all_same(self) -> bool:
        """Whether nothing tells the runs apart, in windows that are not judged and in figures of the whole runs either."""
        base, head = self._diff.base, self._diff.head
        runs = (base.live_bytes, base.reserved_peak_bytes) == (head.live_bytes, head.reserved_peak_bytes)
        unpaired = base.unpaired or head.unpaired
        return all(window.same for window in self._diff.windows) and not unpaired and (self._one_window or runs)

    def claims(self) -> Iterator[Claim]:
        """Yield how high both go, and where they part."""
        if all(window.alike for window in self._judged) and not self._sign:
            yield from self._alike()
            return
        yield from self._peaks()
        if self.pair is not None and self.pair.d_left_bytes != self.pair.d_remaining_bytes:
            if self.pair.d_left_bytes:
                base, head = self.pair.base.live_bytes, self.pair.head.live_bytes
                live = {"base_live_bytes": base, "head_live_bytes": head, "d_live_bytes": head - base}
                yield difference("ends_with", **live, although_less=bool(self._costs))
        elif self.pair is not None and self.pair.d_remaining_bytes:
            base, head = self.pair.base.remaining_bytes, self.pair.head.remaining_bytes
            # Where older blocks are freed, a window leaves less than nothing.
            yield difference(
                "older_freed" if min(base, head) < 0 else "left_behind",
                base_remaining_bytes=base,
                head_remaining_bytes=head,
                d_remaining_bytes=head - base,
                although_less=bool(self._costs),
            )
        elif self._costs:
            yield self._leak()
        elif not self._sign:
            yield self._no_effect()
        elif self.pair is None:
            # What the runs part by is what is said first where both peak alike.
            weight = Weight.DIFFERENCE if self._base == self._head else Weight.PARTING
            yield from (replace(claim, weight=weight) for claim in self._parting())

    def _alike(self) -> Iterator[Claim]:
        """Yield that nothing differs, or that the work does not."""
        if not self._judged:
            yield difference("no_window_judged")
            yield from self._peaks()
            return
        pairs = {} if self.pair is not None else {"window_pairs": len(self._judged)}
        yield difference("no_difference" if self._same else "same_work", **pairs)
        yield from self._peaks()
        for kind, name in _CHANGES.items():
            largest = max(self._judged, key=lambda window: abs(getattr(window, name) or 0))
            if self.pair is None and getattr(largest, name):
                yield difference(kind, **values_of(largest, name), window=largest.label)
            elif name != "d_peak_bytes" and getattr(largest, name):
                yield difference(kind, **values_of(largest, name))

    def _peaks(self) -> Iterator[Claim]:
        """Yield both peaks, and how much of their difference the pair of windows was carried in."""
        where: dict[str, Any] = {"since_recording": bool(self.maybe_earlier), "devices": self._diff.head.devices}
        if self.pair is not None and self._one_window:
            where["window"] = self.pair.label
        base, head = self._base, self._head
        if base == head:
            yield difference("equal_peaks", peak_bytes=head, **where)
        else:
            yield difference("head_peak", base_peak_bytes=base, head_peak_bytes=head, d_peak_bytes=head - base, **where)
            yield from self._by_role(head - base)
        if self.pair is not None and (carried_in := self.pair.peak.carried_in_bytes):
            # More than all of it, or the opposite, is no part of it.
            part = abs(carried_in) + abs(head - base - carried_in) == abs(head - base)
            yield difference("carried_in" if part else "carried_in_change", d_carried_in_bytes=carried_in)

    def _by_role(self, d_peak: int) -> Iterator[Claim]:
        """Yield which roles change most, where the roles account for all of Δpeak."""
        if roles := large_changes({one.role: one.d_bytes for one in self._diff.roles}, d_peak):
            yield difference("change_by_role", roles=roles, d_peak_bytes=d_peak)

    def _leak(self) -> Claim:
        """What windows leave behind although head needs less."""
        count, amounts = len(self._costs), [window.d_left_bytes for window in self._costs]
        lasting = count > 1 and self._costs == self._judged[-count:]
        each = lasting and len(set(amounts)) == 1
        return difference(
            "leaves_more",
            window=self._costs[0].label,
            windows=count,
            d_remaining_bytes=amounts[0] if each else sum(amounts),
            each=each,
            lasting=lasting,
            equal_peaks=self._base == self._head,
            although_less=True,
        )

    def _no_effect(self) -> Claim:
        """The differences where head needs and leaves no byte more or less."""
        names = ("moved", "only_head_temporary_bytes", "only_base_temporary_bytes")
        accounts = [window.remaining for window in self._judged]
        kept = any(one.missing_free_bytes or one.only_head_held_bytes or one.only_base_held_bytes for one in accounts)
        sums = {name: sum(getattr(window, name) for window in self._judged) or None for name in names}
        return difference("no_effect", cancel_out=kept, **sums)

    def _parting(self) -> Iterator[Claim]:
        """Yield the first judged window in which head needs more, or less, how many there are, and what others leave behind."""
        needs = "more" if self._sign > 0 else "less"
        needing = [window for window in self._judged if _needs(window, self._sign)]
        if not needing:
            run = self._diff.head if self._sign > 0 else self._diff.base
            # A window that is new, or not judged, explains it, and is named at the end.
            if run.peak_window not in run.unpaired and not any(True for _ in self._open_windows()):
                yield difference("no_window_needs", needs=needs)
            return
        first, windows = needing[0], len(self._judged)
        if self._even:
            counts = {"needing": len(needing), "opposite": sum(_needs(window, -self._sign) for window in self._judged)}
            where = {"window": first.label, "line": first.head.start_line, "entries": self._entries}
            yield difference("cancels_out", windows=windows, needs=needs, **counts, **where)
            return
        changes = {"d_remaining_bytes": first.d_left_bytes, "d_higher_bytes": first.d_higher_bytes}
        yield difference(
            "parting",
            window=first.label,
            line=first.head.start_line,
            entries=self._entries,
            needs=needs,
            **{name: change for name, change in changes.items() if self._sign * change > 0},
        )
        if len(needing) > 1:
            yield difference("windows_need", needing=len(needing), windows=windows, needs=needs)
        leaving = [window for window in self._judged if window.d_left_bytes > 0]
        total = sum(window.d_left_bytes for window in self._judged)
        named = self._sign * first.d_left_bytes > 0 or (self.cause is not None and not self.cause.at_peak)
        if not named and self._sign > 0 and total > 0:  # and all other claims are of the peak
            window, others = leaving[0].label, len(leaving) - 1
            yield difference("left_in_all", d_remaining_bytes=total, window=window, others=others)

    def _open_windows(self) -> Iterator[Claim]:
        """Yield windows that are not judged, where those that are do not show why the runs differ."""
        if any(_needs(window, self._sign) for window in self._judged):
            return
        for window in self._diff.windows:
            changes = values_of(window, "d_remaining_bytes", "d_rise_bytes")
            if not window.judged and any(changes.values()):
                known = {name: change or None for name, change in changes.items()}
                yield difference("open_window", window=window.label, **known)

    def rest(self) -> Iterator[Claim]:
        """Yield what else could explain the difference, or turn it round."""
        yield from self._open_windows()
        for side in self.maybe_earlier:
            yield difference("peak_may_be_earlier", side=side)


def _needs(window: WindowDiff, sign: int) -> bool:
    """Whether head's window needs more (1), or less (-1)."""
    return max(sign * window.d_left_bytes, sign * window.d_higher_bytes) > 0


def _limits(diff: Diff) -> Iterator[Claim]:
    """Yield what could not be compared, or not exactly."""
    for side, run in (("base", diff.base), ("head", diff.head)):
        if unpaired := run.unpaired:
            peak = run.peak_window if run.peak_window in unpaired else None
            named = list(unpaired[:_NAMED])
            yield difference("windows_unpaired", side=side, windows=len(unpaired), unpaired=named, peak_window=peak)
    inexact = [window.approximation.excess_bytes for window in diff.windows if window.approximation]
    if excess := sum(inexact):
        windows = {"window_pairs": len(diff.windows), "windows": sum(map(bool, inexact))}
        yield difference("approximate", **windows, excess_bytes=round(excess))


def _explanation(found: Explained, entries: bool) -> Iterator[Claim]:
    """Yield what some blocks explain, where each run allocates and frees the first of them, and what takes some of it back."""
    cause, finding = found.cause, found.cause.finding
    part = "all" if found.effect == found.whole else "most" if 2 * found.effect > found.whole else "part"
    outweighs = found.effect > found.whole
    late = finding.kind in OF_FREES and cause.late_by > 0
    values = values_of(finding, "fate", "size_bytes") | {"blocks": finding.count, "owner": finding.owner or None}
    values |= {
        "finding": {"missing_free": "late_free", "extra_free": "early_free"}.get(finding.kind, finding.kind)
        if late
        else finding.kind
    }
    values |= {"d_bytes": found.sign * found.whole, "explained_bytes": cause.effect, "at_peak": found.at_peak}
    if 1 < cause.windows < finding.count:
        values["windows"] = cause.windows
    if found.at_peak:
        values |= _more_blocks(cause)
    alike = found.sign * cause.alike_effect
    # Frees of a kind are for one cause, whatever else takes back; blocks that one run has more of may come and go for many.
    counts = alike <= found.whole if finding.kind not in OF_FREES else found.effect < found.whole
    if finding.kind != "elsewhere" and counts and found.effect < alike and found.whole < 2 * alike:
        values |= {"alike_blocks": cause.alike[0], "alike_windows": cause.alike[1], "alike_bytes": cause.alike_effect}
    yield Claim("outweighs" if outweighs else f"explains_{part}", Weight.CAUSE, values)
    kind, ends = _first_block(found, late)
    yield Claim(
        kind, Weight.CAUSE, {"blocks": finding.count, "owner": finding.owner or None, "entries": entries, **ends}
    )
    if outweighs:
        back = {"side": "head" if found.sign > 0 else "base", "taken_back_bytes": found.effect - found.whole}
        yield Claim("taken_back", Weight.CAUSE, back)


def _more_blocks(cause: Cause) -> dict[str, Any]:
    """How many blocks of the owner each run has at its peak; of any owner where these are what one has more; else how many more one has."""
    counts, blocks = (cause.of_owner, (cause.base_blocks, cause.head_blocks)), cause.finding.count
    for owner, (base, head) in zip((cause.finding.owner or None, None), counts, strict=True):
        if abs(head - base) == blocks:
            return {"base_blocks": base, "head_blocks": head, "owner": owner}
    more = next((abs(head - base) for base, head in counts if abs(head - base) > blocks), None)
    return {"more_blocks": more}


def _largest_in_one(diff: Diff, entries: bool) -> Iterator[Claim]:
    """Yield the blocks of the size that the run with the higher peak has most bytes more of there, which is no cause, where the other never allocates them."""
    base, head = peaks_of(diff)
    sign, side = (1, "head") if head > base else (-1, "base")
    more = [(sign * one.more_bytes, one) for one in diff.causes_at_peak if base != head and sign * one.more_bytes > 0]
    # Of one size the finding whose first block comes first: that is the first of all.
    most, cause = max(more, key=lambda one: (one[0], -_alloc_of(one[1].finding, side)), default=(0, None))
    if cause is None or cause.finding.kind != f"only_{side}":
        return
    count = most // cause.finding.size_bytes
    owner = cause.finding.owner or None
    blocks = {"side": side, "blocks": count, "owner": owner if count == cause.finding.count else None}
    values = values_of(cause.finding, "size_bytes") | values_of(cause, "base_blocks", "head_blocks")
    values |= {"finding": cause.finding.kind, "explained_bytes": cause.more_bytes, "at_peak": True}
    yield Claim("largest_in_one", Weight.CAUSE, blocks | values)
    kind, ends = _first_block(Explained(cause, at_peak=True, sign=sign, whole=cause.effect), late=False)
    yield Claim(kind, Weight.CAUSE, blocks | {"entries": entries, **ends})


def _alloc_of(finding: Finding, side: str) -> int:
    first: Side | None = getattr(finding, side)
    return -1 if first is None or first.alloc_event is None else first.alloc_event


def _first_block(found: Explained, late: bool) -> tuple[str, dict[str, Any]]:
    """Where each run allocates and frees the first of the blocks."""
    finding = found.cause.finding
    base, head = finding.base, finding.head
    if finding.untimely and not late:
        when, lives = timing(finding), values_of(found.cause, "base_lives", "head_lives")
        # Where both free it on one side of their peaks, what tells is how long it lives.
        alike = (when["base_allocs_after_peak"] < 0) == (when["head_allocs_after_peak"] < 0)
        return ("first_lives", when | lives) if alike and min(lives.values()) >= 0 else ("first_untimely", when)
    if base is not None and head is not None:
        ends = _ends(base, "base_") | _ends(head, "head_")
        if finding.kind == "elsewhere":
            return "first_elsewhere", ends
        lag = {"late_by": found.cause.late_by, "late_windows": found.cause.late_windows} if late else {}
        name, keeps = ("head", head) if found.sign > 0 else ("base", base)
        return "first_freed", ends | lag | {"side": name, **_held(finding, keeps, name)}
    side, name = (base, "base") if head is None else (head, "head")
    values = {} if side is None else {"side": name, **_ends(side), **_held(finding, side, name)}
    return "first_in_one", values


def _held(finding: Finding, first: Side, name: str) -> dict[str, Any]:
    """Who holds the first block of one run; or, where that is somebody else, who holds most of them."""
    sides = (getattr(member, name) for member in finding.members)
    alike = Counter(who for side in sides if side is not None and (who := variable_of(in_common(side.holder or ""))))
    most = max(alike, key=alike.__getitem__, default="")
    if 2 * alike[most] > finding.count and most != variable_of(in_common(first.holder or "")):
        return {"holder": most, "held_in_part": True}
    return {"holder": variable_of(first.holder)}


def _ends(side: Side, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}{name}": getattr(side, name) for name in ("alloc_line", "free_line", "freed")}


def timing(finding: Finding, *, lines: bool = True) -> dict[str, Any]:
    """When each run frees the first block of a late or an early Free, before or after its peak; perhaps with the lines of the block."""
    values: dict[str, Any] = {}
    for name in ("base", "head"):
        after, side = f"{name}_allocs_after_peak", getattr(finding, name)
        values[after] = getattr(finding, after) or 0
        if lines and side is not None:
            values |= {f"{name}_alloc_line": side.alloc_line, f"{name}_free_line": side.free_line}
    return values
