"""Path templates: ``runs/gbs{gbs}/{branch}/workerlog.{rank}`` finds files and says what stands where each field is.

A field is what ``*`` is to a shell: it stands for one or more characters of one name in a path, never for a separator, and what it
stands for does not begin with a dot: ``workerlog{rank}`` is not ``workerlog.0``.  Everything else is taken as it stands, so that brackets, stars and dots of a path
mean themselves; ``{{`` and ``}}`` are braces.  Where a text could be split between two fields in several ways, the earlier one
gets as little as possible.  A field that comes twice has one value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from memlens.errors import InputError, UsageError
from memlens.inputs.folders import entries_of, is_file

#: A piece of a template: literal text, or the name of a field.
_Piece: TypeAlias = "tuple[str, bool]"
#: The pieces of one name of a path.
_Name: TypeAlias = "Sequence[_Piece]"
#: How far the walk came: depths, the folders looked into, and what stood there.
_Reached: TypeAlias = "list[tuple[int, str, str]]"
_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<field>[^{}]*)\}|[{}]")
_NUMBER = re.compile(r"[-+]?[0-9]{1,300}(?:\.[0-9]{1,300})?")
_DIGITS = re.compile(r"([0-9]+)")
_MARK = "An opening or closing brace itself is written {{ or }}."


class Found(Struct, frozen=True):
    """A file that a template matches, or a folder on the way of which something is left out.

    Attributes:
        path: Where it is, begun as the template begins.
        fields: What stands where each field is; of a folder only the fields up to it.
        problem: Why a folder cannot be looked into, or what in it nearly matches, or ``""``.
    """

    path: str
    fields: Mapping[str, str]
    problem: str = ""


class Template(Struct, frozen=True, dict=True):
    """A path with fields in it.

    Args:
        text: The template.

    Raises:
        UsageError: It has no field, a field without a proper name, two fields side by side, or a brace that belongs to none.
    """

    text: str

    def __post_init__(self) -> None:
        if not self.fields:
            raise UsageError(
                f"the template {self.text!r} has no field",
                "Write a name in braces where paths differ: 'runs/{branch}/workerlog.{rank}'.",
            )

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields, in their order."""
        return tuple(dict.fromkeys(text for pieces in self._names for text, is_field in pieces if is_field))

    @cached_property
    def _names(self) -> list[list[_Piece]]:
        """The pieces of each name of the path; the first name of an absolute path is empty."""
        names: list[list[_Piece]] = [[]]
        at = 0
        for token in _TOKEN.finditer(self.text):
            _add_literal(names, self.text[at : token.start()])
            at = token.end()
            if token[0] in ("{{", "}}"):
                _add_literal(names, token[0][0])
            elif (name := token["field"]) is None:
                raise UsageError(f"the template {self.text!r} has a {token[0]} that belongs to no field", _MARK)
            elif not name.isidentifier():
                raise UsageError(
                    f"{{{name}}} in the template {self.text!r} is no field",
                    f"A field has a name of letters, digits and _ and begins with a letter. {_MARK}",
                )
            elif names[-1] and names[-1][-1][1]:
                raise UsageError(
                    f"{{{names[-1][-1][0]}}} and {{{name}}} stand side by side in the template {self.text!r}",
                    "Nothing says where the one ends and the other begins; write what stands between them.",
                )
            else:
                names[-1].append((name, True))
        _add_literal(names, self.text[at:])
        return names

    def fill(self, fields: Mapping[str, str]) -> str:
        """The path with these values in place of its fields."""
        return "/".join(_text(name, fields) for name in self._names)

    def find(self) -> list[Found]:
        """All files that match, in the natural order of their fields: ``2`` comes before ``10``.

        Raises:
            InputError: None does; the message says how far the path could be followed.
        """
        reached: _Reached = [(-1, "", "nothing of that name")]
        found = list(_walk("", self._names, {}, reached))
        if all(match.problem for match in found):
            _, folder, has = max(reached, key=itemgetter(0))
            problem = found[0].problem if found else f"{folder or '.'} has {has}"
            raise InputError(f"no file matches the template {self.text!r}", f"{problem}.")
        return sorted(found, key=lambda match: [natural(match.fields.get(name, "")) for name in self.fields])


def _add_literal(names: list[list[_Piece]], text: str) -> None:
    """Add text to the last name; each separator in it begins a new one."""
    first, *rest = re.split(r"[/\\]", text) if os.sep == "\\" else text.split("/")
    if first:
        names[-1].append((first, False))
    names.extend([(part, False)] if part else [] for part in rest)


