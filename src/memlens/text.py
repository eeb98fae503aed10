"""Text for people: log text made harmless, figures written out and read, long names cut in the middle.

Everything that comes from a log or from a file name is hostile data.  It goes through :func:`visible` before any report
that a terminal, a browser or a spreadsheet may show.

The standard library alone is imported here: the plug-in of pytest reads sizes where nothing else that memlens needs is installed.
"""

from __future__ import annotations

import os
import re
import unicodedata
from contextlib import suppress
from functools import lru_cache
from itertools import zip_longest
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from memlens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# --- bytes and counts ---

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNIT_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = r"(?i)\s*(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>[kmgtp]?)(?:i?b)?\s*"


def format_bytes(count: int) -> str:
    """Write a number of bytes for people: ``3538944`` as ``3.38 MiB``; below 1 KiB exact, ``640 B``.

    Two decimals, binary units, a leading ``-`` for negative counts.  A value that would round to 1024.00 goes to the
    next unit, so ``1048575`` is ``1.00 MiB``.
    """
    sign, value = ("-", -count) if count < 0 else ("", count)
    if value < 1024:
        return f"{sign}{value} B"
    scaled, unit = float(value), 0
    while unit < len(_UNITS) - 1 and round(scaled, 2) >= 1024:
        scaled /= 1024
        unit += 1
    return f"{sign}{scaled:.2f} {_UNITS[unit]}"


def format_signed(count: int) -> str:
    """Write a difference in bytes: always with a sign, ``+3.38 MiB``, ``-640 B``; zero is ``0 B``."""
    return f"+{format_bytes(count)}" if count > 0 else format_bytes(count)


def parse_bytes(text: str) -> int:
    """Read a size as people type it: ``4096``, ``64k``, ``1.5MiB``, ``2 GB`` (all units binary).

    Returns:
        The size in bytes, rounded to the nearest byte.

    Raises:
        UsageError: The text is not a size.
    """
    match = re.fullmatch(_SIZE, text)
    if match is None:
        raise UsageError(f"{text!r} is not a size", "Write a size like 4096, 64KiB, 1.5MiB or 2GiB (units are binary).")
    number, unit = match["number"], _UNIT_BYTES[match["unit"].lower()]
    return round(float(number) * unit) if "." in number else int(number) * unit


def plural(count: int, one: str, many: str = "") -> str:
    """``1 free``, ``1,942 frees``; ``many`` is for words that do not just take an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


# --- text from logs, names, figures ---

#: Categories that a terminal or an editor acts upon instead of showing them: controls, formats (bidi overrides, zero-width
#: marks), surrogates, private use, unassigned, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

#: What stands where a figure is not known.
NOT_KNOWN = "not known"

#: Keeps words together when lines are broken; written as a plain blank.
NO_BREAK = "\N{NO-BREAK SPACE}"

#: Names of windows or logs that a sentence lists, and how many columns each of them takes at most.
MOST_NAMES, _WIDEST_IN_TEXT = 6, 40
#: A name of more characters than this is cut before anything else is done with it: marks without a width count for nothing later.
_LONGEST = 200

_SPARKLINE = dict(zip("▁▂▃▄▅▆▇█", "..:::###", strict=True))
_IN_ASCII = str.maketrans({"…": "...", "·": "-", "×": "x", "Δ": "d", "±": "+/-", "\N{EN DASH}": "-", **_SPARKLINE})
_LINE = r"(?i)\bline\b"
_DAY_US = 86_400 * 1_000_000


#: Between the frames of a call stack in the name of an owner, innermost first; and where some are left out.
STACK = " < "
_CUT, _BETWEEN = " < …", " … "
#: The beginnings of code that the user has not written: PyTorch's, that of installed packages, and of the interpreter's own library a file, of whose
#: name that is all.
LIBRARY_CODE = (
    r"(?:.*[/\\])?(?:torch|site-packages|dist-packages|importlib)[/\\]|<(?!stdin|ipython|string)"
    r"|(?:.*[/\\])?(?:(?:asyncio|concurrent|multiprocessing)[/\\].+|contextlib|copy|functools|threading|runpy|queue)\.py"
)
#: A line of Python, as snapshots and logs have it (``file.py:13 main``) or a trace (``file.py(13): main``), and one that the user has not written:
#: snapshots and logs have the folders of those alone.
_CODE = r"[^()]*(?:\.py|>)[:(]\d+"
_FOREIGN = rf"\S+[/\\][^/\\\s]+\.py:\d|{LIBRARY_CODE}\("

#: The name of the window that holds what precedes a series.
BEFORE_FIRST = "(before)"


class Terms(NamedTuple):
    """The parts of an input: lines of text that tell of chunks, or entries that tell of segments."""

    line: str = "line"
    lines: str = "lines"
    chunk: str = "chunk"

    def at(self, number: int) -> str:
        """``line 1,942``, or ``entry 1,942``."""
        return f"{self.line} {format_count(number)}"

    def title(self, title: str) -> str:
        """The heading of a column: ``First line``, or ``First entry``."""
        return re.sub(_LINE, lambda found: self.line.capitalize() if found[0][0] == "L" else self.line, title)


#: The terms of a log of text.
LINES = Terms()


#: The terms of a snapshot or a trace.
_ENTRIES = Terms("entry", "entries", "segment")


def terms_of(has_lines: bool) -> Terms:
    """The terms of an input that consists of lines, or of entries (:attr:`~memlens.facts.Facts.has_lines`)."""
    return LINES if has_lines else _ENTRIES


def visible(text: str) -> str:
    r"""Make every character that would act instead of showing visible: ESC as ``\x1b``, an RTL override as ``\u202e``.

    Printable text comes back unchanged.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    hidden = unicodedata.category(character) in _HIDDEN
    return character.encode("unicode_escape").decode() if hidden else character


