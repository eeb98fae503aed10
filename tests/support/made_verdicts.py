"""Verdicts of the gate made by hand: what their reports show is tested without any log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import made_diffs as made
from answers import HOSTILE, LONG, fake_trust, replace, with_answer

from memlens.analyzers.series.growth import Growth, Pile
from memlens.gating.baseline import RunFigures, WindowFigures
from memlens.gating.judging import judge, pair_runs
from memlens.gating.limits import Rules
from memlens.gating.verdict import Blame, Verdict
from memlens.options import Cut
from memlens.windows.windows import WHOLE

MIB = 1 << 20


def window(name: str, peak: int = 0, remaining: int = 0, *, open_end: bool = False) -> WindowFigures:
    """A window's figures; nothing is carried in."""
    return WindowFigures(name, peak, peak, remaining, open_end)


def verdict(
    old: Sequence[WindowFigures],
    new: Sequence[WindowFigures],
    *,
    peaks: tuple[int | None, int | None] = (64 * MIB, 64 * MIB),
    reserved: tuple[int | None, int | None] = (77 * MIB, 77 * MIB),
    limits: str | Sequence[str] = (),
    budgets: str | Sequence[str] = (),
    allow_missing: bool = False,
    **changes: Any,
) -> Verdict:
    """What the gate finds of such windows, and of such peaks and reserved bytes of the base and of head; the levels of steps are what windows leave."""
    rules = Rules.parse(limits, budgets, allow_missing=allow_missing)
    base, head = (
        RunFigures(
            peaks[k],
            reserved[k],
            tuple(windows),
            r"START (SOT_CALL_\d+)",
            tuple(accumulate(one.remaining_bytes for one in windows if not one.open_end)),
        )
        for k, windows in enumerate((old, new))
    )
    paired = pair_runs([base], head, series=True)
    lines = {one.name: 100 * number for number, one in enumerate(new, 1)}
    rows = judge([base], head, paired, rules, start_lines=lines)
    values: dict[str, Any] = {
        "path": "runs/head.log",
        "base": "memory.json",
        "is_baseline": True,
        "trust": fake_trust(),
        "anchors": Cut(by=r"START (SOT_CALL_\d+)"),
        "limits": rules.limits,
        "peak_of_windows": rules.peak_of_windows,
        "budgets": rules.budgets,
        "allow_missing": rules.allow_missing,
        "steps_by": head.steps_by,
        "missing": tuple(figures[0].name for figures in paired.missing),
        "not_reached": paired.not_reached,
        "new": paired.new,
        "base_windows": len(old),
        "judged_windows": len(paired.judged),
        "runs": 1,
        **changes,
    }
    return with_answer(Verdict("pass" if all(row.ok for row in rows) else "regression", windows=rows, **values))


def passing() -> Verdict:
    """Two windows, one of which grew a little, and one that is new; too few to tell growth."""
    return verdict(
        [window("SOT_CALL_0", 10 * MIB, MIB), window("SOT_CALL_1", 20 * MIB)],
        [window("SOT_CALL_0", 10 * MIB + 512, MIB), window("SOT_CALL_1", 20 * MIB), window("SOT_CALL_2", 5 * MIB, open_end=True)],
        limits="reserved=5%",
    )  # fmt: skip


