"""A verdict of the gate as people see it, as blocks that any form can show.

As Markdown it is the comment of a pull request, which is never longer than GitHub takes, whatever the log holds.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec import Struct

from memlens.claims.template import write
from memlens.diffing import explaining
from memlens.gating.judging import Judged, default_limits
from memlens.gating.limits import BY_ROLE, Limit
from memlens.gating.verdict import Blame, Verdict, claim_of
from memlens.reports import markdown
from memlens.reports.blocks import (
    ALIKE,
    Block,
    Column,
    Fold,
    Line,
    ListOptions,
    Table,
    Toned,
    Value,
    answered,
    apart,
    labelled,
    unbroken,
)
from memlens.reports.diff.findings import around, effects_of, finding_blocks
from memlens.reports.terminal import SCREEN, Part, Size, fits, naming, one_screen
from memlens.text import (
    clipped,
    format_bytes,
    format_change,
    format_count,
    format_share,
    name_list,
    plural,
    terms_of,
    visible,
)
from memlens.windows.windows import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memlens.diffing.finding import Finding
    from memlens.gating.baseline import Baseline


#: Bytes of the longest comment.  GitHub takes 65,536 characters.
LARGEST = 60_000

_NAME = Column("name", "Window", "name")
_METRIC = Column("metric", "Metric", "word")
_BASE = Column("base_bytes", "Base", "bytes", drop=2)
_HEAD = Column("head_bytes", "Head", "bytes")
_CHANGE = Column("d_bytes", "Δ", "signed", strong=True)
_PERCENT = Column("change", "Change", "count", drop=3)
_LIMIT = Column("limit_bytes", "Limit", "bytes", drop=1)
_WHY = Column("unjudged", "Why", "word", drop=3)
_PILES = (ALIKE[0], Column("owner", "Owner", "name", drop=1), Column("count", "Blocks", "count"), ALIKE[2])


class Room(Struct, frozen=True):
    """How much is shown.

    Attributes:
        rows: Rows of the table of what fails.
        others: Rows of each other table.
        windows: Failing windows whose differences are described.
        findings: Findings of each of them.
        around: Log lines of each finding on each side of the one that tells it.
        figures: Say again, at a failing window, what its figures went from and to.
        unjudged: Rows of the table of what is not judged.
    """

    rows: int = 10
    others: int = 5
    windows: int = 2
    findings: int = 2
    around: int = 1000
    figures: bool = True
    unjudged: int = 5


#: How much a comment shows, from much to little: the first that fits is taken.
_ROOMS = (
    Room(100, 20, 10, 5, unjudged=20),
    Room(50, 10, 5, 3, unjudged=10),
    Room(30, 5, 3, 2),
    Room(20, 3, 1, 2, unjudged=3),
    Room(10, 3, 1, 1, unjudged=3),
    Room(10, 1, 0, 0, unjudged=1),
    Room(1, 0, 0, 0, unjudged=1),
)
#: How much one screen shows, from much to little: the first finding with its line goes last.
_ON_SCREEN = (
    Room(),
    Room(10, 5, 1, 1),
    Room(8, 3, 1, 1, around=2, unjudged=3),
    Room(5, 2, 1, 1, around=1, unjudged=2),
    Room(4, 1, 1, 1, around=1, unjudged=1),
    Room(3, 0, 1, 1, around=0, unjudged=1),
    Room(3, 0, 1, 1, around=0, unjudged=0),
    Room(2, 0, 1, 1, around=0, figures=False, unjudged=0),
    Room(1, 0, 1, 1, around=0, figures=False, unjudged=0),
    Room(3, 0, 0, 0, unjudged=1),
    Room(1, 0, 0, 0, unjudged=0),
)
EVERYTHING = Room(1000, 1000, 100, 100, unjudged=1000)


def comment(verdict: Verdict) -> str:
    """The verdict as Markdown, below :data:`LARGEST` bytes of UTF-8; what was left out is counted in it."""
    for room in _ROOMS:
        text = markdown.render(gate_blocks(verdict, room))
        if len(text.encode()) < LARGEST:
            return text
    return f"### memlens gate: {verdict.verdict}\n\n{markdown.plain(verdict.explanation)}\n\nEverything else was too long for a comment.\n"


def _limit_words(verdict: Verdict) -> str:
    """The limits, metrics of one limit together: ``peak, rise 2%, 1.00 MiB; reserved 5%``."""
    metrics: dict[Limit, list[str]] = {}
    for metric, limit in verdict.limits.items():
        metrics.setdefault(limit, []).append(metric)
    if verdict.peak_of_windows is not None and "peak" in verdict.limits:
        metrics.setdefault(verdict.peak_of_windows, []).append("peak of a window")
    return "; ".join(f"{', '.join(names)} {limit}" for limit, names in metrics.items())


def accept_command(verdict: Verdict) -> str:
    """The command that makes this log the baseline; ``""`` where there is no baseline file."""
    if not verdict.is_baseline:
        return ""
    log = "LOG" if verdict.path.startswith("<") else shlex.quote(verdict.path)
    if verdict.runs > 1:  # one run has no spread
        log += " LOG..."
    return f"memlens gate {log} --baseline {shlex.quote(verdict.base)} --accept"


def allowed_words(baseline: Baseline) -> str:
    """By how much the figures of a baseline may grow by default, in bytes and as shares of the peak: ``the peak of 4.26 MiB may grow by …``."""
    words, unjudged = [], dict[str, list[str]]()
    peak = max(run.peak_bytes or 0 for run in baseline.runs)
    for row in default_limits(baseline.runs):
        if row.limit_bytes is None or row.base_bytes is None:
            unjudged.setdefault(str(row.unjudged), []).append(row.metric)
            continue
        more = row.limit_bytes - row.base_bytes
        share = format_share(more, peak) or "0%"
        of_peak = f"the peak of {format_bytes(peak)} may grow by {format_bytes(more)} ({share})"
        beyond = f" beyond the {format_bytes(row.base_bytes)} that they gain" if row.base_bytes else ""
        of_steps = f"steps may gain {format_bytes(more)} ({share} of the peak){beyond}"
        words.append(of_peak if row.metric == "peak" else of_steps)
    words += [f"{' and '.join(metrics)} cannot be judged against it ({why})" for why, metrics in unjudged.items()]
    return "; ".join(words)


def gate_blocks(verdict: Verdict, room: Room | None = None, size: Size = SCREEN) -> list[Block]:
    """The verdict in words, and what it rests on: as much of it as there is room for, by default one screen; what is left out is counted."""
    head = [*_head(verdict)]
    everything = [*answered(verdict.answer), None, *head, *_tables(verdict, room or Room())]
    if room is not None or fits(everything, size):
        return naming(everything, "" if room else "--full")
    without_notes = [line for line in head if line.label.strip() and line.label != "Note"]
    tables = Part(tuple([*_tables(verdict, smaller)] for smaller in _ON_SCREEN))
    return one_screen(verdict.answer, [Part((head, [*head[:1], *without_notes], head[:1]), 4), tables], size)


def _head(verdict: Verdict) -> Iterator[Line]:
    against = f" against {visible(clipped(verdict.base))}" if verdict.base else ""
    yield Line(f"{verdict.verdict}{against}", "heading", clipped(verdict.path))
    yield from _remarks("Reason", verdict.reasons)
    if limits := _limit_words(verdict):
        yield Line(f"{limits} over the base (fails beyond both parts)", "quiet", label="Limits")
    if verdict.runs > 1:
        text = f"the highest of {format_count(verdict.runs)} accepted runs; no limit is narrower than their spread"
        yield Line(text, "quiet", label="Base")
    if budgets := "; ".join(f"{name} {format_bytes(most)}" for name, most in verdict.budgets.items()):
        yield Line(budgets, "quiet", label="Budgets")
    if verdict.steps_by:
        yield Line(f"by {clipped(verdict.steps_by)}", "quiet", label="Windows" if verdict.anchors.series else "Steps")
    yield from _remarks("Note", verdict.notes)
    if verdict.missing:
        advice = "let go" if verdict.allow_missing else "--allow-missing lets that go"
        text = f"the log lacks {name_list(verdict.missing)}, which the base has ({advice})"
        yield Line(text, "doubt", label="Missing")
    if verdict.new:
        take_in = "; --accept takes them in" if verdict.is_baseline else ""
        yield Line(f"the base lacks {name_list(verdict.new)}{take_in}", "plain", label="New")
    if verdict.doubtful:
        yield Line("--no-trust judges it all the same.", "hint")


def _tables(verdict: Verdict, room: Room) -> Iterator[Block]:
    over = [row for row in verdict.failing if not row.missing]
    if over:
        yield from apart(_table("Over the limit, the worst first", over, room.rows, "failing figure"))
    if improved := verdict.improved:
        yield from apart(_table("Lower by more than the limit", improved, room.others, "figure"))
        if verdict.ok and (command := accept_command(verdict)):
            yield Line(f"To keep what was won: {command}", "good")
    yield from _blame(verdict, room)
    if verdict.piling and room.others and verdict.growth is not None:
        title = "What piles up in the log"
        yield from apart(ListOptions(room.others).table(title, _PILES, verdict.piling, "kind"))
    unjudged = [row for row in verdict.windows if row.unjudged is not None]
    if unjudged and room.unjudged:
        columns = (_NAME, _METRIC, _BASE, _HEAD, _WHY)
        yield from apart(
            ListOptions(room.unjudged).table(
                "Not judged", columns, unjudged, "figure", name=lambda row: clipped(row.name)
            )
        )
    within = [row for row in verdict.windows if row.ok and not (row.missing or row.improved or row.unjudged)]
    if within and room.others:
        table = _table("Within limits, the largest growth first", within, room.others, "figure")
        yield from apart(Fold("What is within limits", (table,)) if over else table)


def _remarks(label: str, texts: Sequence[str]) -> Iterator[Line]:
    lines = [Line(text if len(text) < 1000 else f"{text[:1000]}…", "doubt") for text in texts]
    yield from labelled(label, lines, "more", "more", " (--format json has all)")


def _table(title: str, rows: Sequence[Judged], top: int, what: str) -> Table:
    compared = any(row.base_bytes is not None for row in rows[:top])
    base, change = ((_BASE,), (_CHANGE, _PERCENT)) if compared else ((), ())
    columns = (_NAME, _METRIC, *base, _HEAD, *change, _LIMIT)

    def percent(row: Judged) -> str:
        known = row.base_bytes is not None and row.head_bytes is not None
        change = row.base_bytes or 0, row.head_bytes or 0
        return Toned.change(format_change(*change), change[1] - change[0]) if known else ""

    made = {"base_bytes": lambda row: _known(row.base_bytes), "d_bytes": lambda row: _known(row.d_bytes)}
    return ListOptions(top).table(
        title, columns, rows, what, name=lambda row: clipped(row.name), change=percent, **made
    )


def _known(figure: int | None) -> Value:
    """A figure of the base, where there is one."""
    return "" if figure is None else figure


def _blame(verdict: Verdict, room: Room) -> Iterator[Block]:
    if not verdict.blame or not room.windows:
        return
    first, *others = verdict.blame[: room.windows]
    yield from apart(*_window(verdict, first, room))
    if others:
        blocks = tuple(block for blame in others for block in apart(*_window(verdict, blame, room)))
        yield Fold(f"{plural(len(others), 'more window')} over the limit", blocks)
    if left := len(verdict.blame) - 1 - len(others) + verdict.unblamed:
        text = f"… and {plural(left, 'more failing window')} whose differences are not shown here"
        yield from apart(Line(text, "quiet"))


def _window(verdict: Verdict, blame: Blame, room: Room) -> Iterator[Block]:
    what = "over the limit; what the two runs do differently in it:"
    if blame.name == WHOLE:
        metrics = write("The {metrics:and} of the run", {"metrics": blame.metrics})
        yield Line(f"{metrics} {'is' if len(blame.metrics) == 1 else 'are'} {what}", "heading")
    else:
        yield Line(f"is {what}", "heading", clipped(blame.name))
    for row in verdict.failing:
        if room.figures and row.name == blame.name and row.metric in blame.metrics and not row.missing:
            yield Line(unbroken(claim_of(row).text), "quiet")
    findings = telling(blame)
    for finding in findings[: room.findings]:
        yield from apart(
            *around(finding_blocks(finding, effects_of(blame.diff), terms_of(verdict.trust.has_lines)), room.around)
        )
    if not findings:
        yield Line("No allocation is kept longer, and none is new: what grew is what was there before the window.")
    elif (left := len(findings) - room.findings) > 0:
        text = f"… and {plural(left, 'more finding')} (memlens diff and --format json have all)"
        yield from apart(Line(text, "quiet"))


def telling(blame: Blame) -> list[Finding]:
    """The findings that raise what failed, the largest effect first."""
    measures: list[Callable[[Finding], int]] = []
    if {"remaining", "growth"} & set(blame.metrics):
        measures.append(lambda finding: finding.d_remaining_bytes)
    if {"peak", "rise", *BY_ROLE} & set(blame.metrics):
        measures.append(lambda finding: finding.d_peak_bytes)
    return explaining.telling(blame.diff.findings, *measures)
