"""A profile for pprof: the message ``Profile`` of https://github.com/google/pprof/blob/main/proto/profile.proto, compressed by gzip.

It has the four values of a heap profile of Go: ``alloc_objects``, ``alloc_space``, ``inuse_objects`` and ``inuse_space``; in use is what is
live at the peak.
"""

from __future__ import annotations

import gzip
from pathlib import PurePath
from typing import TYPE_CHECKING

from memlens.exporting.forms import Counted, Wanted, Written
from memlens.exporting.protobuf import message, number, packed, text
from memlens.exporting.stacks import profile
from memlens.text import terms_of, visible
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.exporting.stacks import Frame

__all__ = ["write_pprof"]

# Fields of Profile.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT = (
    1,
    2,
    4,
    5,
    6,
    11,
    12,
    13,
    14,
)
_VALUES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


class _Strings:
    """The table of strings: the first one is empty, and all others are meant by their numbers."""

    def __init__(self) -> None:
        self._numbers = {"": 0}

    def number(self, value: str) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def fields(self) -> bytes:
        return b"".join(text(_STRING, value) for value in self._numbers)


def write_pprof(wanted: Wanted, out: Counted) -> Written:
    """Write a profile of one window."""
    found = profile(wanted)
    strings = _Strings()
    locations: dict[Frame, int] = {}
    functions: dict[tuple[str, str], int] = {}
    parts = [message(_SAMPLE_TYPE, *_value_type(strings, *one)) for one in _VALUES]
    for stack in found.stacks:
        numbers = [locations.setdefault(frame, len(locations) + 1) for frame in stack.frames]
        values = stack.alloc_objects, stack.alloc_bytes, stack.live_objects, stack.live_bytes
        parts.append(message(_SAMPLE, packed(1, numbers), packed(2, values)))
    for frame, location in locations.items():
        function = functions.setdefault((frame.function, frame.file), len(functions) + 1)
        parts.append(message(_LOCATION, number(1, location), message(4, number(1, function), number(2, frame.line))))
    for (name, file), function in functions.items():
        named = number(2, strings.number(name)), number(3, strings.number(name)), number(4, strings.number(file))
        parts.append(message(_FUNCTION, number(1, function), *named))
    highest = found.peak
    at = "" if highest.line is None else f", at {terms_of(wanted.log.facts.layer).at(highest.line)}"
    said = f"{visible(PurePath(wanted.log.source.name).name)}: in use is what is live at the peak, {format_bytes(highest.peak_bytes)}{at}"
    parts += [
        message(_PERIOD_TYPE, *_value_type(strings, "space", "bytes")),
        number(_PERIOD, 1),
        number(_COMMENT, strings.number(said)),
        number(_DEFAULT, strings.number("inuse_space")),
        strings.fields(),
    ]
    out.write(gzip.compress(b"".join(parts), mtime=0))
    return Written(len(found.stacks), found.remarks)


def _value_type(strings: _Strings, name: str, unit: str) -> tuple[bytes, bytes]:
    return number(1, strings.number(name)), number(2, strings.number(unit))
