"""The page of two runs: what it holds is what ``memlens diff`` says, and the browser shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from night import some
from unpacked import diff_of, unpacked, view_of

import memlens
from memlens.cli import main
from memlens.drawing import differences
from memlens.drawing.aligned import aligned, aligned_curves
from memlens.drawing.differences import diff_view
from memlens.events import Kind
from memlens.log import Log

CASE1 = "examples/logs/case1_pir.log", "examples/logs/case1_pt.log"
#: Head, base, and further options of real runs.
PAIRS = {
    "case 1": (*CASE1,),
    "case 1, one window": (*CASE1, "--start", "START SOT_CALL_2", "--end", "START SOT_CALL_3"),
    "case 1, whole": (*CASE1, "--start-regex", "EPOCH START"),
    "a leak": ("paddle/05_leak_graph_331.log.gz", "paddle/05_fixed_331.log.gz"),
    "another representation": ("paddle/331_ast_pir_cnn.log", "paddle/331_ast_pt_cnn.log"),
    "threads": ("traps/threads_head.log.gz", "traps/threads_base.log.gz"),
    "a window more": ("traps/extra_call_head.log.gz", "paddle/331_sot_pir_cnnbreaks.log"),
}


def long_pair(chance: Random) -> tuple[Log, Log]:
    """Two runs of 3,000 blocks, of which head loses one Free."""
    rows, live = [], []
    for address in range(1, 3001):
        rows.append((Kind.ALLOC, 512 * chance.randint(1, 50), address))
        live.append(rows[-1])
        if len(live) > 20:
            _, size, freed = live.pop(chance.randrange(20))
            rows.append((Kind.FREE, size, freed))
    lost = next(k for k in range(3000, len(rows)) if rows[k][0] == Kind.FREE)
    return Log.from_rows(rows), Log.from_rows([*rows[:lost], *rows[lost + 1 :]])


def words_of(name: str, root: Path, shared: Path) -> list[str]:
    """The command line of a pair's report."""
    head, base, *cut = PAIRS[name]
    paths = [str(root / one if one.startswith("examples") else shared / "data" / one) for one in (head, base)]
    return [paths[0], "--base", paths[1], *cut]


@pytest.fixture
def words(shared: Path, examples: Path) -> Callable[[str], list[str]]:
    return lambda name: words_of(name, examples.parents[1], shared)


def said(words: list[str], folder: Path) -> dict[str, Any]:
    """What ``memlens diff`` says of the same."""
    head, _, base, *cut = words
    to = folder / "diff.json"
    assert main(["diff", base, head, *cut, "--format", "json", "-o", str(to), "-f", "-q"]) == 0
    return dict(json.loads(to.read_text()))


@pytest.mark.parametrize("name", some(PAIRS, 6))
def test_the_page_holds_what_diff_says(name: str, words: Callable[[str], list[str]], tmp_path: Path) -> None:
    line, page = words(name), tmp_path / "page.html"
    assert main(["report", *line, "-o", str(page), "-q"]) == 0
    shown, found = diff_of(page.read_text()), said(line, tmp_path)
    series = found["by"] is not None
    listed = found["repeated"] if series else found["windows"][0]["findings"]
    assert len(shown["findings"]) + shown["left_out"] == len(listed)
    for row, one in zip(shown["findings"], listed, strict=False):
        finding = one["finding"] if series else one
        assert row["finding"] == {key: finding[key] for key in finding if key not in ("context", "members")}
        lines = [line for block in row["blocks"] for line in block.get("lines", [])]
        assert [(line["line"], line["text"], line["is_event"]) for line in lines] == [
            (line["line"], line["text"], line["is_event"]) for line in finding["context"]
        ]
        if series:
            for key in ("windows", "count", "total_bytes", "d_remaining_bytes", "largest_d_peak_bytes", "first_window"):
                assert row[key] == one[key]
    both = [row for row in shown["windows"] if row["in"] == "both"]
    assert len(both) == len(found["windows"])
    for row, window in zip(both, sorted(found["windows"], key=lambda one: one["base"]["start_line"]), strict=True):
        for key in ("judged", "d_remaining_bytes", "d_peak_bytes", "d_live_bytes", "d_rise_bytes", "pairs"):
            assert row[key] == window[key]
    alone = [(row["in"], row["name"]) for row in shown["windows"] if row["in"] != "both"]
    assert sorted(alone) == sorted((side, one) for side in ("base", "head") for one in found[side]["unpaired"])
    peaks = [max(window[side]["peak_bytes"] for window in found["windows"]) for side in ("base", "head")]
    assert (shown["base"], shown["head"]) == tuple(Path(found[side]["path"]).name for side in ("base", "head"))
    figures = shown["figures"]
    assert figures["base_peak_bytes"] >= peaks[0]
    assert figures["head_peak_bytes"] >= peaks[1]
    if not series:
        assert [figures["base_peak_bytes"], figures["head_peak_bytes"]] == peaks
        ends = [shown["curves"][f"{side}_bytes"][-1] for side in ("base", "head")]
        assert ends[1] - ends[0] == found["windows"][0]["d_live_bytes"]


