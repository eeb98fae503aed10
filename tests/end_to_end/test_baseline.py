"""Every figure of the hand-written script of case 1 is reproduced, on every real log, with and without anchors."""

from __future__ import annotations

import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from night import NIGHT, some
from paddle import read
from texts import read_packed

from memlens.analyzers import get
from memlens.errors import NoEventsError
from memlens.windows.windows import Window

#: Windows that the script and memlens cut alike: literals that no other anchor contains.
ANCHORS: tuple[tuple[str, ...], ...] = (
    (),
    ("START BACKWARD", "START OPT"),
    ("STEP 1 START", "STEP 2 START", "Traceback"),
    ("EPOCH 0 END",),
)

#: Without a prefix the event stands at the start of its line, where the script's ``.+Alloc`` does not match.
SCRIPT_SEES_NOTHING = {"06_noprefix.log"}


def five_figures(window: Window) -> list[int]:
    remaining, peak, stats = (get(name)(window) for name in ("remaining", "peak", "stats"))
    return [remaining.remaining_bytes, peak.rise_bytes, stats.alloc_bytes, stats.allocs, stats.free_bytes, stats.frees]


def script(shared: Path, path: Path, anchors: tuple[str, ...]) -> list[int]:
    program = str(shared / "bench/baseline.py")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as said:
        patch.setattr(sys, "argv", [program, str(path), *anchors])
        runpy.run_path(program, run_name="__main__")
    return [int(figure) for figure in said.getvalue().split()]


def logs(shared: Path) -> list[Path]:
    folder = shared / "data/paddle"
    return sorted(path for path in folder.iterdir() if ".log" in path.name or "workerlog" in path.name)


def test_the_script_s_figures_are_those_of_the_analyzers_on_every_log(shared: Path, tmp_path: Path) -> None:
    checked = 0
    for path in some(logs(shared), 20):
        text = tmp_path / "run.log"
        text.write_bytes(read_packed(path))
        try:
            log = read(path, layer="auto_growth")  # the layer that the script reads
        except NoEventsError:  # then the script must find none either
            assert script(shared, text, ())[2:] == [0, 0, 0, 0], path.name
            continue
        if path.name in SCRIPT_SEES_NOTHING:
            assert script(shared, text, ())[2:] == [0, 0, 0, 0]
            prefixed = b"".join(b" " + line for line in text.read_bytes().splitlines(keepends=True))
            text.write_bytes(prefixed)
        for anchors in ANCHORS:
            expected = script(shared, text, anchors)
            if anchors and not any(anchors[0] in line for line in text.read_text(errors="replace").splitlines()):
                continue
            window = log.window(anchors[0], anchors[1:]) if anchors else log.whole
            assert five_figures(window) == expected, (path.name, anchors)
            checked += 1
    assert checked >= (120 if NIGHT else 6)
