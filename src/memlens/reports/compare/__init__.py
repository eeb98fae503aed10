"""A comparison of many runs as people see it: what was compared, then the tables, then what they come to.

They come to how figures grow with a field, and which ranks stand out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from memlens.claims.claim import Claim, Weight
from memlens.claims.roles import TOLD_BY
from memlens.claims.template import write
from memlens.reports.blocks import ALL_ROWS, Block, Column, Line, Table, answered, apart, labelled, take
from memlens.reports.compare.ranks import outliers_blocks, rank_blocks, rank_lines
from memlens.reports.compare.tables import DOUBTFUL, column_values, field_columns, tables_of, value_title
from memlens.reports.terminal import SCREEN, Part, Size, fits, naming, one_screen
from memlens.text import file_names, format_count, name_list, plural, short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.comparing.result import Comparison
    from memlens.comparing.scaling import Slope
    from memlens.summarizing.figures import Metric
    from memlens.summarizing.summary import Run

_TOP_OF_SLOPES = 20
#: Rows of a table that shares one screen with others.
_ROWS = (25, 20, 15, 12, 9, 7, 5, 4, 3, 2)
_TOP_OF_OUTLIERS = 5


def compare_blocks(
    comparison: Comparison, size: Size = SCREEN, *, top: int | None = None, full: bool = False
) -> list[Block]:
    """The verdict of a comparison, and what it rests on.

    Args:
        comparison: What to show.
        size: What one screen holds.
        top: Windows of a series, and rows of the lists below the tables; ``None`` for as many as fit.
        full: Show everything; without it, and without ``top``, all of it is one screen.
    """
    top = ALL_ROWS if full and top is None else top
    if comparison.ranks is not None:
        lines = [*rank_lines(comparison, comparison.ranks), *_on_runs(comparison)]
        return rank_blocks(comparison, comparison.ranks, lines, size, top)
    below = [*_scaling(comparison, top), *outliers_blocks(comparison, _TOP_OF_OUTLIERS if top is None else top)]
    head = [_runs(comparison), *_base(comparison), *_windows(comparison), *_on_runs(comparison)]
    everything: list[Block] = [*answered(comparison.answer), None, *head]
    everything += [block for one in (*tables_of(comparison, top), *below) for block in apart(one)]
    if top is not None or fits(everything, size):
        return naming(everything, "" if top else "--full")
    without = [*_without_figures(comparison.runs)]
    named = [line for line in head if line.label in ("Runs", "Base", "Missing", "Unreadable")]
    plain = [line for line in head if line.style in ("plain", "quiet", "good") or line in named or line in without]
    versions = zip(*([apart(one) for one in tables_of(comparison, top, most)] for most in _ROWS), strict=True)
    first, *others = versions
    parts = [
        Part((head, plain, named), 3),
        Part(first, 2),
        *(Part((*other, ()), 1) for other in others),
        *(Part((apart(one), ()), _weight(one, comparison)) for one in below),
    ]
    return one_screen(comparison.answer, parts, size)


def _weight(block: Block, comparison: Comparison) -> int:
    """How long a block below the tables stays: that something is flat goes first, the slopes that the verdict is about go last."""
    if not isinstance(block, Table):
        return 1
    if "slope" not in block.title:
        return 7
    return 9 if block.title.startswith(f"{comparison.metrics[0].words}:") else 2


def _on_runs(comparison: Comparison) -> Iterator[Line]:
    yield from _trust(comparison.runs)
    yield from _told(comparison)
    for problem in comparison.problems:
        yield Line(problem, "doubt", label="Folder")
    yield from _without_figures(comparison.runs)
    ended = (Line(_ended(run), "bad", run.path) for run in comparison.runs if run.ended)
    yield from labelled("Ended", [*ended], "more run that ended early", "more runs that ended early")
    survivors = [run for run in comparison.runs if run.ooms and run.oom is None]
    met = [Line(f"went on after {plural(run.ooms, 'out-of-memory failure')}", name=run.path) for run in survivors]
    yield from labelled("Note", met, "more run that met one", "more runs that met one")
    yield from _remarks(comparison.present, " " if survivors else "Note")


def _runs(comparison: Comparison) -> Line:
    runs = comparison.present
    missing = f", {format_count(left)} missing" if (left := len(comparison.runs) - len(runs)) else ""
    if comparison.template is None:
        return Line(plural(len(runs), "run") + missing, "quiet", label="Runs")
    varying = {name: values for name, values in comparison.values.items() if len(values) > 1}
    product = " × ".join(f"{len(values)} {name}" for name, values in varying.items())
    fixed = [f"{name} is {short_name(values[0])}" for name, values in comparison.values.items() if len(values) == 1]
    counted = f"{plural(len(runs), 'run')}{f': {product}' if len(varying) > 1 else ''}{missing}"
    return Line("; ".join([counted, *fixed]), "quiet", comparison.template, label="Runs")


def _base(comparison: Comparison) -> Iterator[Line]:
    layout = comparison.layout
    if layout.base_runs and len(comparison.runs) > 1:
        bases = [comparison.runs[index] for index in layout.base_runs]
        without = "" if bases[0].windows else "no changes can be told: it has no figures"
        short = file_names([run.path for run in comparison.runs])
        yield Line(without, "doubt", ", ".join(short[run.path] for run in bases), label="Base")
    elif layout.base_field is not None:
        yield Line(f"{layout.base_field}={short_name(layout.base_value or '')}, all other fields alike", label="Base")


def _windows(comparison: Comparison) -> Iterator[Line]:
    if comparison.by is not None:
        names = comparison.windows
        common = [name for name in names if not any(name in comparison.missing_windows(run) for run in comparison.runs)]
        shared = "in all runs" if len(common) == len(names) else f"{format_count(len(common))} of them in all runs"
        yield Line(f"{plural(len(names), 'window')} by {comparison.by}, {shared}", label="Windows")
        lacking = [run for run in comparison.runs if comparison.missing_windows(run)]
        lines = [Line(f"has no {name_list(comparison.missing_windows(run))}", "doubt", run.path) for run in lacking]
        yield from labelled(" ", lines, "more run lacks windows", "more runs lack windows")
    elif comparison.cut:
        names = tuple(dict.fromkeys(window.name for run in comparison.runs for window in run.windows))
        yield Line("", name=name_list(names), label="Window")


def _trust(runs: Sequence[Run]) -> Iterator[Line]:
    read = [run for run in runs if run.status not in ("missing", "unreadable")]
    doubtful = [run for run in read if run.doubts or run.notes]
    if read and not doubtful:
        logs = {1: "the log", 2: "either log"}.get(len(read), f"any of the {format_count(len(read))} logs")
        yield Line(f"ok: nothing to doubt in {logs}", "good", label="Trust")
    remarks = ([*(code.replace("_", " ") for code in run.doubts), *run.notes] for run in doubtful)
    lines = [Line("; ".join(words), "doubt", run.path) for words, run in zip(remarks, doubtful, strict=True)]
    yield from labelled(f"Doubt {DOUBTFUL}", lines, "more doubtful run")
    if doubtful:
        yield Line("memlens analyze tells what that means for its figures.", "hint", label=" ")


def _told(comparison: Comparison) -> Iterator[Line]:
    """What tells the roles that are shown; what is told otherwise is not compared."""
    told = Counter(run.told_by for run in comparison.present if run.told_by)
    ways = [f"{TOLD_BY[by]} in {plural(count, 'run')}" for by, count in told.items()]
    if len(ways) > 1:
        yield Line(f"told by {', by '.join(ways)}, and not compared", "doubt", label="Roles")
    elif ways:
        yield Line(f"told by {TOLD_BY[next(iter(told))]}", "quiet", label="Roles")
    elif any(metric.role for metric in comparison.metrics):
        yield Line("nothing tells them", "doubt", label="Roles")


def _without_figures(runs: Sequence[Run]) -> Iterator[Line]:
    for status, label in (("missing", "Missing"), ("unreadable", "Unreadable"), ("no_window", "No window")):
        found = (run for run in runs if run.status == status)
        lines = [Line(run.message.partition("\n")[0].removeprefix(f"{run.path}: "), "doubt", run.path) for run in found]
        yield from labelled(label, lines, "more run")


def _ended(run: Run) -> str:
    """How a run ended that did not run to its end."""
    return Claim("run_ended", Weight.ENDING, run.ended).text


def _remarks(runs: Sequence[Run], label: str) -> Iterator[Line]:
    """Notes on the windows; what is alike in several runs is shown once."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        for remark in run.remarks:
            alike.setdefault(remark, []).append(run)
    lines = []
    for remark, found in alike.items():
        share = "all" if len(found) == len(runs) else f"{format_count(len(found))} of {format_count(len(runs))}"
        one = len(found) == 1
        lines.append(Line(remark if one else f"In {share} runs: {remark}", name=found[0].path if one else ""))
    yield from labelled(label, lines, "more such note")


