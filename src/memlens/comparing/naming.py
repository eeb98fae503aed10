"""Tell from paths that logs are those of the ranks of one job, what to call each rank, and which numbers are missing.

A word of :data:`WORDS` with a number behind it (``rank0017``, ``workerlog.3``, ``pp_rank=1``, ``node-4``, ``tp2dp0``) is a field.  What numbers processes
(``workerlog``, ``worker``, ``trainer``, ``process``, ``task``) is called ``rank``, a machine (``host``, ``machine``) ``node``.  Where two words of a path would be one
field the last one is, and the others keep their own name: ``job-worker-1/workerlog.0`` is worker 1, rank 0.  Zeros in front of a number mean nothing.  A number that other
letters follow is none: ``worker-0a1f``.

Logs are the ranks of one job where their paths differ in such numbers only, no two in none.  Numbers of stages and the like (``pp``, ``dp``, ``stage``) count from 0: ``dp2.log`` and
``dp4.log`` are two jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from memlens.text import short_name

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
_NUMBER = re.compile(r"\d{1,18}")


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
    numbered = [name for name in varying if all(_NUMBER.fullmatch(fields[name]) for fields in found)]
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
