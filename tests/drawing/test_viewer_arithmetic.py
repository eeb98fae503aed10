"""The arithmetic of the page's scripts, tested by Node: ``tests/viewer/*.test.js`` and beside Python, with the modules of the installed package."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlens
from memlens.analyzers.composition import Roles
from memlens.analyzers.series.curve import curve
from memlens.drawing.levels import EXACT, levels
from memlens.drawing.lifetimes import BlockRoles, WindowBlocks, largest_blocks
from memlens.drawing.page import MODULES, Owners, encoded, pack, pack_json, script_of
from memlens.facts import Kind
from memlens.text import format_bytes

TESTS = Path(__file__).resolve().parents[1] / "viewer"
VIEWER = "src/memlens/drawing/viewer"


@pytest.fixture
def node(tmp_path: Path) -> Callable[..., str]:
    """Run Node in a folder that holds the modules where the tests look for them; what it prints."""
    program = shutil.which("node")
    if program is None:
        words = "needs node on the PATH (the dev environment has it)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    (tmp_path / "package.json").write_text(json.dumps({"type": "module"}))
    with resources.as_file(resources.files("memlens.drawing") / "viewer") as folder:
        shutil.copytree(folder, tmp_path / VIEWER)
    shutil.copytree(TESTS, tmp_path / "tests/viewer")

    def run(*words: str, given: object = None) -> str:
        command, text = [program, *words], json.dumps(given)
        done = subprocess.run(
            command, check=False, cwd=tmp_path, input=text, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def answer(node: Callable[..., str], module: str, names: str, expression: str, given: object) -> Any:
    """What an expression gives in JavaScript with names of a module, and with ``given``."""
    script = f"""
    import {{ readFileSync }} from "node:fs";
    import {{ {names} }} from "./{VIEWER}/{module}.js";
    const given = JSON.parse(readFileSync(0, "utf8"));
    console.log(JSON.stringify({expression}));"""
    return json.loads(node("--input-type=module", "--eval", script, given=given))


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
    packed = [pack(column) for column in columns]
    came = answer(node, "data", "unpacked", "(await unpacked(given)).map((column) => [...column])", packed)
    assert came == [column.tolist() for column in columns]


def test_texts_come_out_as_they_were_packed(node: Callable[..., str]) -> None:
    texts = ["", "</script>", "\u2028\u2029", "\x00\u202e", "é漢😀", 'a"b\\', "x" * 10_000]
    assert answer(node, "data", "unpacked", "await unpacked(given)", {"texts": pack_json(texts)}) == {"texts": texts}


@pytest.mark.parametrize(
    "name", ["paddle/05_leak_graph_331.log.gz", "paddle/05_oom_331.log", "torch/snapshots/pre_existing_blocks.pickle"]
)
def test_bars_and_rest_are_the_level_at_every_column(node: Callable[..., str], shared: Path, name: str) -> None:
    log = memlens.read(shared / "data" / name)
    owners = Owners(log)
    view = {
        "levels": levels(log.whole, curve(log.whole, buckets=EXACT), owners),
        "lifetimes": largest_blocks(
            blocks := WindowBlocks(log.whole), owners, BlockRoles(blocks, Roles(log)), most=200, contexts=0
        ),
    }
    width = 731
    script = f"""
    import {{ readFileSync }} from "node:fs";
    import {{ unpacked }} from "./{VIEWER}/data.js";
    import {{ App }} from "./{VIEWER}/app.js";
    import {{ livesOf }} from "./{VIEWER}/lives.js";
    const view = await unpacked(JSON.parse(readFileSync(0, "utf8")));
    const app = new App({{ lo: {log.facts.opening}, hi: {len(log)}, ...view }}), lives = livesOf(app);
    const {{ columns: {{ events, bytes }} }} = lives.picture(app.axis, {width}, 100, app.levels.peak);
    console.log(JSON.stringify([[...events], [...bytes], [...events].map((event) => lives.bytesAfter(event))]));"""
    events, level, bars = map(
        np.array, json.loads(node("--input-type=module", "--eval", script, given=json.loads(encoded(view))))
    )
    signed = np.where(log.kind == Kind.ALLOC, log.size, np.where(log.kind == Kind.FREE, -log.size, 0))
    assert level.tolist() == np.append(np.cumsum(signed), 0)[events].tolist()
    assert level.max() == np.cumsum(signed)[log.facts.opening :].max()
    partner, found = log.lifetimes.partner, view["lifetimes"]["left_out"]["blocks"]
    assert found > 0  # so there is a rest
    assert (bars <= level).all()
    live = [
        log.size[: event + 1][
            (log.kind[: event + 1] == Kind.ALLOC) & ((partner[: event + 1] < 0) | (partner[: event + 1] > event))
        ].sum()
        for event in events.tolist()
    ]
    assert level.tolist() == live  # nothing in these logs is freed that is not allocated: bars and rest are blocks
