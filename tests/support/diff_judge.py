"""A judge of a comparison that knows nothing of how it was made: every byte is counted again from the events, one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from exact_alignment import both_born, cheapest_born, exact

from memlens.diffing.finding import Finding, Member, Side
from memlens.diffing.result import WindowDiff
from memlens.events import EventLog, Kind
from memlens.log import Log
from memlens.windows.windows import Window

# --- the windows, event by event ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def partners(log: Log) -> dict[int, int]:
    """For each FREE that ends an ALLOC its ALLOC, and the other way round."""
    live: dict[int, int] = {}
    found: dict[int, int] = {}
    for event, (kind, address) in enumerate(zip(log.kind.tolist(), log.addr.tolist(), strict=True)):
        if kind == Kind.ALLOC:
            live[address] = event
        elif kind == Kind.FREE and address in live:
            found[event] = live.pop(address)
            found[found[event]] = event
    return found


@dataclass
class Plain:
    """What a window holds, by the words of the design; events are those of the log, bytes come by event."""

    born: dict[int, int]
    held: set[int]
    released: dict[int, int]
    unknown: dict[int, int]
    mismatched: dict[int, int]
    remaining: int
    rise: int
    carried_in: int
    opening: dict[int, int]
    peak_event: int | None

    @property
    def peak_end(self) -> int:
        """The event after the one that reaches the peak."""
        return -1 if self.peak_event is None else self.peak_event + 1

    def freed_by_peak(self, freed: dict[int, int]) -> int:
        """Bytes of what was freed up to the peak."""
        return sum(size for event, size in freed.items() if event < self.peak_end)


def plain(window: Window) -> Plain:
    log, other = window.log, partners(window.log)
    found = Plain({}, set(), {}, {}, {}, 0, 0, 0, {}, None)
    kinds, sizes = log.kind.tolist(), log.size.tolist()
    for event in range(window.lo, window.hi):
        size = sizes[event]
        if kinds[event] == Kind.ALLOC:
            found.born[event] = size
            if not other.get(event, window.hi) < window.hi:
                found.held.add(event)
            found.remaining += size
        elif kinds[event] == Kind.FREE:
            alloc = other.get(event)
            if alloc is None:
                found.unknown[event] = size
            else:
                if alloc < window.lo:
                    found.released[event] = sizes[alloc]
                if sizes[alloc] != size:
                    found.mismatched[event] = sizes[alloc] - size
            found.remaining -= size
        if found.remaining > found.rise:
            found.rise, found.peak_event = found.remaining, event
    for event in range(window.lo):
        found.carried_in += {Kind.ALLOC: sizes[event], Kind.FREE: -sizes[event]}.get(kinds[event], 0)
    found.opening = {e: sizes[e] for e in range(log.facts.opening) if kinds[e] == Kind.ALLOC}
    return found


def live_at_peak(window: Window, found: Plain) -> set[int]:
    """The ALLOCs of the window that are live at its peak."""
    other, end = partners(window.log), found.peak_end
    return {event for event in found.born if event < end and not other.get(event, end) < end}


# --- what must hold of any comparison ----------------------------------------------------------------------------------


def check(base: Window, head: Window, found: WindowDiff, where: str = "") -> None:
    """Everything that can be said of a comparison without knowing how it was made."""
    (left, _), (right, _) = cheapest_born(base, head)
    assert found.approximation is None, where
    assert found.cost_bytes * 2 == exact(left, right).cost, where
    check_accounts(base, head, found, where)


def check_accounts(base: Window, head: Window, found: WindowDiff, where: str = "") -> None:
    """The same, but for the cost: what must hold of an alignment that is not the cheapest one, too."""
    one, two = plain(base), plain(head)
    check_figures(one, two, found, where)
    check_members(base, head, one, two, found)
    check_remaining(one, two, found)
    check_peak(base, head, one, two, found)


def check_figures(one: Plain, two: Plain, found: WindowDiff, where: str) -> None:
    assert found.d_remaining_bytes == two.remaining - one.remaining, where
    assert found.d_carried_in_bytes == two.carried_in - one.carried_in, where
    assert found.d_rise_bytes == two.rise - one.rise, where
    assert found.d_peak_bytes == found.d_carried_in_bytes + found.d_rise_bytes, where
    assert found.d_live_bytes == found.d_carried_in_bytes + found.d_remaining_bytes, where
    for side, twin in ((found.base, one), (found.head, two)):
        assert (side.remaining_bytes, side.carried_in_bytes) == (twin.remaining, twin.carried_in), where
        assert (side.rise_bytes, side.peak_event) == (twin.rise, twin.peak_event), where
        assert side.peak_bytes == twin.carried_in + twin.rise, where
        assert side.live_bytes == twin.carried_in + twin.remaining, where
        assert side.allocs == len(twin.born), where
    assert found.remaining.unexplained_bytes == found.peak.unexplained_bytes == 0, where


def of_kind(found: WindowDiff, *kinds: str, fate: str | None = None) -> Iterator[Finding]:
    return (f for f in found.findings if f.kind in kinds and fate in (None, f.fate))


def total(found: WindowDiff, kind: str, fate: str | None = None) -> int:
    """Bytes of blocks born in the window, but for ``released`` ones."""
    return sum(f.total_bytes for f in of_kind(found, kind, fate=fate) if f.fate != "carried_in")


def released(found: WindowDiff, side: str) -> int:
    """Bytes of older blocks that one run frees and the other does not."""
    kept = {"base": "missing_free", "head": "extra_free"}[side]
    older = sum(f.total_bytes for f in of_kind(found, kept, fate="carried_in"))
    return total(found, "released", side) + older


def check_members(base: Window, head: Window, one: Plain, two: Plain, found: WindowDiff) -> None:
    """Each block of each finding is what the finding says it is, and none is in two of them."""
    for f in found.findings:
        assert f.count == len(f.members) > 0
        assert f.total_bytes == f.count * f.size_bytes
        assert (f.members[0].base, f.members[0].head) == (f.base, f.head)
        check_fates(one, two, f)
    for window, twin, of_head in ((base, one, False), (head, two, True)):
        seen: set[int | None] = set()
        for f, _, side in sides_of(found, of_head=of_head):
            if f.kind.startswith("opening"):  # what becomes of it is a finding of its own
                assert twin.opening[event_of(side)] == f.size_bytes
                continue
            assert side.alloc_event not in seen
            seen.add(side.alloc_event)
            free = partners(window.log).get(event_of(side))
            assert side.free_event == free
            assert side.freed == ("never" if free is None else "in_window" if free < window.hi else "later")
            if side.alloc_event in twin.born:
                assert twin.born[side.alloc_event] == f.size_bytes
            elif f.kind == ("missing_free" if of_head else "extra_free"):  # carried in, and kept for longer
                assert f.fate == "carried_in"
                assert event_of(side) < window.lo
                assert free is None or free >= window.hi
            else:  # carried in, and freed in the window
                assert f.kind in ("released", "late_free", "early_free") or f.fate == "carried_in"
                assert free is not None
                assert twin.released[free] == f.size_bytes
    check_counts(base, head, one, two, found)


def sides_of(found: WindowDiff, *, of_head: bool) -> Iterator[tuple[Finding, Member, Side]]:
    """Every block of one run that a finding names."""
    for f in found.findings:
        for member in f.members:
            side = member.head if of_head else member.base
            if side is not None:
                yield f, member, side


def event_of(side: Side | None) -> int:
    """The ALLOC of a block that has one."""
    assert side is not None
    assert side.alloc_event is not None
    return side.alloc_event


def check_fates(one: Plain, two: Plain, f: Finding) -> None:
    """The kind of a finding is that of each of its blocks."""
    for member in f.members:
        left = None if member.base is None else member.base.alloc_event
        right = None if member.head is None else member.head.alloc_event
        held = left in one.held, right in two.held
        one_sided = f.kind.endswith(("only_head", "only_base", "released"))
        assert one_sided == (member.base is None or member.head is None)
        match f.kind:
            case "missing_free" | "extra_free" if f.fate == "carried_in":
                side, twin = (member.base, one) if f.kind == "missing_free" else (member.head, two)
                assert side is not None
                assert side.free_event is not None
                assert twin.released[side.free_event] == f.size_bytes
            case "missing_free":
                assert held == (False, True)
            case "extra_free":
                assert held == (True, False)
            case "only_head":
                assert member.base is None
                assert f.fate == ("held" if held[1] else "temporary")
            case "only_base":
                assert member.head is None
                assert f.fate == ("held" if held[0] else "temporary")
            case "opening_only_head" | "opening_only_base":
                assert (member.base is None) == (f.kind == "opening_only_head")
            case "released":
                side, twin = (member.head, two) if f.fate == "head" else (member.base, one)
                assert side is not None
                assert (member.base is None) != (member.head is None)
                assert side.free_event is not None
                assert twin.released[side.free_event] == f.size_bytes
            case _:
                assert held[0] == held[1]


def check_counts(base: Window, head: Window, one: Plain, two: Plain, found: WindowDiff) -> None:
    """Allocations are paired, moved, or listed as one run's alone; what is left alone has nothing alike on the other side."""
    looks = []
    for (side, events), twin, of_head in zip(both_born(base, head), (one, two), (False, True), strict=True):
        kind = "only_head" if of_head else "only_base"
        alone = {event_of(block) for f, _, block in sides_of(found, of_head=of_head) if f.kind == kind}
        assert found.pairs + found.moved + len(alone) == len(twin.born)
        looks.append({(b.size, b.held) for b, event in zip(side, events, strict=True) if event in alone})
    assert not looks[0] & looks[1]
    # All of them pair in order, those of two threads or of the windows, but for those that moved: as many stay as the longest
    # rising run of them has.
    crossed: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for f in of_kind(found, "missing_free", "extra_free"):
        for m in f.members:
            left, right = event_of(m.base), event_of(m.head)
            crossed[thread_of(base.log, left), thread_of(head.log, right)].append((left, right))
    for pairs in crossed.values():
        rising: list[int] = []
        for _, right in sorted(pairs):
            at = bisect_left(rising, right)
            rising[at : at + 1] = [right]
        assert len(pairs) - len(rising) <= found.moved
    other_fate = total(found, "missing_free") + total(found, "extra_free")
    unpaired = total(found, "only_head", "temporary") + total(found, "only_base", "temporary")
    unpaired += 2 * (total(found, "only_head", "held") + total(found, "only_base", "held"))
    # Alone, the two of a moved pair cost 2 or 4 half bytes a byte; 3 where their fates differ, of which 2 are in other_fate.
    moved = round(found.cost_bytes * 2) - 2 * other_fate - unpaired
    assert found.moved_bytes <= moved <= 4 * found.moved_bytes


