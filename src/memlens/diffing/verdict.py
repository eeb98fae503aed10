"""The verdict of a comparison of two runs, in one to three sentences: which one needs more, from which window on, and what explains most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.diffing.explaining import called, costs_of, explained, explanation_of, is_one_window, peaks_of, sign_of
from memlens.diffing.failed import failed_sentences
from memlens.diffing.result import Diff, RunSide, WindowDiff, unpaired_bytes
from memlens.results import Answer, Tone
from memlens.text import format_count, format_explained, terms_of
from memlens.trust.case import RESERVED_DOUBTS
from memlens.units import format_bytes, format_signed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Doubts of a log, and windows, that a sentence names.
_NAMED = 2


def answer_of(diff: Diff) -> Answer:
    """Return the verdict: both peaks and where the runs part, the finding that explains most, what cannot be said."""
    failed = failed_sentences(diff.failed, terms_of(diff.base.trust.has_lines))
    doubts = _doubts(diff)
    if not diff.windows:
        nothing = "No window of one run has a partner in the other, so nothing was compared."
        return Answer(_in_doubt((*failed, nothing), doubts))
    verdict = _Verdict(diff)
    texts = [*verdict.sentences(), "; ".join([*verdict.left_out(), *verdict.earlier(), *_caveats(diff)])]
    texts = [text for text in texts if text]
    # Three are read at a glance: where a run failed, all that remains is one.
    most = 3 - len(failed)
    texts[most - 1 :] = ["; ".join(texts[most - 1 :])] if texts[most - 1 :] else []
    sentences = (*failed, *(f"{text[:1].upper()}{text[1:]}." for text in texts))
    tone = "bad" if any(run.side == "head" for run in diff.failed) else verdict.tone
    return Answer(
        _in_doubt(sentences, doubts), "plain" if tone == "good" and (doubts or [*verdict.earlier()]) else tone
    )


def _doubts(diff: Diff) -> str:
    """Return the doubts of both logs by name; what is reserved decides nothing here."""
    sides: dict[str, str] = {}
    for name, run in (("base", diff.base), ("head", diff.head)):
        if codes := [doubt.code.replace("_", " ") for doubt in run.trust.doubts if doubt.code not in RESERVED_DOUBTS]:
            listed = f"{', '.join(codes[:_NAMED])}{', …' if len(codes) > _NAMED else ''}"
            sides[listed] = "both" if listed in sides else name
    return "; ".join(f"{name}: {listed}" for listed, name in sides.items())


def _in_doubt(sentences: tuple[str, ...], doubts: str) -> tuple[str, ...]:
    """Return the sentences, after what makes them doubtful, if anything does."""
    first, *others = sentences
    return (f"In doubt ({doubts}): {first[0].lower()}{first[1:]}", *others) if doubts else sentences


class _Verdict:
    """The clauses of a verdict, and its tone."""

    def __init__(self, diff: Diff) -> None:
        self._diff, self._judged, self._terms = diff, diff.judged, terms_of(diff.base.trust.has_lines)
        self._pair = None if diff.series or len(diff.windows) != 1 else diff.windows[0]
        self._one_window = is_one_window(diff)
        self._base, self._head = peaks_of(diff)
        self.sign = sign_of(diff)
        self._same = bool(self._judged) and self._all_same()
        self._costs, self._cause = costs_of(diff), explained(diff)
        # Neither run needs more where peaks and what is left in all are equal, and windows of either kind are there.
        self._even = self._base == self._head and not sum(window.d_remaining_bytes for window in self._judged)
        self._even &= all(any(_needs(window, sign) for window in self._judged) for sign in (-1, 1))
        better = self._same or (self.sign < 0 and not self._costs and not self._even)
        self.tone: Tone = "bad" if self.sign > 0 and not self._even else "good" if better else "plain"
        failed = {run.side for run in diff.failed}
        if len(failed) == 1:
            self.tone = "bad" if "head" in failed else "good"

    def _all_same(self) -> bool:
        """Return whether nothing tells the runs apart, in windows that are not judged and in figures of the whole runs either."""
        base, head = self._diff.base, self._diff.head
        runs = (base.live_bytes, base.reserved_peak_bytes) == (head.live_bytes, head.reserved_peak_bytes)
        unpaired = base.unpaired or head.unpaired
        return all(window.same for window in self._diff.windows) and not unpaired and (self._one_window or runs)

    # --- the first two sentences ---

    def sentences(self) -> Iterator[str]:
        """Yield that the runs share little, how high both go and where they part, and the finding that explains most."""
        if self._diff.shares_little:
            yield _sharing(self._diff)
        yield "; ".join(self.difference())
        yield "" if self._cause is None else explanation_of(self._cause, self._terms, single=self._pair is not None)

    @property
    def _it(self) -> str:
        """Head, as it is called after the peaks."""
        return "it" if self._base != self._head else "head"

    def difference(self) -> Iterator[str]:
        """Yield how high both go, and where they part."""
        if all(window.alike for window in self._judged) and not self.sign:
            yield from self._alike()
        else:
            yield from self._peaks()
            yield from self._parts()

    def _parts(self) -> Iterator[str]:
        """Yield where the runs part, in one clause or none."""
        but = "but " if self._costs else ""
        if self._pair is not None and (left := _left_behind(self._pair)):
            yield but + left
        elif self._costs:
            yield but + self._leak()
        elif not self.sign:
            yield self._no_effect()
        elif self._pair is None and (parting := self._parting()):
            yield parting

    def _leak(self) -> str:
        """Return what windows leave behind although head needs less."""
        first, count = self._costs[0], len(self._costs)
        amounts = [window.d_remaining_bytes for window in self._costs]
        lasting = count > 1 and self._costs == self._judged[-count:]
        if count == 1:
            return f"{called(first.label)} leaves {format_bytes(amounts[0])} more behind"
        if lasting and len(set(amounts)) == 1:
            return (
                f"from {called(first.label)} on {self._it} leaves {format_bytes(amounts[0])} more behind in each window"
            )
        where = f"from {called(first.label)} on {self._it} leaves" if lasting else f"{self._it} leaves"
        more = f"{where} {format_bytes(sum(amounts))} more behind in {plural(count, 'window')}"
        return more if lasting else f"{more}, the first {called(first.label)}"

    def _peaks(self) -> Iterator[str]:
        """Yield both peaks, and how much of their difference the pair of windows was carried in."""
        since = "since recording began, " if [*self.earlier()] else ""
        where = since or (f"in {called(self._pair.label)} " if self._pair is not None and self._one_window else "")
        device = " on the fullest device" if self._diff.head.devices > 1 else ""
        if self._base == self._head:
            yield f"{where}both peak at {format_bytes(self._head)}{device}"
        else:
            yield f"{where}head peaks at {format_bytes(self._head)}{device}, {_against(self._base, self._head)}"
        if self._pair is not None and (carried_in := self._pair.peak.carried_in_bytes):
            yield f"{format_signed(carried_in)} of that was carried in from before"

    def earlier(self) -> Iterator[str]:
        """Yield that a peak may lie before the recording, where that could turn the verdict round."""
        lower = [("head", self._diff.head)] if self.sign < 0 else [("base", self._diff.base)] if self.sign > 0 else []
        if not self._one_window and self._base != self._head:
            for name, run in lower:
                if run.trust.peak_may_be_earlier:
                    yield f"the true peak of {name} may be earlier"

    def _parting(self) -> str:
        """Return the first judged window in which head needs more, or less, and how many there are."""
        more, higher = ("more", "higher") if self.sign > 0 else ("less", "less")
        needing = [window for window in self._judged if _needs(window, self.sign)]
        if not needing:
            run = self._diff.head if self.sign > 0 else self._diff.base
            # A window that is new, or not judged, explains it, and is named at the end.
            named = run.peak_window in run.unpaired or [*self.left_out()]
            return "" if named else f"no window that both have needs {more}"
        first, windows = needing[0], plural(len(self._judged), "window")
        left, rise = self.sign * first.d_remaining_bytes, self.sign * first.d_rise_bytes
        does = [f"leaves {format_bytes(left)} {more} behind"] if left > 0 else []
        does += [f"rises {format_bytes(rise)} {higher}"] if rise > 0 else []
        at = f"{called(first.label)} (head {self._terms.at(first.head.start_line)})"
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
        """Return how much more other windows leave behind, where all other clauses are of the peak."""
        leaving = [window for window in self._judged if window.d_remaining_bytes > 0]
        total = sum(window.d_remaining_bytes for window in self._judged)
        named = left_by_first > 0 or (self._cause is not None and not self._cause.at_peak)
        if named or self.sign < 0 or total <= 0:
            return ""
        others = f" and {plural(len(leaving) - 1, 'more window')}" if leaving[1:] else ""
        return f"; in all {format_bytes(total)} more is left behind, in {called(leaving[0].label)}{others}"

    def _alike(self) -> Iterator[str]:
        """Yield that nothing differs, or that the work does not."""
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
                yield f"{what} {format_signed(change)}{'' if self._pair is not None else f', in {called(largest.label)}'}"

    def _no_effect(self) -> str:
        """Return the differences where head needs and leaves no byte more or less."""
        moved, in_head, in_base = (
            sum(getattr(window, name) for window in self._judged)
            for name in ("moved", "only_head_temporary_bytes", "only_base_temporary_bytes")
        )
        accounts = [window.remaining for window in self._judged]
        kept = any(one.missing_free_bytes or one.only_head_held_bytes or one.only_base_held_bytes for one in accounts)
        sides = [
            f"{format_bytes(size)} in {side} only" for side, size in (("head", in_head), ("base", in_base)) if size
        ]
        clauses = {
            f"the order of {plural(moved, 'block')}": moved,
            f"temporaries, {' and '.join(sides)}": sides,
            "blocks whose bytes cancel out": kept,
        }
        what = "; in ".join(clause for clause, holds in clauses.items() if holds)
        return f"what is kept is equal, and the runs differ in {what}" if what else "what differs adds up to nothing"

    def left_out(self) -> Iterator[str]:
        """Yield windows that are not judged, where those that are do not show why the runs differ."""
        if any(_needs(window, self.sign) for window in self._judged):
            return
        for window in self._diff.windows:
            figures = ("Δremaining", window.d_remaining_bytes), ("Δrise", window.d_rise_bytes)
            if not window.judged and (changes := [f"{name} {format_signed(left)}" for name, left in figures if left]):
                yield f"{called(window.label)} is open and not judged: {', '.join(changes)}"


def _sharing(diff: Diff) -> str:
    """Return that the runs share little, with the factor between most of their sizes."""
    base, head = (format_explained(*of_run) for of_run in unpaired_bytes(diff.judged))
    factor = f", and most sizes of head are those of base times {diff.factor} (another dtype, another batch size)"
    return f"the runs share little: {base} of base's bytes and {head} of head's have no partner{factor if diff.factor else ''}"


def _against(base: int, head: int) -> str:
    return f"{format_bytes(abs(head - base))} {'more' if head > base else 'less'} than base ({format_bytes(base)})"


def _needs(window: WindowDiff, sign: int) -> bool:
    """Return whether head's window needs more (1), or less (-1)."""
    return max(sign * window.d_remaining_bytes, sign * window.d_rise_bytes) > 0


def _left_behind(window: WindowDiff) -> str:
    """Return how much both windows of a pair leave behind, where that differs."""
    base, head = window.base.remaining_bytes, window.head.remaining_bytes
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
    """Yield what could not be compared, or not exactly."""
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
