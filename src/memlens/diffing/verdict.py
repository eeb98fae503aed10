"""What a comparison of two runs comes to, in one to three sentences: which one needs more, from which window on, and what explains most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlens.diffing.explaining import asked_for, costs_of, explained, peaks_of, sign_of
from memlens.diffing.failed import failed_sentences
from memlens.diffing.words import called, explanation_of, freed_words, sized, window_name
from memlens.text import Answer, format_count, plural, terms_of
from memlens.trust.case import RESERVED_DOUBTS
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.diffing.result import Diff, RunSide, WindowDiff
    from memlens.text import Tone

__all__ = ["answer_of"]

#: Doubts of a log, and windows, that a sentence names.
_NAMED = 2


def answer_of(diff: Diff) -> Answer:
    """The verdict of a comparison: both peaks and where the runs part, the finding that explains most, what cannot be said."""
    failed = failed_sentences(diff.failed, terms_of(diff.base.trust.layer))
    doubts = _doubts(diff)
    if not diff.windows:
        nothing = "No window of one run has a partner in the other, so nothing was compared."
        return Answer(_in_doubt((*failed, nothing), doubts))
    case = _Case(diff)
    said = [*case.sentences(), "; ".join([*case.left_out(), *case.earlier(), *_caveats(diff)])]
    said = [text for text in said if text]
    # Three are read at a glance: where a run failed, what remains to be said is said in one.
    most = 3 - len(failed)
    said[most - 1 :] = ["; ".join(said[most - 1 :])] if said[most - 1 :] else []
    sentences = (*failed, *(f"{text[:1].upper()}{text[1:]}." for text in said))
    tone = "bad" if any(run.side == "head" for run in diff.failed) else case.tone
    return Answer(_in_doubt(sentences, doubts), "plain" if tone == "good" and (doubts or [*case.earlier()]) else tone)


def _doubts(diff: Diff) -> str:
    """The doubts of both logs by name; what is reserved decides nothing here."""
    sides: dict[str, str] = {}
    for name, run in (("base", diff.base), ("head", diff.head)):
        if codes := [doubt.code.replace("_", " ") for doubt in run.trust.doubts if doubt.code not in RESERVED_DOUBTS]:
            said = f"{', '.join(codes[:_NAMED])}{', …' if len(codes) > _NAMED else ''}"
            sides[said] = "both" if said in sides else name
    return "; ".join(f"{name}: {said}" for said, name in sides.items())


def _in_doubt(sentences: tuple[str, ...], doubts: str) -> tuple[str, ...]:
    """Sentences that begin with what makes them doubtful, if anything does."""
    first, *others = sentences
    return (f"In doubt ({doubts}): {first[0].lower()}{first[1:]}", *others) if doubts else sentences


class _Case:
    """A comparison as its verdict sees it."""

    def __init__(self, diff: Diff) -> None:
        self._diff, self._judged, self._terms = diff, diff.judged, terms_of(diff.base.trust.layer)
        self._pair = None if diff.series or len(diff.windows) != 1 else diff.windows[0]
        self._asked = asked_for(diff)
        self._base, self._head = peaks_of(diff)
        self.sign = sign_of(diff)
        self._same = bool(self._judged) and self._all_same()
        self._costs, self._found = costs_of(diff), explained(diff)
        # Neither run needs more where peaks and what is left in all are equal, and windows of either kind are there.
        self._even = self._base == self._head and not sum(window.remaining_left_bytes for window in self._judged)
        self._even &= all(any(_needs(window, sign) for window in self._judged) for sign in (-1, 1))
        better = self._same or (self.sign < 0 and not self._costs and not self._even)
        self.tone: Tone = "bad" if self.sign > 0 and not self._even else "good" if better else "plain"
        failed = {run.side for run in diff.failed}
        if len(failed) == 1:
            self.tone = "bad" if "head" in failed else "good"

    def _all_same(self) -> bool:
        """Whether nothing at all tells the runs apart: windows that are not judged, and figures of the whole runs, included."""
        base, head = self._diff.base, self._diff.head
        runs = (base.live_bytes, base.reserved_peak_bytes) == (head.live_bytes, head.reserved_peak_bytes)
        unpaired = base.unpaired or head.unpaired
        return all(window.same for window in self._diff.windows) and not unpaired and (self._asked or runs)

    # --- the first two sentences ---

    def sentences(self) -> Iterator[str]:
        """How high both go and where they part, and the finding that explains most; where sizes have a factor, both beside it."""
        found = self._found
        explanation = "" if found is None else explanation_of(found, self._terms, single=self._pair is not None)
        if self._diff.factor is None:
            yield "; ".join(self.difference())
            yield explanation
            return
        lead = f"nearly all sizes of head are those of base times {self._diff.factor}: {'; '.join(self._peaks())}"
        if self._all_by_factor():
            yield f"{lead}; all of it is the factor"
        else:
            # One unit a sentence: the findings have the sizes of base.
            yield lead
            beside = [text for text in ("; ".join(self._parts()), explanation) if text]
            yield f"beside the factor, in sizes of base, {'; '.join(beside)}" if beside else ""

    def _all_by_factor(self) -> bool:
        """Whether nothing but the factor between the sizes is in the difference of the peaks."""
        others = [
            bool(figure)
            for window in self._diff.windows
            for figure in (
                window.remaining_left_bytes,
                window.rise_left_bytes,
                window.peak.opening_only_head_bytes,
                window.peak.opening_only_base_bytes,
                self._pair is not None and window.peak.carried_in_bytes,
            )
        ]
        return self._base != self._head and not any([*others, *self._diff.base.unpaired, *self._diff.head.unpaired])

    @property
    def _it(self) -> str:
        """Head, as it is called after the peaks."""
        return "it" if self._base != self._head and self._diff.factor is None else "head"

    def difference(self) -> Iterator[str]:
        """How high both go, and where they part, in clauses."""
        if all(window.alike for window in self._judged) and not self.sign:
            yield from self._alike()
        else:
            yield from self._peaks()
            yield from self._parts()

    def _parts(self) -> Iterator[str]:
        """Where the runs part, in one clause or none."""
        but = "but " if self._costs and self._diff.factor is None else ""
        if self._pair is not None and (left := _left_behind(self._pair, self._diff.factor is not None)):
            yield but + left
        elif self._costs:
            yield but + self._leak()
        elif not self.sign:
            yield self._no_effect()
        elif self._pair is None and (parting := self._parting()):
            yield parting

    def _leak(self) -> str:
        """What windows leave behind though head needs less."""
        first, count = self._costs[0], len(self._costs)
        amounts = [window.remaining_left_bytes for window in self._costs]
        lasting = count > 1 and self._costs == self._judged[-count:]
        if count == 1:
            return f"{window_name(first)} leaves {format_bytes(amounts[0])} more behind"
        if lasting and len(set(amounts)) == 1:
            return (
                f"from {window_name(first)} on {self._it} leaves {format_bytes(amounts[0])} more behind in each window"
            )
        where = f"from {window_name(first)} on {self._it} leaves" if lasting else f"{self._it} leaves"
        more = f"{where} {format_bytes(sum(amounts))} more behind in {plural(count, 'window')}"
        return more if lasting else f"{more}, the first {window_name(first)}"

    def _peaks(self) -> Iterator[str]:
        """Both peaks, and what of their difference is none of the pair of windows."""
        since = "since recording began, " if [*self.earlier()] else ""
        where = since or (f"in {window_name(self._pair)} " if self._pair is not None and self._asked else "")
        device = " on the fullest device" if self._diff.head.devices > 1 else ""
        if self._base == self._head:
            yield f"{where}both peak at {format_bytes(self._head)}{device}"
        else:
            yield f"{where}head peaks at {format_bytes(self._head)}{device}, {_against(self._base, self._head)}"
        if self._pair is not None and (carried_in := self._pair.peak.carried_in_bytes):
            yield f"{format_signed(carried_in)} of that was carried in from before"

    def earlier(self) -> Iterator[str]:
        """That a peak may lie before the recording, where that would tell otherwise of the runs."""
        lower = [("head", self._diff.head)] if self.sign < 0 else [("base", self._diff.base)] if self.sign > 0 else []
        if not self._asked and self._base != self._head:
            for name, run in lower:
                if run.trust.peak_may_be_earlier:
                    yield f"the true peak of {name} may be earlier"

    def _parting(self) -> str:
        """The first judged window in which head needs more, or less, and how many there are."""
        more, higher = ("more", "higher") if self.sign > 0 else ("less", "less")
        needing = [window for window in self._judged if _needs(window, self.sign)]
        if not needing:
            run = self._diff.head if self.sign > 0 else self._diff.base
            # A window that is new, or not judged, explains it; what is left out says so.
            told = run.peak_window in run.unpaired or [*self.left_out()]
            return "" if told else f"no window that both have needs {more}"
        first, windows = needing[0], plural(len(self._judged), "window")
        left, rise = _left(first, self.sign), _rise(first, self.sign)
        does = [f"leaves {format_bytes(left)} {more} behind"] if left > 0 else []
        does += [f"rises {format_bytes(rise)} {higher}"] if rise > 0 else []
        at = f"{window_name(first)} (head {self._terms.at(first.head.start_line)})"
        count = f"; {format_count(len(needing))} of {windows} need {more}" if len(needing) > 1 else ""
        if self._even:
            others = sum(_needs(window, -self.sign) for window in self._judged)
            other = "less" if self.sign > 0 else "more"
            count += (
                f", and {format_count(others)} {other}"
                if count
                else f"; {plural(others, 'window needs', 'windows need')} {other}"
            )
        return f"{self._it} first needs {more} in {at}, which {' and '.join(does)}{count}{self._left_beside(left)}"

    def _left_beside(self, left_by_first: int) -> str:
        """What other windows leave more behind, where all else that is said is of the peak."""
        leaving = [window for window in self._judged if window.remaining_left_bytes > 0]
        total = sum(window.remaining_left_bytes for window in self._judged)
        told = left_by_first > 0 or (self._found is not None and not self._found.at_peak)
        if told or self.sign < 0 or total <= 0:
            return ""
        others = f" and {plural(len(leaving) - 1, 'more window')}" if leaving[1:] else ""
        return f"; in all {format_bytes(total)} more is left behind, in {window_name(leaving[0])}{others}"

    def _alike(self) -> Iterator[str]:
        """That nothing differs, or that the work does not."""
        if not self._judged:
            yield "no window is judged"
            yield from self._peaks()
            return
        lead = "no difference" if self._same else "the same work"
        if self._pair is not None:
            yield f"{lead}: every allocation has its partner in the other run, and both are freed alike"
        else:
            count = len(self._judged)
            subject = "the one pair of windows is" if count == 1 else f"all {plural(count, 'pair')} of windows are"
            yield f"{lead}: {subject} {'the same on both sides' if self._same else 'alike in all that they allocate and free'}"
        yield from self._peaks()
        for what, field in (
            ("the largest Δpeak is", "d_peak_bytes"),
            ("what is carried in differs by", "d_carried_in_bytes"),
            ("the reserved peak differs by", "d_reserved_peak_bytes"),
        ):
            largest = max(self._judged, key=lambda window: abs(getattr(window, field)))
            if (change := getattr(largest, field)) and not (self._pair is not None and field == "d_peak_bytes"):
                yield f"{what} {format_signed(change)}{'' if self._pair is not None else f', in {window_name(largest)}'}"

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
            *([self._late(late)] if late else []),
            *(["blocks whose bytes cancel out"] if kept else []),
        ]
        return (
            f"what is kept is equal, and the runs differ in {'; in '.join(what)}"
            if what
            else "what differs adds up to nothing"
        )

    def _late(self, count: int) -> str:
        """That blocks are freed at other times, and where the first of them is."""
        window = next(window for window in self._judged if window.late_frees)
        found = next((one for one in window.findings if one.kind in ("late_free", "early_free")), None)
        if found is None or found.base is None or found.head is None:
            return f"when {plural(count, 'block is', 'blocks are')} freed"
        which = f"a block of {sized(found)} is freed" if count == 1 else f"{plural(count, 'block')} are freed"
        first = "it" if count == 1 else f"the first, of {sized(found)},"
        where = "" if self._pair is not None else f", in {window_name(window)}"
        base, head = freed_words(found.base, self._terms, first), freed_words(found.head, self._terms)
        return f"when {which}{where} (base {base}, head {head})"

    def left_out(self) -> Iterator[str]:
        """Windows that are not judged, where those that are do not tell why the runs differ."""
        if any(_needs(window, self.sign) for window in self._judged):
            return
        for window in self._diff.windows:
            figures = ("Δremaining", window.remaining_left_bytes), ("Δrise", window.rise_left_bytes)
            if not window.judged and (said := [f"{name} {format_signed(left)}" for name, left in figures if left]):
                yield f"{window_name(window)} is open and not judged: {', '.join(said)}"


def _against(base: int, head: int) -> str:
    return f"{format_bytes(abs(head - base))} {'more' if head > base else 'less'} than base ({format_bytes(base)})"


def _needs(window: WindowDiff, sign: int) -> bool:
    return _left(window, sign) > 0 or _rise(window, sign) > 0


def _left(window: WindowDiff, sign: int) -> int:
    return sign * window.remaining_left_bytes


def _rise(window: WindowDiff, sign: int) -> int:
    return sign * window.rise_left_bytes


def _left_behind(window: WindowDiff, beside_factor: bool) -> str:
    """What a pair of windows leaves, where that differs; beside a factor only by how much."""
    base, head = window.base.remaining_bytes, window.head.remaining_bytes
    if beside_factor:
        left = window.remaining_left_bytes
        return f"head leaves {format_bytes(abs(left))} {'more' if left > 0 else 'less'} behind" if left else ""
    if base == head:
        return ""
    if min(base, head) < 0:  # older blocks are freed
        return f"head {_balance(head)}, base {_balance(base)}"
    return f"head {_balance(head)}, {_against(base, head)}"


def _balance(remaining: int) -> str:
    return (
        f"frees {format_bytes(-remaining)} more than it allocates"
        if remaining < 0
        else f"leaves {format_bytes(remaining)} behind"
    )


def _caveats(diff: Diff) -> Iterator[str]:
    """What could not be compared, or not exactly."""
    for name, run in (("base", diff.base), ("head", diff.head)):
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
        where = "it" if count == 1 else "one of them"
        return f"{text}, and its peak is in {where}, {called(run.peak_window or '')}"
    return f"{text} ({', '.join(map(called, run.unpaired[:_NAMED]))}{', …' if count > _NAMED else ''})"
