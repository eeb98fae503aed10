"""Stills of two runs: both curves over the axis of the diff, the difference below, and the blocks that the diff names where they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import memlens
from memlens.cli import main
from memlens.drawing.stills.figures import draw, render
from memlens.drawing.stills.runs import runs_of
from memlens.events import EventLog, Kind


def lines(figure: Any) -> dict[str, Any]:
    """The curves of a figure by their names."""
    return {line.get_gid(): line for axes in figure.axes for line in axes.lines if line.get_gid()}


def texts(svg: bytes) -> str:
    root = ET.fromstring(svg)
    return "\n".join("".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text"))


def test_both_curves_reach_the_peaks_that_the_framework_counted(shared: Path) -> None:
    logs = [shared / "data" / "paddle" / f"05_{name}_331.log.gz" for name in ("fixed", "leak_graph")]
    peaks = [json.loads((log.parent / log.name.replace(".log.gz", ".stats.json")).read_text())["allocated_peak"] for log in logs]  # fmt: skip
    figure = memlens.plot(logs[1], diff=logs[0], width=4)
    drawn = lines(figure.figure)
    assert [int(drawn[side].get_ydata().max()) for side in ("base", "head")] == peaks
    assert figure.verdict == memlens.diff(*logs).verdict
    assert figure.still.runs is not None
    assert figure.still.runs.peaks == tuple(peaks)


def test_a_missing_free_is_drawn_from_its_alloc_to_where_each_run_frees_it(examples: Path) -> None:
    """Case 1: base frees one of three blocks of 3538944 bytes more than head does, in each of two calls."""
    runs = memlens.plot(examples / "case1_pir.log", diff=examples / "case1_pt.log").still.runs
    assert runs is not None
    (found,) = runs.found
    assert found.words.startswith("Missing free: 2 × 3.38 MiB (transpose); base frees the first at line 78, head ")
    base, head = found.lives[:2]
    assert (base.side, head.side, base.start) == ("base", "head", head.start)
    curves = runs.curves
    assert len(curves) == int(curves.edges[-1])  # a bucket is a slot
    # The two blocks are all that tells the runs apart, at every slot.
    apart = [
        sum((life.start <= slot < life.end) * (1 if life.side == "head" else -1) for life in found.lives)
        for slot in range(len(curves))
    ]
    assert max(apart) == 2
    assert curves.low.tolist() == curves.high.tolist() == [3538944 * blocks for blocks in apart]


def test_what_one_run_does_alone_is_the_difference() -> None:
    """Head keeps 64 KiB between two pairs that both runs have."""
    first, last = (Kind.ALLOC, 4096, 1), (Kind.ALLOC, 8192, 2)
    base = EventLog.from_rows([first, last, (Kind.FREE, 8192, 2)])
    head = EventLog.from_rows([first, (Kind.ALLOC, 65536, 3), last, (Kind.FREE, 8192, 2)])
    still = memlens.plot(head, diff=base).still
    assert still.runs is not None
    assert still.runs.curves.low.tolist()[0] == 0
    assert still.runs.curves.high.max() == still.runs.curves.low[-1] == 65536
    (found,) = still.runs.found
    assert found.words.startswith("Only in head: 64.00 KiB; head never frees it")
    assert [(life.side, life.freed) for life in found.lives] == [("head", False)]
    drawn = lines(draw(still))
    assert drawn["difference-head"].get_ydata().max() == 65536
    assert "difference-base" not in drawn
    upside_down = lines(memlens.plot(base, diff=head).figure)
    assert upside_down["difference-base"].get_ydata().min() == -65536


def test_runs_that_do_the_same_have_no_difference(examples: Path) -> None:
    figure = memlens.plot(examples / "oom.log.gz", diff=examples / "oom.log.gz")
    assert figure.still.runs is not None
    assert figure.still.runs.found == ()
    assert not figure.still.runs.curves.high.any()
    assert "difference-head" not in lines(figure.figure)
    assert figure.render() == memlens.plot(examples / "oom.log.gz", diff=examples / "oom.log.gz").render()


def test_a_failure_of_either_run_is_marked(examples: Path) -> None:
    runs = memlens.plot(examples / "oom.log.gz", diff=examples / "cnn_5steps.log.gz").still.runs
    assert runs is not None
    assert (len(runs.failures[0]), len(runs.failures[1])) == (0, 1)
    assert [band.name for band in runs.bands][-1].startswith("STEP")


def test_windows_can_be_cut_out(examples: Path) -> None:
    cut: dict[str, Any] = {"start": "START SOT_CALL_0", "end": "START SOT_CALL_1"}
    figure = memlens.plot(examples / "case1_pir.log", diff=examples / "case1_pt.log", **cut)
    assert figure.verdict == memlens.diff(examples / "case1_pt.log", examples / "case1_pir.log", **cut).verdict
    assert figure.still.runs is not None
    assert figure.still.runs.bands == ()


def test_names_of_logs_stay_text(examples: Path, tmp_path: Path) -> None:
    logs = []
    for name in ("_good$x^2$<b>.log", "bad&\\frac{$.log"):
        (tmp_path / name).write_bytes((examples / "case1_pt.log").read_bytes())
        logs.append(tmp_path / name)
    still = memlens.plot(logs[1], diff=logs[0]).still
    assert still.runs is not None
    (tmp_path / "x").write_bytes(render(still, "png", 50) + render(still, "pdf", 50))
    said = texts(render(still, "svg", 72))
    assert "_good$x^2$<b>.log → bad&\\frac{$.log" in said
    assert "base _good$x^2$<b>.log: peak" in said


@pytest.mark.parametrize("size", [(10, 5), (3.5, 3), (3, 2), (6, 4), (8, 11)])
@pytest.mark.parametrize("logs", [("case1_pt.log", "case1_pir.log"), ("cnn_5steps.log.gz", "oom.log.gz")])
def test_no_text_leaves_the_picture_or_covers_another(
    examples: Path, size: tuple[float, float], logs: tuple[str, str]
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    base, head = (examples / log for log in logs)
    figure = memlens.plot(head, diff=base, width=size[0], height=size[1]).figure
    figure.set_dpi(150)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    shown = list(figure.texts)
    for axes in figure.axes:
        shown += [axes.xaxis.label, *(label for label in axes.get_xticklabels() if label.get_visible())]
        shown += axes.get_yticklabels()
    shown = [text for text in shown if text.get_text() and text.get_visible()]
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in shown]
    for place, (box, text) in enumerate(zip(boxes, shown, strict=True)):
        assert figure.bbox.x0 <= box.x0, text
        assert box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0, text
        assert box.y1 <= figure.bbox.y1, text
        for other, word in zip(boxes[:place], shown, strict=False):
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            down = min(box.y1, other.y1) - max(box.y0, other.y0)
            # Boxes of text have room for letters that these do not have.
            assert across <= 1 or down <= 6, (text, word)


def test_the_command_takes_the_base_by_its_option(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head, to = str(examples / "case1_pt.log"), str(examples / "case1_pir.log"), str(tmp_path / "both.svg")
    assert main(["plot", head, "--diff", base, "-o", to]) == 0
    assert "base case1_pt.log: peak" in texts(Path(to).read_bytes())
    for wrong, said in (
        ([head, head, "--diff", base, "-o", to, "-f"], "one log is compared with another one"),
        ([head, "--diff", base, "--x", "time", "-o", to, "-f"], "leave out --x"),
        (["-", "--diff", "-", "-o", to, "-f"], "stdin (-) can be read only once"),
        ([head, "--diff", base, "-o", base, "-f"], "cannot be written as"),
    ):
        assert main(["plot", *wrong]) == 2
        assert said in capsys.readouterr().err


def test_the_axis_has_no_more_columns_than_the_picture_shows(examples: Path) -> None:
    still = memlens.plot(examples / "leak.log.gz", diff=examples / "cnn_5steps.log.gz", width=3).still
    assert still.runs is not None
    assert len(still.runs.curves) == 300
    assert replace(still, theme="dark").runs is still.runs


def test_states_without_events_have_no_curves(shared: Path) -> None:
    snapshots = [shared / "data" / "torch" / "snapshots" / f"state_only_{year}.pickle" for year in (2023, 2024)]
    with pytest.raises(memlens.NoEventsError, match="no event in either run"):
        memlens.plot(snapshots[1], diff=snapshots[0])
    with pytest.raises(memlens.NoEventsError, match="the state at one moment"):
        memlens.plot(snapshots[0])


def test_several_devices_are_compared_one_at_a_time() -> None:
    diff = memlens.diff(EventLog.from_rows([(Kind.ALLOC, 1, 1)]), EventLog.from_rows([(Kind.ALLOC, 1, 1)]))
    with pytest.raises(memlens.UsageError, match="--device N"):
        runs_of(replace(diff, in_order=diff.in_order * 2), ("base", "head"), 10, 3)
