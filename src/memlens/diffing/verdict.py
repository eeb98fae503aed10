"""What a comparison of two runs comes to, in one to three sentences: which one needs more, from which window on, and what explains most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlens.diffing.explaining import asked_for, explained, peaks_of, sign_of
from memlens.diffing.failed import failed_sentences
from memlens.text import Answer, format_count, plural, short_name, terms_of
from memlens.trust.case import RESERVED_DOUBTS
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.diffing.explaining import Explained
    from memlens.diffing.finding import Side
    from memlens.diffing.result import Diff, RunSide, WindowDiff
    from memlens.text import Terms, Tone

__all__ = ["answer_of"]

#: Doubts of a log, and windows, that a sentence names.
_NAMED = 2


def answer_of(diff: Diff) -> Answer:
    """The verdict of a comparison: both peaks and where the runs part, the finding that explains most, what cannot be said."""
    failed = failed_sentences(diff.failed, terms_of(diff.base.trust.layer))
    if not diff.windows:
        return Answer((*failed, "No window of one run has a partner in the other, so nothing was compared."))
    case = _Case(diff)
    factor = "" if diff.factor is None else f"nearly all sizes of head are those of base times {diff.factor}: "
    said = [factor + "; ".join(case.difference()), case.explanation(), "; ".join([*case.left_out(), *_caveats(diff)])]
    sentences = [*failed, *(f"{text[:1].upper()}{text[1:]}." for text in said if text)]
    # Three are read at a glance: where a run failed, what remains to be said is said in one.
    sentences[2:] = (
        ["; ".join(text.removesuffix(".") for text in sentences[2:]) + "."] if sentences[3:] else sentences[2:]
    )
    return Answer(tuple(sentences), "bad" if any(run.side == "head" for run in diff.failed) else case.tone)


class _Case:
    """A comparison as its verdict sees it."""

    def __init__(self, diff: Diff) -> None:
        self._diff, self._judged, self._terms = diff, diff.judged, terms_of(diff.base.trust.layer)
        self._pair = None if diff.series or len(diff.windows) != 1 else diff.windows[0]
        self._asked = asked_for(diff)
        self._base, self._head = peaks_of(diff)
        self.sign = sign_of(diff)
        self._same = bool(self._judged) and self._all_same()
        leaks = sum(window.remaining_left_bytes for window in self._judged) > 0
        better = self._same or (self.sign < 0 and not leaks)
        self.tone: Tone = "bad" if self.sign > 0 else "good" if better else "plain"
        failed = {run.side for run in diff.failed}
        if len(failed) == 1:
            self.tone = "bad" if "head" in failed else "good"

    def _all_same(self) -> bool:
        """Whether nothing at all tells the runs apart: windows that are not judged, and figures of the whole runs, included."""
        base, head = self._diff.base, self._diff.head
        runs = (base.live_bytes, base.reserved_peak_bytes) == (head.live_bytes, head.reserved_peak_bytes)
        unpaired = base.unpaired or head.unpaired
        return all(window.same for window in self._diff.windows) and not unpaired and (self._asked or runs)

    # --- the first sentence ---

    def difference(self) -> Iterator[str]:
        """How high both go, and where they part, in clauses."""
        alike = all(window.alike for window in self._judged)
        if alike and not self.sign:
            yield from self._alike()
            return
        yield self._peaks()
        if self._pair is not None and (left := _left_behind(self._pair)):
            yield left
        elif not self.sign:
            yield self._no_effect()
        elif self._pair is None:
            yield self._parting()
        if self._pair is not None and (carried_in := self._pair.peak.carried_in_bytes):
            yield f"{format_signed(carried_in)} of that was carried in from before"

    def _peaks(self) -> str:
        where = f"in {short_name(self._pair.label)} " if self._pair is not None and self._asked else ""
        device = " on the fullest device" if self._diff.head.devices > 1 else ""
        if self._base == self._head:
            return f"{where}both peak at {format_bytes(self._head)}{device}"
        return f"{where}head peaks at {format_bytes(self._head)}{device}, {_against(self._base, self._head)}"

    def _parting(self) -> str:
        """The first judged window in which head needs more, or less, and how many there are."""
        more, higher = ("more", "higher") if self.sign > 0 else ("less", "less")
        needing = [window for window in self._judged if _left(window, self.sign) > 0 or _rise(window, self.sign) > 0]
        if not needing:
            return f"no window that both have needs {more}"
        first, windows = needing[0], plural(len(self._judged), "window")
        left, rise = _left(first, self.sign), _rise(first, self.sign)
        does = [f"leaves {format_bytes(left)} {more} behind"] if left > 0 else []
        does += [f"rises {format_bytes(rise)} {higher}"] if rise > 0 else []
        who = "head" if self._base == self._head else "it"
        at = f"{short_name(first.label)} (head {self._terms.at(first.head.start_line)})"
        count = f"; {format_count(len(needing))} of {windows} need {more}" if len(needing) > 1 else ""
        return f"{who} first needs {more} in {at}, which {' and '.join(does)}{count}"

    def _alike(self) -> Iterator[str]:
        """That nothing differs, or that the work does not."""
        if not self._judged:
            yield from ("no window is judged", self._peaks())
            return
        lead = "no difference" if self._same else "the same work"
        if self._pair is not None:
            yield f"{lead}: every allocation has its partner in the other run, and both are freed alike"
        else:
            count = len(self._judged)
            subject = "the one pair of windows is" if count == 1 else f"all {plural(count, 'pair')} of windows are"
            yield f"{lead}: {subject} {'the same on both sides' if self._same else 'alike in all that they allocate and free'}"
        yield self._peaks()
        for what, field in (
            ("the largest Δpeak is", "d_peak_bytes"),
            ("what is carried in differs by", "d_carried_in_bytes"),
            ("the reserved peak differs by", "d_reserved_peak_bytes"),
        ):
            largest = max(self._judged, key=lambda window: abs(getattr(window, field)))
            if (change := getattr(largest, field)) and not (self._pair is not None and field == "d_peak_bytes"):
                yield f"{what} {format_signed(change)}{'' if self._pair is not None else f', in {short_name(largest.label)}'}"

    def _no_effect(self) -> str:
        """What differs where head needs and leaves no byte more or less."""
        moved, late, in_head, in_base = (
            sum(getattr(window, name) for window in self._judged)
            for name in ("moved", "late_frees", "only_head_temporary_bytes", "only_base_temporary_bytes")
        )
        accounts = [window.remaining for window in self._judged]
        kept = any(one.missing_free_bytes or one.only_head_held_bytes or one.only_base_held_bytes for one in accounts)
        sides = [
            f"{format_bytes(size)} in {side} only" for side, size in (("head", in_head), ("base", in_base)) if size
        ]
        what = [
            *([f"the order of {plural(moved, 'block')}"] if moved else []),
            *([f"temporaries, {' and '.join(sides)}"] if sides else []),
            *([f"when {plural(late, 'block is', 'blocks are')} freed"] if late else []),
            *(["blocks whose bytes cancel out"] if kept else []),
        ]
        return (
            f"what is kept is equal, and the runs differ in {'; in '.join(what)}"
            if what
            else "what differs adds up to nothing"
        )

    def left_out(self) -> Iterator[str]:
        """Windows that are not judged, where those that are do not tell why the runs differ."""
        if any(_left(window, self.sign) > 0 or _rise(window, self.sign) > 0 for window in self._judged):
            return
        for window in self._diff.windows:
            if not window.judged and (window.d_remaining_bytes or window.d_rise_bytes):
                yield (
                    f"{short_name(window.label)} is open and not judged: Δremaining {format_signed(window.d_remaining_bytes)},"
                    f" Δrise {format_signed(window.d_rise_bytes)}"
                )

    # --- the second sentence ---

    def explanation(self) -> str:
        """The finding that explains most, and where its blocks are freed."""
        found = explained(self._diff)
        beside = "" if self._diff.factor is None else "beside that, "
        return (
            "" if found is None else beside + _explanation(found, self.sign, self._terms, single=self._pair is not None)
        )


def _against(base: int, head: int) -> str:
    return f"{format_bytes(abs(head - base))} {'more' if head > base else 'less'} than base ({format_bytes(base)})"


def _left(window: WindowDiff, sign: int) -> int:
    return sign * window.remaining_left_bytes


def _rise(window: WindowDiff, sign: int) -> int:
    return sign * window.rise_left_bytes


def _left_behind(window: WindowDiff) -> str:
    base, head = window.base.remaining_bytes, window.head.remaining_bytes
    if min(base, head) < 0 and base != head:  # older blocks are freed
        return f"what the window adds up to is {format_bytes(head)} in head and {format_bytes(base)} in base"
    return "" if base == head else f"head leaves {format_bytes(head)} behind, {_against(base, head)}"


def _explanation(found: Explained, sign: int, terms: Terms, *, single: bool) -> str:
    where = "" if single or found.windows else f" of {short_name(found.window.label)}"
    place = f"at the peak{where}" if found.at_peak else "left behind"
    saved = "" if sign > 0 else "saved " if found.at_peak else "less "
    many = f" in {plural(found.windows, 'window')}" if found.windows > 1 else ""
    effect, whole = format_bytes(found.effect), format_bytes(found.whole)
    if found.effect == found.whole:
        lead = f"all of the {whole} {saved}{place} is"
    elif found.effect < found.whole:
        lead = f"{'most' if 2 * found.effect > found.whole else 'the largest part'} of the {whole} {saved}{place}, {effect}, is"
    else:  # other findings take part of it back, or no one sum tells
        adds = f"adds most to the peak{where}" if found.at_peak else "leaves most behind"
        if sign < 0:
            adds = f"saves most at the peak{where}" if found.at_peak else "saves most of what is left behind"
        lead = f"the finding that {adds}, {effect}, is"
    return f"{lead} {_what(found)}{many}: {_fates(found, terms)}"


def _what(found: Explained) -> str:
    """The blocks of a finding: ``a missing Free of 3.38 MiB``, ``58 blocks of 512.00 KiB that only head keeps``."""
    finding, count = found.finding, found.blocks
    size = format_bytes(finding.size_bytes)
    if finding.owner:
        name = short_name(finding.owner)
        size += f" {name}" if name.startswith("(") else f" ({name})"
    kind = finding.kind
    if kind in _FREES:
        one, many, where = _FREES[kind]
        words = one if count == 1 else f"{format_count(count)} {many}"
        return f"{words} of {size}{where if found.at_peak and finding.fate is None else ''}"
    blocks = "a block" if count == 1 else plural(count, "block")
    if kind == "released":
        blocks = blocks.replace("block", "older block")
        tail = f"that only {finding.fate} frees"
    elif kind == "elsewhere":
        tail = f"that {'base' if finding.d_peak_bytes > 0 else 'head'} allocates only after its own peak"
    elif kind.startswith("opening"):
        tail = f"that only {kind.rpartition('_')[2]} has from before its input"
    else:
        does = {"held": "keeps", "to_end": "keeps to the end"}.get(finding.fate or "", "allocates")
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
    first = "the first" if found.blocks > 1 else "it"
    base, head = finding.base, finding.head
    if finding.kind in _FREES and base is not None and head is not None:
        return f"base {_freed(base, terms, first)}, head {_freed(head, terms)}"
    side = head if base is None else base
    who = "head" if base is None else "base"
    if finding.kind == "elsewhere" and base is not None and head is not None:
        side, who = (head, "head") if finding.d_peak_bytes > 0 else (base, "base")
    if side is None:
        return "no line tells of it"
    allocated = "" if side.alloc_line is None else f"allocates {first} at {terms.at(side.alloc_line)} and "
    return f"{who} {allocated}{_freed(side, terms, '' if allocated else first)}"


def _freed(side: Side, terms: Terms, what: str = "") -> str:
    """``frees it at line 77``, ``frees it only later, at line 201``, ``never frees it``."""
    it = what or "it"
    if side.freed == "never":
        return f"never frees {it}"
    when = "only later" if side.freed == "later" else ""
    at = "" if side.free_line is None else f"at {terms.at(side.free_line)}"
    place = ", ".join(filter(None, (when, at)))
    return f"frees {it} {place}".rstrip()


def _caveats(diff: Diff) -> Iterator[str]:
    """What cannot be said, or is to be doubted."""
    for name, run in (("base", diff.base), ("head", diff.head)):
        # What is reserved decides nothing here.
        if codes := [doubt.code.replace("_", " ") for doubt in run.trust.doubts if doubt.code not in RESERVED_DOUBTS]:
            more = ", …" if len(codes) > _NAMED else ""
            yield f"the figures of {name} are in doubt ({', '.join(codes[:_NAMED])}{more})"
        if run.unpaired:
            yield _unpaired(name, run)
    inexact = [window.approximation.excess_bytes for window in diff.windows if window.approximation]
    if excess := sum(inexact):
        count = plural(sum(map(bool, inexact)), "window is", "windows are")
        where = "the alignment is" if len(diff.windows) == 1 else f"{count} aligned"
        yield f"{where} approximate: it costs up to {format_bytes(round(excess))} more than the cheapest"


def _unpaired(name: str, run: RunSide) -> str:
    count = len(run.unpaired)
    text = f"{plural(count, 'window')} of {name} {'has' if count == 1 else 'have'} no partner"
    if run.peak_window in run.unpaired:
        return f"{text}, and its peak is in one of them, {short_name(run.peak_window or '')}"
    return f"{text} ({', '.join(map(short_name, run.unpaired[:_NAMED]))}{', …' if count > _NAMED else ''})"
