"""What a followed log must say: what ``memlens.analyze`` says of the finished file, and levels summed up line by line."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memlens
from memlens.facts import Kind
from memlens.watching.followed import Followed
from memlens.watching.result import KEPT_WINDOWS, LogState

_WINDOW = ("peak_bytes", "rise_bytes", "live_bytes", "allocs", "frees")


def said(state: LogState) -> dict[str, Any]:
    """A state in plain values, as :func:`analyzed` has them."""
    windows = [
        (window.name, window.start_line, *(getattr(window, name) for name in _WINDOW), window.reserved_peak_bytes)
        for window in state.windows
    ]
    assert [window.index for window in state.windows] == list(
        range(state.window_count - len(state.windows), state.window_count)
    )
    assert [window.open for window in state.windows] == [False] * (len(windows) - 1) + [True] * bool(windows)
    assert len(state.end_live_bytes) == max(state.window_count - 1, 0)
    return {
        **{name: getattr(state, name) for name in ("device", "allocs", "frees", "peak_bytes", "peak_line", "malformed", "ooms")},
        **{name: getattr(state, name) for name in ("lines", "layer", "by", "window_count")},
        "live_bytes": state.allocated_bytes or 0,
        "reserved_peak_bytes": state.reserved_peak_bytes,
        "windows": windows,
        "ends": state.end_live_bytes.tolist(),
    }  # fmt: skip


def without_counts(state: dict[str, Any]) -> dict[str, Any]:
    """The same without the ALLOCs and FREEs of windows: of steps that are found by themselves nobody says how many they have."""
    return {**state, "windows": [(*window[:5], None, None, window[7]) for window in state["windows"]]}


def analyzed(path: Path, by: str | None = None, **how: Any) -> list[dict[str, Any]]:
    """What ``memlens.analyze`` says of a finished file, a log for each device; empty where it has no event."""
    try:
        whole = memlens.analyze(path, whole=True, **how).logs
        parts = memlens.analyze(path, by=by, **how).logs
    except memlens.AnchorError:
        parts = ()
    except memlens.NoEventsError:
        return []
    found = []
    for number, log in enumerate(whole):
        results, trust = log.windows[0].results, log.trust
        part = parts[number] if parts else None
        series = () if part is None else part.windows if by is not None else part.steps.windows if part.steps else ()
        cut = by if by is not None else part.steps.by if part is not None and part.steps else ""
        found.append(
            {
                **{name: getattr(results["stats"], name) for name in ("allocs", "frees")},
                **{name: getattr(results["peak"], name) for name in ("peak_bytes", "reserved_peak_bytes")},
                "peak_line": results["peak"].line,
                "device": log.device,
                "malformed": trust.malformed,
                "ooms": len(trust.ooms),
                "lines": trust.lines,
                "layer": trust.layer,
                "by": cut,
                "window_count": len(series),
                "live_bytes": results["remaining"].live_bytes,
                "windows": [_window(window) for window in list(series)[-KEPT_WINDOWS:]],
                "ends": [window.results["remaining"].live_bytes for window in series][:-1],
            }
        )  # fmt: skip
    return found


def _window(window: Any) -> tuple[Any, ...]:
    peak, live = window.results["peak"], window.results["remaining"].live_bytes
    lo_hi = window.results.get("stats")
    counts = (lo_hi.allocs, lo_hi.frees) if lo_hi is not None else (None, None)
    return (window.name, window.start_line, peak.peak_bytes, peak.rise_bytes, live, *counts, peak.reserved_peak_bytes)


def pieces(text: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """A text in so many pieces, cut anywhere."""
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(count - 1))
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        yield text[start:end]


def feed(path: Path, parts: Iterator[bytes], log: Followed) -> Iterator[bytes]:
    """Append pieces to a file; after each one, read as far as there is something to read, all that was written so far is given."""
    written = b""
    for part in parts:
        with path.open("ab") as file:
            file.write(part)
        written += part
        while log.poll():
            pass
        yield written


def summed(events: list[Any]) -> dict[str, int | None]:
    """Levels and counts of some events of the reference implementation."""
    sums = dict.fromkeys(Kind, 0)
    peaks = {Kind.ALLOC: 0, Kind.RESERVE: 0}
    for event in events:
        sums[event.kind] += event.size
        peaks = {what: max(peak, sums[what] - sums[Kind(what + 1)]) for what, peak in peaks.items()}
    of = {kind: sum(event.kind == kind for event in events) for kind in Kind}
    blocks, chunks = of[Kind.ALLOC] + of[Kind.FREE], of[Kind.RESERVE] + of[Kind.RELEASE]
    return {
        "allocs": of[Kind.ALLOC],
        "frees": of[Kind.FREE],
        "events": blocks + chunks,
        "allocated_bytes": sums[Kind.ALLOC] - sums[Kind.FREE] if blocks else None,
        "reserved_bytes": sums[Kind.RESERVE] - sums[Kind.RELEASE] if chunks else None,
        "peak_bytes": peaks[Kind.ALLOC],
        "reserved_peak_bytes": peaks[Kind.RESERVE] if chunks else None,
    }
