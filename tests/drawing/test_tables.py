"""The tables of the page are the figures of the analysis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unpacked import view_of

import memlens

#: Logs with a series that was asked for, with steps that were found, and with neither.
LOGS = (
    ("leak.log.gz", None),
    ("oom.log.gz", None),
    ("cnn_5steps.log.gz", r"STEP (\d+) START"),
    ("case1_pir.log", r"START (SOT_CALL_\d+)"),
    ("case1_pt.log", None),
    ("torch_leak.json.gz", None),
    ("torn_4procs.log.gz", None),
)
FIGURES = {
    "peak": ("peak_bytes", "rise_bytes", "reserved_peak_bytes"),
    "remaining": ("remaining_bytes", "live_bytes", "carried_in_bytes"),
    "stats": ("alloc_bytes", "allocs", "free_bytes", "frees"),
}


@pytest.mark.parametrize(("name", "by"), LOGS)
def test_the_tables_are_those_of_the_analysis(examples: Path, name: str, by: str | None) -> None:
    path = examples / name
    view = view_of(memlens.report(path, by=by).html)
    said = memlens.analyze(path, top=None, by=by).to_dict()["logs"][0]
    whole = memlens.analyze(path, top=None, whole=True).to_dict()["logs"][0]["windows"][0]

    rows = view["windows"]
    expected = said["windows"] if by else said["steps"]["windows"] if said["steps"] else None
    assert (rows is None) == (expected is None)
    if rows is not None:
        assert expected is not None
        assert rows["names"] == [window["name"] for window in expected]
        assert rows["by"] == (by or said["steps"]["by"])
        assert rows["found"] == (not by)
        for place in ("start_line", "end_line"):
            assert rows[place] == [window[place] for window in expected]
        assert np.subtract(rows["hi"], rows["lo"]).tolist() == [window["events"] for window in expected]
        assert rows["open_end"] == expected[-1]["open_end"]
        for analyzer, names in FIGURES.items():
            for figure in names:
                if analyzer in expected[0]:
                    assert rows[figure] == [window[analyzer][figure] for window in expected]

    held, unmatched = view["held"], whole["unmatched"]
    for figure in ("held_bytes", "held_allocs", "opening_bytes", "opening_blocks", "earlier_bytes"):
        assert held[figure] == unmatched[figure]
    groups = [*unmatched["held"], *unmatched["opening"]]
    assert sum(held["total_bytes"]) == unmatched["held_bytes"] + unmatched["opening_bytes"]
    assert sorted(_rows(held, view["owners"]), key=str) == sorted((_row(group) for group in groups), key=str)
    assert held["left_groups"] == 0

    maps = {(row["at"], row["line"]): row for row in view["maps"]["moments"]}
    for row in whole["segments"]["moments"]:
        shown = maps[row["at"], row["line"]]
        assert {figure: shown[figure] for figure in row} == row

    trust = said["trust"]
    assert view["trust"]["ok"] == trust["ok"]
    assert view["trust"]["doubts"] == trust["doubts"]
    assert view["trust"]["notes"] == trust["notes"]
    for figure in ("figures_checked", "figures_agreeing", "figures_explained", "first_disagreement"):
        assert view["trust"][figure] == trust[figure]

    grown = said["growth"]
    assert (view["growth"] is None) == (grown is None)
    if grown is not None:
        assert rows["live_bytes"] == grown["live_bytes"]
        assert view["growth"]["verdict"] == grown["verdict"]
        assert grown["verdict"] in view["growth"]["words"] or "not judged" in view["growth"]["words"]
        piles = [{**pile, "owner": _owner(view, pile["owner"])} for pile in view["growth"]["piling"]]
        assert piles == grown["piling"]


def _owner(view: Any, number: int) -> str | None:
    return None if number < 0 else str(view["owners"][number])


_GROUP = ("size_bytes", "count", "total_bytes", "first_event", "first_line", "first_free_event", "first_free_line")


def _rows(held: Any, owners: list[str]) -> list[tuple[Any, ...]]:
    columns = [[None if value < 0 else value for value in held[name]] for name in _GROUP]
    named = [None if number < 0 else owners[number] for number in held["owners"]]
    return list(zip(*columns, named, strict=True))


def _row(group: dict[str, Any]) -> tuple[Any, ...]:
    return (*(group[name] for name in _GROUP), group["owner"])


def test_names_of_windows_are_shown_and_never_act(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>\u202e"
    line = "I0712 10:54:13.{:06d} 1 auto_growth_best_fit_allocator.cc:131] Alloc 512 bytes, ptr = 0x7f{:06x}00\n"
    path = tmp_path / "hostile.log"
    path.write_text("".join(f"STEP {k} {name}\n" + line.format(k, k) for k in range(3)))
    html = memlens.report(path, by=r"STEP (\d .*)").html
    assert view_of(html)["windows"]["names"] == [f"{k} <img src=x onerror=alert(1)>\\u202e" for k in range(3)]
    assert "<img" not in html
