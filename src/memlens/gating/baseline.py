"""The baseline: what a log once gave, window by window, as a small JSON file to commit.

It is written so that a diff of it reads well: sorted keys, one window a line, nothing that changes from one writing to the next.  It is
read with suspicion: what is not exactly as it was written is an error and never a verdict.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlens import __version__
from memlens.analyzers.result import Row
from memlens.cut import Cut
from memlens.errors import InputError

if TYPE_CHECKING:
    from memlens.gating.limits import Metric
    from memlens.slicing import Window

__all__ = ["SCHEMA", "Baseline", "WindowFigures", "figures_of", "parse_baseline", "read_baseline"]

SCHEMA = "memlens.baseline/1"

#: Larger than the baseline of a hundred thousand windows; whatever is larger is something else.
_LARGEST = 64 << 20
_BEYOND = 1 << 63
_ANEW = "Take it anew with memlens gate LOG --baseline FILE --accept, or get the file back as it was committed."
_NOT_NEGATIVE = ("peak_bytes", "reserved_peak_bytes", "absolute_peak_bytes")


@dataclass(frozen=True)
class WindowFigures(Row):
    """The figures of one window that can be gated, as the analyzers define them.

    Attributes:
        name: The window's name; text from the log.
        peak_bytes: Its peak, counted from its start.
        remaining_bytes: What it leaves behind; may be negative.
        reserved_peak_bytes: The highest level of what chunks hold.
        absolute_peak_bytes: Its peak, and the bytes carried in.
    """

    name: str
    peak_bytes: int
    remaining_bytes: int
    reserved_peak_bytes: int
    absolute_peak_bytes: int

    def of(self, metric: Metric) -> int:
        """The figure of one metric, in bytes."""
        from memlens.gating.limits import METRICS

        value: int = getattr(self, METRICS[metric])
        return value


_FIGURES = tuple(spec.name for spec in fields(WindowFigures) if spec.name != "name")


def figures_of(windows: Sequence[Window]) -> list[WindowFigures]:
    """The figures of windows of one log, in one pass."""
    from memlens.analyzers.peak import peak
    from memlens.analyzers.remaining import remaining

    return [
        WindowFigures(window.name, high.rise_bytes, left.remaining_bytes, high.reserved_peak_bytes, high.peak_bytes)
        for window, high, left in zip(windows, peak(windows), remaining(windows), strict=True)
    ]


@dataclass(frozen=True)
class Baseline:
    """What a log gave when it was accepted.

    Attributes:
        anchors: Where the log was cut.
        windows: The figures of every window, in file order.
        version: The memlens that took it.
        events_sha256: Which events are beside it (see :mod:`memlens.gating.stored`); ``None`` where there are none.

    Raises:
        InputError: There is no window, two have one name, or a figure is out of range.
    """

    anchors: Cut
    windows: tuple[WindowFigures, ...]
    version: str = __version__
    events_sha256: str | None = None

    def __post_init__(self) -> None:
        if not self.windows:
            raise InputError("there is no window in it")
        names = {window.name for window in self.windows}
        if len(names) < len(self.windows):
            raise InputError(
                "two of its windows have one name", "Cut the log so that each window has a name of its own."
            )
        for window in self.windows:
            for key in _FIGURES:
                value = getattr(window, key)
                if not -_BEYOND <= value < _BEYOND or (value < 0 and key in _NOT_NEGATIVE):
                    raise InputError(
                        f"{key} of a window is {value:,}, which no log gives", "Was logging on from the start?"
                    )

    @property
    def series(self) -> bool:
        """Whether it holds a series of windows and not one."""
        return self.anchors.series

    def render(self) -> str:
        """The file: JSON, ASCII, the same bytes for the same figures."""
        values = self._values()
        lines = [f" {json.dumps(key)}: {_line(values[key])}" for key in sorted(values) if key != "windows"]
        windows = ",\n".join(f"  {_line(window)}" for window in values["windows"])
        lines.append(f' "windows": [\n{windows}\n ]')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def _values(self) -> dict[str, Any]:
        values = {
            "schema": SCHEMA,
            "memlens": self.version,
            "anchors": asdict(self.anchors),
            "events_sha256": self.events_sha256,
            "windows": [window.to_dict() for window in self.windows],
        }
        return {**values, "check_sha256": _digest(values)}


def read_baseline(path: str | Path) -> Baseline:
    """Read a baseline file.

    Raises:
        InputError: It cannot be read, is none, was damaged or edited, or is of a schema that this memlens does not know.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        hint = (
            "Take one with memlens gate LOG --baseline FILE --accept." if isinstance(error, FileNotFoundError) else ""
        )
        raise InputError(f"{name}: cannot read the baseline: {error.strerror or error}", hint) from error
    return parse_baseline(text, name)


