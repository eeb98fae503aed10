"""The pytest marker ``memlens``: a limit of the device memory of a test.

``@pytest.mark.memlens(peak="2GiB", growth="0")`` fails a test that passes but needs more.  What is judged is the call of the test; what its
fixtures hold is carried in.  One of two sources tells:

* **The allocator's own statistics**, of PyTorch (CUDA) and of Paddle (GPUs and custom devices), where the test, or one before it, has imported
  them: every device by itself.  ``peak`` is the highest allocated level during the call, what was live before it included; ``growth`` is
  the level after it less the level before, garbage collected both times.
* **A log that the test wrote**, ``log="run.log"``, in the test's ``tmp_path`` where it asks for that, else in the current folder: every device by itself, the CPU only where there is no other.
  ``peak`` is that of the log, from its first event on; ``growth`` is what is allocated in it less what is freed, or with ``by=REGEX`` what the series of windows gains
  (:class:`memlens.analyzers.series.growth.Growth`).  A log that is in doubt, or runs out of memory, fails the test.

Markers of a module, a class, a function and its parameters add up; of two that say the same the nearer one counts.  Where there is neither a
device nor a log, the test runs and a :class:`NotJudgedWarning` says so.  Nothing is imported for tests without the marker.
"""

from __future__ import annotations

import gc
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterator

__all__ = ["NotJudgedWarning"]

_HELP = (
    "memlens(peak=SIZE, growth=SIZE, log=FILE, by=REGEX): fail the test where the device memory of its call passes a limit: peak, the highest "
    "level, or growth, what it leaves behind; by the statistics of PyTorch or Paddle, or by the log that it wrote, where it is named (see "
    "docs/pytest.md of memlens)"
)


_BEGAN = time.time()
#: What Paddle has from 3.0 on, without which a peak may be that of an earlier test.
_RESET = "device_memory_stat_reset_peak_value"


class NotJudgedWarning(UserWarning):
    """The memory of a marked test is not known."""


class _Limits(NamedTuple):
    """The limit of a test: bytes, and where to look."""

    peak: int | None = None
    growth: int | None = None
    log: str | os.PathLike[str] | None = None
    by: str | None = None


class _Device(NamedTuple):
    """The statistics of one device, in bytes."""

    name: str
    level: Callable[[], int]
    peak: Callable[[], int]
    reset: Callable[[], object]


class _Figures(NamedTuple):
    """The memory of a call on one device, or as a log says it.

    Attributes:
        where: The device, or the log.
        peak: The highest level.
        growth: What is left behind.
        carried_in: The level before.
    """

    where: str
    peak: int
    growth: int
    carried_in: int


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known, and ``pytest --markers`` says what it does."""
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, None]:
    """Look at the limits of marked tests: one that makes no sense is an error of the file that has it."""
    report = (yield).get_result()
    wrong = []
    for item in report.result or () if report.passed else ():
        if isinstance(item, pytest.Item) and item.get_closest_marker("memlens") is not None:
            try:
                _limits(item)
            except ValueError as error:
                wrong.append(f"{item.nodeid}: @pytest.mark.memlens: {error}")
    if wrong:
        report.outcome, report.longrepr, report.result = "failed", "\n".join(wrong), []


def _limits(item: pytest.Item) -> _Limits:
    """The markers of a test taken together, those of its parameters, function, class and module, the nearest last."""
    import re

    from memlens.errors import UsageError
    from memlens.text import parse_bytes

    markers = [one for node in item.listchain() for one in node.own_markers if one.name == "memlens"]
    given = {name: value for marker in markers for name, value in marker.kwargs.items()}
    nameless = [value for marker in markers for value in marker.args]
    if nameless or (unknown := given.keys() - {"peak", "growth", "log", "by"}):
        what = f"{nameless[0]!r} has no name" if nameless else f"there is no {', '.join(sorted(unknown))}"
        raise ValueError(f"{what}; it takes peak=SIZE, growth=SIZE, log=FILE and by=REGEX")
    if given.get("peak") is None and given.get("growth") is None:
        raise ValueError('it limits nothing: give peak="2GiB", growth="0" or both')
    sizes = {}
    for name in ("peak", "growth"):
        if (size := given.get(name)) is not None:
            try:
                sizes[name] = parse_bytes(str(size))
            except UsageError as error:
                raise ValueError(f"{name}: {error.message}; {error.hint}") from None
    if (by := given.get("by")) is not None:
        if given.get("log") is None:
            raise ValueError("by cuts a log, and none is named: give log=FILE too")
        try:
            re.compile(by)
        except (re.error, TypeError) as error:
            raise ValueError(f"by: {by!r} is no regular expression: {error}") from None
    return _Limits(**sizes, log=given.get("log"), by=by)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Judge the call of a marked test that passes."""
    if item.get_closest_marker("memlens") is None:
        yield
        return
    limits = _limits(item)
    before = {} if limits.log else _begin()
    outcome = yield
    if outcome.excinfo is not None:
        return
    try:
        if limits.log:
            problems = _problems(limits, _of_log(limits, item))
        elif figures := _of_call(before):
            problems = _problems(limits, figures)
        else:
            problems = []
            item.warn(NotJudgedWarning(_not_judged()))  # raises where warnings are errors
    except Warning as warning:
        outcome.force_exception(warning)
        return
    except _UnjudgedError as error:
        problems = [str(error)]
    if problems:
        outcome.force_exception(pytest.fail.Exception("\n".join(f"memlens: {one}" for one in problems), pytrace=False))


