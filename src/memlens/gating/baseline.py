"""The baseline: what one run or several of a program once gave, window by window, as a small JSON file to commit.

It is written so that a diff of it reads well: sorted keys, one window a line, nothing that changes from one writing to the next.  It is
read with suspicion: what is not exactly as it was written is an error and never a verdict.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from memlens import __version__
from memlens.errors import InputError
from memlens.gating.figures import RunFigures, WindowFigures
from memlens.gating.slips import NEAR
from memlens.options import Cut

__all__ = ["SCHEMA", "Baseline", "anchor_options", "parse_baseline", "read_baseline"]

SCHEMA = "memlens.baseline/2"

#: Larger than the baseline of a hundred thousand windows; whatever is larger is something else.
_LARGEST = 64 << 20
_BEYOND = 1 << 63
_ANEW = "Take it anew with memlens gate LOG --baseline FILE --accept, or get the file back as it was committed."


_RUN = ("peak_bytes", "reserved_peak_bytes", "windows")
_WINDOW = {
    "name": str,
    "rise_bytes": int,
    "remaining_bytes": int,
    "live_bytes": int,
    "open_end": bool,
    "start_events": list,
    "end_events": list,
}
_KINDS = {str: "text", int: "whole number of bytes", bool: "true or false", list: "list"}
_EVENTS = ("start_events", "end_events")


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
            "runs": [{**vars(run), "windows": [window.to_dict() for window in run.windows]} for run in self.runs],
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
            _anew(values),
        )
    _keys(values, {"schema", "memlens", "anchors", "events_sha256", "check_sha256", "runs"}, "the baseline")
    check = values.pop("check_sha256")
    if check != _digest(values):
        raise _OddError("its check sum is not that of its figures")
    version, events = values["memlens"], values["events_sha256"]
    if not isinstance(version, str) or not (events is None or isinstance(events, str)):
        raise _OddError("a text is none")
    if not isinstance(values["runs"], list):
        raise _OddError("its runs are no list")
    return Baseline(_anchors(values["anchors"]), tuple(map(_run, values["runs"])), version, events)


def _anew(values: dict[str, Any]) -> str:
    """How to take a baseline of another schema anew, with its anchors where they can be read."""
    try:
        cut = anchor_options(_anchors(values.get("anchors")))
    except _OddError:
        cut = ""
    command = f"memlens gate LOG --baseline FILE{f' {cut}' if cut else ''} --accept"
    return f"Remove the file and take it anew, of a run that is known to be good: {command}"


def _keys(values: Any, wanted: set[str], what: str) -> None:
    if not isinstance(values, dict) or values.keys() != wanted:
        raise _OddError(f"{what} has not the fields it must have")


def _run(values: Any) -> RunFigures:
    _keys(values, set(_RUN), "a run")
    for key in ("peak_bytes", "reserved_peak_bytes"):
        if values[key] is not None and type(values[key]) is not int:  # True is an int, too
            raise _OddError(f"{key} of a run is no whole number of bytes")
    if not isinstance(values["windows"], list):
        raise _OddError("the windows of a run are no list")
    return RunFigures(values["peak_bytes"], values["reserved_peak_bytes"], tuple(map(_window, values["windows"])))


def _window(values: Any) -> WindowFigures:
    _keys(values, set(_WINDOW), "a window")
    for key, kind in _WINDOW.items():
        if type(values[key]) is not kind:
            raise _OddError(f"{key} of a window is no {_KINDS[kind]}")
    for key in _EVENTS:
        if len(values[key]) != 2 * NEAR or not all(type(size) is int and abs(size) < _BEYOND for size in values[key]):
            raise _OddError(f"{key} of a window are no sizes")
    return WindowFigures(**{**values, **{key: tuple(values[key]) for key in _EVENTS}})


def anchor_options(cut: Cut) -> str:
    """Where to cut, as options of the command line; ``""`` where nothing is cut."""
    options = [("--by", cut.by), ("--start", cut.start), ("--start-regex", cut.start_regex)]
    options += [("--end", end) for end in cut.end] + [("--end-regex", end) for end in cut.end_regex]
    given = [f"{name} {shlex.quote(text)}" for name, text in options if text is not None]
    return " ".join([*given, *([f"--nth {cut.nth}"] if cut.nth != 1 else [])])


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
