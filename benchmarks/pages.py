#!/usr/bin/env python3
"""Make reports of long logs, open them in headless Chromium, and measure them: size, time to make, first picture, zoom, processor time of a key.

See README.md beside this file.  Prints and judges; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# The browser is that of the tests
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import Browser, Page, browser  # noqa: E402

MB = 1_000_000
#: Events in a MiB of a dense log of ``make_log.py``.
DENSITY = 9_812
#: What is asked of the page of ten million events: bytes, seconds, and of frames the median and the longest, the former that of a screen of 60 Hz.
MOST_BYTES, MOST_FIRST, MOST_FRAME, LONGEST_FRAME = 2 * MB, 0.5, 0.0175, 0.05

#: Ask the page for another part of the log by keys: milliseconds from each key until the frame that shows it is made, where the next one waits for that; or
#: else, where a key comes with each frame, from frame to frame.
ZOOMS = """
const [selector, keys, held, done] = arguments;
const target = document.querySelector(selector);
const frame = () => new Promise(requestAnimationFrame);
const painted = () => new Promise((resolve) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = resolve;
  channel.port2.postMessage(null);  // comes after the frame's own work: style, layout, paint
});
(async () => {
  const times = [];
  target.focus();
  await frame();
  let begin = performance.now();
  for (const key of keys) {
    if (!held) {
      await frame(); await painted();
      begin = performance.now();
    }
    target.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
    await frame();
    if (!held) await painted();
    const end = performance.now();
    times.push(end - begin);
    begin = end;
  }
  done(times);
})();
"""
#: When the first picture was on the screen, by the page's own mark: milliseconds from the beginning of the navigation.
MARK = "return performance.getEntriesByName('memlens-first-picture')[0].startTime"
KEYS = ["+"] * 12 + ["ArrowRight", "ArrowLeft"] * 6 + ["-"] * 12


@dataclass(frozen=True)
class Measured:
    """One page: its bytes, how it was made (seconds, bytes of memory), and how it is shown.

    These are seconds from the beginning of the navigation; of a zoom; of a frame; and, of a key, of processor time of the browser's main thread.
    """

    name: str
    size: int
    wall: float
    peak: int
    first: list[float]
    all: list[float]
    zoom: list[float]
    frame: list[float]
    key: list[float]

    def row(self) -> str:
        """A line of the table."""
        made = f"{self.wall:>8.2f}{self.peak / MB:>8.0f}" if self.wall else f"{'–':>8}{'–':>8}"
        shown = (
            f"{median(times) * 1000:>8.0f}{max(times) * 1000:>6.0f}" if times else f"{'–':>8}{'–':>6}"
            for times in (self.first, self.all, self.zoom, self.frame, self.key)
        )
        return f"  {self.name:<44}{self.size / MB:>8.2f}{made}{''.join(shown)}"


HEAD = (
    f"  {'':<44}{'page':>8}{'made in':>8}{'memory':>8}{'first picture':>14}{'all':>14}{'zoom':>14}{'frame':>14}{'key, processor':>14}\n"
    f"  {'':<44}{'MB':>8}{'s':>8}{'MB':>8}" + f"{'ms':>8}{'most':>6}" * 5
)


def run(command: Sequence[str]) -> tuple[float, int]:
    """Run a command to its end: seconds on the clock, and its peak memory in bytes."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} gave {process.returncode}")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def make_log(maker: Path, folder: Path, events: int) -> Path:
    """A dense log of about so many events, with 50 anchors; the same one each time."""
    path = folder / f"pages-{events}.log"
    if not path.exists():
        print(f"making {path} …", file=sys.stderr)
        size, part = max(round(events / DENSITY), 1), path.with_suffix(".part")
        run([sys.executable, str(maker), str(part), str(size), "--calls", str(events // 50)])
        part.rename(path)
    return path


def make_snapshot(data: Path, folder: Path, times: int) -> Path:
    """A PyTorch snapshot: a real one so many times, by the script of the shared folder."""
    path = folder / f"snapshot-{times}.pickle"
    if not path.exists():
        real = data / "torch/snapshots/medium_1024_inference.pickle"
        run([sys.executable, str(data / "torch/tile_snapshot.py"), str(real), str(path), "--times", str(times)])
    return path


def zooms(page: Page, picture: str, *, held: bool) -> list[float]:
    """Seconds from a key until the picture is there, for many of them, or of each frame while keys are held."""
    times = page.driver.execute_async_script(ZOOMS, f"{picture} canvas", [*KEYS, "+"], held)
    if page.data(picture)["from"] == "0":
        sys.exit("the keys do not zoom")
    return [milliseconds / 1000 for milliseconds in times]


def keys_of_main_thread(page: Page, picture: str) -> list[float]:
    """Seconds of the browser's main thread for each key until its frame is made, by the thread's own clock."""
    driver, times = page.driver, []
    driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    for key in KEYS:
        begin = spent()
        driver.execute_async_script(ZOOMS, f"{picture} canvas", [key], True)
        times.append(spent() - begin)
    driver.execute_cdp_cmd("Performance.disable", {})
    return times


def measure(
    name: str, command: list[str], page: Path, opener: Browser, repeat: int, picture: str = "#picture"
) -> Measured:
    """Make a page and open it some times, with keys for one of its pictures."""
    made = [run(command) for _ in range(repeat)]
    first: list[float] = []
    every: list[float] = []
    times: tuple[list[float], list[float], list[float]] = [], [], []
    for number in range(repeat + 1):
        shown = opener.open(page)
        if number:  # the first one warms the browser
            first.append(float(shown.run(MARK)) / 1000)
            every.append(shown.drawn_after())
            # A page of its own for each, for what it did before is done faster.
            times[0].extend(zooms(shown, picture, held=False))
            times[1].extend(zooms(opener.open(page), picture, held=True))
            times[2].extend(keys_of_main_thread(opener.open(page), picture))
    return Measured(
        name, page.stat().st_size, median(wall for wall, _ in made), max(peak for _, peak in made), first, every, *times
    )


def report(memlens: list[str], given: Path, to: Path) -> list[str]:
    """The command that makes a report."""
    return [*memlens, "report", str(given), "-o", str(to), "-f", "-q"]


def judged(what: str, value: float, most: float, unit: str, *, scale: float = 1) -> str:
    """A figure beside what it may be."""
    verdict = "meets" if value <= most else "misses"
    return f"  {what:<44}{value * scale:>8.2f} {unit}, {verdict} {most * scale:g} {unit}"


def beside_torch(viewer: Path, snapshot: Path, folder: Path, opener: Browser, repeat: int) -> tuple[Measured, str]:
    """What PyTorch's own page of a snapshot takes, and what becomes of it without the network that it has its script from."""
    to = folder / "torch.html"
    made = [run([sys.executable, str(viewer), "trace_plot", str(snapshot), "-o", str(to)]) for _ in range(repeat)]
    shown = opener.open(to, wait=False)
    shown.settle()
    asked = ", ".join(url for url in shown.requests() if url.startswith("http"))
    size, wall, peak = to.stat().st_size, median(wall for wall, _ in made), max(peak for _, peak in made)
    row = Measured(f"  memory_viz trace_plot, {snapshot.name}", size, wall, peak, [], [], [], [], [])
    return row, f"  memory_viz asks for {asked}, and shows {len(shown.all('canvas, svg'))} pictures without it"


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--events", type=int, nargs="+", default=[10**5, 10**6, 10**7], help="of the logs (%(default)s)"
    )
    parser.add_argument("--times", type=int, nargs="*", default=[1, 100], help="a snapshot so many times (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="times that each page is made, and opened (%(default)s)")
    cache = Path(tempfile.gettempdir()) / "memlens-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache, help="folder for the logs, kept (%(default)s)")
    parser.add_argument("--shared", type=Path, default=shared, help="folder of bench/ and data/ (%(default)s)")
    parser.add_argument("--torch", type=Path, help="PyTorch's torch/cuda/_memory_viz.py, to make its pages, too")
    beside = Path(sys.executable).parent / "memlens"
    parser.add_argument("--memlens", default=str(beside), help="the command to measure (%(default)s)")
    chosen = parser.parse_args()
    if not (chosen.shared / "bench/make_log.py").is_file():
        parser.error(f"there is no bench/make_log.py in {chosen.shared}; name its folder with --shared")
    return chosen


def main() -> None:
    """Make the logs and the pages, open them, print."""
    chosen = arguments()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    memlens, data = chosen.memlens.split(), chosen.shared / "data"
    with browser() as opener, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        version = opener.driver.capabilities["browserVersion"]
        print(
            f"{chosen.repeat} repetitions, {os.cpu_count()} processors, Python {sys.version.split()[0]}, Chromium {version}"
        )
        print(HEAD)
        page, rows = folder / "page.html", list[Measured]()
        logs = {events: make_log(chosen.shared / "bench/make_log.py", chosen.cache, events) for events in chosen.events}
        for events, log in logs.items():
            rows.append(measure(f"{events:,} events", report(memlens, log, page), page, opener, chosen.repeat))
            print(rows[-1].row(), flush=True)
        for (fewer, base), (more, log) in islice(pairwise(logs.items()), 1):
            name, command = f"{more:,} against {fewer:,}", [*report(memlens, log, page), "--base", str(base)]
            rows.append(measure(name, command, page, opener, chosen.repeat, "#diff"))
            print(rows[-1].row(), flush=True)
        notes = ""
        for times in chosen.times:
            snapshot = make_snapshot(data, chosen.cache, times)
            print(
                measure(snapshot.name, report(memlens, snapshot, page), page, opener, chosen.repeat).row(), flush=True
            )
            if chosen.torch:
                row, notes = beside_torch(chosen.torch, snapshot, folder, opener, chosen.repeat)
                print(row.row(), flush=True)
        if notes:
            print(notes)
        for row in rows[len(logs) - 1 :]:
            print(row.name)
            print(judged("page", row.size, MOST_BYTES, "MB", scale=1 / MB))
            print(judged("first picture", median(row.first), MOST_FIRST, "ms", scale=1000))
            print(judged("frame", median(row.frame), MOST_FRAME, "ms", scale=1000))
            print(judged("longest frame", max(row.frame), LONGEST_FRAME, "ms", scale=1000))
            print(judged("longest key, main thread", max(row.key), LONGEST_FRAME, "ms", scale=1000))


if __name__ == "__main__":
    main()