def thread_of(log: EventLog, event: int) -> int:
    return -1 if log.thread is None else int(log.thread[event])


def check_remaining(one: Plain, two: Plain, found: WindowDiff) -> None:
    account = found.remaining
    assert account.missing_free_bytes == total(found, "missing_free")
    assert account.extra_free_bytes == total(found, "extra_free")
    assert account.only_head_held_bytes == total(found, "only_head", "held")
    assert account.only_base_held_bytes == total(found, "only_base", "held")
    assert found.only_head_temporary_bytes == total(found, "only_head", "temporary")
    assert found.only_base_temporary_bytes == total(found, "only_base", "temporary")
    assert account.d_released_bytes == released(found, "head") - released(found, "base")
    assert account.d_released_bytes == sum(two.released.values()) - sum(one.released.values())
    assert account.d_unknown_free_bytes == sum(two.unknown.values()) - sum(one.unknown.values())
    assert account.d_mismatch_bytes == sum(two.mismatched.values()) - sum(one.mismatched.values())
    assert two.remaining - one.remaining == (
        account.missing_free_bytes
        - account.extra_free_bytes
        + account.only_head_held_bytes
        - account.only_base_held_bytes
        - account.d_released_bytes
        - account.d_unknown_free_bytes
        + account.d_mismatch_bytes
    )
    named = sum(f.d_remaining_bytes for f in found.findings)
    assert named == found.d_remaining_bytes + account.d_unknown_free_bytes - account.d_mismatch_bytes
    assert named == found.remaining_explained_bytes


