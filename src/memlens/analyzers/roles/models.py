"""Which models of a program are alike, by the names of their weights and the sizes of these."""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: So many names deep models are looked for: ``self.trainer.teacher``.
_DEEP = 3
#: How much of the bytes of two sets must be alike, and of how many blocks and sizes they must be.
_COVERED, _FEW_BLOCKS, _FEW_SIZES = 0.9, 6, 2
#: Two that are not trained may be two parts of one model, such as its keys and values, unless they have so many sizes.
_SIZES_OF_MODELS = 4


class Model(NamedTuple):
    """Where the weights of a model hang.

    Attributes:
        path: What their paths begin with.
        where: Where the variable is: a function, a file.
    """

    path: str
    where: str

    def __str__(self) -> str:
        return f"{self.path} ({self.where})"


def models_of(weights: Iterable[tuple[str, int, int]]) -> dict[Model, dict[str, tuple[int, int]]]:
    """What may be models: by the beginning of the paths of weights, and by the rest of them, the number of a weight and its bytes.

    Args:
        weights: Who holds each (``parameter net.head.weight (main, train.py)``), its number, and its bytes.
    """
    found: dict[Model, dict[str, tuple[int, int]]] = {}
    for holder, number, size in weights:
        path, where = _path(holder)
        names = re.split(r"\.|(?=\[)", path)
        for deep in range(1, min(len(names), _DEEP + 1)):
            root = ".".join(names[:deep]).replace(".[", "[")
            found.setdefault(Model(root, where), {})[".".join(names[deep:])] = number, size
    return {root: parts for root, parts in found.items() if len(parts) >= _FEW_BLOCKS}


def copies(
    models: Mapping[Model, Mapping[str, tuple[int, int]]], gradients: Iterable[str]
) -> Iterator[tuple[Model, Model]]:
    """Models that are not trained, with the names and sizes of another one each, which comes second; of two that are not, the one made later.

    Args:
        models: As :func:`models_of` gives them; weights that were made later have higher numbers.
        gradients: Who holds gradients: ``gradient net.head.weight.grad (main, train.py)``.
    """
    paths = [path for path, _ in map(_path, gradients)]
    trained = {model for model in models if any(_within(path, model.path) for path in paths)}
    total = {model: sum(size for _, size in parts.values()) for model, parts in models.items()}
    first = {model: min(number for number, _ in parts.values()) for model, parts in models.items()}
    told = list[Model]()
    for copy, model in permutations(sorted(models, key=lambda one: (one.path.count("."), first[one])), 2):
        if copy in trained or not _COVERED <= total[copy] / total[model] <= 1 / _COVERED:
            continue
        if model not in trained and (first[copy] < first[model] or "." in copy.path + model.path):
            continue
        if any(_nested(copy, other) for other in (*told, model)) or _without_numbers(copy) == _without_numbers(model):
            continue  # layers of one model
        sizes = [size for rest, (_, size) in models[copy].items() if models[model].get(rest, (0, 0))[1] == size]
        kinds = _FEW_SIZES if model in trained else _SIZES_OF_MODELS
        if sum(sizes) >= _COVERED * total[copy] and len({*sizes}) >= kinds:
            told.append(copy)
            yield copy, model


def alike(sizes: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two sets of blocks are of the same sizes, for nine tenths of the bytes of each."""
    both = Counter(sizes) & Counter(others)
    enough = len(sizes) >= _FEW_BLOCKS and len(both) >= _FEW_SIZES
    return enough and sum(both.elements()) >= _COVERED * max(sum(sizes), sum(others))


def _path(holder: str) -> tuple[str, str]:
    """The path of a holder, and where its variable is."""
    path, _, where = holder.partition(" ")[2].rpartition(" (")
    return path, where.removesuffix(")")


def _within(path: str, root: str) -> bool:
    """Whether a path leads through another."""
    return path.startswith((f"{root}.", f"{root}["))


def _nested(one: Model, other: Model) -> bool:
    return one.path == other.path or _within(one.path, other.path) or _within(other.path, one.path)


def _without_numbers(model: Model) -> str:
    return re.sub(r"\d+", "0", model.path)
