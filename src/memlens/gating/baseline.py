"""The baseline: what one run or several of a program once gave, window by window, as a small JSON file to commit.

It is written so that a diff of it reads well: sorted keys, one window a line, nothing that changes from one writing to the next.  It is
read with suspicion: what is not exactly as it was written is an error and never a verdict.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from memlens import __version__
from memlens.errors import InputError, UsageError
from memlens.gating.figures import NEAR, Near, RunFigures, WindowFigures
from memlens.options import Cut

__all__ = ["SCHEMA", "Baseline", "anchor_options", "parse_baseline", "read_baseline"]

SCHEMA = "memlens.baseline/2"

#: Larger than the baseline of a hundred thousand windows; whatever is larger is something else.
_LARGEST = 64 << 20
_BEYOND = 1 << 63
_ANEW = "Take it anew with memlens gate LOG --baseline FILE --accept, or get the file back as it was committed."


@dataclass(frozen=True)
class Baseline:
    """What runs gave when they were accepted.

    Attributes:
        anchors: Where their logs were cut.
        runs: The figures of each run, in the order in which they were given.
        version: The memlens that took it.
        events_sha256: Which events, those of the first run, are beside it (see :mod:`memlens.gating.stored`); ``None`` where there are
            none.

    Raises:
        InputError: There is no run or no window, two windows of a run have one name, or a figure is out of range.
    """

    anchors: Cut
    runs: tuple[RunFigures, ...]
    version: str = __version__
    events_sha256: str | None = None

    def __post_init__(self) -> None:
        if not self.runs or not all(run.windows for run in self.runs):
            raise InputError("there is no window in it")
        for run in self.runs:
            if len({window.name for window in run.windows}) < len(run.windows):
                raise InputError(
                    "two of its windows have one name", "Cut the log so that each window has a name of its own."
                )
            for key, value, low in _bounded(run):
                if value is not None and not low <= value < _BEYOND:
                    raise InputError(f"{key} is {value:,}, which no log gives", "Was logging on from the start?")

    def render(self) -> str:
        """The file: JSON, ASCII, the same bytes for the same figures."""
        values = self._values()
        lines = [f" {json.dumps(key)}: {_line(values[key])}" for key in sorted(values) if key != "runs"]
        runs = ",\n".join(map(_run_text, values["runs"]))
        lines.append(f' "runs": [\n{runs}\n ]')
        return "{\n" + ",\n".join(sorted(lines)) + "\n}\n"

    def _values(self) -> dict[str, Any]:
        values = {
            "schema": SCHEMA,
            "memlens": self.version,
            "anchors": asdict(self.anchors),
            "events_sha256": self.events_sha256,
            "runs": [vars(run) for run in self.runs],
        }
        return {**values, "check_sha256": _digest(values)}


def _bounded(run: RunFigures) -> Iterator[tuple[str, int | None, int]]:
    """Each figure of a run, what it is called, and the least that it may be."""
    yield "peak_bytes of a run", run.peak_bytes, 0
    yield "reserved_peak_bytes of a run", run.reserved_peak_bytes, 0
    for window in run.windows:
        yield "rise_bytes of a window", window.rise_bytes, 0
        yield "remaining_bytes of a window", window.remaining_bytes, -_BEYOND
        yield "live_bytes of a window", window.live_bytes, -_BEYOND
        for size in (*window.start_events, *window.end_events):
            yield "an event at an anchor of a window", size, 1 - _BEYOND


def _run_text(run: dict[str, Any]) -> str:
    """One run, each of its windows on a line of its own."""
    windows = ",\n".join(f"   {_line(window)}" for window in run["windows"])
    figures = ", ".join(f"{json.dumps(key)}: {_line(run[key])}" for key in sorted(run) if key != "windows")
    return f'  {{{figures}, "windows": [\n{windows}\n  ]}}'


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
        take = "Take one with memlens gate LOG --baseline FILE --accept."
        hint = take if isinstance(error, FileNotFoundError) else ""
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
        return _from_values(json.loads(text.decode(), object_pairs_hook=_Hook()))
    except _OddError as error:
        raise InputError(f"{name}: this baseline was damaged or edited: {error}", _ANEW) from None
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a thousand brackets
        raise InputError(f"{name}: no baseline of memlens: this is no JSON that can be read", _ANEW) from error
    except InputError as error:
        raise InputError(f"{name}: {error.message}", error.hint or _ANEW) from None


class _OddError(Exception):
    """Something in a baseline that memlens never writes."""


#: What the fields of the figures of a window are.
_KINDS = get_type_hints(WindowFigures)


class _Hook:
    """Makes the objects of a baseline, figures of windows right away: there may be very many of them, which are often alike."""

    def __init__(self) -> None:
        self._alike: dict[Near, Near] = {}
        self._sizes: dict[int, int] = {}

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any] | WindowFigures:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise _OddError("a key stands in it twice")
        if values.keys() == _KINDS.keys():
            try:
                found: WindowFigures = _typed(WindowFigures, values)
            except _OddError:
                return values
            start, end = (self._alike.setdefault(near, near) for near in (found.start_events, found.end_events))
            rise, left = (self._sizes.setdefault(size, size) for size in (found.rise_bytes, found.remaining_bytes))
            return replace(found, rise_bytes=rise, remaining_bytes=left, start_events=start, end_events=end)
        return values


def _from_values(values: Any) -> Baseline:
    schema = values.get("schema") if isinstance(values, dict) else None
    if not isinstance(schema, str) or not schema.startswith("memlens.baseline/"):
        raise InputError("no baseline of memlens: it does not say that it is one")
    if schema != SCHEMA:
        raise InputError(
            f"a baseline of the schema {schema[:60]!r}, while memlens {__version__} knows {SCHEMA!r} only",
            _anew(values),
        )
    if values.keys() != {"schema", "memlens", "anchors", "events_sha256", "check_sha256", "runs"}:
        raise _OddError("it has not the fields it must have")
    check = values.pop("check_sha256")
    if check != _digest(values):
        raise _OddError("its check sum is not that of its figures")
    runs: tuple[RunFigures, ...] = _typed(tuple[RunFigures, ...], values["runs"])
    if any(len(near) != 2 * NEAR for run in runs for one in run.windows for near in (one.start_events, one.end_events)):
        raise _OddError("a window has not the events at its anchors")
    version, events = _typed(str, values["memlens"]), _typed(str | None, values["events_sha256"])
    return Baseline(_anchors(values["anchors"]), runs, version, events)


def _typed(kind: Any, value: Any) -> Any:
    """A value of JSON as what it must be: a dataclass, a tuple of things of one kind, a plain value, or one that may be ``None``.

    Raises:
        _OddError: It is anything else.
    """
    if is_dataclass(kind):
        if isinstance(value, kind):  # type: ignore[arg-type]
            return value
        kinds = _KINDS if kind is WindowFigures else get_type_hints(kind)
        if not isinstance(value, dict) or value.keys() != kinds.keys():
            raise _OddError("something in it has not the fields it must have")
        return kind(**{name: _typed(kinds[name], value[name]) for name in kinds})  # type: ignore[operator]
    first, *others = get_args(kind) or [kind]
    if type(None) in others:
        return None if value is None else _typed(first, value)
    several = others or get_origin(kind) is Sequence
    if several and isinstance(value, list):
        return tuple(_typed(first, one) for one in value)
    if several or type(value) is not first:  # True is an int, too
        raise _OddError(f"something in it is no {getattr(first, '__name__', first)}")
    return value


def _anchors(values: Any) -> Cut:
    try:
        cut: Cut = _typed(Cut, values)
    except UsageError as error:
        raise _OddError(error.message) from None
    if cut.nth < 1:
        raise _OddError("nth is no number that counts from 1")
    return cut


def _anew(values: dict[str, Any]) -> str:
    """How to take a baseline of another schema anew, with its anchors where they can be read."""
    try:
        cut = anchor_options(_anchors(values.get("anchors")))
    except _OddError:
        cut = ""
    command = f"memlens gate LOG --baseline FILE{f' {cut}' if cut else ''} --accept"
    return f"Remove the file and take it anew, of a run that is known to be good: {command}"


def anchor_options(cut: Cut) -> str:
    """Where to cut, as options of the command line; ``""`` where nothing is cut."""
    options = [("--by", cut.by), ("--start", cut.start), ("--start-regex", cut.start_regex)]
    options += [("--end", end) for end in cut.end] + [("--end-regex", end) for end in cut.end_regex]
    given = [f"{name} {shlex.quote(text)}" for name, text in options if text is not None]
    return " ".join([*given, *([f"--nth {cut.nth}"] if cut.nth != 1 else [])])


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, default=WindowFigures.to_dict)


def _line_in_parts(value: Any) -> Iterator[str]:
    """The same, a run window by window."""
    if isinstance(value, dict):
        for before, key in zip(chain("{", repeat(", ")), sorted(value), strict=False):
            yield f"{before}{_line(key)}: "
            yield from _line_in_parts(value[key])
        yield "}" if value else "{}"
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (dict, WindowFigures)):
        for before, one in zip(chain("[", repeat(", ")), value, strict=False):
            yield before
            yield from _line_in_parts(one)
        yield "]"
    else:
        yield _line(value)


def _digest(values: dict[str, Any]) -> str:
    """A check sum over everything else in the file, whatever blanks stand in it."""
    digest = hashlib.sha256()
    for part in _line_in_parts(values):
        digest.update(part.encode())
    return digest.hexdigest()
