"""The results that the page gets: windows or steps, blocks held at the end, the trust report, growth, and what is live at the peak.

The last is by whom it was allocated: the leaves of a flame graph, whose tree the page makes of the owners' names.  All figures are those of the
analysis; nothing is worked out here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from memlens.drawing.packing import pack, pack_json
from memlens.reports.lists import growth_line
from memlens.text import format_count, format_exact, visible
from memlens.units import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.analyzers.peak import Peak
    from memlens.analyzers.series.growth import Growth
    from memlens.analyzers.unmatched import Unmatched
    from memlens.analyzing.result import LogAnalysis
    from memlens.drawing.packing import Owners
    from memlens.trust import Trust
    from memlens.windows.windows import Window

#: Groups of held blocks, of blocks that pile up, and of those at the peak, each of which is a box, that are shown at most.
_GROUPS, _PILES, _BOXES = 1_000, 100, 1_500
#: The figures of a window, by their names in the machine output.
_FIGURES = (
    *("peak_bytes", "rise_bytes", "remaining_bytes", "live_bytes", "carried_in_bytes", "reserved_peak_bytes"),
    *("alloc_bytes", "allocs", "free_bytes", "frees"),
)
#: Where it is: events, the last one not included, and lines, the last one included.
_PLACES = ("lo", "hi", "start_line", "end_line")
#: The figures of what is held, and those of a group of blocks alike.
_HELD = ("held_bytes", "held_allocs", "opening_bytes", "opening_blocks", "earlier_bytes")
_OF_GROUP = str.split("size_bytes count total_bytes first_event first_line first_free_event first_free_line")


def windows_view(windows: Sequence[Window], analysis: LogAnalysis) -> dict[str, Any] | None:
    """Return the page's table of the windows of a series, or of the steps of a run: a column a figure, one entry a window, and their names.

    Args:
        windows: The series that the log was cut into, or the steps that were found in it.
        analysis: The analysis of their log.

    Returns:
        ``None`` where there are none.
    """
    steps, by = analysis.steps, analysis.by if analysis.steps is None else analysis.steps.by
    if by is None:
        return None
    figures = analysis.figures if steps is None else steps.figures
    return {
        "by": by,
        "found": steps is not None,
        "repeated": steps is None or steps.repeated,
        "open_end": windows[-1].open_end,  # only the last one may be open
        "names": pack_json([visible(window.name) for window in windows]),
        **{name: pack([getattr(window, name) for window in windows]) for name in _PLACES},
        **{name: pack(figures[name]) for name in _FIGURES},
    }


def held_view(found: Unmatched, owners: Owners, *, known: bool) -> dict[str, Any]:
    """Return the page's table of the blocks that are live at the end and were born in the window, or before the input begins.

    Args:
        found: What is said of them.
        owners: Gives the numbers of their owners.
        known: Whether the log tells which blocks are live.

    Returns:
        Totals, and a column a figure with one entry a group, the largest total first; -1 stands for an event or a line that there is not.
    """
    live = (*found.held, *found.opening) if known else ()
    groups = sorted(live, key=lambda group: (-group.total_bytes, group.first_event))
    shown, left = groups[:_GROUPS], groups[_GROUPS:]
    columns = {name: [getattr(group, name) for group in shown] for name in _OF_GROUP}
    count, total = found.held_allocs + found.opening_blocks, found.held_bytes + found.opening_bytes
    words = f"{format_exact(total)} in {plural(count, 'block')}"
    if found.opening_bytes:
        words += f", {format_exact(found.opening_bytes)} of it from before the input"
    if not count or not known:
        words = "Nothing: every block that is allocated here is freed here"
    if not known:
        words = "It cannot be told, for no line says which block it is about"
    return {
        "words": f"{words}.",
        "blocks": count,
        "bytes": total,
        **{name: getattr(found, name) for name in _HELD},
        **{name: pack([-1 if value is None else value for value in column]) for name, column in columns.items()},
        "owners": pack(owners.code_texts(group.owner for group in shown)),
        "left_groups": len(left),
        "left_bytes": sum(group.total_bytes for group in left),
    }


def trust_view(trust: Trust, line: str = "line") -> dict[str, Any]:
    """Return the page's trust report: its summary, what to doubt, what to know, and how the framework's own figures compare.

    Args:
        trust: The trust report.
        line: What a line is called.
    """
    first, words = trust.first_disagreement, []
    if trust.figures_checked and not (trust.ok and trust.figures_agreeing == trust.figures_checked):
        agreeing, checked = format_count(trust.figures_agreeing), format_count(trust.figures_checked)
        explained = f", {format_count(trust.figures_explained)} differ for a reason that is explained above"
        further = explained if trust.figures_explained else ""
        words.append(f"{agreeing} of {checked} figures that the framework printed agree{further}.")
    if first is not None:
        where = "" if first.line is None else f" at {line} {format_count(first.line)}"
        words.append(
            f"The first that does not is {first.metric.replace('_', ' ')}{where}: {format_exact(first.low_bytes)} there, {format_exact(first.ours_bytes)} by the events."
        )
    return {
        "words": words,
        "ok": trust.ok,
        "summary": trust.summary(),
        "doubts": [asdict(doubt) for doubt in trust.doubts],
        "notes": [asdict(note) for note in trust.notes],
        "figures_checked": trust.figures_checked,
        "figures_agreeing": trust.figures_agreeing,
        "figures_explained": trust.figures_explained,
        "first_disagreement": None if first is None else first.to_dict(),
    }


def growth_view(growth: Growth | None, owners: Owners) -> dict[str, Any] | None:
    """Return the page's words and figures on growth over the windows of its table; the level at the end of each is ``live_bytes`` there."""
    if growth is None:
        return None
    line = growth_line(growth)
    piles = list(islice(growth.piling, _PILES))
    numbers = owners.code_texts(pile.owner for pile in piles)
    return {
        "words": line.text,
        "bad": line.style == "bad",
        "verdict": growth.verdict,
        "judged": growth.judged,
        "since": growth.since,
        "piling": [{**pile.to_dict(), "owner": number} for pile, number in zip(piles, numbers, strict=True)],
        "piling_left": len(growth.piling) - len(piles),
    }


