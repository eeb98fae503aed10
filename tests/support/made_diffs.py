"""Comparisons made by hand: what their reports show is tested without any log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from answers import HOSTILE, LONG, fake_trust, replace, with_answer

from memlens.analyzers.places import ContextLine
from memlens.diffing.attribution import Cause, by_effect
from memlens.diffing.finding import Finding, Member, Repeated, Side
from memlens.diffing.result import Approximation, Diff, PeakAccount, RemainingAccount, RunSide, WindowDiff, WindowSide

BLOCK = 3_538_944  # the tensor of case 1: 3.375 MiB
FENCE = "```\n</details>\n# owned ~~~ `````"


def run(path: str, windows: int = 1, *, doubt: str = "", unpaired: tuple[str, ...] = ()) -> RunSide:
    """One run; with a doubt, its trust report has that summary."""
    doubts = (SimpleNamespace(code="several_processes"),)
    trust = fake_trust(ok=False, summary_text=doubt, doubts=doubts) if doubt else fake_trust()
    return RunSide(path, trust, windows, unpaired)


def side(alloc: int | None, free: int | None, freed: str = "in_window") -> Side:
    """A block allocated and freed at these lines; each event stands on the line of twice its number."""
    events = [None if line is None else line // 2 for line in (alloc, free)]
    return Side(events[0], alloc, events[1], free, freed)


def context(marked: int, *texts: str) -> tuple[ContextLine, ...]:
    """Log lines around line ``marked``, which is the middle one."""
    first = marked - len(texts) // 2
    return tuple(ContextLine(first + i, text, first + i == marked) for i, text in enumerate(texts))


def finding(kind: Any, size: int = BLOCK, **changes: Any) -> Finding:
    """A finding whose sums follow from its size and count."""
    count = changes.get("count", 1)
    values: dict[str, Any] = {
        "fate": None,
        "requested_bytes": None,
        "count": count,
        "total_bytes": size * count,
        "d_remaining_bytes": 0,
        "d_peak_bytes": 0,
        "base_allocs_after_peak": None,
        "head_allocs_after_peak": None,
        "owner": None,
        "freed_by": None,
        "base": None,
        "head": None,
        "context_of": "base",
        **changes,
    }
    return Finding(kind, size_bytes=size, **values)


def missing(size: int = BLOCK, **changes: Any) -> Finding:
    """The missing Free of case 1."""
    count = changes.get("count", 1)
    lines = context(
        77,
        "I0710 09:56:31.908672 28846 run_program_op_node.h:764] not test, set this scope can not reused",
        "I0710 09:56:31.908683 28846 scope.cc:202] Leave scope 0x55d0cabd8140, erase variable transpose_0.tmp_0",
        f"I0710 09:56:31.908690 28846 auto_growth_best_fit_allocator.cc:177] Free {size} bytes, ptr = 0x7fa26c000000",
        "I0710 09:56:31.908693 28846 run_program_op_node.h:1108] GradNodeRunProgram",
        "",
    )
    values: dict[str, Any] = {
        "d_remaining_bytes": size * count,
        "base": side(65, 77),
        "head": side(64, 201, "later"),
        "context": lines,
        **changes,
    }
    return finding("missing_free", size, **values)


def remaining(**terms: int) -> RemainingAccount:
    """The account of Δremaining with these terms and no others."""
    names = (
        *("missing_free_bytes", "extra_free_bytes", "only_head_held_bytes", "only_base_held_bytes"),
        *("d_released_bytes", "d_unknown_free_bytes", "d_mismatch_bytes", "unexplained_bytes"),
    )
    return RemainingAccount(**{name: terms.get(name.removesuffix("_bytes"), 0) for name in names})


def peak(**terms: int) -> PeakAccount:
    """The account of Δpeak with these terms and no others."""
    names = (
        *("opening_only_head_bytes", "opening_only_base_bytes", "carried_in_bytes"),
        *("missing_free_bytes", "extra_free_bytes", "only_head_bytes", "only_base_bytes", "late_free_bytes"),
        *("early_free_bytes", "elsewhere_bytes", "released_bytes", "unknown_free_bytes", "mismatch_bytes"),
        "unexplained_bytes",
    )
    return PeakAccount(**{name: terms.get(name.removesuffix("_bytes"), 0) for name in names})


def figures(name: str, start: int, left: int, top: int, **changes: Any) -> WindowSide:
    """One run's window that leaves ``left`` bytes and rises by ``top``: three blocks allocated, the rest freed; nothing is carried in."""
    values: dict[str, Any] = {
        "end_line": start + 27,
        "events": 8,
        "allocs": 3,
        "frees": 2,
        "alloc_bytes": max(top, 0),
        "free_bytes": max(top, 0) - left,
        "peak_event": 35,
        "reserved_peak_bytes": 34_506_496,
        "carried_in_bytes": 0,
        **changes,
    }
    carried_in = values["carried_in_bytes"]
    levels = {"live_bytes": carried_in + left, "peak_bytes": carried_in + top, "rise_bytes": top}
    return WindowSide(name=name, start_line=start, remaining_bytes=left, **levels, **values)