def no_command(text: str) -> str:
    """Text for an output with nothing in it that a CI service takes for a command: ``::error::`` at the begin of a line as ``.:error::``, as wide as before."""
    if "::" not in text and "##" not in text:
        return text
    return _COMMAND.sub(lambda found: f"{found[1] or ''}.", text)


#: GitHub passes over blanks before ``::``; it, Azure and TeamCity find theirs anywhere in a line.
_COMMAND = re.compile(r"(?m)(^[^\S\n]*):(?=:)|#(?=#(?:vso|teamcity)?\[)")


def width_of(text: str) -> int:
    """The columns that visible text takes in a terminal: wide East Asian characters count 2, combining marks 0."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


@lru_cache(1 << 12)
def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Cut visible text in the middle so that it takes at most ``width`` columns: both ends of a name tell it apart.

    Of a call stack the outermost frames go first, then those of libraries; the user's innermost one is what stays.
    """
    if width_of(text) <= width:
        return text
    if STACK in text:
        short = innermost(text)
        for frame in text.partition(_own(text))[2].split(STACK)[1:]:
            longer = f"{short}{STACK}{frame}"
            if width_of(longer) + len(_CUT) > width:
                break
            short = longer
        fitting = (one for one in (short + _CUT, short, _own(text)) if width_of(one) <= width)
        return next(fitting, "") or _short_frame(_own(text), width)
    if width <= 1:
        return "…"[:width]
    tail_width = (width - 1) // 2
    head = _prefix(text, width - 1 - tail_width)
    tail = _prefix(text[::-1], tail_width)[::-1]
    return f"{head}…{tail}"


