"""The options of each verb, a class a verb."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING

from memlens.errors import UsageError
from memlens.options import Cut, OneWindow, Owners, ReadAs, Spread, as_list
from memlens.options.keywords import Options, flag, option, python_only

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from memlens.log import Input


#: Inches of a still each way, at least and at most, and pixels in each of them.
_WIDTH, _HEIGHT, _DPI = (3.0, 100.0), (2.0, 100.0), (10, 1200)
#: Pixels of a still each way: what Matplotlib draws at most.
_MOST_PIXELS = 1 << 16


class Analyze(ReadAs, Owners, Cut, Spread):
    """The options of :func:`memlens.analyze`.

    Attributes:
        analyzers: Run this analyzer, and show all it says. May be given several times. Built in: remaining, peak, segments,
            stats, unmatched, lifetimes, and growth (over the steps of a run, or with --by); installed packages may add more. In Python: ``None`` is all
            built-in ones.
        top: Rows of each list in the machine output; ``None`` is all.
        min_size: Leave blocks smaller than SIZE (4096, 64KiB, 1.5MiB) out of lists.
        whole: Look at logs as a whole only: neither for the steps of a run, over which growth is judged, nor for their phases.
        strict: Fail on a compressed log that is cut short, instead of analyzing what there is.
        times: Read the time of every event. Without them a large log is read quicker, and those that results hold are looked up in
            it when they are asked for.
    """

    analyzers: Sequence[str] | None = option("NAME", "-A", "--analyzer", default=None, several=True, offers="analyzers")
    top: int | None = python_only(default=10)
    min_size: int = option("SIZE", default=0, kind="size")
    whole: bool = flag(default=False)
    strict: bool = flag(default=False, rare=True)
    times: bool = python_only(default=True)


class Diff(ReadAs, Owners, Cut):
    """The options of :func:`memlens.diff`.

    Attributes:
        base_start: Like --start, for BASE only, where the two runs name it differently.
        head_start: Like --start, for HEAD only.
        base_start_regex: Like --start-regex, for BASE only.
        head_start_regex: Like --start-regex, for HEAD only.
        base_end: Like --end, for BASE only. May be given several times.
        head_end: Like --end, for HEAD only. May be given several times.
        base_nth: Like --nth, for BASE only: two windows of one log.
        head_nth: Like --nth, for HEAD only.
        whole: Compare the whole logs as one pair of windows, and do not look for anchor lines that both have.
        open_windows: Judge open windows too: the last ones of a series, which no end line closes. Without it they are shown only.
        top: Show N findings, and N rows of each table, and count the rest. Default: as many as make a page; all in JSON.
            In Python: Findings that the machine output lists of each window; ``None`` is all.
        min_size: Leave findings of blocks smaller than SIZE (4096, 64KiB, 1.5MiB) out of lists; they stay in all figures.
        context: Show N log lines on each side of the FREE that tells the two runs apart.
        strict: Fail on a compressed log that is cut short, instead of comparing what there is.
    """

    base_start: str | None = option("TEXT", default=None)
    head_start: str | None = option("TEXT", default=None)
    base_start_regex: str | None = option("REGEX", default=None, rare=True)
    head_start_regex: str | None = option("REGEX", default=None, rare=True)
    base_end: Sequence[str] = option("TEXT", default=(), several=True, rare=True)
    head_end: Sequence[str] = option("TEXT", default=(), several=True, rare=True)
    base_nth: int | None = option("K", default=None, kind=1, rare=True)
    head_nth: int | None = option("K", default=None, kind=1, rare=True)
    whole: bool = flag(default=False)
    open_windows: bool = flag("--open", default=False, rare=True)
    top: int | None = option("N", default=None, kind=0)
    min_size: int = option("SIZE", default=0, kind="size")
    context: int = option("N", default=3, kind=0, shown=True)
    strict: bool = flag(default=False, rare=True)

    @property
    def cuts(self) -> tuple[Cut, Cut]:
        """Where to cut base, and where head: what only one of them has stands in place of what both have, but for ends."""
        base = self._own_cut(self.base_start, self.base_start_regex, self.base_end, self.base_nth)
        return base, self._own_cut(self.head_start, self.head_start_regex, self.head_end, self.head_nth)

    def _own_cut(self, start: str | None, start_regex: str | None, end: Sequence[str], nth: int | None) -> Cut:
        return Cut(
            start=start if start is not None else self.start if start_regex is None else None,
            end=(*self.end, *as_list(end)),
            start_regex=start_regex if start_regex is not None else self.start_regex if start is None else None,
            end_regex=self.end_regex,
            nth=self.nth if nth is None else nth,
            by=self.by,
            to_end=self.to_end,
        )


class Compare(ReadAs, Cut, Spread):
    """The options of :func:`memlens.compare`.

    Attributes:
        rows: Fields of the template that are rows, in this order. Others that vary follow them.
        cols: The field that is columns. Default: that of --base, else the first one that is not a number; where there is none,
            metrics are columns.
        base: Compare with the run that has VALUE in field F and is alike in all others, or with one log. Default: the first log,
            or the first value of the columns.
        metrics: Show this metric: peak, rise, reserved-peak, live, remaining, carried-in, allocated, allocs, freed, frees, duration, or
            what of a role is live at the peak (parameter, gradient, optimizer, saved, …; roles: all of them). May be given several times. Default: peak, reserved-peak, duration, live and allocs (of a matrix the first
            two); with anchors rise after peak, and remaining instead of live; of the ranks of a job peak, reserved-peak and live. JSON and CSV have all but roles.
        jobs: Read N logs at a time, each in a process of its own on this machine. Default: one a processor.
        strict: Take a compressed log that is cut short for unreadable, instead of comparing what there is.
        buckets: Keep the levels of each run in so many buckets, from which its curve is drawn; 0 keeps none.
    """

    rows: Sequence[str] = option("F,…", default=(), kind="names")
    cols: str | None = option("F", default=None)
    base: str | None = option("F=VALUE|LOG", default=None)
    metrics: Sequence[str] = option("NAME", "-m", "--metric", default=(), several=True, offers="metrics")
    strict: bool = flag(default=False, rare=True)
    buckets: int = python_only(default=0)


class Gate(ReadAs, Cut, Spread):
    """The options of :func:`memlens.gate`.

    Attributes:
        baseline: Judge by the figures in FILE, which --accept wrote.
        limits: Fail where METRIC grows by more than both parts; one may be left out: peak (of the whole run and of each window),
            remaining (of each window), growth (over the steps), rise (of each window), reserved (of the whole run) or a role (parameter, gradient,
            optimizer, buffer, saved, communication, cache, variable: what of it is live at the peak). METRIC=off gates it not at all. May be given for each metric. Default: 2%,64KiB for peak and growth of the run, 2%,1MiB for windows. A size has a
            unit (10MiB, 512B).
        budgets: Fail where METRIC (peak, reserved or a role) of the whole run is above SIZE, whatever it was before. May be given for
            each.
        base: Say what failing windows do differently from this earlier run. Without --baseline its figures are the ones to
            judge by.
        allow_missing: Do not fail where LOG lacks windows that the baseline has.
        trust: Judge a log, or accept one, although its figures are in doubt. In Python: ``False`` does that.
        context: Log lines to keep on each side of the event that tells the runs apart.
        top: Findings of each window that the machine output lists; ``None`` is all.
    """

    baseline: str | Path | None = option("FILE", default=None)
    limits: Sequence[str] = option("METRIC=PERCENT,SIZE", "--limit", default=(), several=True)
    budgets: Sequence[str] = option("METRIC=SIZE", "--budget", default=(), several=True)
    base: Input | None = option("LOG", default=None)
    allow_missing: bool = flag(default=False, rare=True)
    trust: bool = flag("--no-trust", default=True)
    context: int = python_only(default=3)
    top: int | None = python_only(default=10)


class Accept(ReadAs, Cut, Spread):
    """The options of :func:`memlens.accept`.  Where no anchor is given, those of the baseline that is written over are kept.

    Attributes:
        trust: A doubtful log is not accepted.
    """

    trust: bool = python_only(default=True)


class Block(ReadAs, Owners):
    """The options of :func:`memlens.block`.

    Attributes:
        context: Show N log lines on each side of its ALLOC and of its FREE.
    """

    context: int = option("N", default=3, kind=0, shown=True)


class TryOut(ReadAs):
    """The options of :func:`memlens.whatif`.

    Attributes:
        memory: Hold settings against what the device has, SIZE (7.5GiB): which of them let the run complete within it, and where the others fail. Default: of
            a run that ran out of memory what it could have, as far as its log says.
        settings: Try the run with this setting, beside how it was set. May be given several times: all of them together; of one
            NAME with several values each. Default: a short list of settings that may help.
        all_settings: Try all combinations of the settings that the allocator's model names, up to 256.
        own: The run itself was set so, where its log does not tell. May be given several times.
        tried: Called now and then with how much is done, and of how much: settings that are replayed, then those that are replayed under many limits.
    """

    memory: int | None = option("SIZE", default=None, kind="size")
    settings: Sequence[str] = option("NAME=VALUE", "--set", default=(), several=True)
    all_settings: bool = flag("--all", default=False, rare=True)
    own: Sequence[str] = option("NAME=VALUE", "--was", default=(), several=True, rare=True)
    tried: Callable[[int, int], None] | None = python_only(default=None)


class Export(ReadAs, Owners, Cut):
    """The options of :func:`memlens.export`.

    Attributes:
        to: Write this form: parquet, csv and jsonl (tables), perfetto (a trace), speedscope (profiles by call stack or owner). Default:
            what the name of the output says: .parquet, .csv, .jsonl, .pftrace, .speedscope.json.
        table: Which table: of events, or of lifetimes, a row a block.
        output: A file, which appears whole or not at all; ``None`` or ``-`` for stdout.
        force: Write over ``output`` if it exists.
        strict: Fail on a compressed log that is cut short, instead of writing what there is.
    """

    to: str | None = option("", default=None, choices=("parquet", "csv", "jsonl", "perfetto", "speedscope"))
    table: str = option("", default="events", choices=("events", "lifetimes"), shown=True)
    output: str | Path | None = python_only(default=None)
    force: bool = python_only(default=False)
    strict: bool = flag(default=False, rare=True)


class Slice(OneWindow):
    """The options of :func:`memlens.slice`.

    Attributes:
        output: A file, which appears whole or not at all; ``None`` or ``-`` for stdout.
        events_only: Keep only the lines with an allocator event, and the lines that match --start or --end.
        renumber: Write addresses as #1, #2, … in order of first use, and leave out time stamps and thread ids, so that any diff
            tool can compare two runs.
        force: Write over ``output`` if it exists.
        progress: Called with the bytes read so far, as they lie on disk.
    """

    output: str | Path | None = python_only(default=None)
    events_only: bool = flag(default=False)
    renumber: bool = flag(default=False)
    force: bool = python_only(default=False)
    progress: Callable[[int], None] | None = python_only(default=None)


class Record(Options):
    """The options of :func:`memlens.record`.

    Attributes:
        preset: What to record: the log of Paddle's allocators with all that the program prints (paddle), or the memory history as a
            snapshot, of Paddle (paddle-history) or PyTorch (torch).
        output: Write to FILE, compressed as its name says (.zst, .gz); each rank of a distributed run to a file of its own, run.rank0.log.zst. Default: memlens-, the
            time and the number of the process, and .log.zst or .pickle.
        force: Write over FILE if it exists.
        env: Set a variable of the program, in place of what the preset sets; NAME= takes it away. May be given several times.
        tell: Called with each line for people: what the program's environment is, and what goes wrong while it runs. Default: nobody is told.
        passed: What of the program's output to pass on to stdout: all but the framework's log lines (program), all, or none.
        names: What the log of a Python program says of its memory: which lines of the program allocate, and which variables hold it (holders), the lines
            alone (lines), or nothing (none). PyTorch has the lines anyhow.
    """

    preset: str = option("", default="paddle", choices=("paddle", "paddle-history", "torch"), shown=True)
    output: str | Path | None = option("FILE", "-o", "--output", default=None)
    force: bool = flag("-f", "--force", default=False)
    env: str | Sequence[str] = option("NAME=VALUE", default=(), several=True)
    tell: Callable[[str], None] | None = python_only(default=None)
    passed: str = option("", "--pass", default="program", choices=("program", "all", "none"), shown=True)
    names: str = option("", default="holders", choices=("holders", "lines", "none"), shown=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", tuple(as_list(self.env)))


class Watch(Options):
    """The options of :func:`memlens.watch`.

    Attributes:
        by: Cut into consecutive windows, one from each line where REGEX is found to the next, named by its first group or by what it matched. Default: the steps of
            the run, where its log counts them.
        budgets: Say when a figure of a log exceeds its budget: peak=10GiB, reserved=12GiB, or growth=64MiB, which is what the series of windows gains. May
            be given several times.
        run: Run COMMAND by the shell when a budget is exceeded, once for each log and budget; MEMLENS_LOG, MEMLENS_METRIC, MEMLENS_BYTES and MEMLENS_BUDGET say which.
        idle: End when nothing was written for so many seconds; 0 ends with what is there now. Default: when interrupted (Ctrl-C).
        pid: End when the process of this number has ended and all that it wrote is read.
        every: Seconds between two looks at the logs.
        read_as: Read the logs as this format: paddle, rmm, or one of your own. Default: what their content says.
        formats: Know the formats in this TOML file too, instead of those in the nearest pyproject.toml.

    Raises:
        UsageError: ``every`` or ``idle`` is no time, or ``pid`` no number.
    """

    by: str | None = option("REGEX", default=None)
    budgets: Sequence[str] = option("METRIC=SIZE", "--budget", default=(), several=True)
    run: str | None = option("COMMAND", default=None)
    idle: float | None = option("SECONDS", default=None, kind="seconds")
    pid: int | None = option("PID", default=None, kind=1, rare=True)
    every: float = option("SECONDS", default=0.5, kind="seconds", shown=True, rare=True)
    read_as: str | None = option("NAME", default=None, offers="formats")
    formats: str | Path | None = option("FILE", default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.every, (int, float)) or not self.every > 0:
            raise UsageError("--every is a time between two looks", "Give seconds, like 0.5.")
        if not isinstance(self.idle, (int, float, NoneType)):
            raise UsageError(
                f"--idle is a time in which nothing is written, not {self.idle!r}", "Give seconds, like 600."
            )
        if not isinstance(self.pid, (int, NoneType)):
            raise UsageError(f"--pid is the number of a process, not {self.pid!r}", "Give it as a number, like 4711.")


class Report(ReadAs, Owners, Cut):
    """The options of :func:`memlens.report`.

    Attributes:
        base: Compare with this earlier run, as memlens diff does: the page begins with what differs, both curves side by side.
        title: The title of the page. Default: the name of the log, or of both.
    """

    base: Input | None = option("LOG", default=None)
    title: str | None = option("TEXT", default=None)


class Plot(ReadAs, Cut):
    """The options of :func:`memlens.plot`.

    Attributes:
        base: Compare with this earlier run: both are drawn over one axis, and the verdict is that of memlens diff.
        x: What the axis counts: events, or the time that passes by the stamps of the log.
        title: The title of the picture. Default: the name of the log, or how many there are.
        theme: Dark lines on white, or light ones on black.
        width: The width in inches.
        height: The height in inches. Default: 5, and more for more than two logs.
        dpi: Pixels an inch of a PNG; an SVG and a PDF are drawn in lines.

    Raises:
        UsageError: A size that no picture has.
    """

    base: Input | None = option("LOG", default=None)
    x: str = option("", default="events", choices=("events", "time"), shown=True)
    title: str | None = option("TEXT", default=None)
    theme: str = option("", default="light", choices=("light", "dark"), shown=True, rare=True)
    width: float = option("INCHES", default=10.0, kind="inches", shown=True, rare=True)
    height: float | None = option("INCHES", default=None, kind="inches", rare=True)
    dpi: int = option("N", default=150, kind=1, shown=True, rare=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        height = 5.0 if self.height is None else self.height
        for inches, how, (least, most) in ((self.width, "wide", _WIDTH), (height, "high", _HEIGHT)):
            if not least <= inches <= most:
                raise UsageError(f"a picture cannot be {inches:g} inches {how}", f"It can from {least:g} to {most:g}.")
        if not _DPI[0] <= self.dpi <= _DPI[1] or max(self.width, height) * self.dpi >= _MOST_PIXELS:
            raise UsageError(
                f"a picture of {self.width:g} by {height:g} inches cannot have {self.dpi} pixels an inch",
                "It has from {} to {}, and fewer than {:,} pixels each way.".format(*_DPI, _MOST_PIXELS),
            )
