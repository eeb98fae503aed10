"""What the terminal at stdout can show, and what of that was asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlens.cli.options import Show

__all__ = ["WHEN", "screen", "shows_pictures"]

#: When something is shown that not every output can take.
WHEN = ("auto", "always", "never")

#: What Python itself sets LC_CTYPE to where the locale is C.
_SET_BY_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")


def screen(show: Show) -> dict[str, Any]:
    """The width and the abilities of stdout, as :func:`memlens.reports.terminal.render` takes them; none where a file is written."""
    if not show.on_stdout:
        return {}
    return {"width": _width(), "colour": _colour(show.color), "ascii_only": not _shows_unicode()}


def shows_pictures(show: Show, asked: str) -> bool:
    """Whether a picture is wanted: by one of :data:`WHEN`, and by default where a person looks at a terminal."""
    return asked == "always" or (asked == "auto" and show.on_stdout and show.form == "table" and sys.stdout.isatty())


def _width() -> int | None:
    """Columns of the terminal.  A pipe has none: only a COLUMNS set on purpose gives it some."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def _colour(asked: str) -> bool:
    """Whether stdout gets colours.

    The option counts first, then NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE, then CLICOLOR=0; where none of them says anything, a terminal
    gets colours that is not a dumb one.
    """
    if asked != "auto":
        return asked == "always"
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