def _prefix(text: str, width: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += _cells(character)
        if taken > width:
            return text[:index]
    return text


def innermost(owner: str) -> str:
    """An owner in short: the operator or the innermost frame, and the user's own innermost frame where that is another."""
    first, own = owner.partition(STACK)[0], _own(owner)
    return own if own == first else f"{first}{STACK}{own}"


def is_own(frame: str) -> bool:
    """Whether a frame is a line of Python of the user's, and not of an installed package, of PyTorch or of the interpreter."""
    return re.match(_CODE, frame) is not None and re.match(_FOREIGN, frame) is None


def _own(owner: str) -> str:
    frames = owner.split(STACK)
    return next(filter(is_own, frames), frames[0])


def own_line(owner: str) -> tuple[str, int] | None:
    """The file and the line of the user's own innermost frame; ``None`` where an owner has none."""
    found = re.match(r"(?:.*[/\\])?([^/\\\s:]+\.py):(\d{1,9})\b", own) if is_own(own := _own(owner)) else None
    return found and (found[1], int(found[2]))


def _short_frame(frame: str, width: int) -> str:
    """A frame in at most ``width`` columns: its file and line tell more than its function."""
    place = frame if width_of(frame) <= width or not re.match(_CODE, frame) else frame.partition(" ")[0]
    return shorten(place, width)


def shortened(texts: Sequence[str], width: int) -> list[str]:
    """Cut the texts of one list (:func:`shorten`); call stacks that would read alike are written as far as they differ."""
    shown = {text: shorten(text, width) for text in texts}
    alike: dict[str, list[str]] = {}
    for text, short in shown.items():
        alike.setdefault(short, []).append(text)
    for those in alike.values():
        if len(those) > 1 and all(STACK in text for text in those):
            shown |= _apart(those, width)
    return [shown[text] for text in texts]


def _apart(owners: Sequence[str], width: int) -> dict[str, str]:
    """Different call stacks with the frame of each in which it differs from the others."""
    rows = list(zip_longest(*(owner.split(STACK) for owner in owners), fillvalue=""))
    differing = next(row for row in rows if len(set(row)) > 1)
    found: dict[str, str] = {}
    for frame in dict.fromkeys(differing):
        those = [owner for owner, its in zip(owners, differing, strict=True) if its == frame]
        if len(those) > 1:
            found |= _apart(those, width)
            continue
        room = max(width - len(_BETWEEN), 2)
        own = _short_frame(_own(those[0]), max(room // 2, room - width_of(frame)))
        found[those[0]] = f"{own}{_BETWEEN}{_short_frame(frame, room - width_of(own))}"
    return found


def clipped(name: str) -> str:
    """A name of a log or a file, cut in its middle where nobody would read all of it; of a call stack what :func:`shorten` keeps."""
    if len(name) <= _LONGEST:
        return name
    return shorten(name, _LONGEST) if STACK in name else f"{name[: _LONGEST // 2]}…{name[-_LONGEST // 3 :]}"


def short_name(name: str) -> str:
    """A name as it stands in a sentence: harmless and short."""
    return shorten(visible(clipped(name)), _WIDEST_IN_TEXT)


def name_list(names: Sequence[str]) -> str:
    """The first few of some names, harmless and short, and how many more there are."""
    left = len(names) - MOST_NAMES
    return ", ".join(map(short_name, names[:MOST_NAMES])) + (f" and {format_count(left)} more" if left > 0 else "")


def file_names(paths: Sequence[str]) -> dict[str, str]:
    """Return names of logs: their file names where these tell them apart, else their paths below the folder that all are in."""
    names = {path: PurePath(path).name or path for path in paths}
    if len(set(names.values())) == len(names):
        return names
    with suppress(ValueError):  # some begin at the root, or on another drive, and some do not
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
        return {path: str(PurePath(path).relative_to(common)) for path in paths}
    return {path: path for path in paths}


def plain_ascii(text: str) -> str:
    r"""The same text for an output that cannot show more than ASCII: ``…`` as ``...``, other characters as ``\xNN``."""
    return text.translate(_IN_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def format_count(count: int) -> str:
    """``1,942``."""
    return f"{count:,}"


def format_share(part: int, whole: int) -> str:
    """A share in percent, ``33%``; ``<1%`` rather than a ``0%`` that is not nothing; empty where the whole is nothing."""
    if whole <= 0:
        return ""
    percent = round(100 * part / whole)
    return "<1%" if percent == 0 and part > 0 else f"{percent}%"


def format_exact(count: int) -> str:
    """Bytes for people and to the byte, for a size by which blocks are known: ``3.38 MiB (3538944 B)``."""
    return format_bytes(count) if abs(count) < 1024 else f"{format_bytes(count)} ({count} B)"


def format_change(base: int, head: int) -> str:
    """A difference in percent of base, cut and not rounded: ``+100.00%``; ``new`` where base is 0; empty where nothing changed.

    Empty too where base is below 0, for no percentage says anything then.
    """
    if base == head or base < 0:
        return ""
    if base == 0:
        return "new"
    sign, hundredths = "+" if head > base else "-", 10_000 * abs(head - base) // base
    if not hundredths:
        return f"{sign}<0.01%"
    if hundredths >= 1_000_000:
        return f"{sign}{hundredths // 100:,}%"
    return f"{sign}{hundredths // 100}.{hundredths % 100:02d}%"


def format_explained(part: int, whole: int) -> str:
    """Which share of a difference a part of it explains, cut and not rounded: ``100.00%`` is all of it, to the byte.

    Empty where no share says anything: the whole is nothing, or the part is larger or has the other sign.
    """
    if whole < 0:
        part, whole = -part, -whole
    if whole == 0 or not 0 <= part <= whole:
        return ""
    hundredths = 10_000 * part // whole
    return f"{hundredths // 100}.{hundredths % 100:02d}%" if hundredths or not part else "<0.01%"


def format_duration(microseconds: int) -> str:
    """``250 µs`` is written ``0.25 ms``; then ``12.30 s``, ``3 min 05 s``, ``2 h 03 min``."""
    sign, value = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if value < 1_000_000:
        return f"{sign}{value / 1000:.2f} ms"
    if value < 60_000_000:
        return f"{sign}{value / 1_000_000:.2f} s"
    seconds = round(value / 1_000_000)
    if seconds < 3600:
        return f"{sign}{seconds // 60} min {seconds % 60:02d} s"
    return f"{sign}{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def format_moment(time_us: int) -> str:
    """A time stamp as the log writes it: ``07-12 10:54:13.123456``, with the year where the log has one.

    Args:
        time_us: Microseconds since the start of a year that the log does not name, or since 1970.
    """
    from datetime import datetime, timedelta

    # A stamp without a year may come from a leap year (see memlens.inputs.paddle.lines).
    year, form = (1970, "%Y-%m-%d") if time_us >= 366 * _DAY_US else (1972, "%m-%d")
    return f"{datetime(year, 1, 1) + timedelta(microseconds=time_us):{form} %H:%M:%S.%f}"  # noqa: DTZ001  as it stands in the log


def format_value(kind: str, value: object) -> str:
    """Write one figure of a table for people.

    Args:
        kind: What the figure is, a ``kind`` of :class:`memlens.reports.blocks.Column`.
        value: The exact figure; ``None`` is not known, where it is one of bytes.
    """
    if value is None:
        return NOT_KNOWN if kind in ("bytes", "signed", "net") else ""
    exact = isinstance(value, int) and not isinstance(value, bool)
    return _WRITERS.get(kind, str)(value) if exact else str(value)


_WRITERS: dict[str, Callable[[Any], str]] = {
    "bytes": format_bytes,
    "signed": format_signed,
    "net": format_signed,
    "count": format_count,
    "duration": format_duration,
}
