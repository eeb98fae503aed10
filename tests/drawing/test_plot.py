"""Stills: what is drawn is what the framework counted, text of a log stays text, and the same log gives the same file."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import NIGHT, many, some

import memlens
from memlens.cli import main
from memlens.drawing.aligned import AlignedRun, aligned, aligned_curves
from memlens.drawing.lifetimes import WindowBlocks
from memlens.drawing.stacks import Way
from memlens.drawing.stills import Still, binary_ticks, inks, render
from memlens.drawing.tracks import Track, compared_tracks, seconds_of, track
from memlens.errors import MemlensError
from memlens.events import Kind
from memlens.log import Log

pytestmark = pytest.mark.changed("drawing")

HOSTILE = "_a$x^{2}_{\\frac$<script>alert(1)<&>\"'\x1b[31m\u202e.log"


def levels(figure: Any) -> dict[str, Any]:
    """The levels of the curves and of the peaks of a figure, by their names."""
    named = [(one.get_gid(), one) for axes in figure.axes for one in (*axes.lines, *axes.patches) if one.get_gid()]
    return {
        gid: one.get_data().values if hasattr(one, "get_data") and not hasattr(one, "get_ydata") else one.get_ydata()
        for gid, one in named
    }


def texts(svg: bytes) -> list[str]:
    """The texts of an SVG, each whole."""
    root = ET.fromstring(svg)
    return ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]


def copied(log: Path, to: Path) -> Path:
    to.write_bytes(log.read_bytes())
    return to


# -- the curves ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    some(
        ["331_dygraph_cnn.log", "05_leak_graph_331.log.gz", "331_sot_pir_cnnbreaks.log", "10_v10_dygraph_331.log.gz"], 2
    ),
)
@pytest.mark.parametrize("x", ["events", "time"])
def test_the_highest_points_drawn_are_the_peaks_that_the_framework_counted(shared: Path, name: str, x: str) -> None:
    log = shared / "data" / "paddle" / name
    stats = json.loads(log.with_name(f"{name.partition('.log')[0]}.stats.json").read_text())
    drawn = levels(memlens.plot(log, x=x, width=4).figure)
    assert drawn["allocated"].max() == drawn["peak"][0] == stats["allocated_peak"]
    assert drawn["reserved"].max() == stats["reserved_peak"]


moves = st.lists(
    st.tuples(st.booleans(), st.integers(1, 9), st.integers(-1, 30)), min_size=1, max_size=60
)  # whether it is an ALLOC, its bytes, its time


@settings(max_examples=many(200))
@given(moves, st.integers(1, 12), st.booleans())
def test_no_level_is_above_what_is_drawn_at_its_place(
    moved: list[tuple[bool, int, int]], columns: int, time: bool
) -> None:
    times = np.array([at for _, _, at in moved], np.int64)
    rows = [(Kind.ALLOC if alloc else Kind.FREE, size, 1 + at) for at, (alloc, size, _) in enumerate(moved)]
    log = Log.from_rows(rows, time_us=times)
    if time and (times < 0).all():
        with pytest.raises(memlens.InputError, match="have no time"):
            track(log.whole, "log", columns=columns, time=True)
        return
    made = track(log.whole, "log", columns=columns, time=time)
    assert (np.diff(made.x) >= 0).all()
    (area,) = made.areas
    assert len(made.x) == len(area.top) + 1 <= 2 * columns + 1
    level, lowest, latest = 0, 0, None
    first = next((at for _, _, at in moved if at >= 0), 0)
    for event, (alloc, size, at) in enumerate(moved):
        level += size if alloc else -size
        lowest = min(lowest, level)
        latest = max(filter(lambda known: known >= 0, [at, latest if latest is not None else -1]), default=None)
        x = float(event) if not time else (0 if latest is None else max(latest - first, 0) / 1e6)
        around = (made.x[:-1] <= x) & (x <= made.x[1:])
        assert made.floor_bytes <= level <= area.top[around].max()
        if time and event + 1 < len(moved):  # it lasts until the next event
            after = seconds_of(log.whole)[event + 1]
            between = (made.x[:-1] < after) & (made.x[1:] > x)
            if between.any() and after - x > 2 * made.x[-1] / columns:
                last = np.flatnonzero(between)[-1]
                assert level <= area.top[last]
    assert made.floor_bytes == lowest


@settings(max_examples=many(200))
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), min_size=1, max_size=60), st.integers(1, 12))
def test_areas_are_what_each_group_has_where_the_level_of_a_column_is_highest(
    moves: list[tuple[bool, int]], columns: int
) -> None:
    live: list[tuple[int, int, int]] = []
    rows: list[tuple[Kind, int, int]] = []
    held = [[0, 0, 0]]  # after each event the bytes of the three groups: an ALLOC's is told by its number
    born = 0
    for grows, size in moves:
        now = [*held[-1]]
        if grows or not live:
            live.append((size, len(rows) + 1, born % 3))
            now[born % 3] += size
            rows.append((Kind.ALLOC, size, len(rows) + 1))
            born += 1
        else:
            own, addr, group = live.pop(size % len(live))
            now[group] -= own
            rows.append((Kind.FREE, own, addr))
        held.append(now)
    window = Log.from_rows(rows).whole
    blocks = WindowBlocks(window)
    groups = [{"ink": f"owner-{k}", "name": f"group {k}"} for k in range(3)]
    made = track(
        window, "log", blocks, Way("x", "x", groups, np.arange(len(blocks), dtype=np.int8) % 3), columns=columns
    )
    tops = {area.name: area.top.tolist() for area in made.areas}
    for column, (lo, hi) in enumerate(itertools.pairwise(made.x.astype(int).tolist())):
        wanted = max(held[lo + 1 : hi + 1], key=sum)  # the first of these
        assert [tops[f"group {k}"][column] for k in range(3)] == list(itertools.accumulate(wanted))


def test_a_leak_is_one_colour_on_what_else_is_live(examples: Path) -> None:
    (shown,) = memlens.plot(examples / "leak.log.gz").still.tracks
    piles = next(area for area in shown.areas if area.ink == "piles")
    steady = next(area for area in shown.areas if area.ink == "steady")
    growth = memlens.analyze(examples / "leak.log.gz").logs[0].growth
    assert growth is not None
    # All that was gained piles up; what is freed within its step stands on top of it.
    assert abs((piles.top - steady.top).max() - growth.gained_bytes) < 0.02 * growth.gained_bytes
    assert shown.areas[0].top.max() == shown.peak[1] if shown.peak else False


def test_stamps_that_step_back_or_are_missing_do_not_move_an_event_before_the_last_one() -> None:
    rows = [(Kind.ALLOC, 1, at) for at in range(6)]
    log = Log.from_rows(rows, time_us=np.array([-1, 2_000_000, 1_000_000, -1, 5_000_000, 4_000_000], np.int64))
    assert seconds_of(log.whole).tolist() == [0, 0, 0, 0, 3, 3]


def test_several_logs_are_small_multiples_of_one_scale_each_named_with_its_peak(examples: Path) -> None:
    logs = [examples / "oom.log.gz", examples / "cnn_5steps.log.gz"]
    figure = memlens.plot(logs)
    made = figure.figure
    drawn = levels(made)
    peaks = [memlens.analyze(log).logs[0].windows[0].results["peak"].peak_bytes for log in logs]
    assert [int(drawn[name].max()) for name in ("allocated", "allocated-1")] == peaks
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in made.axes}) == 1
    said = texts(figure.render())
    for log, peak in zip(logs, peaks, strict=True):
        assert any(text.startswith(f"{log.name}: peak {memlens.format_bytes(peak)}") for text in said)
    assert figure.verdict == memlens.analyze(logs).verdict.replace(f"{examples}/", "")


# -- what is written -------------------------------------------------------------------------------------------------------------


def test_text_of_logs_and_of_names_stays_text(tmp_path: Path, examples: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = copied(examples / "cnn_5steps.log.gz", tmp_path / "logs" / HOSTILE)
    band = "$\\alpha$ <b>&\x07", 0.0, 1000.0
    (made,) = memlens.plot(log).still.tracks
    several = [memlens.plot([log, examples / "oom.log.gz"]).still, memlens.plot(log, title=HOSTILE).still]
    several.append(Still(HOSTILE, (f"It says $x$ {HOSTILE}.",), (_with(made, bands=(band,)),), "events"))
    shown = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    for still in several if NIGHT else several[:: len(several) - 1]:
        svg = render(still, "svg", 72)
        root = ET.fromstring(svg)
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not names & {"script", "a", "image", "foreignObject", "iframe", "animate", "set"}
        links = [value for one in root.iter() for key, value in one.attrib.items() if key.endswith("href")]
        assert all(link.startswith("#") for link in links)
        assert not re.search(r"url\((?!#)", svg.decode())
        assert not any(key.rpartition("}")[2].startswith("on") for one in root.iter() for key in one.attrib)
        assert shown in " ".join(texts(svg))
        for form in ("png", "pdf") if NIGHT else ():
            assert render(still, form, 50)
    assert "$\\alpha$ <b>&\\x07" in " ".join(texts(svg))


def _with(made: Track, **changes: Any) -> Track:
    from msgspec.structs import replace

    return replace(made, **changes)


@pytest.mark.parametrize(
    "name", some(["記憶體日誌🙂.log", "a" * 240 + ".log", "e\u0301" * 60 + ".log", "%s{}\\n%(x)d.log", "_"], 5)
)
def test_any_file_name_can_be_drawn(examples: Path, tmp_path: Path, name: str) -> None:
    log = copied(examples / "oom.log.gz", tmp_path / name)
    figure = memlens.plot(log, width=4)
    ends = [text.split("…") for text in texts(figure.render("svg"))]
    assert any(name.startswith(parts[0]) and name.endswith(parts[-1]) for parts in ends)
    for form in ("png", "pdf") if NIGHT else ():
        assert figure.render(form)


@pytest.mark.parametrize("form", some(["svg", "png", "pdf"]))
def test_the_same_log_gives_the_same_bytes_whatever_settings_matplotlib_has(examples: Path, form: str) -> None:
    log = examples / "oom.log.gz"
    first = memlens.plot(log).render(form)
    with mpl.rc_context({"text.usetex": True, "svg.fonttype": "path", "font.size": 40, "lines.linewidth": 9}):
        assert memlens.plot(log).render(form) == first
    if NIGHT:  # by day the stills of the pages are drawn by other processes
        code = "import memlens, sys; sys.stdout.buffer.write(memlens.plot(sys.argv[1]).render(sys.argv[2]))"
        again = subprocess.run([sys.executable, "-c", code, str(log), form], capture_output=True, check=True)
        assert again.stdout == first
    assert not re.search(rb"20\d\d-\d\d-\d\d|D:20\d\d", first)


@pytest.mark.parametrize("size", some([(3, 3.7), (10, 5), (3.5, 3), (20, 4), (6, 12)], 5))
@pytest.mark.parametrize("logs", [("leak.log.gz",), ("oom.log.gz", "cnn_5steps.log.gz", "leak.log.gz")])
def test_no_text_leaves_the_picture_or_covers_another(
    examples: Path, size: tuple[float, float], logs: tuple[str, ...]
) -> None:
    height = max(size[1], 1.2 * len(logs))  # so many cannot be drawn less high
    figure = memlens.plot([examples / log for log in logs], width=size[0], height=height).figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(150)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [*figure.texts, *figure.legends[0].get_texts()]
    for axes in figure.axes:
        made: Any = axes
        shown += [axes.xaxis.label, made._left_title]
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            ticks = (tick for tick in axis.get_major_ticks() if limits[0] <= tick.get_loc() <= limits[1])
            shown += [tick.label1 for tick in ticks if tick.label1.get_visible()]
    shown = [text for text in shown if text.get_text()]
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in shown]
    words = [text.get_text() for text in shown]
    whole = figure.bbox
    for place, box in enumerate(boxes):
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1, words[place]
        assert whole.y0 <= box.y0
        assert box.y1 <= whole.y1, words[place]
        for other, word in zip(boxes[:place], words, strict=False):
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            down = min(box.y1, other.y1) - max(box.y0, other.y0)
            # Boxes of text have room for letters that these do not have.
            assert across <= 1 or down <= 6, (words[place], word)


# -- its parts -------------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 45), st.integers(-(1 << 42), 0), st.integers(2, 7))
def test_levels_are_marked_a_power_of_two_apart_and_exactly(high: int, floor: int, most: int) -> None:
    ticks = binary_ticks(floor, high, most)
    levels = [level for level, _ in ticks]
    assert all(floor <= level <= high for level in levels)
    assert 1 <= len(levels) <= most + 2
    steps = {two - one for one, two in itertools.pairwise(levels)}
    assert len(steps) <= 1
    assert all(step.bit_count() == 1 for step in steps)
    for level, label in ticks:
        number, _, unit = label.partition(" ")
        assert float(number) * 1024 ** ["", "KiB", "MiB", "GiB", "TiB"].index(unit.removesuffix("B") and unit) == level
    assert 0 in levels or not levels


# -- the command -----------------------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> int:
    return main(["plot", *map(str, arguments)])


def test_the_suffix_says_the_form(examples: Path, tmp_path: Path) -> None:
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    for form, start in starts.items():
        assert run(examples / "oom.log.gz", "-o", tmp_path / f"figure.{form}", "--width", "3", "--dpi", "40") == 0
        assert (tmp_path / f"figure.{form}").read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "where the picture goes is not said"),
        (("-o", "-"), 2, "--format svg"),
        (("-o", "figure.gif"), 2, "cannot be written as .gif"),
        (("-o", "figure"), 2, "without a suffix"),
        (("-o", "figure.svg", "--width", "0"), 2, "0 inches wide"),
        (("-o", "figure.svg", "--height", "nan"), 2, "nan inches"),
        (("-o", "figure.svg", "--height", "tall"), 2, "'tall' is not a valid float"),
        (("-o", "figure.png", "--dpi", "5000"), 2, "5000 pixels an inch"),
        (("-o", "figure.png", "--x", "lines"), 2, "--x"),
        (("-o", "figure.svg", "--start", "NOWHERE"), 1, "NOWHERE"),
        (("-o", "there.svg"), 1, "there.svg exists"),
    ],
)
def test_what_cannot_be_done_is_said(
    examples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.svg").write_text("mine")
    assert run(examples / "oom.log.gz", *arguments) == code
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["there.svg"]
    assert (tmp_path / "there.svg").read_text() == "mine"


def test_without_matplotlib_one_command_is_named_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(tmp_path / "missing.log", "-o", tmp_path / "figure.svg") == 1
    assert "pip install 'memlens[plot]'" in capsys.readouterr().err
    with pytest.raises(memlens.OutputError, match="Matplotlib"):
        memlens.plot(tmp_path / "missing.log")


def test_where_none_of_several_logs_can_be_read_all_are_named(tmp_path: Path) -> None:
    with pytest.raises(MemlensError) as error:
        memlens.plot([tmp_path / "one", tmp_path / "two"])
    assert all(f"{tmp_path / name}: no such file" in error.value.message for name in ("one", "two"))


def test_a_log_without_events_or_without_times_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "none.log").write_text("nothing of interest\n" * 5)
    with pytest.raises(memlens.NoEventsError):
        memlens.plot(tmp_path / "none.log")
    timeless = Log.from_rows([(Kind.ALLOC, 4, 1)])
    with pytest.raises(memlens.InputError, match="--x events"):
        memlens.plot(timeless, x="time")
    with pytest.raises(memlens.UsageError, match="no log to draw"):
        memlens.plot([])


def test_a_still_has_the_colours_of_the_page() -> None:
    style = (resources.files("memlens.drawing") / "viewer" / "viewer.css").read_text()
    for ink in (
        "text",
        "back",
        "line",
        "band",
        "bad",
        "allocated",
        "reserved",
        "base",
        "head",
        "piles",
        "size-2",
        "owner-1",
    ):
        colours = re.findall(rf"--{ink}: (#\w+);", style)
        assert [inks(theme)[ink] for theme in ("light", "dark")] == colours


def test_base_and_head_have_colours_of_their_own_and_are_stacked_by_the_same_groups(examples: Path) -> None:
    paths = [examples / f"case1_{run}.log" for run in ("pt", "pir")]
    figure = memlens.plot(paths[1], base=paths[0])
    drawn = figure.figure
    by_name = {str(one.get_gid()): one for axes in drawn.axes for one in axes.patches}
    colours = [mpl.colors.to_hex(by_name[side].get_edgecolor()) for side in ("base", "head-1")]
    assert colours == [inks("light")[side] for side in ("base", "head")]
    said = {text.get_text() for text in drawn.legends[0].get_texts()}
    # What one run calls matmul and the other pd_op.matmul is one group.
    assert {"more in head", "base", "head", "matmul", "where the runs part"} <= said
    assert not any("pd_op" in text for text in said)
    peaks = [memlens.analyze(path).logs[0].windows[0].results["peak"] for path in paths]
    for side, peak in zip(("base", "head-1"), peaks, strict=True):
        assert levels(drawn)[side].max() == peak.peak_bytes
    base, head, apart = figure.still.tracks
    assert [[area.ink for area in one.areas] for one in (base, head)] == [[area.ink for area in base.areas]] * 2
    assert f"{peaks[1].peak_bytes} B), line {peaks[1].line:,}" in head.words[0]
    assert base.floor_bytes == head.floor_bytes == 0
    assert drawn.axes[0].get_ylim() == drawn.axes[1].get_ylim() != drawn.axes[2].get_ylim()
    assert apart.parting is not None
    found = memlens.diff(*paths)
    assert found.parting_name == "SOT_CALL_0"
    assert apart.bands[1] == ("SOT_CALL_0", *apart.parting)
    with pytest.raises(memlens.UsageError, match="not over time"):
        memlens.plot(paths[1], base=paths[0], x="time")


@settings(max_examples=many(60))
@given(moves, moves, st.integers(1, 12))
def test_areas_of_two_runs_are_what_each_has_where_its_level_is_highest(
    base: list[tuple[bool, int, int]], head: list[tuple[bool, int, int]], columns: int
) -> None:
    logs = [
        Log.from_rows([(Kind.ALLOC if alloc else Kind.FREE, size, 1 + at) for at, (alloc, size, _) in enumerate(moved)])
        for moved in (base, head)
    ]
    diff = memlens.diff(*logs, whole=True)
    axis = aligned(diff.in_order[0])
    made = aligned_curves(axis, columns)
    shown = compared_tracks(diff, columns)
    apart = [
        head - base for base, head in zip(*(_at_slots(run, len(axis)) for run in (axis.base, axis.head)), strict=True)
    ]
    for k, (lo, hi) in enumerate(itertools.pairwise(made["edges"].tolist())):
        for run, side, one in zip((axis.base, axis.head), ("base", "head"), shown[:2], strict=True):
            level = _at_slots(run, len(axis))[lo:hi] + ([int(run.levels[0])] if not k else [])
            assert one.areas[0].top[k] == one.lines[0].top[k] == max(level)
            event = int(made[f"{side}_top"][k])
            assert run.levels[event - run.lo + 1] == max(level)
            assert event == run.lo - 1 or int(run.slots_of(np.array([event]))[0]) < hi
        most = [*apart[lo:hi], *([int(axis.head.levels[0] - axis.base.levels[0])] if not k else [])]
        assert (shown[2].areas[0].top[k], shown[2].areas[1].top[k]) == (max(0, *most), min(0, *most))


def _at_slots(run: AlignedRun, slots: int) -> list[int]:
    """The level of a run at each slot, one at a time."""
    return [int(run.levels[int(run.events_at(np.array([slot]))[0]) - run.lo + 1]) for slot in range(slots)]


def test_roles_that_are_told_of_little_do_not_stand_before_sizes(examples: Path) -> None:
    base, head, _ = memlens.plot(examples / "feats.log.gz", base=examples / "leak.log.gz").still.tracks
    assert all(area.ink.startswith("size-") or area.ink == "owner-other" for one in (base, head) for area in one.areas)
    roles = memlens.plot(examples / "feats.log.gz", base=examples / "feats.log.gz").still.tracks[0].areas
    assert {"parameters", "variables of the program"} <= {area.name for area in roles}
