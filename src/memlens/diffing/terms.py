"""The terms that a difference of two windows is made of; each adds up to the byte."""

from __future__ import annotations

from dataclasses import dataclass

from memlens.analyzers.result import Row

__all__ = ["PeakAccount", "RemainingAccount"]


@dataclass(frozen=True)
class RemainingAccount(Row):
    """Δremaining, term by term; ``unexplained_bytes`` is what is left, and it is 0 in every window of every log.

    ``Δremaining = missing - extra + only head held - only base held - Δreleased - Δunknown frees + Δmismatch + factor``, where a
    mismatch is ALLOC - FREE of a pair whose two sizes differ, and the factor is what head's sizes make beyond those of base that they
    stand for (0 where there is no factor between the two).
    """

    missing_free_bytes: int
    extra_free_bytes: int
    only_head_held_bytes: int
    only_base_held_bytes: int
    d_released_bytes: int
    d_unknown_free_bytes: int
    d_mismatch_bytes: int
    unexplained_bytes: int
    factor_bytes: int = 0


@dataclass(frozen=True)
class PeakAccount(Row):
    """Δpeak, term by term: Δcarried in, and what is live at head's peak and not at base's, less the opposite, by the same classes.

    Each term is signed, and they add up: ``Δpeak = Σ of all terms``, with ``unexplained_bytes`` 0.  The first three are Δcarried in:
    the opening blocks that only one run has, and all else (0 where both windows begin with their inputs); the others are Δrise.
    The last three terms count what was freed up to the two
    peaks, with the sign that they have in the sum.
    """

    opening_only_head_bytes: int
    opening_only_base_bytes: int
    carried_in_bytes: int

    missing_free_bytes: int
    extra_free_bytes: int
    only_head_bytes: int
    only_base_bytes: int
    late_free_bytes: int
    early_free_bytes: int
    elsewhere_bytes: int
    released_bytes: int
    unknown_free_bytes: int
    mismatch_bytes: int
    unexplained_bytes: int
    factor_bytes: int = 0