def window(name: str, base: WindowSide, head: WindowSide, *findings: Finding, **changes: Any) -> WindowDiff:
    """A pair of windows; the differences follow from the two sides."""
    values: dict[str, Any] = {
        "cost_bytes": sum(found.total_bytes for found in findings),
        "pairs": 3,
        "moved": 0,
        "moved_bytes": 0,
        "only_head_temporary_bytes": 0,
        "only_base_temporary_bytes": 0,
        "threads": 0,
        "remaining": remaining(),
        "peak": peak(),
        **changes,
    }
    return WindowDiff(
        name=name,
        base=base,
        head=head,
        d_remaining_bytes=head.remaining_bytes - base.remaining_bytes,
        d_carried_in_bytes=head.carried_in_bytes - base.carried_in_bytes,
        d_live_bytes=head.live_bytes - base.live_bytes,
        d_peak_bytes=head.peak_bytes - base.peak_bytes,
        d_rise_bytes=head.rise_bytes - base.rise_bytes,
        d_reserved_peak_bytes=(head.reserved_peak_bytes or 0) - (base.reserved_peak_bytes or 0),
        findings=findings,
        **values,
    )


def causes(rows: Iterable[tuple[Finding, int, int]], window: str) -> tuple[Cause, ...]:
    """Findings, their effects and in how many windows they are, as what explains a difference; the first window."""
    found = [
        Cause(one, effect, window, windows, 0, 0, (0, 0), 0, 0, (one.count, windows), effect, -1, -1)
        for one, effect, windows in rows
    ]
    return by_effect(one for one in found if one.effect)


def diff(*windows: WindowDiff, **changes: Any) -> Diff:
    """A comparison of two runs."""
    every = [one for pair in windows for one in pair.findings]
    label = windows[0].label if windows else ""
    left = [(row.finding, row.d_remaining_bytes, row.windows) for row in changes.get("repeated", ())]
    values: dict[str, Any] = {
        "causes_at_peak": causes(((one, one.d_peak_bytes, 1) for one in every), label),
        "causes_left_behind": causes(left or [(one, one.d_remaining_bytes, 1) for one in every], label),
        "base": run("examples/logs/case1_pt.log", len(windows)),
        "head": run("examples/logs/case1_pir.log", len(windows)),
        **changes,
    }
    return with_answer(Diff(windows=windows, **values))


def case1(name: str = "START SOT_CALL_0", **changes: Any) -> Diff:
    """Case 1's small subgraph: three blocks on both sides; base frees two of them, head one."""
    base = figures(name, 52, BLOCK, 3 * BLOCK)
    head = figures(name, 52, 2 * BLOCK, 3 * BLOCK, end_line=75, events=7, frees=1)
    account = {"remaining": remaining(missing_free=BLOCK)}
    return diff(window(name, base, head, missing(**changes), **account))


def equal() -> Diff:
    """Two windows that nothing tells apart, but that one run reserves more."""
    base = figures("(whole log)", 1, BLOCK, 3 * BLOCK)
    return diff(window("(whole log)", base, replace(base, reserved_peak_bytes=38_045_440)))


def identical() -> Diff:
    """Two windows that nothing tells apart."""
    base = figures("(whole log)", 1, BLOCK, 3 * BLOCK)
    return diff(window("(whole log)", base, base))


