"""Names that come again, told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def numbered(names: Sequence[str]) -> list[str]:
    """The names, those that come again with ``#2``, ``#3``; no two alike."""
    if len(set(names)) == len(names):
        return list(names)
    numbering = Numbering(names)
    return list(map(numbering.next, names))


class Numbering:
    """Numbers names that come again, one after the other.

    Args:
        taken: Names that stand already, which no numbered one may be like.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._times: dict[str, int] = {}

    def next(self, name: str) -> str:
        """What the next one is called."""
        times = self._times.get(name, 0) + 1
        new = name
        while times > 1 and (new := f"{name} #{times}") in self._taken:  # a log may well have a name that ends so
            times += 1
        self._times[name] = times
        self._taken.add(new)
        return new
