"""Verdicts of the gate made by hand: what their reports show is tested without any log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import made_diffs as made

from memlens.cut import Cut
from memlens.gating.baseline import WindowFigures
from memlens.gating.limits import parse_budgets, parse_limits
from memlens.gating.verdict import Blame, Paired, Verdict, judge

if TYPE_CHECKING:
    from memlens.trust import Trust

__all__ = ["MIB", "failing", "figures", "hostile", "improved", "many", "missing", "passing", "unjudged", "verdict"]

MIB = 1 << 20


def figures(name: str, peak: int, remaining: int = 0, reserved: int = 0) -> WindowFigures:
    """A window's figures; nothing is carried in."""
    return WindowFigures(name, peak, remaining, reserved, peak)


def verdict(
    pairs: Sequence[tuple[WindowFigures, WindowFigures]],
    *,
    missing: Sequence[WindowFigures] = (),
    new: Sequence[WindowFigures] = (),
    limits: str | Sequence[str] = (),
    budgets: str | Sequence[str] = (),
    **changes: Any,
) -> Verdict:
    """What the gate finds of such windows."""
    allowed, ceilings = parse_limits(limits), parse_budgets(budgets)
    allow_missing = changes.get("allow_missing", False)
    lines = {head.name: 100 * number for number, (_, head) in enumerate(pairs, 1)}
    rows = judge(
        Paired(tuple(pairs), tuple(missing), tuple(new)),
        allowed,
        ceilings,
        allow_missing=allow_missing,
        start_lines=lines,
    )
    values: dict[str, Any] = {
        "path": "runs/head.log",
        "base": "memory.json",
        "is_baseline": True,
        "trust": cast("Trust", made.FakeTrust()),
        "anchors": Cut(by=r"START (SOT_CALL_\d+)"),
        "missing": tuple(window.name for window in missing),
        "new": tuple(window.name for window in new),
        "limits": allowed,
        "budgets": ceilings,
        **changes,
    }
    return Verdict("pass" if all(row.ok for row in rows) else "regression", windows=rows, **values)


def passing() -> Verdict:
    """Two windows that grew a little."""
    return verdict(
        [(figures("SOT_CALL_0", 10 * MIB, MIB, 64 * MIB), figures("SOT_CALL_0", 10 * MIB + 512, MIB, 80 * MIB)),
         (figures("SOT_CALL_1", 20 * MIB, 0, 64 * MIB), figures("SOT_CALL_1", 20 * MIB, 0, 80 * MIB))],
        new=[figures("SOT_CALL_2", 5 * MIB)],
    )  # fmt: skip


def failing(**changes: Any) -> Verdict:
    """Case 1: a window keeps a block more, and the Free that is missing is known; another one is over a budget."""
    block = made.BLOCK
    pairs = [
        (figures("SOT_CALL_0", 3 * block, block, 33 * MIB), figures("SOT_CALL_0", 3 * block, 2 * block, 33 * MIB)),
        (figures("SOT_CALL_1", 47 * MIB, 0, 77 * MIB), figures("SOT_CALL_1", 47 * MIB + MIB // 2, 0, 80 * MIB)),
        (figures("SOT_CALL_2", 9 * MIB, 9 * MIB, 80 * MIB), figures("SOT_CALL_2", 9 * MIB, 2 * MIB, 80 * MIB)),
    ]
    blame = Blame("SOT_CALL_0", ("remaining",), made.case1("SOT_CALL_0").windows[0])
    return verdict(pairs, budgets="peak=47MiB", **{"blame": (blame,), **changes})


def missing() -> Verdict:
    """Nothing grew, and two windows are not there."""
    pair = (figures("SOT_CALL_0", MIB), figures("SOT_CALL_0", MIB))
    return verdict([pair], missing=[figures("SOT_CALL_1", 5 * MIB, MIB), figures("SOT_CALL_2", 7 * MIB, MIB)])


def improved() -> Verdict:
    """One window needs half of what it needed."""
    return verdict(
        [(figures("SOT_CALL_0", 64 * MIB, MIB), figures("SOT_CALL_0", 32 * MIB, MIB))], path="my runs/head.log"
    )


def unjudged() -> Verdict:
    """A log that several processes wrote."""
    reason = "runs/head.log is doubtful: several processes, malformed; 98 events in 266 lines (29.35 KiB)"
    return replace(passing(), verdict="unjudged", windows=(), reasons=(reason,), doubtful=True)


def hostile() -> Verdict:
    """Text made to break things wherever the text of a log or the name of a file may stand."""
    names = [
        made.HOSTILE,
        "\ud800\ufffe\x00 ]]>",
        "::error::owned",
        "a" * 5000,
        "e\u0301" * 3000,
        "%0A::add-mask::x, y: z\n\r",
    ]
    pairs = [
        (figures(name, MIB, 0, 9 * MIB), figures(name, 9 * MIB, number, 9 * MIB)) for number, name in enumerate(names)
    ]
    blame = Blame(names[0], ("peak",), made.hostile().windows[0])
    return verdict(
        pairs,
        missing=[figures(f"gone {made.HOSTILE}", MIB)],
        new=[figures("\u202enew\x1b[31m", MIB)],
        path=f"{made.HOSTILE}.log",
        base=f"{made.LONG}.json",
        notes=(f"a note that quotes {made.HOSTILE}",),
        blame=(blame,),
    )


def many(count: int, name: str = "SOT_CALL_{}", **changes: Any) -> Verdict:
    """So many windows that all fail, each by a MiB more than the one before, and as many missing and new ones; ten are blamed."""
    names = [name.format(number) for number in range(count)]
    pairs = [
        (figures(one, 50 * MIB, 50 * MIB), figures(one, 50 * MIB, (52 + number) * MIB))
        for number, one in enumerate(names)
    ]
    blamed = [Blame(one, ("remaining",), made.many(40).windows[0]) for one in reversed(names[max(count - 10, 0) :])]
    return verdict(
        pairs,
        missing=[figures(f"gone {one}", MIB) for one in names],
        new=[figures(f"new {one}", MIB) for one in names],
        **{"blame": tuple(blamed), "unblamed": max(count - 10, 0), **changes},
    )
