"""Where the result goes and how it is shown: the options for it, what the terminal at stdout can show, and what is said on stderr beside errors."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from memlens.errors import UsageError
from memlens.options.keywords import Options, flag, option
from memlens.reports import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    from memlens.text import visible

    with suppress(OSError):  # the result stands where stderr takes nothing
        click.echo(f"memlens: {visible(text)}", err=True)


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
