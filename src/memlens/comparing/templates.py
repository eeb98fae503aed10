"""The fields of paths: what a template finds, and what paths by themselves say of the ranks of a job.

**Templates**: ``runs/gbs{gbs}/{branch}/workerlog.{rank}`` finds files and says what stands where each field is.  A field is what ``*`` is to a shell: it stands for one or more characters of one name in a path, never for a separator, and what it
stands for does not begin with a dot: ``workerlog{rank}`` is not ``workerlog.0``.  Everything else is taken as it stands, so that brackets, stars and dots of a path
mean themselves; ``{{`` and ``}}`` are braces.  Where a text could be split between two fields in several ways, the earlier one
gets as little as possible.  A field that comes twice has one value.

**Ranks of a job**, what to call each, and which numbers are missing.  A word of :data:`WORDS` with a number behind it (``rank0017``, ``workerlog.3``, ``pp_rank=1``, ``node-4``, ``tp2dp0``) is a field.  What numbers processes
(``workerlog``, ``worker``, ``trainer``, ``process``, ``task``) is called ``rank``, a machine (``host``, ``machine``) ``node``.  Where two words of a path would be one
field the last one is, and the others keep their own name: ``job-worker-1/workerlog.0`` is worker 1, rank 0.  Zeros in front of a number mean nothing.  A number that other
letters follow is none: ``worker-0a1f``.

Logs are the ranks of one job where their paths differ in such numbers only, no two in none.  Numbers of stages and the like (``pp``, ``dp``, ``stage``) count from 0: ``dp2.log`` and
``dp4.log`` are two jobs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from memlens.errors import InputError, UsageError
from memlens.inputs.folders import entries_of, is_file
from memlens.text import short_name

#: A piece of a template: literal text, or the name of a field.
_Piece: TypeAlias = "tuple[str, bool]"
#: The pieces of one name of a path.
_Name: TypeAlias = "Sequence[_Piece]"
#: How far the walk came: depths, the folders looked into, and what stood there.
_Reached: TypeAlias = "list[tuple[int, str, str]]"
_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<field>[^{}]*)\}|[{}]")
_NUMBER = re.compile(r"[-+]?[0-9]{1,300}(?:\.[0-9]{1,300})?")
_DIGITS = re.compile(r"([0-9]+)")
_RANK = "rank"
_RANKS = ("workerlog", "worker", "trainer", "process", "proc", "task", "rank", "global_rank")
_MACHINES = ("node", "host", "machine")
_PLACES = ("local_rank", "localrank", "gpu", "card", "device", "npu", "xpu")
#: What ranks of a job share by design.
_PARTS = ("stage", "pp", "tp", "dp", "mp", "ep", "cp", "sp", "vpp", "sharding", "shard", "expert", "replica")
#: Words that number what a job consists of.
WORDS = (*_RANKS, *_MACHINES, *_PLACES, *_PARTS)
_SAME = {**dict.fromkeys(_RANKS, _RANK), **dict.fromkeys(_MACHINES, "node"), "localrank": "local_rank"}
_WORD = "|".join(sorted(WORDS, key=len, reverse=True))
#: A word and its number, which another one may follow (``pp1tp0``), and no other letter.
_FIELD = re.compile(
    rf"(?<![a-z])({_WORD})(?:[_-](?:rank|id|idx|index|stage))?[_.=-]?([0-9]+)(?=[^0-9a-z]|$|of[0-9]|(?:{_WORD})[_.=-]?[0-9])",
    re.IGNORECASE,
)
_COMPRESSED = re.compile(r"\.(?:gz|zst|xz|bz2)$")
#: Of more ranks than this that are missing none is listed.
_MOST_MISSING = 100_000
#: A longer number is none of a rank.
_OF_RANK = re.compile(r"\d{1,18}")
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


# --- ranks of a job ----------------------------------------------------------------------------------------------------------


def numbers_ranks(field: str, values: Iterable[str]) -> bool:
    """Whether a field numbers the ranks of a job, by its name: one of stages and the like only where a value is 0."""
    words = set(field.lower().split("_"))
    if not words.isdisjoint((*_RANKS, *_PLACES)) or is_machine(field):
        return True
    return not words.isdisjoint(_PARTS) and "0" in map(_plain, values)


def is_machine(field: str) -> bool:
    """Whether a field numbers machines, by its name: ranks do not differ by it by design."""
    return not {*_MACHINES, "hostname", "server", "pod", "worker"}.isdisjoint(field.lower().split("_"))


def fields_of_ranks(paths: Sequence[str]) -> list[dict[str, str]] | None:
    """The fields by which the paths of one job's ranks differ, of each; ``None`` where they are not such paths.

    Args:
        paths: Paths or URLs; at least two.
    """
    names = [_COMPRESSED.sub("", path) for path in paths]
    if len({_FIELD.sub(lambda found: found[1].lower(), name) for name in names}) > 1:
        return None
    numbered = [_FIELD.findall(name) for name in names]
    words = [word.lower() for word, _ in numbered[0]]
    fields = [_SAME.get(word, word) for word in words]
    fields = [
        word if field in fields[k + 1 :] else field for k, (word, field) in enumerate(zip(words, fields, strict=True))
    ]
    found = [{field: _plain(number) for field, (_, number) in zip(fields, one, strict=True)} for one in numbered]
    varying = _varying(found)
    found = [{name: one[name] for name in varying} for one in found]
    ranks = all(numbers_ranks(name, [one[name] for one in found]) for name in varying)
    return found if ranks and len({tuple(one.values()) for one in found}) == len(found) > 1 else None


def _plain(number: str) -> str:
    return number.lstrip("0") or "0"


def labels_of(paths: Sequence[str], found: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a name for each rank: ``rank 17`` where that is enough, ``node 3 rank 5``, or else its log; text from paths.

    Args:
        paths: Their logs.
        found: The fields of each.
    """
    ranks = [fields.get(_RANK, "") for fields in found]
    if all(ranks) and len(set(ranks)) == len(ranks):
        return [f"{_RANK} {rank}" for rank in ranks]
    varying = _varying(found)
    names = [" ".join(f"{name} {fields[name]}" for name in varying) for fields in found]
    return [name or short_name(path) for name, path in zip(names, paths, strict=True)]


