"""The verdict of a comparison, in one to three sentences: who ran out, who needs most and least, and what grows with what."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from memlens.comparing.templates import number
from memlens.results import Answer, Tone
from memlens.text import format_count, short_name
from memlens.trust.case import RESERVED_DOUBTS
from memlens.trust.report import PEAK_MAY_BE_EARLIER
from memlens.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.comparing.figures import Run
    from memlens.comparing.result import Comparison
    from memlens.comparing.scaling import Slope


#: Sentences of a verdict, and runs that one names.
_SENTENCES, _NAMED = 3, 3


def answer_of(comparison: Comparison) -> Answer:
    """The verdict of a comparison, by the first of its metrics."""
    case = _Case(comparison)
    parts = map("; ".join, (case.failed(), case.figures(), case.scaling(), case.outliers()))
    sentences = [f"{text[:1].upper()}{text[1:]}." for text in parts if text]
    return Answer(tuple(sentences[:_SENTENCES]), case.tone)


class _Case:
    """A comparison as its verdict sees it.

    Attributes:
        tone: Bad where a run that has a base ran out and the base did not, or where all that changed rose; good for the opposite.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._all, self._metric = comparison, comparison.metrics[0]
        self._names = _names(comparison)
        found = zip(comparison.runs, map(self._figure, range(len(comparison.runs))), strict=True)
        self._figures = {id(run): figure for run, figure in found if figure is not None}
        self._measured = [run for run in comparison.runs if id(run) in self._figures]
        self.tone = self._tone()

    def _figure(self, place: int) -> int | None:
        """The figure of a run: of all of it, the highest peak of its windows, or that of its typical window."""
        run, metric = self._all.runs[place], self._metric
        if run.status != "ok":
            return None
        if self._all.by and metric.key == "peak_bytes":
            return max((window.peak_bytes for window in run.windows if window.peak_bytes is not None), default=None)
        window = self._all.typical[place] if self._all.typical else run.window(None)
        return None if window is None else window.figure(metric)

    def _changes(self) -> Iterator[tuple[Run, int]]:
        """Each run that has a base, both with a figure, and by how much it differs."""
        for run in self._measured:
            base = self._all.base_of(run)
            if base is not None and id(base) in self._figures:
                yield run, self._figures[id(run)] - self._figures[id(base)]

    def _tone(self) -> Tone:
        ooms = [run for run in self._all.runs if run.status == "oom"]
        if not ooms and any(map(_begins_late, self._measured)):
            return "plain"  # of a part that is known nothing is better or worse
        new = [run for run in ooms if (base := self._all.base_of(run)) is None or base.status != "oom"]
        bases = {id(base) for run in self._all.runs if (base := self._all.base_of(run)) is not None}
        if any(id(run) not in bases for run in new):
            return "bad"
        changes = {(change > 0) - (change < 0) for _, change in self._changes()} - {0}
        if ooms or not changes:
            return "good" if ooms and 1 not in changes else "plain"
        return {frozenset({1}): "bad", frozenset({-1}): "good"}.get(frozenset(changes), "plain")  # type: ignore[return-value]

    # --- sentences, each in clauses ---

    def failed(self) -> Iterator[str]:
        """Which runs ran out of memory, with what was asked for, and which have no figures."""
        runs = self._all.runs
        ooms = [run for run in runs if run.status == "oom"]
        if ooms:
            sizes = {None if run.oom is None else run.oom.requested_bytes for run in ooms}
            asked = next(iter(sizes)) if len(sizes) == 1 < len(ooms) else None
            each = "" if asked is None else f", each asking for {format_bytes(asked)}"
            if len(ooms) == len(runs) > 1 and (asked is not None or len(runs) > _NAMED):
                yield f"all {plural(len(runs), 'run')} ran out of memory{each}"
            elif which := self._common(ooms, asked):
                yield f"{_of(len(ooms), len(runs), 'run')} ran out of memory: {which}"
            else:
                listed = self._listed(ooms, asked=asked is None)
                yield f"{_of(len(ooms), len(runs), 'run')} ran out of memory{each}: {listed}"
        words = {"missing": "missing", "unreadable": "unreadable", "no_window": "without the window"}
        found = {words[status]: [run for run in runs if run.status == status] for status in words}
        found["in doubt"] = [run for run in runs if not RESERVED_DOUBTS.issuperset(run.doubts)]
        for what, those in found.items():
            if those:
                are = "is" if len(those) == 1 else "are"
                yield f"{_of(len(those), len(runs), 'run')} {are} {what}: {self._listed(those)}"

    def _common(self, runs: Sequence[Run], asked: int | None) -> str:
        """The value that all of several runs have, and only they, with what each of them asked for; ``""`` where that is nothing."""
        values = self._all.values
        shared = {name: runs[0].fields[name] for name in values if len({run.fields[name] for run in runs}) == 1}
        shared = {name: value for name, value in shared.items() if len(values[name]) > 1}
        alike = [run for run in self._all.runs if all(run.fields[name] == value for name, value in shared.items())]
        if len(runs) == 1 or not shared or len(alike) != len(runs):
            return ""
        each = "" if asked is None else f" (each asked for {format_bytes(asked)})"
        return f"all with {' and '.join(_field(name, value) for name, value in shared.items())}{each}"

    def _listed(self, runs: Sequence[Run], *, asked: bool = False) -> str:
        names = [f"{self._names[id(run)]}{_asked(run) if asked else ''}" for run in runs[:_NAMED]]
        left = len(runs) - _NAMED
        return ", ".join(names) + (f" and {format_count(left)} more" if left > 0 else "")

    def figures(self) -> Iterator[str]:
        """Who needs most and least, and what changed against the base."""
        if not self._measured:
            if len(self._all.runs) and not any(run.status == "oom" for run in self._all.runs):
                yield f"no run has a figure for {self._metric.words.lower()}"
            return
        highest, lowest = max(self._figures.values()), min(self._figures.values())
        pair = next(self._changes(), None)
        if len(self._measured) == 1:
            yield f"the {self._what} is {self._write(highest)} in {self._place(highest)}"
        elif len(self._measured) == 2 and pair is not None:
            (run, change), base = pair, self._all.base_of(pair[0])
            old = self._figures[id(base)]
            if base is not None and (base.path, base.device) == (run.path, run.device):
                yield f"the {self._what} is {self._write(old)} in {self._names[id(run)]}, which is compared with itself"
                return
            than = f"in {self._names[id(base)]}{f' ({self._write(old)})' if change else ''}"
            much = f"{self._write(abs(change))} {'more' if change > 0 else 'less'} than" if change else "as much as"
            yield f"the {self._what} is {self._write(old + change)} in {self._names[id(run)]}, {much} {than}"
        elif highest == lowest:
            yield f"the {self._what} is {self._write(highest)} in all {plural(len(self._measured), 'run')}"
        else:
            yield (
                f"the highest {self._what} is {self._write(highest)} ({self._place(highest)}), the lowest"
                f" {self._write(lowest)} ({self._place(lowest)}), {self._write(highest - lowest)} apart"
            )
            yield from self._against()
        late = [run for run in self._measured if _begins_late(run)]
        if late and self._metric.key in ("peak_bytes", "reserved_peak_bytes"):
            yield f"it may be higher in {self._listed(late)}, whose {'log begins' if len(late) == 1 else 'logs begin'} late"

    def _against(self) -> Iterator[str]:
        """How many runs have more than their base, and how many less, by how much at most."""
        changes = [*self._changes()]
        if not changes:
            return
        of = f" of {plural(len(changes), 'run')}"
        base = f" than {self._base_name()}"
        for sign, more in ((1, "more"), (-1, "less")):
            found = [(run, change) for run, change in changes if change * sign > 0]
            if found:
                run, change = max(found, key=lambda one: abs(one[1]))
                verb, by = ("needs", "by") if len(found) == 1 else ("need", "by up to")
                much = f"{self._write(abs(change))} ({self._names[id(run)]})"
                yield f"{format_count(len(found))}{of} {verb} {more}{base}, {by} {much}"
                of = base = ""

    def _base_name(self) -> str:
        layout = self._all.layout
        if layout.base_runs:
            return self._names[id(self._all.runs[layout.base_runs[0]])]
        return _field(layout.base_field or "", layout.base_value or "")

    def scaling(self) -> Iterator[str]:
        """How the metric grows with the first field that is a number, for each value of the columns."""
        found = [slope for slope in self._all.scaling if slope.metric == self._metric.key]
        for field in dict.fromkeys(slope.field for slope in found[:1]):
            cols = self._all.layout.cols if self._all.layout.cols != field else None
            groups: dict[str, list[Slope]] = {}
            for slope in (slope for slope in found if slope.field == field):
                groups.setdefault("" if cols is None else slope.fields[cols], []).append(slope)
            yield from self._scales(field, groups)

    def _scales(self, field: str, groups: dict[str, list[Slope]]) -> Iterator[str]:
        flat, what, cols = [], self._metric.words.lower(), self._all.layout.cols or ""
        moves: dict[tuple[str, str], list[str]] = {}
        for value, slopes in groups.items():
            moving = [slope for slope in slopes if slope.verdict in ("growing", "shrinking")]
            if not moving:
                flat.append((_field(cols, value), all(slope.verdict == "flat" for slope in slopes)))
                continue
            steepest = max(moving, key=lambda slope: abs(slope.slope))
            verb = "grows" if steepest.slope > 0 else "falls"
            most = "up to " if len({self._slope(slope.slope) for slope in moving}) > 1 else ""
            alike = "" if len(slopes) == 1 else f" in all {plural(len(slopes), 'row')}"
            if len(moving) < len(slopes):
                alike = f" ({_of(len(moving), len(slopes), 'row')})"
            lead = f"{what} {verb} by {most}{self._slope(abs(steepest.slope))} per {short_name(field)}"
            moves.setdefault((lead, alike), []).append(_field(cols, value) if value else "")
        for (lead, alike), places in moves.items():
            if places == [""]:
                place = ""
            elif len(places) == len(groups) > 1:
                place = f" for each {short_name(cols)}"
            else:
                place = f" in {', '.join(places)}"
            yield f"{lead}{place}{alike}"
        if flat and len(flat) == len(groups):
            steady = all(is_flat for _, is_flat in flat)
            yield f"{what} {'does not grow' if steady else 'does not grow steadily'} with {short_name(field)}"
        elif flat:
            yield f"not in {', '.join(name for name, _ in flat)}"

    def outliers(self) -> Iterator[str]:
        """The rank that is farthest from its peers."""
        found = [one for one in self._all.outliers if one.metric == self._metric.key]
        if found:
            worst = found[0]
            others = f", and {plural(len(found) - 1, 'other')}" if len(found) > 1 else ""
            side = "above" if worst.off > 0 else "below"
            name = next(self._names[id(run)] for run in self._all.runs if run.path == worst.path)
            off = f"{self._write(abs(worst.off))} {side} the median of {format_count(worst.peers)}"
            yield f"standing out: {name}{others}, {off}"

    # --- words ---

    def _place(self, figure: int) -> str:
        """The run that has a figure; of several how many they are."""
        having = [run for run in self._measured if self._figures[id(run)] == figure]
        return self._names[id(having[0])] if len(having) == 1 else _of(len(having), len(self._measured), "run")

    @property
    def _what(self) -> str:
        if self._metric.key == "peak_bytes":
            return "peak"
        return f"{'typical ' if self._all.typical else ''}{self._metric.words.lower()}"

    def _write(self, figure: int) -> str:
        return self._metric.text(figure)

    def _slope(self, slope: float) -> str:
        if self._metric.kind == "bytes" and slope < 10:
            return f"{slope:.2g} B"
        return self._write(round(slope)) if self._metric.kind != "count" else f"{slope:.3g}"


