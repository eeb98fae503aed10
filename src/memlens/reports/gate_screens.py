"""What a verdict of the gate shows to people, most important first, as blocks that any form can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.gating.judging import WHOLE
from memlens.reports.blocks import Block, Column, Fold, Line, Value, take
from memlens.reports.diff_findings import finding_blocks
from memlens.reports.gate_words import accept_command, clipped, limit_words, name_list, row_words, verdict_words
from memlens.reports.place_words import in_words_of
from memlens.reports.text import format_change, format_count, plural, visible
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.diffing.result import Finding
    from memlens.gating.judging import Judged
    from memlens.gating.verdict import Blame, Verdict

__all__ = ["Room", "gate_blocks", "telling"]

#: Reasons and notes told in full; machine output has all.
_MOST_REMARKS = 6

_NAME = Column("name", "Window", "name")
_METRIC = Column("metric", "Metric", "word")
_BASE = Column("base_bytes", "Base", "bytes", drop=2)
_HEAD = Column("head_bytes", "Head", "bytes")
_CHANGE = Column("d_bytes", "Δ", "signed", strong=True)
_PERCENT = Column("change", "Change", "count", drop=3)
_LIMIT = Column("limit_bytes", "Limit", "bytes", drop=1)
_WHY = Column("unjudged", "Why", "word", drop=3)
_SIZE = Column("size_bytes", "Size", "bytes")
_OWNER = Column("owner", "Owner", "name", drop=1)
_COUNT = Column("count", "Blocks", "count")
_TOTAL = Column("total_bytes", "Total", "bytes", strong=True)


@dataclass(frozen=True)
class Room:
    """How much is shown.

    Attributes:
        rows: Rows of the table of what fails.
        others: Rows of each other table.
        windows: Failing windows whose differences are told.
        findings: Findings of each of them.
    """

    rows: int = 10
    others: int = 5
    windows: int = 2
    findings: int = 2


def gate_blocks(verdict: Verdict, room: Room | None = None) -> list[Block]:
    """Everything a verdict shows, or as much of it as there is room for; what is left out is counted."""
    with in_words_of(verdict.trust.layer):
        return list(_blocks(verdict, Room() if room is None else room))


def _blocks(verdict: Verdict, room: Room) -> Iterator[Block]:
    against = f" against {visible(clipped(verdict.base))}" if verdict.base else ""
    yield Line(f"{verdict.verdict}{against}", "heading", clipped(verdict.path))
    yield Line(verdict_words(verdict), "good" if verdict.ok else "doubt", label="Verdict")
    yield from _remarks("Reason", verdict.reasons)
    if limits := limit_words(verdict.limits):
        yield Line(f"{limits} over the base (fails beyond both parts)", "quiet", label="Limits")
    if verdict.runs > 1:
        yield Line(
            f"the highest of {format_count(verdict.runs)} accepted runs; no limit is narrower than their spread",
            "quiet",
            label="Base",
        )
    if budgets := "; ".join(f"{name} {format_bytes(most)}" for name, most in verdict.budgets.items()):
        yield Line(budgets, "quiet", label="Budgets")
    if verdict.anchors.by is not None:
        yield Line(f"by {clipped(verdict.anchors.by)}", "quiet", label="Windows")
    yield from _remarks("Note", verdict.notes)
    if verdict.missing:
        advice = "let go" if verdict.allow_missing else "--allow-missing lets that go"
        yield Line(
            f"the log lacks {name_list(verdict.missing)}, which the base has ({advice})", "doubt", label="Missing"
        )
    if verdict.new:
        take_in = "; --accept takes them in" if verdict.is_baseline else ""
        yield Line(f"the base lacks {name_list(verdict.new)}{take_in}", "plain", label="New")
    if verdict.doubtful:
        yield Line("--no-trust judges it all the same.", "hint")
    over = [row for row in verdict.failing if not row.missing]
    if over:
        yield None
        yield _table("Over the limit, the worst first", over, room.rows, "failing figure")
    if improved := verdict.improved:
        yield None
        yield _table("Lower by more than the limit", improved, room.others, "figure")
        if verdict.ok and (command := accept_command(verdict)):
            yield Line(f"To keep what was won: {command}", "good")
    yield from _blame(verdict, room)
    if verdict.piling and room.others and verdict.growth is not None:
        yield None
        yield take(
            "What piles up in the log",
            (_SIZE, _OWNER, _COUNT, _TOTAL),
            ((pile.size_bytes, pile.owner or "", pile.count, pile.total_bytes) for pile in verdict.piling),
            len(verdict.piling),
            room.others,
            "kind of blocks",
        )
    if unjudged := [row for row in verdict.windows if row.unjudged is not None]:
        yield None
        yield _unjudged(unjudged, room.others)
    within = [row for row in verdict.windows if row.ok and not (row.missing or row.improved or row.unjudged)]
    if within and room.others:
        table = _table("Within limits, the largest growth first", within, room.others, "figure")
        yield None
        yield Fold("What is within limits", (table,)) if over else table


def _remarks(label: str, texts: Sequence[str]) -> Iterator[Line]:
    for place, text in enumerate(texts[:_MOST_REMARKS]):
        yield Line(text if len(text) < 1000 else f"{text[:1000]}…", "doubt", label=" " if place else label)
    if (left := len(texts) - _MOST_REMARKS) > 0:
        yield Line(f"… and {format_count(left)} more (--format json has all)", "hint", label=" ")


def _table(title: str, rows: Sequence[Judged], top: int, what: str) -> Block:
    compared = any(row.base_bytes is not None for row in rows[:top])
    columns = (
        _NAME,
        _METRIC,
        *((_BASE,) if compared else ()),
        _HEAD,
        *((_CHANGE, _PERCENT) if compared else ()),
        _LIMIT,
    )
    return take(title, columns, (_cells(row, compared) for row in rows), len(rows), top, what)


def _unjudged(rows: Sequence[Judged], top: int) -> Block:
    columns = (_NAME, _METRIC, _BASE, _HEAD, _WHY)
    cells = ((clipped(row.name), row.metric, row.base_bytes, row.head_bytes, row.unjudged) for row in rows)
    return take("Not judged", columns, cells, len(rows), max(top, 1), "figure")


def _cells(row: Judged, compared: bool) -> tuple[Value, ...]:
    known = row.base_bytes is not None and row.head_bytes is not None
    change = format_change(row.base_bytes or 0, row.head_bytes or 0) if known else ""
    return (
        *(clipped(row.name), row.metric, *((row.base_bytes,) if compared else ()), row.head_bytes),
        *((row.d_bytes, change) if compared else ()),
        "not gated" if row.limit_bytes is None else row.limit_bytes,
    )


def _blame(verdict: Verdict, room: Room) -> Iterator[Block]:
    if not verdict.blame or not room.windows:
        return
    first, *others = verdict.blame[: room.windows]
    yield None
    yield from _window(verdict, first, room)
    if others:
        blocks: list[Block] = []
        for blame in others:
            blocks += [None, *_window(verdict, blame, room)]
        yield Fold(f"{plural(len(others), 'more window')} over the limit", tuple(blocks))
    left = len(verdict.blame) - 1 - len(others) + verdict.unblamed
    if left:
        yield None
        yield Line(f"… and {plural(left, 'more failing window')} whose differences are not told here", "quiet")


def _window(verdict: Verdict, blame: Blame, room: Room) -> Iterator[Block]:
    where = "" if blame.diff.name in (WHOLE, blame.name) else f" in window {visible(clipped(blame.diff.name))}"
    said = f"is over the limit; what the two runs do differently{where or ' in it'}:"
    if blame.name == WHOLE:
        yield Line(f"The {' and the '.join(blame.metrics)} of the run {said}", "heading")
    else:
        yield Line(said, "heading", clipped(blame.name))
    for row in verdict.failing:
        if row.name == blame.name and row.metric in blame.metrics and not row.missing:
            yield Line(row_words(row), "quiet")
    findings = telling(blame)
    for finding in findings[: room.findings]:
        yield None
        yield from finding_blocks(finding, blame.diff)
    if not findings:
        yield Line("No allocation is kept longer, and none is new: what grew is what was there before the window.")
    elif (left := len(findings) - room.findings) > 0:
        yield None
        yield Line(f"… and {plural(left, 'more finding')} (memlens diff and --format json have all)", "quiet")


def telling(blame: Blame) -> list[Finding]:
    """The findings that raise what failed, the largest effect first.

    Blocks of one size may well be found under several kinds whose effects cancel (freed early here, allocated anew there).  What a finding
    adds counts only as far as all findings of its size together add something; what cancels comes last.
    """
    measures: list[Callable[[Finding], int]] = []
    if {"remaining", "growth"} & set(blame.metrics):
        measures.append(lambda finding: finding.d_remaining_bytes)
    if {"peak", "rise"} & set(blame.metrics):
        measures.append(lambda finding: finding.d_peak_bytes)
    together: Counter[tuple[int, int]] = Counter()
    for finding in blame.diff.findings:
        for which, measure in enumerate(measures):
            together[which, finding.size_bytes] += measure(finding)

    def effects(finding: Finding) -> tuple[int, int]:
        added = [(measure(finding), together[which, finding.size_bytes]) for which, measure in enumerate(measures)]
        return max(max(min(alone, all_alike), 0) for alone, all_alike in added), max(alone for alone, _ in added)

    return sorted((one for one in blame.diff.findings if effects(one)[1] > 0), key=effects, reverse=True)