def _scaling(comparison: Comparison, top: int | None) -> Iterator[Block]:
    """For each metric shown and each field that is a number: the slope for one more of it, laid out as the runs are."""
    for field in dict.fromkeys(slope.field for slope in comparison.scaling):
        for metric in comparison.metrics:
            found = [slope for slope in comparison.scaling if (slope.field, slope.metric) == (field, metric.key)]
            if found and all(slope.verdict == "flat" for slope in found):
                others = "" if len(found) == 1 else f", in all {len(found)} combinations of the other fields"
                yield Line(f"{metric.words} is flat over {field}{others}{_left_out(found)}", label="Scaling")
            elif found:
                yield _slopes(comparison, metric, field, found, _TOP_OF_SLOPES if top is None else top)


def _slopes(comparison: Comparison, metric: Metric, field: str, found: Sequence[Slope], top: int) -> Table:
    cols = comparison.layout.cols if comparison.layout.cols != field else None
    rows = [name for name in found[0].fields if name != cols and len(comparison.values[name]) > 1]
    heads: Sequence[str | None] = (None,) if cols is None else column_values(comparison)
    known = {
        (tuple(slope.fields[name] for name in rows), None if cols is None else slope.fields[cols]): slope
        for slope in found
    }
    columns = field_columns(comparison, rows)
    columns += [Column(head or "slope", value_title(head) if head else "Slope", "count", strong=True) for head in heads]
    keys = list(dict.fromkeys(key for key, _ in known))
    cells = ([*key, *(_slope(known.get((key, head))) for head in heads)] for key in keys)
    table = take(f"{metric.words}: slope for one more of {field}", columns, cells, len(keys), top, "row")
    notes = [note for note in (table.more, _left_out(found).removeprefix("; ")) if note]
    return Table(table.title, table.columns, table.rows, "; ".join(notes))


def _left_out(found: Sequence[Slope]) -> str:
    counts = {"OOM": sum(slope.ooms for slope in found), "without a figure": sum(slope.left_out for slope in found)}
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return f"; left out: {', '.join(parts)}" if parts else ""


def _slope(slope: Slope | None) -> str:
    """A slope in a cell: for one more of its field, or its verdict where that says more."""
    if slope is None:
        return ""
    if slope.verdict in ("flat", "unsteady"):
        return slope.verdict
    return ("-" if slope.slope < 0 else "+") + write("{slope:slope}", {"slope": slope.slope, "metric": slope.metric})
