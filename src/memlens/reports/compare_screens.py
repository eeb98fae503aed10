"""What a comparison of many runs shows to people: what was compared, then the tables, then what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, Line
from memlens.reports.compare_findings import outlier_blocks, scaling_blocks
from memlens.reports.compare_tables import list_blocks, matrix_blocks
from memlens.reports.compare_words import DOUBTFUL
from memlens.reports.text import format_count, plural, shorten, visible

if TYPE_CHECKING:
    from memlens.comparing.result import Comparison, Run

__all__ = ["compare_blocks"]

#: Runs of one kind that are named in full; machine output has all.
_MOST_NAMES = 6
_WIDEST_NAME = 40


def compare_blocks(comparison: Comparison, *, top: int | None = None) -> list[Block]:
    """Everything a comparison shows.

    Args:
        comparison: What to show.
        top: Windows of a series, and rows of the lists below the tables; ``None`` for as many as make a page.
    """
    blocks: list[Block] = list(_head(comparison))
    tables = list_blocks if comparison.layout.cols is None else matrix_blocks
    for part in (tables(comparison, top), scaling_blocks(comparison, top), outlier_blocks(comparison, top)):
        for block in part:
            blocks += [None, block]
    return blocks


def _head(comparison: Comparison) -> Iterator[Block]:
    yield _runs(comparison)
    yield from _base(comparison)
    yield from _windows(comparison)
    yield from _trust(comparison.runs)
    for problem in comparison.problems:
        yield Line(problem, "doubt", label="Folder")
    yield from _without_figures(comparison.runs)
    yield from _survivors(comparison.runs)
    yield from _remarks(comparison.runs)


def _runs(comparison: Comparison) -> Line:
    runs = comparison.runs
    if comparison.template is None:
        return Line(plural(len(runs), "run"), "quiet", label="Runs")
    varying = {name: values for name, values in comparison.values.items() if len(values) > 1}
    product = " × ".join(f"{len(values)} {name}" for name, values in varying.items())
    fixed = [f"{name} is {_name(values[0])}" for name, values in comparison.values.items() if len(values) == 1]
    counted = f"{plural(len(runs), 'run')}{f': {product}' if len(varying) > 1 else ''}"
    return Line("; ".join([counted, *fixed]), "quiet", comparison.template, label="Runs")


def _base(comparison: Comparison) -> Iterator[Line]:
    layout = comparison.layout
    if layout.base_run is not None:
        if len(comparison.runs) > 1:
            base, *further = (comparison.runs[place] for place in (layout.base_run, *layout.base_devices))
            without = "" if base.windows else "no changes can be told: it has no figures"
            paths = ", ".join(run.path for run in (base, *further))
            yield Line(without, "doubt", paths, label="Base")
    elif layout.base_field is not None:
        yield Line(f"{layout.base_field}={_name(layout.base_value or '')}, all other fields alike", label="Base")


def _windows(comparison: Comparison) -> Iterator[Line]:
    if comparison.by is not None:
        names = comparison.windows
        common = [name for name in names if not any(name in comparison.missing_windows(run) for run in comparison.runs)]
        shared = "in all runs" if len(common) == len(names) else f"{format_count(len(common))} of them in all runs"
        yield Line(f"{plural(len(names), 'window')} by {comparison.by}, {shared}", label="Windows")
        lacking = [run for run in comparison.runs if comparison.missing_windows(run)]
        for run in lacking[:_MOST_NAMES]:
            yield Line(f"has no {_some(comparison.missing_windows(run))}", "doubt", run.path, label=" ")
        yield from _more(len(lacking) - _MOST_NAMES, "run lacks windows", "runs lack windows")
    elif comparison.cut:
        names = tuple(dict.fromkeys(window.name for run in comparison.runs for window in run.windows))
        yield Line("", name=_some(names), label="Window")


def _trust(runs: Sequence[Run]) -> Iterator[Line]:
    read = [run for run in runs if run.status not in ("missing", "unreadable")]
    doubtful = [run for run in read if run.doubts or run.notes]
    if read and not doubtful:
        yield Line(f"ok: nothing to doubt in {_any(len(read))}", "good", label="Trust")
    for place, run in enumerate(doubtful[:_MOST_NAMES]):
        what = "; ".join([*(code.replace("_", " ") for code in run.doubts), *run.notes])
        yield Line(what, "doubt", run.path, label=f"Doubt {DOUBTFUL}" if not place else " ")
    if doubtful:
        yield from _more(len(doubtful) - _MOST_NAMES, "doubtful run")
        yield Line("memlens analyze tells what that means for its figures.", "hint", label=" ")


def _without_figures(runs: Sequence[Run]) -> Iterator[Line]:
    for status, label in (("missing", "Missing"), ("unreadable", "Unreadable"), ("no_window", "No window")):
        alike = [run for run in runs if run.status == status]
        for place, run in enumerate(alike[:_MOST_NAMES]):
            what = run.message.partition("\n")[0].removeprefix(f"{run.path}: ")
            yield Line(what, "doubt", run.path, label=" " if place else label)
        yield from _more(len(alike) - _MOST_NAMES, "run")


def _survivors(runs: Sequence[Run]) -> Iterator[Line]:
    survivors = [run for run in runs if run.ooms and run.oom is None]
    for place, run in enumerate(survivors[:_MOST_NAMES]):
        text = f"went on after {plural(run.ooms, 'out-of-memory failure')}"
        yield Line(text, "plain", run.path, label=" " if place else "Note")
    yield from _more(len(survivors) - _MOST_NAMES, "run that met one", "runs that met one")


def _remarks(runs: Sequence[Run]) -> Iterator[Line]:
    """What to know of the windows; what is alike in several runs is shown once."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        for remark in run.remarks:
            alike.setdefault(remark, []).append(run)
    for place, (remark, found) in enumerate(list(alike.items())[:_MOST_NAMES]):
        several = "" if len(found) == 1 else f"In {_any_of(found, runs)}: "
        label = " " if place or any(run.ooms and run.oom is None for run in runs) else "Note"
        yield Line(f"{several}{remark}", name=found[0].path if len(found) == 1 else "", label=label)
    yield from _more(len(alike) - _MOST_NAMES, "such note")


def _any_of(found: Sequence[Run], runs: Sequence[Run]) -> str:
    return "all runs" if len(found) == len(runs) else f"{format_count(len(found))} of {format_count(len(runs))} runs"


def _more(left: int, one: str, many: str = "") -> Iterator[Line]:
    if left > 0:
        yield Line(f"… and {format_count(left)} more {one if left == 1 else many or one + 's'}", "quiet", label=" ")


def _some(names: Sequence[str]) -> str:
    left = len(names) - _MOST_NAMES
    return ", ".join(map(_name, names[:_MOST_NAMES])) + (f" and {format_count(left)} more" if left > 0 else "")


def _name(text: str) -> str:
    return shorten(visible(text), _WIDEST_NAME)


def _any(count: int) -> str:
    return {1: "the log", 2: "either log"}.get(count) or f"any of the {format_count(count)} logs"
