"""Results for machines: JSON by their contracts, and CSV with a row a window (or pair of windows) and a column a figure.

Both hold exact integers.  Text from a log is a JSON string with every character beyond ASCII escaped: no terminal that the output is
printed on by accident obeys it.  In CSV, which has no lists (what is live at the peak, what is held, what differs), it is made visible
as on the terminal, and a cell of text that a spreadsheet would take for a formula gets an apostrophe in front, as spreadsheets
themselves write it.  Programs that join on names should read the JSON, where names are exact.
"""

from __future__ import annotations

import csv
import io
import json
import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from memlens.results import Listed, Result, Tabular, builtin, plain, to_builtins
from memlens.text import no_command, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Characters that are handed on at once.
_AT_ONCE = 1 << 16
#: Levels of a document that have a line for each entry; what lies deeper stands in one line.
_DEPTH = 5
#: So many entries of a long list are written together.
_TOGETHER = 32
_ENCODER = msgspec.json.Encoder(enc_hook=builtin)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")

#: What a spreadsheet takes for the beginning of a formula, in full width too.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def json_parts(result: Result) -> Iterator[str]:
    """One JSON document with a newline at its end, in parts none of which holds many windows."""
    yield from _in_parts(_json(plain(result), 0))
    yield "\n"


def _json(value: Any, depth: int) -> Iterator[str]:
    """The text of a value, a level of a document at a time as far down as lists may be long; below that all at once."""
    if depth < _DEPTH and isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if not isinstance(value, Listed) and not (value and depth < _DEPTH and isinstance(value, (dict, list))):
        yield _text(value)
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    between = f"{opening}\n{' ' * (depth + 1)}"
    if depth + 1 == _DEPTH and _has_a_line_each(value):
        yield from _objects([value], depth)
        return
    for entry in _partly_written(value, depth + 1) if depth + 2 == _DEPTH and isinstance(value, Listed) else value:
        name, held = (f"{_name(entry)}: ", value[entry]) if isinstance(value, dict) else ("", entry)
        if isinstance(held, _Written):
            yield between + held
        elif isinstance(held, Listed) or (depth + 1 < _DEPTH and isinstance(held, (dict, list, msgspec.Struct))):
            yield between + name
            yield from _json(held, depth + 1)
        else:
            yield between + name + _text(held)
        between = f",\n{' ' * (depth + 1)}"
    yield f"\n{' ' * depth}{closing}" if between[0] == "," else f"{opening}{closing}"


class _Written(str):
    """A part of a document."""

    __slots__ = ()


def _partly_written(entries: Listed[Any], depth: int) -> Iterator[Any]:
    """The entries of a list, written where that can be done for many at once."""
    rest = iter(entries)
    while some := [*islice(rest, _TOGETHER)]:
        yield from map(_Written, _objects(some, depth)) if all(map(_has_a_line_each, some)) else some


def _has_a_line_each(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is an object, of which each value is to stand in one line."""
    return bool(value) and isinstance(value, dict) and Listed not in map(type, value.values())


def _objects(values: Sequence[dict[str, Any]], depth: int) -> Iterator[str]:
    """The texts of such objects."""
    texts = iter(_lines(held for value in values for held in value.values()))
    between = f"\n{' ' * (depth + 1)}"
    for value in values:
        lines = f",{between}".join(map("{}: {}".format, map(_name, value), texts))
        yield f"{{{between}{lines}\n{' ' * depth}}}"


def _text(value: Any) -> str:
    """A value in one line, ASCII alone."""
    return str(value) if type(value) is int else _lines((value,))[0]


def _lines(values: Iterable[Any]) -> list[str]:
    """Values, each in one line, ASCII alone."""
    values = [*values]
    try:
        text = _ENCODER.encode_lines(values).decode()
    except UnicodeEncodeError:  # bytes of a file name that are no UTF-8
        texts = (json.dumps(to_builtins(value), ensure_ascii=True, separators=(",", ":")) for value in values)
        text = "\n".join(texts) + "\n"
    # What a CI service takes for a command, and the only control character that the encoder leaves; outside strings there is neither.
    text = text.replace("##", "#\\u0023").replace("\x7f", "\\u007f")
    return (text if text.isascii() else _BEYOND_ASCII.sub(_escaped, text)).split("\n")[:-1]


_name = lru_cache(_text)


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def _in_parts(texts: Iterable[str]) -> Iterator[str]:
    """Short texts put together to longer ones."""
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= _AT_ONCE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def csv_parts(result: Tabular) -> Iterator[str]:
    """A heading and a row a window, in such parts."""
    yield from _in_parts(_csv_lines(*result.lazy_rows()))


def _csv_lines(names: Sequence[str], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(cell(name) for name in names)
    known = set(names)
    for row in rows:
        if not known.issuperset(row):
            raise ValueError(f"a row has columns that were not named: {sorted(row.keys() - known)}")
        writer.writerow([cell(row.get(name)) for name in names])
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def cell(value: Any) -> Any:
    """A value as it stands in CSV: nothing is empty, and text is harmless on a terminal and in a spreadsheet."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = no_command(visible(value))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