def flame_view(found: Peak, owners: Owners, line: str = "line") -> dict[str, Any]:
    """Return the page's groups of blocks live at a peak.

    Args:
        found: The peak.
        owners: Gives the owners their numbers.
        line: What a line is called.

    Returns:
        ``words``; the ``peak_bytes`` and the ``event`` that reaches them, ``None`` where the window starts with them; ``size_bytes``, ``blocks``
        and ``owners`` with one entry a group of blocks by size and owner, the largest total first; what of them is ``left`` out; and
        ``other_bytes``, what of the level is no block's: below 0 where the log frees what it never allocated, all of it where no line says which
        block it is about.
    """
    shown, left = found.live[:_BOXES], found.live[_BOXES:]
    other_bytes = found.peak_bytes - sum(group.total_bytes for group in found.live)
    return {
        "words": _flame_words(found, other_bytes, line),
        "peak_bytes": found.peak_bytes,
        "event": found.event,
        "size_bytes": pack([group.size_bytes for group in shown]),
        "blocks": pack([group.count for group in shown]),
        "owners": pack(owners.code_texts(group.owner for group in shown)),
        "left": {
            "groups": len(left),
            "blocks": sum(group.count for group in left),
            "bytes": sum(group.total_bytes for group in left),
        },
        "other_bytes": other_bytes,
    }


def _flame_words(found: Peak, other_bytes: int, line: str) -> str:
    """The same in a sentence or two."""
    if not found.peak_bytes:
        return "Nothing is allocated, as far as this input says."
    count = format_count(sum(group.count for group in found.live))
    blocks = f" in {count} blocks" if found.live else ", and it is not known in which blocks"
    where = "" if found.line is None else f" at {line} {format_count(found.line)}"
    lower = f" The level is {format_exact(-other_bytes)} lower than what is live: so much is freed that the log never allocated."
    return f"{format_exact(found.peak_bytes)}{blocks}{where}.{lower if other_bytes < 0 else ''}"
