"""Where the result of a verb goes and how it is shown; what all verbs do with what they read and write, and what is said on stderr beside errors."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memlens import native
from memlens.errors import UsageError
from memlens.options import ReadAs
from memlens.options.keywords import Options, flag, option
from memlens.reports import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memlens.reports.blocks import Block
    from memlens.reports.terminal import Size
    from memlens.results import Failure, Result
    from memlens.summarizing.summary import Run

How = TypeVar("How", bound=ReadAs)

#: Bytes from which on it is worth a line that they are read without compiled code.
_MUCH = 64 << 20
#: When something is shown that not every output can take.
WHEN = ("auto", "always", "never")
#: What Python itself sets LC_CTYPE to where the locale is C.
_SET_BY_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")


class Output(Options):
    """Where the result goes.

    Attributes:
        output: Write to FILE instead of stdout.
        force: Write over FILE if it exists.
        quiet: Write nothing on stderr but errors.
        verbose: Say on stderr what each input was taken for, what was read of it, and how long that and the rest took.
    """

    output: str | None = option("FILE", "-o", "--output", default=None)
    force: bool = flag("-f", "--force", default=False)
    quiet: bool = flag("-q", "--quiet", default=False, rare=True)
    verbose: bool = flag("-v", "--verbose", default=False, rare=True)

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise UsageError("--quiet and --verbose exclude each other", "Give one of them.")

    @property
    def on_stdout(self) -> bool:
        """Whether the result goes to stdout and not to a file."""
        return self.output in (None, "-")


class Show(Output):
    """How the result is shown.

    Attributes:
        form: How to write the result.
        full: Show everything, and not one screen.
        brief: Show the verdict alone.
        color: When to use colours: always, never, or where stdout is a terminal that has them (auto), which NO_COLOR, FORCE_COLOR and
            CLICOLOR_FORCE decide too. A file never gets any.
        no_progress: Show no progress bar.
    """

    form: str = option("", "--format", default="table", choices=tuple(FORMS), shown=True)
    full: bool = flag(default=False)
    brief: bool = flag(default=False)
    color: str = option("", default="auto", choices=WHEN, shown=True, rare=True)
    no_progress: bool = flag(default=False, rare=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.full and self.brief:
            raise UsageError("--full and --brief exclude each other", "Without either one screen is shown.")

    @property
    def for_programs(self) -> bool:
        """Whether the result itself is written, and not what people are shown of it."""
        return FORMS[self.form][1] == "result"

    @property
    def everything(self) -> bool:
        """Whether to show more than one screen: what is pasted somewhere else has none."""
        return self.full or self.form == "markdown"


def screen(show: Show) -> dict[str, Any]:
    """The width and the abilities of stdout, as :func:`memlens.reports.terminal.render` takes them; none where a file is written."""
    if not show.on_stdout:
        return {}
    return {"width": _width(), "colour": _colour(show.color), "ascii_only": not _shows_unicode()}


def shows_pictures(show: Show, choice: str) -> bool:
    """Whether a picture is wanted: by one of :data:`WHEN`, and by default where a person looks at a terminal."""
    return choice == "always" or (choice == "auto" and show.on_stdout and show.form == "table" and sys.stdout.isatty())


def _size(show: Show) -> Size:
    """What one screen holds: of a terminal its columns and rows, but for the one that a prompt takes."""
    from memlens.reports.terminal import SCREEN, Size

    if not (show.on_stdout and sys.stdout.isatty()):
        return SCREEN
    rows = os.get_terminal_size(sys.stdout.fileno()).lines
    return Size(_width() or SCREEN.columns, rows - 1 if rows > 0 else SCREEN.rows)


def _width() -> int | None:
    """Columns of the terminal.  A pipe has none: only a COLUMNS set on purpose gives it some."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def _colour(choice: str) -> bool:
    """Whether stdout gets colours.

    The option counts first, then NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE, then CLICOLOR=0; where none of them says anything, a terminal
    gets colours that is not a dumb one.
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return os.environ.get("CLICOLOR") != "0" and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _shows_unicode() -> bool:
    """Whether stdout takes more than ASCII: by its encoding, and of a terminal also by a locale that is C on purpose, where Python writes UTF-8."""
    if (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "") not in ("utf8", "utf8sig"):
        return False
    own = os.environ.get("LC_CTYPE", "")
    names = (os.environ.get("LC_ALL"), "" if own in _SET_BY_PYTHON else own, os.environ.get("LANG"))
    return not sys.stdout.isatty() or next(filter(None, names), "") not in ("C", "POSIX")


def note(text: str, show: Output) -> None:
    """Write a line on stderr that is no error, unless ``-q`` was given; control characters in it are made harmless."""
    if not show.quiet:
        _write(text)


def _write(text: str) -> None:
    from memlens.text import no_command, visible

    with suppress(OSError):  # the result stands where stderr takes nothing
        click.echo(no_command(f"memlens: {visible(text)}"), err=True)


@contextmanager
def verbose(show: Output | None) -> Iterator[None]:
    """While the block runs, write with ``-v`` what the readers log on stderr, and at its end how long it took."""
    if show is None or not show.verbose:
        yield
        return
    import logging

    reading, began = 0.0, time.perf_counter()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            nonlocal reading
            reading += getattr(record, "seconds", 0.0)
            _write(record.getMessage())

    logger, handler = logging.getLogger("memlens"), Told()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        whole = time.perf_counter() - began
        # Of inputs that several processes read the time is known of all of it alone.
        parts = f" ({reading:.2f} s reading, {whole - reading:.2f} s analysis and report)" if reading else ""
        _write(f"{whole:.2f} s{parts}")


# What is read and written.


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
    from memlens.text import name_list, plural

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
    from memlens.inputs.custom import formats_file
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
    result: Result, show: Show, blocks: Callable[..., Sequence[Block]], fence: Callable[[str], str] = str
) -> None:
    """Write a result in the form and to the place that were asked for.

    Args:
        result: What a verb gives.
        show: The form and the place; a terminal is asked for its width and its colours, a file has neither.
        blocks: Makes what people see, given what one screen holds; called for the forms for people only.
        fence: What is done with the text before it is written.
    """
    from memlens.reports import in_parts
    from memlens.reports.blocks import brief

    def shown() -> Sequence[Block]:
        made = blocks(size=_size(show))
        return brief(made) if show.brief else made

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
    if not _shows_progress(show):
        yield None
        return
    from memlens.cli.live import Bar, size_of

    with closing(Bar("reading", size_of(paths))) as bar:
        yield bar.update


@contextmanager
def trial_bar(show: Output) -> Iterator[Callable[[int, int], None] | None]:
    """Show how much of the replays is done, as :func:`progress_bar` shows what is read: yields a function to call with how much is, and of how much."""
    if not _shows_progress(show):
        yield None
        return
    from memlens.cli.live import Bar

    with closing(Bar("replaying: {task.completed} of {task.total}")) as bar:
        yield bar.update


def _shows_progress(show: Output) -> bool:
    """Whether somebody looks at stderr, and has not asked for silence."""
    off = show.quiet or show.verbose or getattr(show, "no_progress", False)
    return not (off or not sys.stderr.isatty() or os.environ.get("CI") or os.environ.get("TERM") == "dumb")


def _say_what_is_slow(paths: Sequence[str], show: Output) -> None:
    """One line on stderr where much is to be read and the compiled modules were not built."""
    if sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) > _MUCH and native.missing():
        note(
            "reading without the compiled modules takes many times as long: install a C compiler, then"
            " pip install --force-reinstall --no-cache-dir memlens",
            show,
        )
