"""What paths say of ranks: the fields in them, what to call a rank, and which numbers are missing.

Where no template names the fields, they are told from the names in a path by these rules:

1. A word of :data:`WORDS` with a number behind it (``rank0017``, ``workerlog.3``, ``pp_rank=1``, ``node-4``, ``tp2dp0``) is a field.  What
   numbers processes (``workerlog``, ``worker``, ``trainer``, ``process``, ``task``) is called ``rank``, a machine (``host``, ``machine``) ``node``.  Of a field
   that comes twice the last one counts.  Zeros in front of a number mean nothing.  A number that other letters follow is none: ``worker-0a1f``.
2. A level of folders that differ and in which nothing is named so, or what a later name takes the place of, is the field ``folder``; where they are numbers all of them, a number by rule 3.
3. Where all of that does not tell the logs apart, the last number that differs, of those in the file's name or else in the folders', is ``rank``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from memlens.text import file_names

__all__ = ["RANK", "WORDS", "fields_of", "is_machine", "labels_of", "missing_of"]

RANK = "rank"
#: Words that number what a job consists of.
WORDS = (
    *("workerlog", "worker", "trainer", "process", "proc", "task", "rank", "local_rank", "localrank", "global_rank"),
    *(
        "node",
        "host",
        "machine",
        "stage",
        "pp",
        "tp",
        "dp",
        "mp",
        "ep",
        "cp",
        "sp",
        "vpp",
        "sharding",
        "shard",
        "expert",
    ),
    *("replica", "gpu", "card", "device", "npu", "xpu"),
)
_SAME = {
    **dict.fromkeys(("workerlog", "worker", "trainer", "process", "proc", "task", "global_rank"), RANK),
    **dict.fromkeys(("host", "machine"), "node"),
    "localrank": "local_rank",
}
_WORD = "|".join(sorted(WORDS, key=len, reverse=True))
#: A word and its number, which another one may follow (``pp1tp0``), and no other letter: ``worker-0a1f`` has a random name.
_FIELD = re.compile(
    rf"(?<![a-z])({_WORD})(?:[_-](?:rank|id|idx|index|stage))?[_.=-]?([0-9]+)(?=[^0-9a-z]|$|of[0-9]|(?:{_WORD})[_.=-]?[0-9])",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[0-9]+(?![0-9a-z])", re.IGNORECASE)
#: Of more ranks than this that are missing none is listed.
_MOST_MISSING = 100_000
#: A longer number is none of a rank.
_MOST_DIGITS = 18


def is_machine(field: str) -> bool:
    """Whether a field numbers machines, or places where logs lie, by its name: what differs by it does not by design."""
    return any(word in field.lower() for word in ("node", "host", "machine", "server", "folder"))


def fields_of(paths: Sequence[str]) -> list[dict[str, str]]:
    """The fields that paths name, of each path, by the rules of this module; empty values where one path lacks what others have.

    Args:
        paths: All logs of a job.
    """
    parts = [_parts(path) for path in paths]
    found = [_named(names) for names in parts]
    if len({len(names) for names in parts}) == 1:
        _add_folders(parts, found)
    names = list(dict.fromkeys(name for fields in found for name in fields))
    found = [{name: fields.get(name, "") for name in names} for fields in found]
    if RANK not in names and len({tuple(fields.values()) for fields in found}) < len(found):
        for fields, number in zip(found, _last_number(parts), strict=False):
            fields[RANK] = number
    return found


def _parts(path: str) -> list[str]:
    """The names in a path, without the scheme of a URL."""
    _, _, rest = path.rpartition("://")
    return [name for name in PurePath(rest).parts if name not in ("/", "\\")]


def _named(names: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in names:
        for word, number in _FIELD.findall(name):
            field = word.lower()
            found[_SAME.get(field, field)] = _plain(number)
    return found


def _plain(number: str) -> str:
    return number.lstrip("0") or "0"


def _add_folders(parts: Sequence[Sequence[str]], found: Sequence[dict[str, str]]) -> None:
    """Add levels of folders that differ and say nothing else."""
    levels = 0
    for level in range(len(parts[0]) - 1):
        names = [each[level] for each in parts]
        if len(set(names)) == 1 or _says(names, found) or all(map(str.isdecimal, names)):
            continue
        levels += 1
        for fields, name in zip(found, names, strict=True):
            fields["folder" if levels == 1 else f"folder{levels}"] = name


def _says(names: Sequence[str], found: Sequence[Mapping[str, str]]) -> bool:
    """Whether fields in the names of a level are known: not where a number in another name took their place, ``job-worker-1/workerlog.0``."""
    named = [_named([name]) for name in names]
    return any(named) and all(own.items() <= fields.items() for own, fields in zip(named, found, strict=True))


def _last_number(parts: Sequence[Sequence[str]]) -> list[str]:
    """Of each path the last number that differs, in its file's name or else in its folders; nothing where the paths are built differently."""
    for names in ([each[-1] for each in parts], ["/".join(each[:-1]) for each in parts]):
        numbers = [_NUMBER.findall(name) for name in names]
        if len({len(each) for each in numbers}) != 1:
            continue
        for column in reversed(list(zip(*numbers, strict=True))):
            if len(set(column)) > 1:
                return list(map(_plain, column))
    return []


