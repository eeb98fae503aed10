"""The finding that explains most of a comparison, in words: its blocks, what they come to, and where each run frees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.text import format_count, plural, short_name
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.diffing.explaining import Explained
    from memlens.diffing.finding import Finding, Side
    from memlens.diffing.result import WindowDiff
    from memlens.text import Terms

__all__ = ["called", "explanation_of", "freed_words", "sized", "window_name"]


def window_name(window: WindowDiff) -> str:
    """A pair of windows in a sentence."""
    return called(window.label)


def called(name: str) -> str:
    """A window's name in a sentence; one that is only a number is called a window."""
    words = short_name(name)
    return words if any(map(str.isalpha, words)) else f"window {words}"


def explanation_of(found: Explained, terms: Terms, *, single: bool) -> str:
    """What a finding explains, what its blocks are, and where each run allocates and frees the first that counts.

    Args:
        found: The finding.
        terms: What lines are called.
        single: One pair of windows is looked at, and need not be named.
    """
    where = "" if single or found.windows else f" of {window_name(found.window)}"
    place = f"at the peak{where}" if found.at_peak else "left behind"
    saved = "" if found.sign > 0 else "saved " if found.at_peak else "less "
    many = f" in {plural(found.windows, 'window')}" if found.windows > 1 else ""
    effect, whole = format_bytes(found.effect), format_bytes(abs(found.whole))
    what, fates = f"{_what(found)}{many}", _fates(found, terms)
    if found.effect > found.whole:
        net = f"{effect} {_effect(found, place)} by" if single else f"{_net(found, place)}: {effect} by"
        return f"{net} {what}, {_taken_back(found)}; {fates}"
    if found.effect == found.whole:
        lead = f"all of the {whole} {saved}{place} is"
    else:
        lead = f"{'most' if 2 * found.effect > found.whole else 'the largest part'} of the {whole} {saved}{place}, {effect}, is"
    count, windows = found.alike
    kinds = f"{format_count(count)} {_kinds(found.finding)} in {plural(windows, 'window')}"
    return f"{lead} {what}{f' ({kinds} are all of it)' if count else ''}: {fates}"


def _net(found: Explained, place: str) -> str:
    """What all findings come to, where other ones take some of the largest one's back."""
    if not found.whole:
        return f"nothing more is {place} in all"
    sign = found.sign if found.whole > 0 else -found.sign
    whole = f"{format_bytes(abs(found.whole))} {_effect(found._replace(sign=sign), place)}"
    return whole if found.at_peak else f"{whole} in all"


def _effect(found: Explained, place: str) -> str:
    """``more is left behind``, ``is saved at the peak``."""
    if found.at_peak:
        return f"is {'added' if found.sign > 0 else 'saved'} {place}"
    return f"{'more' if found.sign > 0 else 'less'} is {place}"


def _taken_back(found: Explained) -> str:
    back, later = found.effect - found.whole, found.freed_later
    said = [f"{'head' if found.sign > 0 else 'base'} frees {format_bytes(later)} in later windows"] if later else []
    said += [f"{format_bytes(back - later)} is taken back by other findings"] if back > later else []
    return ", and ".join(said if len(said) > 1 else ["", *said]).removeprefix(", ")


def _kinds(finding: Finding) -> str:
    """Blocks of any size that are treated as those of a finding."""
    if finding.kind in _FREES:
        return _FREES[finding.kind][1]
    return f"blocks that only {finding.kind.removeprefix('only_')} keeps"


def sized(finding: Finding) -> str:
    """The size of blocks, and who allocates them."""
    size, name = format_bytes(finding.size_bytes), short_name(finding.owner or "")
    return f"{size} {name}" if name.startswith("(") else f"{size} ({name})" if name else size


def _what(found: Explained) -> str:
    """The blocks of a finding: ``a missing Free of 3.38 MiB``, ``58 blocks of 512.00 KiB that only head keeps``."""
    finding, count = found.finding, found.blocks
    part = f"{format_count(found.counting)} of " if found.counting < count else ""
    size = sized(finding)
    kind = finding.kind
    if kind in _FREES:
        one, many, where = _FREES[kind]
        words = one if count == 1 else f"{part}{format_count(count)} {many}"
        return f"{words} of {size}{where if found.at_peak and finding.fate is None else ''}"
    blocks = "a block" if count == 1 else f"{part}{plural(count, 'block')}"
    if kind == "released":
        blocks = blocks.replace("block", "older block")
        tail = f"that only {finding.fate} frees"
    elif kind == "elsewhere":
        tail = f"that {'base' if finding.d_peak_bytes > 0 else 'head'} allocates only after its own peak"
    elif kind.startswith("opening"):
        tail = f"that only {kind.rpartition('_')[2]} has from before its input"
    else:
        does = {"held": "keeps", "to_end": "keeps until the end of the window"}.get(finding.fate or "", "allocates")
        tail = f"that only {kind.rpartition('_')[2]} {does}"
    blocks = blocks.replace("a older", "an older")
    return f"{blocks} of {size} {tail}"


#: Findings that are about a Free: one of them, several, and what that means for the peaks.
_FREES = {
    "missing_free": ("a missing Free", "missing Frees", ""),
    "extra_free": ("a Free that base lacks", "Frees that base lacks", ""),
    "late_free": ("a late Free", "late Frees", ", only after head's peak"),
    "early_free": ("a Free that comes sooner", "Frees that come sooner", ", before head's peak"),
}


def _fates(found: Explained, terms: Terms) -> str:
    """Where each run allocates and frees the first of the blocks."""
    finding = found.finding
    first = "the first" if found.counting > 1 else "it" if found.blocks == 1 else "that one"
    if 1 < found.counting < found.blocks:
        first += f" of the {format_count(found.counting)}"
    base, head = found.base, found.head
    if finding.kind in _FREES and base is not None and head is not None:
        return f"base {freed_words(base, terms, first)}, head {freed_words(head, terms)}"
    side = head if base is None else base
    who = "head" if base is None else "base"
    if finding.kind == "elsewhere" and base is not None and head is not None:
        side, who = (head, "head") if finding.d_peak_bytes > 0 else (base, "base")
    if side is None:
        return "no line tells of it"
    allocated = "" if side.alloc_line is None else f"allocates {first} at {terms.at(side.alloc_line)} and "
    return f"{who} {allocated}{freed_words(side, terms, '' if allocated else first)}"


def freed_words(side: Side, terms: Terms, what: str = "") -> str:
    """``frees it at line 77``, ``frees it only later, at line 201``, ``never frees it``."""
    it = what or "it"
    if side.freed == "never":
        return f"never frees {it}"
    when = "only later" if side.freed == "later" else ""
    at = "" if side.free_line is None else f"at {terms.at(side.free_line)}"
    place = ", ".join(filter(None, (when, at)))
    return f"frees {it} {place}".rstrip()
