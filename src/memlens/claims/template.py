"""Sentences as data: a template with the names of values, from which the text of a claim is made.

    [{peak_bytes:bytes} allocated[, {reserved_bytes:bytes} reserved]|nothing is allocated]{cut? (cut short)}

``{name:how}`` is a value, written as ``how`` says (:data:`_WRITERS`); ``[…|…]`` is the first alternative of which all values are there and not
``None``, and nothing where that is none of them; ``{name?yes|no}`` is the one or the other text, by whether the value is true, and
``{name=word?yes|no}`` (or ``<``, ``>``) by how it compares with that word or number, or with the value of that name.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from memlens.claims.roles import ROLES
from memlens.text import (
    BEFORE_FIRST,
    clipped,
    format_bytes,
    format_change,
    format_count,
    format_duration,
    format_exact,
    format_explained,
    format_share,
    format_signed,
    innermost,
    name_list,
    plural,
    short_name,
    terms_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Values: TypeAlias = Mapping[str, Any]
    #: A template, or what makes the text of the values where a template cannot.
    Wording: TypeAlias = "str | Callable[[Values], str]"


class Words(NamedTuple):
    """How one kind of claim is told.

    Attributes:
        template: Its text, a clause without a capital or a full stop.
        joined: A template of how it goes on with the sentence of the claim before it, if that has its weight (``"; "``); ``""`` where it
            begins one.
        again: How it goes on with one of its own kind (``", and "``).
        place: Where it stands.  Nothing of a sentence by its weight; ``heads`` before the next sentence (``Device 1: ``); ``always`` for one that
            is there even if weightier ones are left out for it; ``besides`` for one that does not count among those that there is room for.
        named: The value with which the text begins where there is one: a name, which gets no capital.
    """

    template: Wording
    joined: str = ""
    again: str = ""
    place: Literal["", "heads", "always", "besides"] = ""
    named: str = ""


class _Value(NamedTuple):
    name: str
    how: str


class _Choice(NamedTuple):
    """The first text or the second by a flag; without a flag the first one that can be written."""

    flag: str
    texts: tuple[tuple[Any, ...], ...]


_Piece: TypeAlias = "str | _Value | _Choice"

#: Stands in text before each semicolon of a template: a sentence that is too long ends there.
PAUSE = "\x1f"
_TOKEN = re.compile(r"\{(?P<value>\w+)(?::(?P<how>[^{}?|]*))?\}|\{(?P<flag>\w+(?:[<=>][^{}?|]*)?)\?|(?P<mark>[][|{}])")
_COMPARED = re.compile(r"([<=>])")


def write(template: str, values: Values) -> str:
    """The text of a template with some values.

    Raises:
        KeyError: A value that is not optional is missing, or ``None``.
    """
    return _written(parsed(template), values)


@cache
def parsed(template: str) -> tuple[_Piece, ...]:
    """A template in its pieces.

    Raises:
        ValueError: A bracket or a brace has no partner, or a choice has more than two texts.
    """
    return _parse(template, 0, "")[0][0]


def names_in(pieces: Sequence[_Piece]) -> Iterator[str]:
    """The names of all values of a template."""
    for piece in pieces:
        if isinstance(piece, _Value):
            yield piece.name
            if piece.how.startswith(("share ", "range ", "roles ")):
                yield piece.how.partition(" ")[2]
        elif isinstance(piece, _Choice):
            yield from filter(None, [_COMPARED.split(piece.flag)[0]])
            for text in piece.texts:
                yield from names_in(text)


def _parse(template: str, position: int, end: str) -> tuple[tuple[tuple[_Piece, ...], ...], int]:
    """The texts from a position up to a mark that ends them, ``""`` for the end of the template, and the position after that."""
    texts: list[list[_Piece]] = [[]]
    while found := _TOKEN.search(template, position):
        if found.start() > position:
            texts[-1].append(template[position : found.start()])
        position = found.end()
        if found["value"]:
            texts[-1].append(_Value(found["value"], found["how"] or ""))
        elif found["flag"] or found["mark"] == "[":
            inner, position = _parse(template, position, "}" if found["flag"] else "]")
            if found["flag"] and len(inner) > 2:
                raise ValueError(f"{template!r}: {found['flag']!r} has {len(inner)} texts")
            texts[-1].append(_Choice(found["flag"] or "", inner))
        elif found["mark"] == end:
            return tuple(map(tuple, texts)), position
        elif found["mark"] == "|" and end:
            texts.append([])
        else:
            raise ValueError(f"{template!r}: {found['mark']!r} has no partner")
    if end:
        raise ValueError(f"{template!r}: {end!r} is missing")
    texts[-1].append(template[position:])
    return tuple(map(tuple, texts)), position


def _written(pieces: Sequence[_Piece], values: Values) -> str:
    return "".join(
        piece.replace("; ", f"{PAUSE}; ") if isinstance(piece, str) else _one(piece, values) for piece in pieces
    )


def _one(piece: _Value | _Choice, values: Values) -> str:
    if isinstance(piece, _Value):
        if (value := values.get(piece.name)) is None:
            raise KeyError(piece.name)
        writer, _, more = piece.how.partition(" ")
        return _WRITERS[writer](value, more, values)
    if piece.flag:
        return "".join(_written(text, values) for text in piece.texts[not _holds(piece.flag, values) :][:1])
    for text in piece.texts:
        try:
            return _written(text, values)
        except KeyError:
            continue
    return ""


def _holds(flag: str, values: Values) -> bool:
    name, *comparison = _COMPARED.split(flag)
    value = values.get(name)
    if value is None or not comparison:
        return bool(value)
    compared, other = comparison
    bound = values.get(other, other)
    if compared == "=":
        return str(value) == str(bound)
    return bool(value < int(bound) if compared == "<" else value > int(bound))


def _near(size: int, values: Values) -> str:
    alike = values.get("exact") and format_bytes(size) == format_bytes(values["limit_bytes"])
    return f"{size:,} bytes" if alike else format_bytes(size)


def window_label(name: str, unit: str = "window") -> str:
    """The name of a window in a sentence: as in the table; a bare number is told to be one of a window."""
    if name == BEFORE_FIRST:
        return f"the part before the first {unit}"
    return clipped(name if any(map(str.isalpha, name)) else f"window {name}")


#: What each doubt means for a verdict, in short; of any other its name says it.
_DOUBTS = {
    "several_processes": "several processes wrote the log",
    "unknown_frees": "blocks from before the log are freed in it",
    "double_allocs": "Frees are missing",
    "late_output": "anchors or figures come late",
    "no_tensor_events": "only chunks are logged",
    "no_lifetimes": "no line says which block it is about",
    "half_line": "the last line is cut",
}


def _called(name: str) -> str:
    if name == BEFORE_FIRST:
        return window_label(name)
    words = short_name(name)
    return words if any(map(str.isalpha, words)) else f"window {words}"


def _figure(figure: int, _: str, values: Values) -> str:
    unit = values["metric"].rpartition("_")[2]
    return {"bytes": format_bytes, "us": format_duration}.get(unit, format_count)(abs(figure))


def _slope(slope: float, _: str, values: Values) -> str:
    unit = values["metric"].rpartition("_")[2]
    if unit == "bytes" and abs(slope) < 10:
        return f"{abs(slope):.2g} B"
    return _figure(round(slope), "", values) if unit in ("bytes", "us") else f"{abs(slope):.3g}"


#: How values are written: the value, what stands after the name of the writer, and all values of the claim.
_WRITERS: dict[str, Callable[[Any, str, Values], str]] = {
    "": lambda value, _, __: str(value),
    # Nothing: its alternative is taken where there is a value.
    "given": lambda _, __, ___: "",
    "bytes": lambda value, _, __: format_bytes(round(value)),
    # To the byte where the values have ``exact`` and it would read like the limit that it is held against.
    "near": lambda value, _, values: _near(value, values),
    # {needs_bytes:range needs_most_bytes}
    "range": lambda value, most, values: " to ".join(
        dict.fromkeys(_near(one, values) for one in (value, values[most]))
    ),
    "chunks": lambda value, _, values: plural(value, terms_of(not values.get("entries")).chunk),
    "signed": lambda value, _, __: format_signed(value),
    "count": lambda value, _, __: format_count(abs(value)),
    "duration": lambda value, _, __: format_duration(value),
    # {blocks:plural block}, {logs:plural log is/logs are}
    "plural": lambda value, words, _: plural(abs(value), *words.split("/")),
    # {steps:units}: 3 steps, or 3 windows, as the value ``unit`` says
    "units": lambda value, _, values: plural(value, values["unit"]),
    # {part_bytes:share whole_bytes}
    "share": lambda value, whole, values: format_share(value, values[whole]),
    # {"saved": 512} as 50% saved for backward: {roles:roles whole_bytes}
    "roles": lambda value, whole, values: ", ".join(
        f"{format_share(size, values[whole])} {ROLES[role]}" for role, size in value.items()
    ),
    # {"saved": 512} as saved for backward +512 B
    "changes": lambda value, _, __: ", ".join(f"{ROLES[role]} {format_signed(size)}" for role, size in value.items()),
    "name": lambda value, _, __: short_name(value),
    "names": lambda value, _, __: name_list(value),
    # {"device 0": 512} as device 0 512 B
    "sizes": lambda value, _, __: ", ".join(f"{name} {format_bytes(size)}" for name, size in value.items()),
    # {"STEP 7": 512} as by 512 B in STEP 7
    "rises": lambda value, _, values: ", ".join(
        f"by {format_bytes(size)} in {window_label(name, values.get('unit', 'window'))}" for name, size in value.items()
    ),
    "clipped": lambda value, _, __: clipped(value),
    # A phase of a step, in which something was: ``in FORWARD``, ``after STEP END``.
    "phase": lambda value, _, __: clipped(value if value.startswith("after ") else f"in {value}"),
    # Whose a block is: an operator, or the innermost frame of a call stack.
    "owner": lambda value, _, __: clipped(innermost(value)),
    "short_owner": lambda value, _, __: short_name(innermost(value)),
    # The name of a window in a sentence.
    "window": lambda value, _, values: window_label(value, values.get("unit", "window")),
    "short_window": lambda value, _, values: short_name(window_label(value, values.get("unit", "window"))),
    "doubts": lambda value, _, __: ", ".join(_DOUBTS.get(code, code.replace("_", " ")) for code in value),
    # Of an input without lines of text the values have ``entries``.
    "at": lambda value, _, values: terms_of(not values.get("entries")).at(value),
    # Without its sign: ``5.00 MiB``; and with a word for it: ``5.00 MiB more``.
    "size": lambda value, _, __: format_bytes(abs(value)),
    "more": lambda value, _, __: f"{format_bytes(abs(value))} {'more' if value > 0 else 'less'}",
    "exact": lambda value, _, __: format_exact(value),
    # A figure of a metric, whose name is ``metric``, without its sign; and what it gains for one more of a field.
    "figure": _figure,
    "slope": _slope,
    # {part_bytes:explained whole_bytes}, cut and not rounded; {head_bytes:change base_bytes}
    "explained": lambda value, whole, values: format_explained(value, values[whole]),
    "change": lambda value, base, values: format_change(values[base], value),
    # The name of a pair of windows; and of several.
    "called": lambda value, _, __: _called(value),
    "all_called": lambda value, _, __: ", ".join(map(_called, value)),
    # Whose blocks of a size are, behind it.
    "whose": lambda value, _, __: short_name(value) if value.startswith("(") else f"({short_name(value)})",
    "codes": lambda value, _, __: ", ".join(value).replace("_", " "),
    "all_names": lambda value, _, __: " and ".join(map(short_name, value)),
    # Texts as they are: {reasons:listed}, with {reasons:listed ;} or {reasons:listed and} between them; and ``a, b and c``.
    "listed": lambda value, mark, _: {"": ", ", ";": "; ", "and": " and "}[mark].join(value),
    "and": lambda value, _, __: " and ".join(filter(None, (", ".join(value[:-1]), value[-1]))),
}