def _begins_late(run: Run) -> bool:
    """Whether its peak may lie before what its log holds."""
    return PEAK_MAY_BE_EARLIER in run.remarks


def _of(count: int, total: int, what: str) -> str:
    return f"{format_count(count)} of {plural(total, what)}"


def _asked(run: Run) -> str:
    size = None if run.oom is None else run.oom.requested_bytes
    return "" if size is None else f" (asked for {format_bytes(size)})"


def _field(name: str, value: str) -> str:
    """A field and its value as they stand in a sentence: ``gbs 3072``, ``develop``."""
    return short_name(value) if number(value) is None else f"{short_name(name)} {short_name(value)}"


def _names(comparison: Comparison) -> dict[int, str]:
    """Return a name for each run in a sentence: the values of the fields that vary, or its file where that tells it apart."""
    if comparison.template is not None:
        varying = [name for name, values in comparison.values.items() if len(values) > 1]
        return {
            id(run): " ".join(_field(name, run.fields[name]) for name in varying) or short_name(run.path)
            for run in comparison.runs
        }
    paths = [run.path for run in comparison.runs]
    files = [PurePath(path).name or path for path in paths]
    names = files if len(set(files)) == len(set(paths)) else paths
    several = len(set(names)) < len(names)
    return {
        id(run): short_name(name) + (f" device {run.device}" if several and run.device is not None else "")
        for run, name in zip(comparison.runs, names, strict=True)
    }