def opening() -> Diff:
    """Two snapshots: head has a block from before its input, and base has two others; the same work is done on top."""
    mine = finding("opening_only_head", 4 * BLOCK, d_peak_bytes=4 * BLOCK, owner="(before the input)",
                   head=side(None, None, "never"), context_of="head")  # fmt: skip
    theirs = finding("opening_only_base", BLOCK, count=2, d_peak_bytes=-2 * BLOCK, owner="model.py:12 load",
                     base=side(None, 90), members=(Member(side(None, 90), None),) * 2)  # fmt: skip
    base = figures("(whole log)", 1, BLOCK, 3 * BLOCK, carried_in_bytes=2 * BLOCK)
    head = figures("(whole log)", 1, BLOCK, 3 * BLOCK, carried_in_bytes=4 * BLOCK)
    account = peak(opening_only_head=4 * BLOCK, opening_only_base=-2 * BLOCK)
    return diff(window("(whole log)", base, head, mine, theirs, peak=account, cost_bytes=0))


def late() -> Diff:
    """Case 2: nothing leaks, but head frees two blocks only after its peak; the difference of the peaks is their bytes."""
    lines = context(60, "I0710 09:56:31.908648 28846 op.cc:1] Running AD API: matmul", "Free 3538944", "START BACKWARD")
    found = finding(
        "late_free",
        count=2,
        d_peak_bytes=2 * BLOCK,
        base_allocs_after_peak=-25,
        head_allocs_after_peak=22,
        owner="matmul_grad",
        freed_by="Running AD API: matmul",
        requested_bytes=BLOCK - 4,
        base=side(40, 60),
        head=side(41, 95),
        context=lines,
        members=(Member(side(40, 60), side(41, 95)), Member(side(42, 62), side(43, 97))),
    )
    base = figures("STEP 1 START", 30, 0, 3 * BLOCK)
    head = figures("STEP 1 START", 30, 0, 5 * BLOCK)
    return diff(window("STEP 1 START", base, head, found, peak=peak(late_free=2 * BLOCK)))


def little() -> Diff:
    """Two runs that share little: all sizes of head are twice those of base."""
    found = (
        finding("only_head", 2 * BLOCK, count=3, fate="temporary", d_peak_bytes=6 * BLOCK, head=side(910, 917), context_of="head",
                context=context(910, "before", f"Alloc {2 * BLOCK} bytes, ptr = 0x7f", "behind")),
        finding("only_base", count=3, fate="temporary", d_peak_bytes=-3 * BLOCK, base=side(900, 907)),
    )  # fmt: skip
    base, head = figures("(whole log)", 1, 0, 3 * BLOCK), figures("(whole log)", 1, 0, 6 * BLOCK)
    values = {"only_head_temporary_bytes": 6 * BLOCK, "only_base_temporary_bytes": 3 * BLOCK}
    account = peak(only_head=6 * BLOCK, only_base=-3 * BLOCK)
    return diff(window("(whole log)", base, head, *found, peak=account, **values), factor=Fraction(2))