def _begin() -> dict[str, int]:
    """The levels before the call; peaks begin anew."""
    gc.collect()
    levels = {}
    for device in _devices():
        device.reset()
        levels[device.name] = device.level()
    return levels


def _of_call(before: dict[str, int]) -> list[_Figures]:
    """The figures of each device; one that was not there before the call had nothing allocated."""
    gc.collect()
    devices = ((one, before.get(one.name, 0)) for one in _devices())
    return [_Figures(one.name, one.peak(), one.level() - earlier, earlier) for one, earlier in devices]


def _devices() -> Iterator[_Device]:
    """The devices that frameworks use which were imported already."""
    if (cuda := getattr(sys.modules.get("torch"), "cuda", None)) is not None and cuda.is_initialized():
        for number in range(cuda.device_count()):
            yield _Device(
                f"CUDA device {number} by the statistics of PyTorch",
                partial(cuda.memory_allocated, number),
                partial(cuda.max_memory_allocated, number),
                partial(cuda.reset_peak_memory_stats, number),
            )
    core = _paddle()
    if (reset := getattr(core, _RESET, None)) is not None:
        counts = [core.get_custom_device_count(kind) for kind in core.get_all_custom_device_type()]
        if core.is_compiled_with_cuda():
            counts.append(core.get_cuda_device_count())
        for number in range(max(counts, default=0)):
            yield _Device(
                f"device {number} by the statistics of Paddle",
                partial(core.device_memory_stat_current_value, "Allocated", number),
                partial(core.device_memory_stat_peak_value, "Allocated", number),
                partial(reset, "Allocated", number),
            )


def _paddle() -> Any:
    """What has Paddle's statistics, ``None`` where it was not imported."""
    return getattr(sys.modules.get("paddle.base"), "core", None)


def _not_judged() -> str:
    used = [name for name in ("torch", "paddle") if name in sys.modules]
    why = f"{' and '.join(used)} used no device" if used else "it used neither PyTorch nor Paddle"
    if (core := _paddle()) is not None and not hasattr(core, _RESET):
        why = "Paddle before 3.0 begins no peak anew"
    return f"the memory of this test is not judged: {why}, and its marker names no log"


class _UnjudgedError(Exception):
    """A log by which nothing can be judged."""


def _of_log(limits: _Limits, item: pytest.Item) -> list[_Figures]:
    from memlens.analyzers.series.shapes import MINIMUM
    from memlens.analyzing.analyze import analyze
    from memlens.errors import MemlensError
    from memlens.trust.case import RESERVED_DOUBTS

    folder = getattr(item, "funcargs", {}).get("tmp_path", Path())
    path = Path(folder, str(limits.log)).absolute()
    if not path.is_file():
        raise _UnjudgedError(f"the test wrote no log {path}")
    if path.stat().st_mtime < _BEGAN - 2:  # clocks of file systems are coarse, or elsewhere
        raise _UnjudgedError(f"{path} is older than this run of pytest: the test did not write it")
    try:
        logs = analyze(path, by=limits.by).logs
    except MemlensError as error:
        raise _UnjudgedError(str(error)) from None
    found = []
    for log in [one for one in logs if one.device != "CPU"] or logs:
        if doubts := [doubt for doubt in log.trust.doubts if doubt.code not in RESERVED_DOUBTS]:
            raise _UnjudgedError(f"{log.path} is in doubt, so that nothing is judged by it: {doubts[0].message}")
        if log.ooms:
            raise _UnjudgedError(f"{log.path} runs out of memory: its figures are those of what fitted")
        first, growth = log.windows[0].results["remaining"], log.growth
        gained = sum(window.results["remaining"].remaining_bytes for window in log.windows)
        if limits.by is not None:
            if limits.growth is not None and (growth is None or growth.judged < MINIMUM):
                judged = 0 if growth is None else growth.judged
                raise _UnjudgedError(
                    f"the growth of {log.path} is not known: {judged} closed windows, {MINIMUM} are the fewest"
                )
            gained = 0 if growth is None else growth.gained_bytes
        peak = max(window.results["peak"].peak_bytes for window in log.windows)
        found.append(_Figures(log.path, peak, gained, first.carried_in_bytes))
    return found


def _problems(limits: _Limits, figures: list[_Figures]) -> list[str]:
    from memlens.text import format_bytes

    def shown(size: int) -> str:
        return f"{format_bytes(size)} ({size:,} B)" if size >= 1024 else format_bytes(size)

    found = []
    for one in figures:
        if limits.peak is not None and one.peak > limits.peak:
            carried = f"; {shown(one.carried_in)} of it carried in" if one.carried_in else ""
            over = f"{shown(one.peak - limits.peak)} over the limit of {shown(limits.peak)}"
            found.append(f"the peak is {shown(one.peak)}, {over}{carried}: {one.where}")
        if limits.growth is not None and one.growth > limits.growth:
            found.append(f"{shown(one.growth)} are left behind, where the limit is {shown(limits.growth)}: {one.where}")
    return found