@pytest.mark.parametrize("name", ["case 1", "a leak", "another representation"])
def test_what_is_told_at_a_place_is_in_the_log(name: str, words: Callable[[str], list[str]]) -> None:
    head, _, base, *_ = words(name)
    found = memlens.diff(base, head)
    shown = diff_of(memlens.report(head, base=base).html)
    (pairs,) = found.in_order
    axis = aligned(pairs)
    curves = shown["curves"]
    for side, run in (("base", axis.base), ("head", axis.head)):
        numbers = {number: event for event, number in enumerate(run.log.line_numbers(list(range(len(run.log)))))}
        for slot in range(0, shown["slots"], 7):
            line = curves[f"{side}_line"][slot]
            if not line:
                assert int(run.slots_of(np.array([run.lo]))[0]) > slot
                continue
            # The level right after the event of that line, summed from the start of the log.
            event = numbers[line]
            kinds, sizes = run.log.kind[: event + 1], run.log.size[: event + 1]
            level = int(sizes[kinds == Kind.ALLOC].sum()) - int(sizes[kinds == Kind.FREE].sum())
            assert curves[f"{side}_bytes"][slot] == level


def test_an_owner_has_one_colour_on_the_page_of_two_runs(words: Callable[[str], list[str]]) -> None:
    head, _, base, *_ = words("case 1")
    html = memlens.report(head, base=base).html
    by_key = {way["key"]: way["groups"] for way in view_of(html)["stacks"]["ways"]}
    for way in diff_of(html)["stacks"]["head"]["ways"]:
        assert by_key[way["key"]] == way["groups"]


def test_the_places_of_a_finding_are_those_of_its_events(words: Callable[[str], list[str]]) -> None:
    head, _, base, *_ = words("another representation")
    found = memlens.diff(base, head)
    shown = diff_view(found)
    (pairs,) = found.in_order
    axis = aligned(pairs)
    for row, one in zip(unpacked(shown)["findings"], found.repeated, strict=False):
        for side, run in (("base", axis.base), ("head", axis.head)):
            places = row[f"{side}_places"]
            assert len(places) == min(len(one.finding.members), differences.MEMBERS)
            for place, member in zip(places, one.finding.members, strict=False):
                own = getattr(member, side)
                if own is None:
                    assert place is None
                    continue
                for slot, event in zip(place, (own.alloc_event, own.free_event), strict=True):
                    if event is None:
                        assert slot is None
                    else:
                        assert run.events_at(np.array([slot])).tolist() == [event]


@pytest.mark.night
def test_the_only_gpu_of_one_run_is_compared_with_the_only_one_of_the_other(shared: Path) -> None:
    base, head = (
        shared / "data/torch/kineto" / name for name in ("gpu_2021_resnet50.json.gz", "gpu_2022_rank1.json.gz")
    )
    one, two = (memlens.analyze(path, whole=True).logs[1] for path in (base, head))  # after that of the CPU
    shown = diff_of(memlens.report(head, base=base).html)
    assert shown["figures"]["base_peak_bytes"] == one.windows[0].results["peak"].peak_bytes
    assert shown["figures"]["head_peak_bytes"] == two.windows[0].results["peak"].peak_bytes


def test_a_run_against_itself_has_a_page() -> None:
    log = Log.from_rows([(Kind.ALLOC, 512, 1), (Kind.FREE, 512, 1)])
    shown = diff_of(memlens.report(log, base=log).html)
    assert shown["slots"] == 2
    assert shown["findings"] == []
    assert memlens.report(log, base=log).verdict


def test_a_long_axis_has_buckets_and_each_slot_around_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "EXACT", 1000)
    monkeypatch.setattr(differences, "BUCKETS", 100)
    monkeypatch.setattr(differences, "AROUND", 20)
    base, head = long_pair(Random(3))
    found = memlens.diff(base, head, whole=True)
    shown = unpacked(diff_view(found))
    (pairs,) = found.in_order
    axis = aligned(pairs)
    assert len(shown["curves"]["edges"]) == 101
    assert max(aligned_curves(axis, 100)["high"]) == shown["figures"]["high_bytes"] == found.windows[0].d_live_bytes
    assert max(shown["curves"]["base_high"]) == shown["figures"]["base_peak_bytes"]
    (row,) = shown["findings"]
    assert row["finding"]["kind"] == "missing_free"
    slots = [slot for place in (*row["base_places"], *row["head_places"]) for slot in place if slot is not None]
    for slot in slots:
        assert any(detail["lo"] <= slot < detail["lo"] + len(detail["base_bytes"]) for detail in shown["details"])
    for detail in shown["details"]:
        for side, run in (("base", axis.base), ("head", axis.head)):
            events = run.events_at(np.arange(detail["lo"], detail["lo"] + len(detail["base_bytes"])))
            assert detail[f"{side}_bytes"] == run.levels[events + 1].tolist()


def test_areas_of_a_long_axis_are_those_of_its_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EXACT", 1000), ("BUCKETS", 400)):
        monkeypatch.setattr(differences, name, value)
    base, head = long_pair(Random(4))
    found = memlens.diff(base, head)
    view, axis = diff_view(found), aligned(found.in_order[0])
    for side, run in (("base", axis.base), ("head", axis.head)):
        one = view["stacks"][side]
        for way in one["ways"]:
            sums = np.array(way["sums"])
            levels = run.levels[run.events_at(one["moments"]) - run.lo + 1]
            assert sums.sum(axis=0).tolist() == levels.tolist()
        assert [sum(start) for start in one["ways"][0]["start"]] == one["before"]
