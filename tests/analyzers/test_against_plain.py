"""Every analyzer against a plain reference implementation: one window at a time, one event at a time, in Python."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from made_lives import batches_of, plain_pairs

from memlens import folding
from memlens.analyzers import fates, get, names
from memlens.events import Kind, Lifetimes
from memlens.facts import Facts
from memlens.log import Log
from memlens.windows.windows import Window

Rows = list[tuple[Kind, int, int]]
Bounds = list[tuple[int, int]]


@st.composite
def logs(draw: st.DrawFn) -> Rows:
    """Logs sound and broken: few addresses, so that frees match, come unknown, come twice, and sizes differ."""
    kinds = st.sampled_from([Kind.ALLOC] * 5 + [Kind.FREE] * 4 + [Kind.RESERVE, Kind.RELEASE])
    sizes = st.sampled_from([0, 1, 255, 256, 512, 3538944, 2**40])
    return draw(st.lists(st.tuples(kinds, sizes, st.integers(1, 5)), max_size=40))


#: What was there before an input begins: blocks and chunks, some of which the log frees.
openings = st.lists(
    st.tuples(st.sampled_from([Kind.ALLOC, Kind.ALLOC, Kind.RESERVE]), st.sampled_from([0, 256, 2**40]), st.integers(1, 8)),
    max_size=6,
)  # fmt: skip


@st.composite
def cut_logs(draw: st.DrawFn) -> tuple[Rows, Bounds, int]:
    """A log, windows of it (empty, overlapping, nested, twice the same, in any order), and how many opening events it has."""
    opening = draw(st.one_of(st.just([]), openings))
    rows = opening + draw(logs())
    edges = st.integers(len(opening), len(rows))
    windows = draw(st.lists(st.tuples(edges, edges).map(lambda pair: (min(pair), max(pair))), min_size=1, max_size=8))
    return rows, windows, len(opening)


@st.composite
def sound_logs(draw: st.DrawFn) -> tuple[Rows, Bounds, int]:
    """The same of a log in which every FREE is of a live block, and names its size."""
    rows: Rows = []
    live: dict[int, int] = {}
    opening = draw(st.integers(0, 5))
    for event in range(draw(st.integers(opening, 40))):
        if event >= opening and live and draw(st.booleans()):
            addr = draw(st.sampled_from(sorted(live)))
            rows.append((Kind.FREE, live.pop(addr), addr))
        else:
            live[event] = draw(st.sampled_from([0, 256, 512, 2**40]))
            rows.append((Kind.ALLOC, live[event], event))
    edges = st.integers(opening, len(rows))
    pairs = st.tuples(edges, edges).map(lambda pair: (min(pair), max(pair)))
    return rows, draw(st.lists(pairs, min_size=1, max_size=8)), opening


batch_sizes = st.sampled_from([1, 2, 3, 7, 64])


def build(rows: Rows, opening: int = 0, **columns: Any) -> Log:
    line = np.arange(1, len(rows) + 1)
    line[:opening] = 0  # an opening event has no line
    log = Log.from_rows(rows, line=line, facts=Facts(opening=opening), **columns)
    log.__dict__["lifetimes"] = lifetimes_of(rows)
    return log


def windows_of(log: Log, bounds: Bounds) -> list[Window]:
    return [Window(log, f"{lo}-{hi}", lo, hi, lo, hi, lo + 1, hi) for lo, hi in bounds]


def lifetimes_of(rows: Rows) -> Lifetimes:
    partner, doubles = plain_pairs(rows)
    return Lifetimes(np.array(partner, np.int32), np.array(doubles, np.int64))


def with_chunks(rows: Rows) -> bool:
    return any(kind >= Kind.RESERVE for kind, *_ in rows)


@dataclass
class Plain:
    """The figures of one window, by the definitions of docs/analyzers.md."""

    figures: dict[str, Any] = field(default_factory=lambda: defaultdict(int))
    held: dict[tuple[int, bool], list[int]] = field(default_factory=lambda: defaultdict(list))
    opening: dict[tuple[int, bool], list[int]] = field(default_factory=lambda: defaultdict(list))
    released: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unknown: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    live: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    lives: list[tuple[int, int, int]] = field(default_factory=list)


def plain(rows: Rows, lo: int, hi: int, opening: int = 0) -> Plain:
    pairs, out = lifetimes_of(rows), Plain()
    partner, f = pairs.partner.tolist(), out.figures
    level = reserved = 0
    f["event"] = None
    for event, (kind, size, _) in enumerate(rows[:hi]):
        if event == lo:
            f["carried_in"], f["reserved_in"], f["reserved_peak"], f["reserved_at_peak"] = level, *[reserved] * 3
        level += {Kind.ALLOC: size, Kind.FREE: -size}.get(kind, 0)
        reserved += {Kind.RESERVE: size, Kind.RELEASE: -size}.get(kind, 0)
        other = partner[event]
        if event < lo:
            if kind == Kind.ALLOC and not 0 <= other < hi:
                f["opening_blocks" if event < opening else "earlier_blocks"] += 1
                f["opening_bytes" if event < opening else "earlier_bytes"] += size
                if event < opening:
                    out.opening[size, other >= 0].append(event)
            continue
        if level - f["carried_in"] > f["rise"]:
            f["rise"], f["event"], f["reserved_at_peak"] = level - f["carried_in"], event, reserved
        f["reserved_peak"] = max(f["reserved_peak"], reserved)
        name = kind.name.lower()
        f[f"{name}_bytes"] += size
        f[f"{name}s"] += 1
        f[f"largest_{name}"] = max(f[f"largest_{name}"], size)
        if kind == Kind.ALLOC:
            f["doubles"] += event in pairs.double_allocs
            if lo <= other < hi:
                f["temporary_allocs"] += 1
                f["temporary_bytes"] += size
            else:
                f["held_allocs"] += 1
                f["held_bytes"] += size
                out.held[size, other >= 0].append(event)
            end = other if other >= 0 else len(rows)
            between = sum(s for k, s, _ in rows[event + 1 : end] if k == Kind.ALLOC)
            out.lives.append((event, end, between))
        elif kind == Kind.FREE and other < 0:
            f["unknown_frees"] += 1
            f["unknown_bytes"] += size
            out.unknown[size].append(event)
        elif kind == Kind.FREE:
            if rows[other][1] != size:
                f["mismatches"] += 1
                f["mismatch_bytes"] += rows[other][1] - size
            if other < lo:
                f["released_frees"] += 1
                f["released_bytes"] += rows[other][1]
                out.released[rows[other][1]].append(event)
    if lo >= min(hi, len(rows)):  # nothing in the window: the levels before it
        f["carried_in"], f["reserved_peak"], f["reserved_at_peak"] = level, reserved, reserved
    seen = lo if f["event"] is None else f["event"] + 1
    for event, (kind, size, _) in enumerate(rows[:seen]):
        if kind == Kind.ALLOC and not 0 <= partner[event] < seen:
            out.live[size] += 1
    return out


@given(cut_logs(), batch_sizes)
def test_figures_of_many_windows_are_those_of_the_reference_implementation(
    cut: tuple[Rows, Bounds, int], batch: int
) -> None:
    rows, bounds, opening = cut
    with batches_of(batch):
        windows = windows_of(build(rows, opening), bounds)
        results = {name: get(name).many(windows) for name in names()}
        for k, (lo, hi) in enumerate(bounds):
            f = plain(rows, lo, hi, opening).figures
            got = {name: results[name][k] for name in results}
            net = f["alloc_bytes"] - f["free_bytes"]
            assert got["remaining"].to_dict() == {
                "remaining_bytes": net,
                "carried_in_bytes": f["carried_in"],
                "live_bytes": f["carried_in"] + net,
            }
            assert got["peak"].to_dict(top=0) == {
                "peak_bytes": f["carried_in"] + f["rise"],
                "rise_bytes": f["rise"],
                "reserved_peak_bytes": f["reserved_peak"] if with_chunks(rows) else None,
                "reserved_at_peak_bytes": f["reserved_at_peak"] if with_chunks(rows) else None,
                "event": f["event"],
                "line": None if f["event"] is None else f["event"] + 1,
                "time_us": None,
            }
            assert got["stats"].to_dict(top=0) == {
                **{key: f[key] for key in ("alloc_bytes", "allocs", "free_bytes", "frees")},
                **{key: f[key] for key in ("reserve_bytes", "reserves", "release_bytes", "releases")},
                "largest_alloc_bytes": f["largest_alloc"],
                "largest_free_bytes": f["largest_free"],
                "requested_bytes": None,
                "aligned_bytes": None,
                "requested_allocs": 0,
                "duration_us": None,
            }
            assert got["unmatched"].to_dict(top=0) == {
                **{key: f[key] for key in ("held_allocs", "held_bytes", "released_frees", "released_bytes")},
                **{key: f[key] for key in ("opening_blocks", "opening_bytes", "earlier_bytes")},
                "unknown_frees": f["unknown_frees"],
                "unknown_free_bytes": f["unknown_bytes"],
                "double_allocs": f["doubles"],
                "size_mismatches": f["mismatches"],
                "mismatch_bytes": f["mismatch_bytes"],
            }
            assert got["lifetimes"].to_dict(top=0) == {
                **{key: f[key] for key in ("temporary_allocs", "temporary_bytes", "held_allocs", "held_bytes")},
                **{key: f[key] for key in ("released_frees", "released_bytes")},
            }


@given(cut_logs(), batch_sizes)
def test_tables_are_those_of_the_reference_implementation(cut: tuple[Rows, Bounds, int], batch: int) -> None:
    rows, bounds, opening = cut
    log = build(rows, opening)
    partner = log.lifetimes.partner.tolist()
    with batches_of(batch):
        for window, (lo, hi) in zip(windows_of(log, bounds), bounds, strict=True):
            want = plain(rows, lo, hi, opening)
            live = get("peak")(window).live
            totals: dict[int, int] = defaultdict(int)
            for group in live:
                totals[group.size_bytes] += group.count
            assert totals == want.live
            assert [group.total_bytes for group in live] == sorted((g.total_bytes for g in live), reverse=True)

            unmatched = get("unmatched")(window)
            for groups, wanted in ((unmatched.held, want.held), (unmatched.opening, want.opening)):
                assert {
                    (g.size_bytes, g.freed == "later"): (g.count, g.total_bytes, g.first_event) for g in groups
                } == {
                    (size, freed): (len(events), size * len(events), events[0])
                    for (size, freed), events in wanted.items()
                }
                for group in groups:
                    free = partner[group.first_event]
                    assert group.first_line == (None if group.first_event < opening else group.first_event + 1)
                    assert group.owner == ("(before the input)" if group.first_event < opening else None)
                    assert (group.first_free_event, group.first_free_line) == (
                        (free, free + 1) if free >= 0 else (None, None)
                    )
            for table, events_of in (("released", want.released), ("unknown", want.unknown)):
                freed = getattr(unmatched, table)
                by_class: dict[tuple[int, bool], list[int]] = defaultdict(list)  # opening blocks are rows of their own
                for size, frees in events_of.items():
                    for free in frees:
                        by_class[size, 0 <= partner[free] < opening].append(free)
                assert {
                    (g.size_bytes, g.owner == "(before the input)"): (g.count, g.total_bytes, g.first_event)
                    for g in freed
                } == {key: (len(frees), key[0] * len(frees), frees[0]) for key, frees in by_class.items()}
                for g in freed:
                    alloc = partner[g.first_event]
                    line = alloc + 1 if alloc >= opening else None
                    assert (g.first_alloc_event, g.first_alloc_line) == (alloc if alloc >= 0 else None, line)

            summary = get("lifetimes")(window)
            by_life = sorted(want.lives, key=lambda life: (life[0] - life[1], -rows[life[0]][1], life[0]))
            assert [(row.alloc_event, row.life_events, row.meanwhile_bytes) for row in summary.longest] == [
                (event, end - event, between) for event, end, between in by_life
            ]
            ended = [life for life in want.lives if life[1] < len(rows)]
            ended.sort(key=lambda life: (-rows[life[0]][1] * life[2], -rows[life[0]][1], life[0]))
            assert [(row.alloc_event, row.free_event, row.meanwhile_bytes) for row in summary.wasteful] == ended
            assert all(
                row.alloc_line == row.alloc_event + 1 and row.size_bytes == rows[row.alloc_event][1]
                for row in summary.longest
            )

            bins = get("stats")(window).histogram
            assert sum(b.allocs for b in bins) == want.figures["allocs"]
            assert sum(b.free_bytes for b in bins) == want.figures["free_bytes"]
            for b in bins:
                sizes = [s for k, s, _ in rows[lo:hi] if k == Kind.ALLOC and b.low_bytes <= s <= b.high_bytes]
                assert (b.allocs, b.alloc_bytes) == (len(sizes), sum(sizes))


@given(cut_logs())
def test_held_released_and_the_running_sum_obey_their_identity_in_every_window(cut: tuple[Rows, Bounds, int]) -> None:
    rows, bounds, opening = cut
    windows = windows_of(build(rows, opening), bounds)
    for left, u in zip(get("remaining").many(windows), get("unmatched").many(windows), strict=True):
        assert left.remaining_bytes == u.held_bytes - u.released_bytes - u.unknown_free_bytes + u.mismatch_bytes
        assert u.held_bytes == sum(group.total_bytes for group in u.held)
        assert u.opening_blocks == sum(group.count for group in u.opening)
        assert u.opening_bytes == sum(group.total_bytes for group in u.opening)
        assert u.released_bytes == sum(group.total_bytes for group in u.released)
        assert u.unknown_free_bytes == sum(group.total_bytes for group in u.unknown)


@given(sound_logs())
def test_what_is_live_at_the_end_is_held_or_opening_or_earlier(cut: tuple[Rows, Bounds, int]) -> None:
    rows, bounds, opening = cut
    windows = windows_of(build(rows, opening), bounds)
    for left, u, top in zip(*(get(name).many(windows) for name in ("remaining", "unmatched", "peak")), strict=True):
        assert left.live_bytes == u.held_bytes + u.opening_bytes + u.earlier_bytes
        assert u.earlier_bytes == 0 or left.carried_in_bytes >= u.earlier_bytes
        assert top.peak_bytes == left.carried_in_bytes + top.rise_bytes >= max(left.carried_in_bytes, left.live_bytes)
        assert top.peak_bytes == sum(group.total_bytes for group in top.live)


@given(openings, logs(), st.data())
def test_consecutive_windows_add_up_to_the_whole_log(before: Rows, after: Rows, data: st.DataObject) -> None:
    rows, opening = before + after, len(before)
    cuts = sorted(data.draw(st.lists(st.integers(opening, len(rows)), max_size=6)))
    edges = [opening, *cuts, len(rows)]
    windows = windows_of(build(rows, opening), [*pairwise(edges), (opening, len(rows))])
    *parts, whole = get("remaining").many(windows)
    assert sum(part.remaining_bytes for part in parts) == whole.remaining_bytes
    assert whole.live_bytes == parts[-1].live_bytes
    *peaks, top = get("peak").many(windows)
    assert max(peak.peak_bytes for peak in peaks) == top.peak_bytes
    if with_chunks(rows):
        assert max(peak.reserved_peak_bytes for peak in peaks) == top.reserved_peak_bytes


@given(logs(), st.data(), batch_sizes)
def test_tallies_of_a_split_log_join_to_the_tally_of_the_whole(rows: Rows, data: st.DataObject, batch: int) -> None:
    log, end = build(rows), len(rows)
    cuts = np.unique([*data.draw(st.lists(st.integers(0, end), max_size=6)), 0, end])
    kept = np.unique([*data.draw(st.lists(st.sampled_from(cuts.tolist()))), 0, end])
    with batches_of(batch):
        whole = folding.tally(log, kept).squeeze(kept)
        parts = [folding.tally(log, np.array([lo, hi])) for lo, hi in pairwise(cuts)]
        empty = folding.tally(log, np.array([0, 0]))
        joined = empty.join(*(part.squeeze(part.edges[[0, -1]]) for part in parts)).squeeze(kept)
    for name in ("edges", "sums", "largest", "rise"):
        assert getattr(joined, name).tolist() == getattr(whole, name).tolist(), name
    climbs = whole.rise[0] > 0
    assert joined.summit[climbs].tolist() == whole.summit[climbs].tolist()


@given(
    st.lists(st.tuples(st.sampled_from([Kind.ALLOC, Kind.FREE]), st.integers(0, 99), st.integers(-1, 60)), max_size=20),
    batch_sizes,
)
def test_requested_bytes_are_of_the_allocs_whose_request_is_known(
    rows: list[tuple[Kind, int, int]], batch: int
) -> None:
    log = build([(kind, size, 1) for kind, size, _ in rows], requested=np.array([r for _, _, r in rows], np.int64))
    known = [(size, asked) for kind, size, asked in rows if kind == Kind.ALLOC and asked >= 0]
    with batches_of(batch):
        got = get("stats")(windows_of(log, [(0, len(rows))])[0])
    assert got.requested_allocs == len(known)
    assert got.requested_bytes == (sum(asked for _, asked in known) if known else None)
    assert got.aligned_bytes == (sum(size for size, _ in known) if known else None)


def test_what_is_live_in_a_log_as_large_as_logs_are_is_what_its_pairs_say() -> None:
    """At the sizes of batches that are in use: a small log is all in one."""
    chance = np.random.default_rng()
    count = 5 * folding.BATCH + 77
    freed = np.minimum(np.arange(count) + chance.geometric(1 / 3000, count), 2 * count)
    moment = np.concatenate((2 * np.arange(count), 2 * freed + 1))  # of each ALLOC, and of each FREE
    order = np.argsort(moment, kind="stable")
    log = Log.from_rows([(Kind.ALLOC if one < count else Kind.FREE, 256, one % count) for one in order.tolist()])
    place = np.empty(2 * count, np.int64)
    place[order] = np.arange(2 * count)
    for event in chance.integers(0, 2 * count, 50).tolist():
        live = np.flatnonzero((place[:count] < event) & (place[count:] >= event))
        assert fates.live_events(log, event).tolist() == np.sort(place[live]).tolist()