def check_peak(base: Window, head: Window, one: Plain, two: Plain, found: WindowDiff) -> None:
    """Each term from the blocks of its findings; what no finding names is live at both peaks, size by size."""
    live = live_at_peak(base, one), live_at_peak(head, two)
    terms: Counter[str] = Counter()
    check_opening(base, head, one, two, found)
    for f in found.findings:
        if f.kind.startswith("opening"):
            assert f.d_peak_bytes == (1 if f.kind == "opening_only_head" else -1) * f.total_bytes
            continue
        effects = [effect_on_peak(f, member, one, two, live) for member in f.members]
        assert f.d_peak_bytes == sum(effects), f.kind
        timing = f.base_allocs_after_peak, f.head_allocs_after_peak
        untimely = f.kind in ("late_free", "early_free")
        assert (
            timing == (allocs_after_peak(base, one, f.base), allocs_after_peak(head, two, f.head))
            if untimely
            else (None, None)
        )
        carried_in = event_of(f.base or f.head) not in (one if f.base else two).born
        terms["released" if carried_in else f.kind] += sum(effects)
    account = found.peak
    kinds = ("missing_free", "extra_free", "only_head", "only_base", "late_free", "early_free", "elsewhere", "released")
    for kind in kinds:
        assert getattr(account, f"{kind}_bytes") == terms[kind], kind
    left_over = [
        Counter(
            twin.born[event] for event in at_peak - {side.alloc_event for *_, side in sides_of(found, of_head=head)}
        )
        for twin, at_peak, head in zip((one, two), live, (False, True), strict=True)
    ]
    assert {s: n for s, n in left_over[0].items() if s} == {s: n for s, n in left_over[1].items() if s}
    assert account.late_free_bytes >= 0 >= account.early_free_bytes
    assert account.released_bytes == one.freed_by_peak(one.released) - two.freed_by_peak(two.released)
    assert account.unknown_free_bytes == one.freed_by_peak(one.unknown) - two.freed_by_peak(two.unknown)
    assert account.mismatch_bytes == two.freed_by_peak(two.mismatched) - one.freed_by_peak(one.mismatched)
    assert sum(getattr(account, name) for name in account.__struct_fields__) == found.d_peak_bytes
    assert sum(f.d_peak_bytes for f in found.findings) == found.peak_explained_bytes


