"""``memlens watch``: follow logs that are still being written."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import click

from memlens.cli.live import Screen, Signals, has_screen
from memlens.cli.options import verb
from memlens.cli.output import WHEN, Output, note, progress_bar, read_stdin_once, screen
from memlens.options.keywords import option
from memlens.options.verbs import Watch
from memlens.watching.judging import crossing_claim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.reports.blocks import Block
    from memlens.watching.result import Watched

#: Options that this verb shares with others: what it writes is never one file.
_OPTIONS = ("budgets", "run", "by", "idle", "pid", "every", "read_as", "formats", "form", "color", "quiet")
#: Seconds between two frames while much is read, and after which a frame says anew since when nothing was written.
_FRAME, _CLOCK = 0.2, 10.0
#: Seconds between two lines on one log where there is no screen, and after which one is written though little changed.
_APART, _NEWS = 5.0, 60.0
#: Seconds that commands of budgets are waited for at the end.
_PATIENCE = 10.0
#: A peak that is higher by so small a part is no news.
_LITTLE = 0.01
#: Windows of each log in a line of JSON.
_IN_JSON = 2


class ShowWatch(Output):
    """How logs that grow are shown.

    Attributes:
        form: Show them to people (table: a screen on a terminal, else a line for each change of note), or write a JSON object in a line for each
            change (jsonl).
        color: When to use colours: always, never, or where stdout is a terminal that has them (auto).
    """

    form: str = option("", "--format", default="table", choices=("table", "jsonl"), shown=True)
    color: str = option("", default="auto", choices=WHEN, shown=True)


@verb(
    "watch", [click.Argument(["logs"], metavar="LOG...", nargs=-1, required=True)], *(Watch, ShowWatch), only=_OPTIONS
)
def command(logs: tuple[str, ...], options: Watch, show: ShowWatch) -> int:
    r"""Follow logs that grow: what is allocated and reserved now, the peak, the levels over the run, the last windows.

    LOG is a file that is still being written (plain, .gz, .zst), a folder of such files, or - for stdin; one that does not exist yet is waited for. Where a log is
    rotated, made shorter or replaced, it is followed there. One log gives a screen with its levels and its last windows, several a table with a row each.
    Where stdout is no terminal, a line is written for each change of note.

    Ctrl-C ends it, with the verdict of memlens analyze where the log is whole. The exit code is 3 where a budget was exceeded, 1 where a log held no event and nobody ended it early.

    Examples:
      memlens watch run.log
      memlens watch run.log --by "STEP (\d+) START" --budget growth=64MiB
      memlens watch workerlog.* --budget peak=30GiB \
                                --run 'notify-send "$MEMLENS_LOG"'
      memlens watch run.log --pid 4711 > watched.txt
      memlens watch run.log --idle 600 --format jsonl
      python train.py 2>&1 | memlens watch -
    """
    from memlens.watching.watch import Watching

    read_stdin_once(logs)
    on_screen = show.form == "table" and has_screen()
    with ExitStack() as stack:
        # What commands write would tear the screen: it comes after it.
        kept = stack.enter_context(tempfile.TemporaryFile()) if on_screen and sys.stderr.isatty() else None
        failed: list[str] = []
        tell: Callable[[str], None] = failed.append if on_screen else lambda text: note(text, show)
        watching = stack.enter_context(closing(Watching(logs, options, kept, tell)))
        screen = stack.enter_context(Screen()) if on_screen else None
        signals = stack.enter_context(Signals(screen))
        display: Any
        if screen is not None:
            display = _OnScreen(screen, show)
        else:
            display = _Lines(show) if show.form == "table" else _Json()
        while not (watching.ended or signals.ended):
            changed = watching.look()
            display.show(watching.seen, changed=changed, busy=watching.busy)
            if not watching.ended:
                signals.wait(0 if watching.busy else options.every)
        if screen is not None:
            screen.leave()
        try:
            with signals.breaking(), progress_bar([state.path for state in watching.seen.states], show) as progress:
                last = watching.finish(progress=progress)
        except KeyboardInterrupt:  # a second Ctrl-C: without the analysis, then
            last = watching.finish(analyze=False)
        display.end(last)
        try:
            with signals.breaking():
                running = watching.wait(_PATIENCE)
        except KeyboardInterrupt:
            running = True
        if running:
            note("a command of --run is still running", show)
        for text in (*failed, *last.unjudged):
            note(text, show)
        if kept is not None:
            kept.seek(0)
            sys.stderr.buffer.write(kept.read())
    return _exit_code(last)


def _exit_code(last: Watched) -> int:
    """3 where a budget was exceeded; 1 where nothing is known of a log, unless somebody ended it early."""
    from memlens.cli import report_error
    from memlens.errors import NoEventsError
    from memlens.watching.judging import nothing_claim

    unread = [] if last.ended == "interrupted" else [state for state in last.states if not state.events]
    for state in unread:
        hint = f"memlens analyze {state.path} says what to switch on." if state.lines else ""
        report_error(NoEventsError(f"{state.path}: {nothing_claim(state).text}", hint))
    return 3 if last.crossings else 1 if unread else 0


class _OnScreen:
    """Frames on the terminal's screen, and at the end the last one with the verdict."""

    def __init__(self, screen: Screen, show: ShowWatch) -> None:
        self._screen, self._show = screen, show
        self._drawn, self._size, self._due, self._rang = 0.0, (0, 0), True, 0

    def show(self, seen: Watched, *, changed: bool, busy: bool) -> None:
        now, size = time.monotonic(), self._screen.size
        self._due |= changed or self._screen.blank
        if len(seen.crossings) > self._rang:
            self._rang = len(seen.crossings)
            self._screen.ring()
        early = now < self._drawn + _FRAME and size == self._size and busy
        if not early and (self._due or size != self._size or now >= self._drawn + _CLOCK):
            from memlens.reports.terminal import Size
            from memlens.reports.watch import live_blocks

            self._drawn, self._size, self._due = now, size, False
            self._screen.draw(_text(live_blocks(seen, Size(*size)), self._show, width=size[0]), size)

    def end(self, last: Watched) -> None:
        from memlens.reports.terminal import SCREEN, Size
        from memlens.reports.watch import watch_blocks

        columns, rows = self._screen.size
        # A line is left for the command before it, one for the shell's prompt, and those of the notes that follow.
        rows -= 2 + sum(-(-len(f"memlens: {text}") // columns) for text in last.unjudged)
        _write(
            _text(
                watch_blocks(last, picture=True, size=Size(columns, min(rows, SCREEN.rows))), self._show, width=columns
            )
        )
        if len(last.crossings) > self._rang:
            self._screen.ring()


class _Lines:
    """A line for each change of note, for a pipe or a file."""

    def __init__(self, show: ShowWatch) -> None:
        self._show = show
        self._told: dict[tuple[str, str], tuple[float, tuple[object, ...], int, int]] = {}
        self._exceeded = 0

    def show(self, seen: Watched, *, changed: bool, busy: bool) -> None:  # noqa: ARG002  a terminal looks at it
        from memlens.reports.blocks import Line
        from memlens.reports.watch import state_line

        for index, state in enumerate(seen.states):
            key = state.path, state.device
            then, events, peak, read = self._told.get(key, (0.0, (), 0, 0))
            now = (state.waiting, state.problem, state.rotations, state.restarts, state.ooms)
            news = now != events or state.peak_bytes > peak * (1 + _LITTLE)
            news |= state.bytes != read and seen.time >= then + _NEWS
            if news and (not then or seen.time >= then + _APART):
                self._told[key] = seen.time, now, state.peak_bytes, state.bytes
                _write(_text([state_line(seen, index)], self._show))
        for crossing in seen.crossings[self._exceeded :]:
            where = crossing.path + (f" [{crossing.device}]" if crossing.device else "")
            _write(_text([Line(crossing_claim(crossing).text, name=where)], self._show))
        self._exceeded = len(seen.crossings)

    def end(self, last: Watched) -> None:
        from memlens.reports.watch import watch_blocks

        _write(_text([*([None] if self._told else []), *watch_blocks(last)], self._show))


class _Json:
    """A JSON object in a line for each change; the last one with the verdict of all."""

    def __init__(self) -> None:
        self._due, self._written = False, 0.0

    def show(self, seen: Watched, *, changed: bool, busy: bool) -> None:
        self._due |= changed
        if self._due and (not busy or seen.time >= self._written + _FRAME):
            self._due, self._written = False, seen.time
            self.end(seen)

    def end(self, last: Watched) -> None:
        _write(json.dumps(last.with_last_windows(_IN_JSON).to_dict(), ensure_ascii=True, allow_nan=False) + "\n")


def _text(blocks: Sequence[Block], show: ShowWatch, **size: int) -> str:
    from memlens.reports.terminal import render

    return render(blocks, **{**screen(show), **size})  # type: ignore[arg-type]


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
