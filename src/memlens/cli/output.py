"""Work that all verbs share: refuse files that clash, show progress, write the result, name what could not be read."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memlens import native
from memlens.cli.show import note, screen
from memlens.errors import UsageError
from memlens.options import ReadAs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.progress import Progress, ProgressColumn, TaskID

    from memlens.cli.show import Output, Show
    from memlens.comparing.figures import Run
    from memlens.reports.blocks import Block
    from memlens.results import Failure, Result

How = TypeVar("How", bound=ReadAs)

_PATIENCE_SECONDS = 1.0
_REFRESH_SECONDS = 0.1
#: Bytes from which on it is worth a line that they are read without compiled code.
_MUCH = 64 << 20


def read_stdin_once(logs: Sequence[str | None], hint: str = "Give - once.") -> None:
    """Refuse to read standard input twice.

    Raises:
        UsageError: More than one log is ``-``.
    """
    if logs.count("-") > 1:
        raise UsageError("stdin (-) can be read only once", hint)


def named_logs(logs: Sequence[str], how: ReadAs, show: Output) -> tuple[str, ...]:
    """Logs with those that lie in a folder in its place; of its other files a note says that they are none."""
    from memlens.inputs import expanded

    return tuple(map(str, expanded(logs, how, note_others(show))))


def note_others(show: Output) -> Callable[[str, Sequence[str]], None]:
    """Say that a folder, and files in it that are no logs, are left out."""
    from memlens.inputs.input_format import HEAD
    from memlens.text import name_list
    from memlens.units import plural

    def say(folder: str, others: Sequence[str]) -> None:
        count = plural(len(others), "file is", "files are")
        note(f"{folder}: {count} no log by the first {HEAD >> 10} KiB and left out: {name_list(others)}", show)

    return say


def refuse_outputs(
    to: Output,
    logs: Iterable[str],
    *,
    formats: object = None,
    others: Iterable[str | None] = (),
    appended: Iterable[str | None] = (),
) -> None:
    """Say early, before any work, that an output cannot be written: it exists, or it is something that is read.

    Args:
        to: What ``-o`` names, and whether it is written over if it exists.
        logs: What is read.
        formats: The file of formats that was named; without one the nearest ``pyproject.toml`` is read.
        others: Further outputs, all of them files.
        appended: Files that may exist, for they are written to at their end.

    Raises:
        OutputError: See :func:`memlens.output.refuse_overwrite`.
        UsageError: It is an input; see :func:`memlens.output.refuse_inputs`.
    """
    from memlens.inputs.custom.formats import formats_file
    from memlens.output import refuse_inputs, refuse_overwrite

    outputs = [None if to.output == "-" else to.output, *others]
    refuse_inputs([*outputs, *appended], [*logs, formats_file(formats)])  # type: ignore[arg-type]
    for path in outputs:
        refuse_overwrite(path, to.force)


@contextmanager
def reading(how: How, show: Output, inputs: Sequence[str | None], hint: str = "Give - once.") -> Iterator[How]:
    """Refuse files that clash, and show progress while the block reads.

    Args:
        how: The options of what reads.
        show: What :func:`refuse_outputs` and :func:`progress_bar` take.
        inputs: What is read, in this order; ``None`` is nothing.
        hint: What to do instead of reading standard input twice.

    Yields:
        The options, with what shows progress.
    """
    paths = [path for path in inputs if path is not None]
    read_stdin_once(paths, hint)
    refuse_outputs(show, paths, formats=how.formats)
    with progress_bar(dict.fromkeys(paths), show) as progress:
        yield how.replace(progress=progress)


def write_result(
    result: Result, show: Show, blocks: Callable[[], Sequence[Block]], fence: Callable[[str], str] = str
) -> None:
    """Write a result in the form and to the place that were asked for.

    Args:
        result: What a verb gives.
        show: The form and the place; a terminal is asked for its width and its colours, a file has neither.
        blocks: Makes what people see; called for the forms for people only.
        fence: What is done with the text before it is written.
    """
    from memlens.reports import in_parts
    from memlens.reports.blocks import brief

    shown = (lambda: brief(blocks())) if show.brief else blocks
    parts = in_parts(show.form, result, shown, **screen(show))
    write(parts if fence is str else (fence("".join(parts)),), show)


def write(text: str | Iterable[str], to: Output) -> None:
    """Write a text, or the parts of one, to where the result goes: all of it, or nothing where making a part of it fails."""
    from memlens.output import open_output

    parts = (text,) if isinstance(text, str) else text
    with open_output(to.output, to.force, whole=not isinstance(text, (str, tuple))) as out:
        for part in parts:
            out.write(part.encode())


def report_failures(failures: Iterable[Failure | Run]) -> None:
    """Write on stderr which of several inputs could not be read, and why."""
    from memlens.cli import report_error
    from memlens.errors import MemlensError

    for failure in failures:
        report_error(MemlensError(failure.message, failure.hint))


@contextmanager
def progress_bar(paths: Iterable[str], show: Output) -> Iterator[Callable[[int], None] | None]:
    """Show how far the reading of some inputs is, by bytes on stderr, while the block runs: only for people, only for long work.

    Args:
        paths: The inputs, read one after another; ``-`` is standard input, whose size nobody knows; of URLs the server is asked for it.
        show: What may be said on stderr: with ``-q`` nothing, and with ``-v`` lines instead of a bar.

    Yields:
        A function to call with the bytes read so far, as they lie on disk; ``None`` where nobody would see it: stderr is no
        terminal, or this is a CI run.
    """
    paths = list(paths)
    _say_what_is_slow(paths, show)
    seen = _shows_progress(show)
    with closing(_Bar("reading", _total(paths) if seen else None)) as bar:
        yield bar.update if seen else None


@contextmanager
def trial_bar(show: Output) -> Iterator[Callable[[int, int], None] | None]:
    """Show how much of the replays is done, as :func:`progress_bar` shows what is read: yields a function to call with how much is, and of how much."""
    with closing(_Bar("replaying: {task.completed} of {task.total}")) as bar:
        yield bar.update if _shows_progress(show) else None


def _shows_progress(show: Output) -> bool:
    """Whether somebody looks at stderr, and has not asked for silence."""
    off = show.quiet or show.verbose or getattr(show, "no_progress", False)
    return not (off or not sys.stderr.isatty() or os.environ.get("CI") or os.environ.get("TERM") == "dumb")


def _say_what_is_slow(paths: Sequence[str], show: Output) -> None:
    """One line on stderr where much is to be read and the compiled modules were not built."""
    if native.missing() and sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) > _MUCH:
        note(
            "reading without the compiled modules takes many times as long: install a C compiler, then"
            " pip install --force-reinstall --no-cache-dir memlens",
            show,
        )


def _total(paths: Iterable[str]) -> int | None:
    try:
        return sum(map(_size, paths)) or None
    except (OSError, ValueError):
        return None


def _size(path: str) -> int:
    from memlens.inputs.remote import is_url, local_path, remote_size

    if is_url(given := local_path(path)):
        size = remote_size(path)
        if size is None:
            raise ValueError(path)
        return size
    return Path(given).stat().st_size


class _Bar:
    """Comes up after a second and goes away when done; rich is imported when it comes up.

    Args:
        words: What stands in front of the bar, or all there is to say; a name in braces is one of rich's.
        total: How much is to be done, where that is known before.
    """

    def __init__(self, words: str, total: int | None = None) -> None:
        self._words, self._total = words, total
        self._next_look = time.monotonic() + _PATIENCE_SECONDS
        self._shown: tuple[Progress, TaskID] | None = None

    def update(self, done: int, total: int | None = None) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _REFRESH_SECONDS
        progress, task = self._shown or self._show()
        progress.update(task, completed=done, total=total, refresh=True)

    def _show(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns: list[ProgressColumn] = [TextColumn(self._words)]
        if "{" not in self._words:
            columns += [BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()]
        # No refresh thread: the clock is looked at between blocks anyway.
        progress = Progress(*columns, console=Console(file=sys.stderr), transient=True, auto_refresh=False)
        progress.start()
        self._shown = (progress, progress.add_task("", total=self._total))
        return self._shown

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()