def check_opening(base: Window, head: Window, one: Plain, two: Plain, found: WindowDiff) -> None:
    """What only one run has from before its input, size by size; of windows that do not begin with their inputs nothing."""
    account, names = found.peak, ("opening_only_base", "opening_only_head")
    begin = all(window.lo == window.log.facts.opening for window in (base, head))
    sizes = [Counter(twin.opening.values()) if begin else Counter[int]() for twin in (one, two)]
    for name, here, there in zip(names, sizes, sizes[::-1], strict=True):
        only: Counter[int] = Counter()
        for f in of_kind(found, name):
            only[f.size_bytes] += f.count
        assert only == here - there, name
    assert account.opening_only_head_bytes == total(found, "opening_only_head")
    assert account.opening_only_base_bytes == -total(found, "opening_only_base")
    terms = account.opening_only_head_bytes, account.opening_only_base_bytes, account.carried_in_bytes
    assert sum(terms) == found.d_carried_in_bytes
    assert not (begin and account.carried_in_bytes)


def allocs_after_peak(window: Window, twin: Plain, side: Side | None) -> int:
    """ALLOCs from a window's peak, or from where it starts if that is its highest, to the FREE of a block; up to the peak they count below 0."""
    assert side is not None
    assert side.free_event is not None
    peak_end = window.lo if twin.peak_event is None else twin.peak_event + 1
    first, last = sorted((peak_end, side.free_event))
    allocs: int = window.log.kind.tolist()[first:last].count(Kind.ALLOC)
    return allocs if side.free_event >= peak_end else -allocs


