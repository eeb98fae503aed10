"""What each kind of finding is called and what it means, in words: as a heading, as a sentence, in a cell of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from memlens.diffing.finding import Finding

__all__ = ["Words", "words_of"]


class Words(NamedTuple):
    """What a finding is called.

    Attributes:
        title: As a heading: ``Missing free``.
        short: In a cell of a table.
        meaning: In a sentence.
    """

    title: str
    short: str
    meaning: str


_LATE = "both runs free it, base before its peak and head only after its own"
_EARLY = "both runs free it, head before its peak and base only after its own"
_MUCH_LATER = "both runs free it, head much later than base"
_MUCH_SOONER = "both runs free it, base much later than head"
_TO_END = "only when the work of the window is done"
_BEFORE = "born before the window"
#: By kind, or by kind and fate where that says more.
_WORDS = {
    "missing_free": Words("Missing free", "kept by head", "base frees it in the window, head does not"),
    "extra_free": Words("Extra free", "kept by base", "head frees it in the window, base does not"),
    "released base": Words("Older block", "older, freed by base", f"{_BEFORE}; base frees it in the window, head does not"),
    "released head": Words("Older block", "older, freed by head", f"{_BEFORE}; head frees it in the window, base does not"),
    "late_free": Words("Late free", "freed late", _LATE),
    "early_free": Words("Early free", "freed early", _EARLY),
    "late_free to_end": Words("Late free", "kept to the end by head", f"both runs free it, head {_TO_END}"),
    "early_free to_end": Words("Early free", "kept to the end by base", f"both runs free it, base {_TO_END}"),
    "only_head to_end": Words("Only in head", "kept to the end, only in head", f"head allocates it and frees it {_TO_END}; base has none like it"),
    "only_base to_end": Words("Only in base", "kept to the end, only in base", f"base allocates it and frees it {_TO_END}; head has none like it"),
    "late_free carried_in": Words("Late free", "older, freed late", f"{_BEFORE}; {_LATE}"),
    "early_free carried_in": Words("Early free", "older, freed early", f"{_BEFORE}; {_EARLY}"),
    "elsewhere": Words(
        "At one peak only", "at one peak only", "both runs treat it alike, but one reaches its peak before it allocates it"
    ),
    "opening_only_head": Words("From before the input", "from before, in head", "live in head before its input begins; base has none like it"),
    "opening_only_base": Words("From before the input", "from before, in base", "live in base before its input begins; head has none like it"),
    "only_head held": Words("Only in head", "held, only in head", "head allocates and holds it, base does not"),
    "only_base held": Words("Only in base", "held, only in base", "base allocates and holds it, head does not"),
    "only_head temporary": Words("Only in head", "temporary in head", "head allocates and frees it, base does not"),
    "only_base temporary": Words("Only in base", "temporary in base", "base allocates and frees it, head does not"),
}  # fmt: skip
#: Much later, though it is at no peak.
_NO_EFFECT = {
    "late_free": Words("Late free", "freed late", _MUCH_LATER),
    "early_free": Words("Early free", "freed early", _MUCH_SOONER),
}


def words_of(finding: Finding) -> Words:
    """What a finding is called; of a kind that nobody has words for yet, its name."""
    if finding.fate is None and not finding.d_peak_bytes and finding.kind in _NO_EFFECT:
        return _NO_EFFECT[finding.kind]
    name = finding.kind.replace("_", " ")
    known = _WORDS.get(f"{finding.kind} {finding.fate}") or _WORDS.get(finding.kind)
    return known or Words(name.capitalize(), name, name)