def failing(**changes: Any) -> Verdict:
    """Case 1: a window keeps a block more, and the Free that is missing is known; the peak is over a budget."""
    block = made.BLOCK
    base = [
        window("SOT_CALL_0", 3 * block, block),
        window("SOT_CALL_1", 47 * MIB),
        window("SOT_CALL_2", 9 * MIB, 9 * MIB),
    ]
    head = [window("SOT_CALL_0", 3 * block, 2 * block), window("SOT_CALL_1", 47 * MIB + MIB // 2), window("SOT_CALL_2", 9 * MIB, 2 * MIB)]  # fmt: skip
    blame = Blame("SOT_CALL_0", ("remaining",), made.case1("SOT_CALL_0").windows[0])
    peaks = (64 * MIB, 64 * MIB + MIB // 2)
    return verdict(base, head, peaks=peaks, budgets="peak=64MiB", **{"blame": (blame,), **changes})


def growing(**changes: Any) -> Verdict:
    """Twenty steps that each keep 900 KiB: below the limit of each window, and 17 MiB in all."""
    kept = 900 << 10
    base = [window(str(n), 9 * MIB) for n in range(20)]
    head = [window(str(n), 9 * MIB, kept) for n in range(20)]
    pile = Pile(kept, 20, 20 * kept, "conv2d", 20, float(kept))
    growth = Growth(20, 20, (), 19 * kept, float(kept), "growing", "1", 1, 0, growing_windows=19, piling=(pile,))
    blame = Blame(WHOLE, ("growth",), made.case1("19").windows[0])
    values: dict[str, Any] = {"growth": growth, "blame": (blame,), **changes}
    return verdict(base, head, peaks=(18 * MIB, 18 * MIB), anchors=Cut(by=r"STEP (\d+) START"), **values)


def shorter() -> Verdict:
    """A run that ends after three of six steps, the last of which no line ends; its base was taken of three runs."""
    base = [window(str(n), 9 * MIB) for n in range(6)]
    head = [*base[:2], window("2", 9 * MIB, -9 * MIB, open_end=True)]
    return verdict(base, head, runs=3)


def missing() -> Verdict:
    """Nothing grew, and two windows are not there."""
    base = [window("EVAL_1", 5 * MIB, MIB), window("EVAL_2", 7 * MIB, MIB), window("SOT_CALL_0", MIB)]
    return verdict(base, [window("SOT_CALL_0", MIB)])


def improved() -> Verdict:
    """One window needs half of what it needed, and so does the run."""
    return verdict(
        [window("SOT_CALL_0", 64 * MIB, MIB)],
        [window("SOT_CALL_0", 32 * MIB, MIB)],
        peaks=(70 * MIB, 38 * MIB),
        path="my runs/head.log",
    )


def unjudged() -> Verdict:
    """A log that several processes wrote."""
    reason = "runs/head.log is doubtful: several processes, malformed; 98 events in 266 lines (29.35 KiB)"
    return replace(passing(), verdict="unjudged", windows=(), reasons=(reason,), doubtful=True)


def hostile() -> Verdict:
    """Text made to break things wherever the text of a log or the name of a file may stand."""
    names = [
        HOSTILE,
        "\ud800\ufffe\x00 ]]>",
        "::error::owned",
        "a" * 5000,
        "e\u0301" * 3000,
        "%0A::add-mask::x, y: z\n\r",
    ]
    base, head = (
        [window(name, peak, number * share) for number, name in enumerate(names)]
        for peak, share in ((MIB, 0), (9 * MIB, 1))
    )
    blame = Blame(names[0], ("peak",), made.hostile().windows[0])
    pile = Pile(MIB, 9, 9 * MIB, HOSTILE, 6, float(MIB))
    return verdict(
        [window(f"gone {HOSTILE}", MIB), *base],
        [*head, window("\u202enew\x1b[31m", MIB)],
        path=f"{HOSTILE}.log",
        base=f"{LONG}.json",
        notes=(f"a note that quotes {HOSTILE}",),
        growth=Growth(6, 6, (), 9 * MIB, 1.5 * MIB, "growing", names[0], 0, 0, growing_windows=6, piling=(pile,)),
        blame=(blame,),
    )


def many(count: int, name: str = "SOT_CALL_{}", **changes: Any) -> Verdict:
    """So many windows that all fail, each by a MiB more than the one before, and as many missing and new ones; ten are blamed."""
    names = [name.format(number) for number in range(count)]
    gone, base = ([window(f"{start}{one}", 50 * MIB, 50 * MIB) for one in names] for start in ("gone ", ""))
    head = [window(one, 50 * MIB, (52 + number) * MIB) for number, one in enumerate(names)]
    new = [window(f"new {one}", MIB) for one in names]
    blamed = [Blame(one, ("remaining",), made.many(40).windows[0]) for one in reversed(names[max(count - 10, 0) :])]
    values = {"blame": tuple(blamed), "unblamed": max(count - 10, 0), **changes}
    return verdict([*gone, *base], [*head, *new], **values)


#: All of them but ``many``, by name.
EVERY: dict[str, Callable[[], Verdict]] = {
    one.__name__: one for one in (passing, failing, growing, shorter, missing, improved, unjudged, hostile)
}
