"""All made-up results of diff, gate and compare."""

from __future__ import annotations

import made_comparisons
import made_diffs
import made_verdicts

from memlens.results import Answered

_COMPARISONS = ("case_2", "case_3", "failures", "hostile", "series", "ranks_healthy", "ranks_loud", "ranks_hostile")
MADE: list[Answered] = [
    *(make() for make in made_diffs.EVERY.values()),
    *(make() for make in made_verdicts.EVERY.values()),
    *(getattr(made_comparisons, name)() for name in (*_COMPARISONS, "ranks_unreadable")),
]
