"""The one list of models of allocators, and the door for those of other packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from memlens.errors import MemlensError, UsageError

if TYPE_CHECKING:
    from importlib import metadata

    from memlens.allocators.history import NotReplayable, RequestHistory
    from memlens.allocators.rules import AllocatorRules
    from memlens.events import EventLog

__all__ = ["GROUP", "AllocatorModel", "AllocatorSetting", "Value", "Values", "built_in", "get", "models"]

#: The entry-point group through which other packages add models.
GROUP = "memlens.allocators"

#: What a setting is set to, and settings by name; what is not among them has its default.
Value = bool | int | float | str
Values = Mapping[str, Value]


@dataclass(frozen=True)
class AllocatorSetting:
    """A setting of an allocator.

    Attributes:
        name: As the framework calls it, ``FLAGS_auto_growth_chunk_size_in_mb``, ``expandable_segments``.
        kind: What it is: bytes counted in MiB, yes or no, a whole number, any number, a word.
        default: What it is unless it is set.
        summary: What it does, in half a line.
        tried: Values that are worth a try.
    """

    name: str
    kind: Literal["mebibytes", "switch", "count", "number", "word"]
    default: Value
    summary: str
    tried: tuple[Value, ...] = ()


@dataclass(frozen=True)
class AllocatorModel:
    """A model of an allocator.

    Attributes:
        name: ``paddle-auto-growth``, ``pytorch-caching``.
        summary: What it is a model of, in half a line, with the versions.
        settings: What can be set.
        history: The requests of a log; or why it cannot be replayed, ``None`` where the log is not one of this allocator.
        recorded: The values of its settings in a run, as far as the history tells them.
        rules: The rules for a history with these values.
        candidates: The values to try, for a history with its own ones.
        line: The very line that sets values, ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``.
        package: The package it comes from.
    """

    name: str
    summary: str
    settings: tuple[AllocatorSetting, ...]
    history: Callable[[EventLog], RequestHistory | NotReplayable | None]
    recorded: Callable[[RequestHistory], Values]
    rules: Callable[[RequestHistory, Values], AllocatorRules]
    candidates: Callable[[RequestHistory, Values], Sequence[Values]]
    line: Callable[[Values], str]
    package: str = "memlens"


def built_in() -> tuple[AllocatorModel, ...]:
    """The built-in models, in the order in which a log is shown to them.  To add one, add its line here."""
    from memlens.allocators.paddle.auto_growth import AUTO_GROWTH  # a model knows what is here
    from memlens.allocators.torch.caching import CACHING

    return (AUTO_GROWTH, CACHING)


def models() -> tuple[AllocatorModel, ...]:
    """All models: the built-in ones, then installed ones by name, none of which takes the name of a built-in one.

    Raises:
        MemlensError: An installed one cannot be loaded; the message names its package.
    """
    own = built_in()
    taken = {model.name for model in own}
    points = sorted((point for point in _entry_points() if point.name not in taken), key=lambda point: point.name)
    return (*own, *(_installed(point) for point in points))


def get(name: str) -> AllocatorModel:
    """The model of that name.

    Raises:
        UsageError: There is no such model; the message lists those there are.
        MemlensError: An installed one cannot be loaded.
    """
    listed = models()
    for model in listed:
        if model.name == name:
            return model
    raise UsageError(
        f"no model of an allocator is called {name!r}", f"There are: {', '.join(model.name for model in listed)}."
    )


def _entry_points() -> list[metadata.EntryPoint]:
    from importlib import metadata  # an e-mail parser comes with it

    return list(metadata.entry_points(group=GROUP))


def _installed(point: metadata.EntryPoint) -> AllocatorModel:
    package = point.dist.name if point.dist is not None else point.module
    origin = f"allocator model {point.name!r} of package {package!r}"
    try:
        model = point.load()
    except Exception as error:  # whatever a foreign module raises while it is imported
        raise MemlensError(
            f"{origin} cannot be loaded: {type(error).__name__}: {error}", f"Update {package}."
        ) from error
    if not isinstance(model, AllocatorModel):
        raise MemlensError(f"{origin} is no AllocatorModel but {type(model).__name__}", f"Update {package}.")
    return model