def _varying(found: Sequence[Mapping[str, str]]) -> list[str]:
    """The fields that have several values; what numbers ranks comes last."""
    varying = [name for name in (found[0] if found else ()) if len({fields[name] for fields in found}) > 1]
    return sorted(varying, key=lambda name: name == _RANK)


def missing_of(found: Sequence[Mapping[str, str]]) -> list[str]:
    """The ranks that a numbering leaves out, from 0 (or 1, where nothing is 0) to the highest number there is, as they would be called.

    The numbering is that of ``rank``, or else of the last field whose values are all numbers.  Where a number comes several times (on each
    node, in each stage) every combination of the other fields has all numbers; nothing is said where fewer than half of them are there.

    Args:
        found: The fields of each rank that has a log.
    """
    varying = _varying(found)
    numbered = [name for name in varying if all(_OF_RANK.fullmatch(fields[name]) for fields in found)]
    if not numbered:
        return []
    field = numbered[-1]
    numbers = [int(fields[field]) for fields in found]
    alone = len(set(numbers)) == len(numbers)
    others = [name for name in varying if name != field and not alone]
    known = {(*(fields[name] for name in others), number) for fields, number in zip(found, numbers, strict=True)}
    combinations = list(dict.fromkeys(tuple(fields[name] for name in others) for fields in found))
    expected = range(min(1, *numbers), max(numbers) + 1)
    if len(expected) * len(combinations) > min(2 * len(known), len(known) + _MOST_MISSING):
        return []
    return [
        " ".join(f"{name} {text}" for name, text in zip((*others, field), (*key, number), strict=True))
        for key in combinations
        for number in expected
        if (*key, number) not in known
    ]
