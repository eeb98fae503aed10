"""The arithmetic of the page's scripts, tested by Node: ``tests/viewer/*.test.js`` and beside Python, with the modules of the installed package."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_lives import random_rows
from night import some
from unpacked import unpacked
from viewer_modules import VIEWER, answer

import memlens
from memlens.analyzers.composition import Roles
from memlens.drawing import levels as levels_module
from memlens.drawing import stacks as stacks_module
from memlens.drawing.levels import curve_of_page, levels, stretches_of
from memlens.drawing.lifetimes import WindowBlocks, largest_blocks, moments
from memlens.drawing.memory_map import other_blocks
from memlens.drawing.page import MODULES, Owners, encoded, pack_json, packed, script_of
from memlens.drawing.stacks import stacks_view, ways
from memlens.events import EventLog
from memlens.facts import Facts, Kind
from memlens.log import Log
from memlens.text import format_bytes
from memlens.windows.windows import Window

pytestmark = pytest.mark.changed("drawing")


def test_the_arithmetic_of_the_page(node: Callable[..., str], tmp_path: Path) -> None:
    names = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "tests/viewer").glob("*.test.js"))
    assert names
    node("--test", *names)


def test_all_modules_together_are_one_script(node: Callable[..., str], tmp_path: Path) -> None:
    script = script_of(MODULES)
    assert not re.search(r"^(?:import|export)\b", script, re.MULTILINE)
    (tmp_path / "page.mjs").write_text(script)
    node("--check", "page.mjs")  # no name is declared twice


def test_each_module_stands_after_those_that_it_imports_from(tmp_path: Path) -> None:
    with resources.as_file(resources.files("memlens.drawing") / "viewer") as folder:
        texts = {path.stem: path.read_text() for path in folder.glob("*.js")}
    assert set(MODULES) == set(texts)
    imported = {
        name: re.findall(r'^import .* from "\./(\w+)\.js";$', text, re.MULTILINE) for name, text in texts.items()
    }
    for name, text in texts.items():
        assert len(imported[name]) == len(re.findall(r"^import\b", text, re.MULTILINE))  # one a line
    late = [(name, other) for at, name in enumerate(MODULES) for other in imported[name] if other in MODULES[at:]]
    assert late == []


def test_bytes_are_written_as_python_writes_them(node: Callable[..., str]) -> None:
    chance = random.Random(5)
    near = [
        unit * eighths // 8 + off
        for unit in (1 << 10, 1 << 20, 1 << 30, 1 << 40)
        for eighths in range(8, 64)
        for off in (-1, 0, 1)
    ]
    near += [(1 << power) - off for power in range(53) for off in (0, 1, 5, 6)]
    counts = near + [chance.randrange(1 << chance.randrange(1, 53)) for _ in range(20_000)]
    counts += [-count for count in counts]
    written = answer(node, "format", "formatBytes", "given.map(formatBytes)", counts)
    assert [pair for pair in zip(counts, written, strict=True) if format_bytes(pair[0]) != pair[1]] == []


def test_columns_come_out_as_they_were_packed(node: Callable[..., str]) -> None:
    chance = np.random.default_rng(3)
    columns = [
        np.array([], np.int64),
        np.array([7], np.int64),
        np.array([0, -1, 1, -(1 << 52) + 1, (1 << 51), 0], np.int64),
        np.cumsum(chance.integers(-300, 300, 5000)),
        chance.integers(-(1 << 51), 1 << 51, 5000),
    ]
    came = answer(node, "data", "unpacked", "(await unpacked(given)).map((column) => [...column])", packed(columns))
    assert came == [column.tolist() for column in columns]


def test_columns_come_out_whichever_way_they_are_written(node: Callable[..., str]) -> None:
    chance = np.random.default_rng(4)
    rises = np.cumsum(chance.integers(0, 1 << 20, 5001)) * 256
    columns = {
        "rises": rises,
        "before": rises[:-1] - chance.integers(0, 9, 5000),  # less than one that is longer
        "after": rises[:-1] + 3,
        "kinds": chance.choice(np.array([-(1 << 51), 17, 1 << 50]), 5000),
        "other kinds": chance.choice(np.array([5, 1 << 40]), 5000),
        "noise": chance.integers(-7, 7, 5000) * 512,
        "far": np.where(np.arange(5000) % 2, -1, 1) * ((1 << 52) - 1),  # steps of these are not exact
        "near far": np.where(np.arange(5000) % 2, 1, -1) * ((1 << 52) - 1),
        "none": np.zeros(0, np.int64),
    }
    written = packed(columns)
    assert {"near", "table", "unit", "plain"} <= {key for column in written.values() for key in column}
    assert ("near" in written["before"], "table" in written["kinds"], "unit" in written["rises"]) == (True, True, True)
    expression = "Object.entries(await unpacked(given)).map(([name, column]) => [name, [...column]])"
    came = answer(node, "data", "unpacked", expression, written)
    assert dict(came) == {name: column.tolist() for name, column in columns.items()} == unpacked(written)


def test_texts_come_out_as_they_were_packed(node: Callable[..., str]) -> None:
    texts = ["", "</script>", "\u2028\u2029", "\x00\u202e", "é漢😀", 'a"b\\', "x" * 10_000]
    assert answer(node, "data", "unpacked", "await unpacked(given)", {"texts": pack_json(texts)}) == {"texts": texts}


#: What a page's scripts make of a log: of each way to group what is live, at each column of a picture, the event, the level, the tops of the areas, and
#: the bytes of each group with the event of which they are known; and what is live at some events by size and owner.
DRAWN = f"""
import {{ readFileSync }} from "node:fs";
import {{ unpacked }} from "./{VIEWER}/data.js";
import {{ App }} from "./{VIEWER}/app.js";
import {{ columnsOf }} from "./{VIEWER}/lives.js";
import {{ liveAt }} from "./{VIEWER}/moment.js";
const {{ asked, view, width, shown }} = JSON.parse(readFileSync(0, "utf8"));
const app = new App(await unpacked(view)), {{ axis, levels, stacks }} = app;
axis.show(...shown);
const columns = columnsOf(levels, axis, width), events = [...columns.events];
const ways = stacks.ways.map(({{ key }}, way) => {{
  stacks.chosen = way;
  return {{ key, tops: [...stacks.tops(columns)], at: events.map((event) => stacks.at(event)) }};
}});
console.log(JSON.stringify({{ events, bytes: [...columns.bytes], ways, live: asked.map((event) => liveAt(app, event)) }}));"""


def drawn_of(node: Callable[..., str], window: Window, asked: list[int], shown: tuple[int, int]) -> tuple[Any, Any]:
    """What the scripts make of a window, and the view that they make it of."""
    owners, blocks = Owners(window.log), WindowBlocks(window)
    roles, level = Roles(window.log), levels(window, curve_of_page(window), owners)
    bars, counted = largest_blocks(blocks, owners, contexts=0), moments(window, blocks, owners)
    others = other_blocks(blocks, owners, bars["alloc"], np.zeros(0, np.int64), stretches_of(level), counted["event"])
    groups = stacks_view(blocks, ways(blocks, roles, (), None, None), level, bars["alloc"], others["rows"])
    view = {
        "lo": window.lo,
        "hi": window.hi,
        "levels": level,
        "lifetimes": bars,
        "others": others,
        "moments": counted,
        "stacks": groups,
    }
    given = {"view": json.loads(encoded(view)), "width": 731, "asked": asked, "shown": shown}
    return json.loads(node("--input-type=module", "--eval", DRAWN, given=given)), view


def level_after(log: EventLog) -> list[int]:
    """The level right after each event; the last entry is that before the first one."""
    signed = np.where(log.kind == Kind.ALLOC, log.size, np.where(log.kind == Kind.FREE, -log.size, 0))
    return [*np.cumsum(signed).tolist(), 0]


def live_after(log: EventLog, event: int) -> Any:
    """The ALLOCs of what is live right after an event."""
    alloc, partner = np.flatnonzero(log.kind[: event + 1] == Kind.ALLOC), log.lifetimes.partner
    return alloc[(partner[alloc] < 0) | (partner[alloc] > event)]


def by_size(log: EventLog, groups: list[dict[str, Any]], event: int) -> list[int]:
    """The bytes of each group of sizes right after an event."""
    sizes = log.size[live_after(log, event)]
    inside = [(sizes >= group["from"]) & (sizes < group["to"]) for group in groups]
    if not groups[-1]["to"]:  # all other sizes
        inside[-1] = ~np.logical_or.reduce(inside)
    return [int(sizes[one].sum()) for one in inside]


@pytest.mark.parametrize(
    "name",
    some(["paddle/05_leak_graph_331.log.gz", "paddle/05_oom_331.log", "torch/snapshots/pre_existing_blocks.pickle"], 3),
)
def test_the_areas_reach_the_level_at_every_column_and_each_has_its_bytes(
    node: Callable[..., str], shared: Path, name: str
) -> None:
    log = memlens.read(shared / "data" / name)
    lo, hi, levels_after = log.facts.opening, len(log), level_after(log)
    for shown in ((lo, hi), (lo + (hi - lo) // 3, lo + (hi - lo) // 3 + 100)):
        chosen = [lo, (lo + hi) // 2, hi - 1]
        drawn, view = drawn_of(node, Window(log, "", lo, hi, lo, hi, 1, 1), chosen, shown)
        events = drawn["events"]
        assert drawn["bytes"] == [levels_after[event] for event in events]
        for way, of in zip(drawn["ways"], view["stacks"]["ways"], strict=True):
            tops = np.array(way["tops"]).reshape(len(events), -1)
            assert tops[:, -1].tolist() == drawn["bytes"]  # the top of the stack is the level
            assert [known["event"] for known in way["at"]] == events
            sums = np.array([known["sums"] for known in way["at"]])
            assert (np.diff(tops, prepend=0) == sums).all()  # nothing in these logs is freed that is not allocated
            if way["key"] == "size":
                for k in range(0, len(events), 97):
                    assert sums[k].tolist() == by_size(log, of["groups"], events[k])
        for event, live in zip(chosen, drawn["live"], strict=True):
            assert (live["event"], live["level"]) == (event, levels_after[event])
            assert sum(row["bytes"] for row in live["rows"]) == live["level"]
            sizes = Counter(log.size[live_after(log, event)].tolist())
            found = Counter[int]()
            for row in live["rows"]:
                found[row["size"]] += row["count"]
            assert found == sizes


def test_of_a_log_without_addresses_all_is_one_area(node: Callable[..., str]) -> None:
    rows = random_rows(random.Random(3), 400)
    log = Log.from_rows(rows, facts=Facts(addresses=False))
    drawn, _ = drawn_of(node, log.whole, [7, 200], (0, 400))
    levels_after = level_after(log)
    assert [way["key"] for way in drawn["ways"]] == ["all"]
    assert drawn["ways"][0]["tops"] == drawn["bytes"] == [levels_after[event] for event in drawn["events"]]
    assert [known["sums"] for known in drawn["ways"][0]["at"]] == [[level] for level in drawn["bytes"]]
    for live in drawn["live"]:
        assert [row["bytes"] for row in live["rows"]] == [live["level"]] == [levels_after[live["event"]]]


def test_the_areas_of_a_long_log_reach_the_level_and_are_exact_where_they_say(
    node: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("BUCKETS", 400), ("AROUND_PEAK", 50), ("EXACT", 1000)):
        monkeypatch.setattr(levels_module, name, value)
    monkeypatch.setattr(stacks_module, "EXACT", 1000)
    log = Log.from_rows(random_rows(random.Random(11), 5000))
    levels_after, odd = level_after(log), log.free_anomalies.unknown
    peak = int(np.argmax(levels_after))
    for shown in ((0, 5000), (peak - 30, peak + 30), (2000, 2100)):
        drawn, view = drawn_of(node, log.whole, [], shown)
        assert drawn["bytes"] == [levels_after[event] for event in drawn["events"]]
        for way, of in zip(drawn["ways"], view["stacks"]["ways"], strict=True):
            tops = np.array(way["tops"]).reshape(731, -1)
            assert tops[:, -1].tolist() == drawn["bytes"]
            assert (np.diff(tops, prepend=0) >= 0).all()
            for k in range(0, 731, 97):
                known = way["at"][k]
                if abs(drawn["events"][k] - peak) < 50:
                    assert known["event"] == drawn["events"][k]
                # What is freed and was never allocated makes the level lower than what is live.
                freed = int(log.size[odd[odd <= known["event"]]].sum())
                assert sum(known["sums"]) == levels_after[known["event"]] + freed
                if way["key"] == "size":
                    assert known["sums"] == by_size(log, of["groups"], known["event"])