def _text(name: _Name, fields: Mapping[str, str]) -> str:
    """A name with these values in place of its fields; a field without a value stands there in braces."""
    return "".join(fields.get(text, f"{{{text}}}") if is_field else text for text, is_field in name)


def _walk(
    folder: str, names: Sequence[_Name], bound: Mapping[str, str], reached: _Reached, depth: int = 0
) -> Iterator[Found]:
    """The files below ``folder`` that the rest of a template matches, given the values of the fields so far."""
    name, rest = names[0], names[1:]
    if not any(is_field and text not in bound for text, is_field in name):
        # Nothing to look for: also . and .. and names in folders that may be entered but not listed.
        path = f"{folder}{_text(name, bound)}"
        if rest:
            yield from _walk(f"{path}/", rest, bound, reached, depth + 1)
        elif path != folder and is_file(path):
            yield Found(path, bound)
        else:
            text = _text(name, bound)
            reached.append((depth, folder, f"no file {text!r}" if text else "no file name in the template"))
        return
    pattern, dotted = _pattern(name, bound), _pattern(name, bound, dots=True)
    hidden = not name[0][1] and name[0][0].startswith(".")
    try:
        entries = entries_of(folder)
    except (FileNotFoundError, NotADirectoryError):
        reached.append((depth - 1, folder, "no such folder"))
        return
    except OSError as error:
        yield Found(folder.rstrip("/"), bound, f"{folder}: cannot be looked into: {error.strerror or error}")
        return
    except InputError as error:
        yield Found(folder.rstrip("/"), bound, f"{error.message}. {error.hint or ''}".rstrip(". "))
        return
    here = [one.name for one in entries if one.is_folder == bool(rest) and (hidden or not one.name.startswith("."))]
    matches = [(entry, match) for entry in here if (match := pattern.fullmatch(entry))]
    for entry, match in matches:
        fields = {**bound, **match.groupdict()}
        if rest:
            yield from _walk(f"{folder}{entry}/", rest, fields, reached, depth + 1)
        else:
            yield Found(f"{folder}{entry}", fields)
    known = {entry for entry, _ in matches}
    nearly = [(entry, loose) for entry in here if entry not in known and (loose := dotted.fullmatch(entry))]
    if nearly:
        entry, loose = nearly[0]
        more = f" and {len(nearly) - 1:,} more" if len(nearly) > 1 else ""
        meant = _text(
            name, {text: f".{{{text}}}" for text, value in loose.groupdict().items() if value.startswith(".")}
        )
        yield Found(folder.rstrip("/"), bound, f"{folder}{entry}{more}: no field begins with a dot; write {meant!r}")
    if not matches:
        reached.append((depth, folder, f"no {'folder' if rest else 'file'} {_text(name, {})!r}"))


def _pattern(name: _Name, bound: Mapping[str, str], *, dots: bool = False) -> re.Pattern[str]:
    """A regular expression that a whole name of a path matches; its groups are the fields that have no value yet.

    Args:
        name: The pieces of the name.
        bound: The fields that have a value.
        dots: Values may begin with a dot.
    """
    parts, seen = [], set(bound)
    for text, is_field in name:
        if not is_field:
            parts.append(re.escape(text))
        elif text in bound:
            parts.append(re.escape(bound[text]))
        elif text in seen:
            parts.append(f"(?P={text})")
        else:
            seen.add(text)
            parts.append(f"(?P<{text}>.+?)" if dots else f"(?P<{text}>[^.].*?)")
    return re.compile("".join(parts), re.DOTALL)


def number(text: str) -> float | None:
    """A value as a number, ``32`` or ``-0.5``; ``None`` where it is none."""
    return float(text) if _NUMBER.fullmatch(text) else None


def natural(text: str) -> tuple[tuple[float, str], ...]:
    """A key that orders values as people do: numbers by size, and numbers within names too; ``run9`` before ``run10``."""
    value = number(text)
    if value is not None:
        return ((value, ""), (0.0, text))
    parts = _DIGITS.split(text)
    # Text comes after numbers: an infinite first part.  Digits of any length: a float of 300 digits and more is infinite too.
    return tuple(
        (float(part[:300]), part) if part[:1].isdigit() and part.isascii() else (float("inf"), part) for part in parts
    )