def parse_baseline(text: bytes, name: str = "<baseline>") -> Baseline:
    """Read the text of a baseline file.

    Args:
        text: What stands in it.
        name: What to call it in errors.

    Raises:
        InputError: See :func:`read_baseline`.
    """
    if len(text) > _LARGEST:
        raise InputError(f"{name}: no baseline of memlens: it is larger than 64 MiB")
    try:
        values = json.loads(
            text.decode(),
            object_pairs_hook=_without_twins,
            parse_int=_integer,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
        return _from_values(values)
    except _OddError as error:
        raise InputError(f"{name}: this baseline was damaged or edited: {error}", _ANEW) from None
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a thousand brackets
        raise InputError(f"{name}: no baseline of memlens: this is no JSON that can be read", _ANEW) from error
    except InputError as error:
        raise InputError(f"{name}: {error.message}", error.hint or _ANEW) from None


class _OddError(Exception):
    """Something in a baseline that memlens never writes."""


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _OddError("a key stands in it twice")
    return values


def _integer(text: str) -> int:
    if len(text) > 20:  # reading a million digits takes minutes
        raise _OddError("a number is larger than any log gives")
    return int(text)


def _refuse_number(text: str) -> Any:
    raise _OddError(f"{text[:20]} is no whole number of bytes")


def _from_values(values: Any) -> Baseline:
    schema = values.get("schema") if isinstance(values, dict) else None
    if not isinstance(schema, str) or not schema.startswith("memlens.baseline/"):
        raise InputError("no baseline of memlens: it does not say that it is one")
    if schema != SCHEMA:
        raise InputError(
            f"a baseline of the schema {schema[:60]!r}, while memlens {__version__} knows {SCHEMA!r} only",
            "Use the memlens that wrote it, or take it anew with --accept after removing the file.",
        )
    _keys(values, {"schema", "memlens", "anchors", "events_sha256", "check_sha256", "windows"}, "the baseline")
    check = values.pop("check_sha256")
    if check != _digest(values):
        raise _OddError("its check sum is not that of its figures")
    version, events = values["memlens"], values["events_sha256"]
    if not isinstance(version, str) or not (events is None or isinstance(events, str)):
        raise _OddError("a text is none")
    if not isinstance(values["windows"], list):
        raise _OddError("its windows are no list")
    windows = tuple(_window(window) for window in values["windows"])
    return Baseline(_anchors(values["anchors"]), windows, version, events)


def _keys(values: Any, wanted: set[str], what: str) -> None:
    if not isinstance(values, dict) or values.keys() != wanted:
        raise _OddError(f"{what} has not the fields it must have")


def _window(values: Any) -> WindowFigures:
    _keys(values, {"name", *_FIGURES}, "a window")
    if not isinstance(values["name"], str):
        raise _OddError("the name of a window is no text")
    for key in _FIGURES:
        if type(values[key]) is not int:  # True is an int, too
            raise _OddError(f"{key} of a window is no whole number of bytes")
    return WindowFigures(**values)


def _anchors(values: Any) -> Cut:
    from memlens.errors import UsageError

    _keys(values, {spec.name for spec in fields(Cut)}, "the anchors")
    texts = [values["start"], values["start_regex"], values["by"]]
    lists = [values["end"], values["end_regex"]]
    if not all(text is None or isinstance(text, str) for text in texts):
        raise _OddError("an anchor is no text")
    if not all(isinstance(ends, list) and all(isinstance(end, str) for end in ends) for ends in lists):
        raise _OddError("the ends of the windows are no list of texts")
    if type(values["nth"]) is not int or values["nth"] < 1:
        raise _OddError("nth is no number that counts from 1")
    try:
        return Cut(**{**values, "end": tuple(values["end"]), "end_regex": tuple(values["end_regex"])})
    except UsageError as error:
        raise _OddError(error.message) from None


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)


def _digest(values: dict[str, Any]) -> str:
    """A check sum over everything else in the file, whatever blanks stand in it."""
    return hashlib.sha256(_line(values).encode()).hexdigest()