def labels_of(paths: Sequence[str], found: Sequence[Mapping[str, str]]) -> list[str]:
    """What to call each rank: ``rank 17`` where that is enough, ``node 3 rank 5``, or else its log; text from paths.

    Args:
        paths: Their logs.
        found: The fields of each.
    """
    ranks = [fields.get(RANK, "") for fields in found]
    if all(ranks) and len(set(ranks)) == len(ranks):
        return [f"{RANK} {rank}" for rank in ranks]
    varying = _varying(found)
    names = [
        " ".join(
            value if name.startswith("folder") else f"{name} {value}" for name in varying if (value := fields[name])
        )
        for fields in found
    ]
    if all(names) and len(set(names)) == len(names):
        return names
    shown = file_names(paths)
    return [shown[path] for path in paths]


def _varying(found: Sequence[Mapping[str, str]]) -> list[str]:
    """The fields that have several values; what numbers ranks comes last."""
    names = dict.fromkeys(name for fields in found for name in fields)
    varying = [name for name in names if len({fields.get(name, "") for fields in found}) > 1]
    return sorted(varying, key=lambda name: name == RANK)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def missing_of(found: Sequence[Mapping[str, str]]) -> list[str]:
    """The ranks that a numbering leaves out, from 0 (or 1, where nothing is 0) to the highest number there is, as they would be called.

    The numbering is that of ``rank``, or else of the last field whose values are all numbers.  Where a number comes several times (on each
    node, in each stage) every combination of the other fields has all numbers; nothing is said where fewer than half of them are there.

    Args:
        found: The fields of each rank that has a log.
    """
    varying = [name for name in _varying(found) if all(map(_is_number, (fields.get(name, "") for fields in found)))]
    if not varying:
        return []
    field = varying[-1]
    numbers = [int(fields[field]) for fields in found]
    others = [name for name in _varying(found) if name != field]
    if len(set(numbers)) == len(numbers):
        others = []
    known = {(*(fields[name] for name in others), number) for fields, number in zip(found, numbers, strict=True)}
    combinations = list(dict.fromkeys(tuple(fields[name] for name in others) for fields in found))
    expected = range(min(1, *numbers), max(numbers) + 1)
    if len(expected) * len(combinations) > min(2 * len(known), len(known) + _MOST_MISSING):
        return []
    return [
        " ".join(
            [
                *(
                    text if name.startswith("folder") else f"{name} {text}"
                    for name, text in zip(others, key, strict=True)
                ),
                f"{field} {number}",
            ]
        )
        for key in combinations
        for number in expected
        if (*key, number) not in known
    ]