def messy() -> Diff:
    """A bit of everything, with terms that cancel: Δremaining is +1 MiB of +8 -4 -2 -1, of which 1 MiB nobody can name."""
    mib = 1 << 20
    found = (
        missing(4 * mib, count=2, d_peak_bytes=0, owner="matmul", freed_by="scope exit",
                members=tuple(Member(side(65 + i, 77 + i), side(64 + i, None, "never")) for i in range(2))),
        finding("extra_free", 4 * mib, d_remaining_bytes=-4 * mib, d_peak_bytes=-4 * mib, base=side(70, None, "never"),
                head=side(71, 80), context_of="head", context=context(80, "a", "Free 4194304", "b")),
        finding("released", 2 * mib, fate="head", d_remaining_bytes=-2 * mib, base=side(3, 300, "later"), head=side(4, 90),
                context_of="head"),
        finding("only_head", mib // 2, fate="held", d_remaining_bytes=mib // 2, head=side(81, None, "never"), context_of="head",
                owner="dropout"),
        finding("only_base", mib // 4, count=6, fate="held", d_remaining_bytes=-6 * mib // 4, base=side(90, 120, "later")),
        finding("only_head", 512, count=1942, fate="temporary", d_peak_bytes=512, head=side(82, 83), context_of="head"),
        finding("only_base", 256, fate="temporary", base=side(82, 83)),
        finding("elsewhere", mib, d_peak_bytes=mib, base=side(100, 110), head=side(60, 110), context_of="head"),
    )  # fmt: skip
    base = figures("START BACKWARD", 50, 0, 20 * mib, allocs=2939, frees=1841)
    head = figures("START BACKWARD", 52, 2 * mib, 17 * mib + 512, allocs=3791, frees=1942)
    return diff(
        window(
            "START BACKWARD", base, head, *found,
            moved=12, moved_bytes=3 * mib, only_head_temporary_bytes=1942 * 512, only_base_temporary_bytes=256,
            remaining=remaining(missing_free=8 * mib, extra_free=4 * mib, only_head_held=mib // 2, only_base_held=6 * mib // 4,
                                d_released=2 * mib, d_unknown_free=-mib),
            peak=peak(extra_free=-4 * mib, only_head=512, elsewhere=mib),
            approximation=Approximation(120_000, 34, 512, 1536),
        )
    )  # fmt: skip


def hostile() -> Diff:
    """Case 1 with text made to break things wherever a log's text may stand."""
    made = case1(
        HOSTILE,
        owner=HOSTILE,
        freed_by=FENCE,
        context=context(77, HOSTILE, FENCE, "Free", "</details></summary><script>", "=1+2"),
    )
    return replace(
        made,
        base=run(f"dir/{HOSTILE}.log", doubt=f"doubtful: torn lines {HOSTILE}"),
        head=run(LONG, doubt="doubtful: several processes; 98 events in 266 lines (29.35 KiB)"),
        notes=(f"a note that quotes {HOSTILE}",),
    )


def huge() -> Diff:
    """Sizes of exbibytes beside single bytes, and counts of billions."""
    size = 1 << 60
    found = missing(size, count=3, base=side(4_000_000_001, 4_000_000_077), head=side(4_000_000_001, None, "never"))
    tiny = missing(1, base=side(None, None), head=side(2, None, "never"), context=())
    base = figures("w", 3_999_999_999, -5, 3 * size + 1, allocs=2_000_000_000, frees=1)
    head = figures("w", 3_999_999_999, 3 * size - 4, 3 * size + 1, allocs=2_000_000_000, frees=2_000_000_001)
    return diff(window("w", base, head, found, tiny, remaining=remaining(missing_free=3 * size + 1)))


def many(count: int) -> Diff:
    """One window with ``count`` different missing Frees, each of as many KiB as its number."""
    found = tuple(missing(number << 10) for number in range(count, 0, -1))
    total = sum(one.total_bytes for one in found)
    base = figures("w", 1, 0, 2 * total)
    head = figures("w", 1, total, 2 * total)
    return diff(window("w", base, head, *found, remaining=remaining(missing_free=total)))


def series(count: int = 25, **changes: Any) -> Diff:
    """Every window keeps one block in head, but the first two, and every fifth keeps two."""
    windows = []
    names = {3: HOSTILE, 4: LONG}
    for number in range(1, count + 1):
        name = names.get(number, f"SOT_CALL_{number}")
        kept = 0 if number <= 2 else 2 if number % 5 == 0 else 1
        base = figures(name, 100 * number, BLOCK, 3 * BLOCK)
        head = figures(name, 100 * number + 7, (1 + kept) * BLOCK, 3 * BLOCK)
        found = [missing(count=kept)] if kept else []
        windows.append(window(name, base, head, *found, remaining=remaining(missing_free=kept * BLOCK)))
    blocks = sum(found.count for one in windows for found in one.findings)
    differing = [one for one in windows if one.findings]
    repeated = tuple(
        Repeated(len(differing), blocks, blocks * BLOCK, blocks * BLOCK, 0, None, one.name, one.findings[0])
        for one in differing[:1]
    )
    values: dict[str, Any] = {
        "by": r"START (SOT_CALL_\d+)",
        "base": run("runs/pt.log", count + 1, unpaired=("SOT_CALL_99",)),
        "head": run("runs/pir.log", count + 8, unpaired=tuple(f"EXTRA_{i}" for i in range(8))),
        "repeated": repeated,
        "found_by": True,
        **changes,
    }
    return diff(*windows, **values)


#: All of them, by name.
EVERY: dict[str, Callable[[], Diff]] = {
    **{one.__name__: one for one in (case1, equal, identical, opening, late, little, messy, hostile, huge, series)},
    "many": lambda: many(12),
}