def effect_on_peak(f: Finding, member: Member, one: Plain, two: Plain, live: tuple[set[int], set[int]]) -> int:
    """What one block contributes to Δpeak, from where it is at the two peaks; its kind is the one that this place has."""
    effect, there, born = 0, [], []
    for side, twin, at_peak, sign in zip((member.base, member.head), (one, two), live, (-1, 1), strict=True):
        if side is None:
            continue
        event = event_of(side)
        if event in twin.born:
            there.append(event in at_peak)
        else:
            assert side.free_event is not None or f.kind in ("missing_free", "extra_free")
            there.append(side.free_event is None or not side.free_event < twin.peak_end)
            effect -= sign * f.size_bytes  # counts where it is gone
        born.append(event < twin.peak_end or event not in twin.born)
        effect += sign * f.size_bytes * there[-1]
    if f.kind in ("late_free", "early_free"):
        assert there == ([False, True] if f.kind == "late_free" else [True, False])
        assert all(born)
    elif f.kind == "elsewhere":
        assert there == born
        assert there[0] != there[1]
    return effect


# --- the comparison the other way round --------------------------------------------------------------------------------

MIRRORED = {
    "missing_free": "extra_free",
    "only_head": "only_base",
    "late_free": "early_free",
    "opening_only_head": "opening_only_base",
    "base": "head",
    "head": "base",
}
MIRRORED |= {new: old for old, new in MIRRORED.items()}


def assert_mirrored(there: WindowDiff, back: WindowDiff, where: str = "") -> None:
    """The one comparison says of base what the other says of head."""
    for name in (
        *("d_remaining_bytes", "d_carried_in_bytes", "d_live_bytes"),
        *("d_peak_bytes", "d_rise_bytes", "d_reserved_peak_bytes"),
    ):
        assert (getattr(there, name) or 0) == -(getattr(back, name) or 0), where
    for name in ("cost_bytes", "pairs", "moved", "moved_bytes", "alike", "same"):
        assert getattr(there, name) == getattr(back, name), where
    assert there.only_head_temporary_bytes == back.only_base_temporary_bytes, where
    assert there.only_base_temporary_bytes == back.only_head_temporary_bytes, where
    one, two = there.remaining, back.remaining
    assert (one.missing_free_bytes, one.extra_free_bytes) == (two.extra_free_bytes, two.missing_free_bytes), where
    assert one.only_head_held_bytes == two.only_base_held_bytes, where
    assert one.only_base_held_bytes == two.only_head_held_bytes, where
    for name in ("d_released_bytes", "d_unknown_free_bytes", "d_mismatch_bytes"):
        assert getattr(one, name) == -getattr(two, name), where
    for name in there.peak.__struct_fields__:
        kind = name.removesuffix("_bytes")
        other = MIRRORED.get(kind, kind)
        assert getattr(there.peak, name) == -getattr(back.peak, f"{other}_bytes"), where
    assert Counter(look(f) for f in there.findings) == Counter(look(f, mirrored=True) for f in back.findings), where


def look(f: Finding, *, mirrored: bool = False) -> tuple[Any, ...]:
    """A finding as something to compare; mirrored is how the comparison the other way round should have it."""
    sign = -1 if mirrored else 1
    kind, fate = (MIRRORED.get(f.kind, f.kind), MIRRORED.get(str(f.fate), f.fate)) if mirrored else (f.kind, f.fate)
    members = [(m.head, m.base) if mirrored else (m.base, m.head) for m in f.members]
    figures = (f.size_bytes, f.requested_bytes, f.count, sign * f.d_remaining_bytes, sign * f.d_peak_bytes)
    timing = (f.base_allocs_after_peak, f.head_allocs_after_peak)[:: -1 if mirrored else 1] if f.count == 1 else ()
    return kind, fate, *figures, timing, frozenset(members)
