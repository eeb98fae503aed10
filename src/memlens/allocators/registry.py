"""The one list of models of allocators, and the door for those of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.allocators.models import AllocatorModel, AllocatorSetting, Value, Values
from memlens.errors import MemlensError, UsageError

if TYPE_CHECKING:
    from importlib import metadata

__all__ = ["GROUP", "AllocatorModel", "AllocatorSetting", "Value", "Values", "built_in", "get", "models"]

#: The entry-point group through which other packages add models.
GROUP = "memlens.allocators"


def built_in() -> tuple[AllocatorModel, ...]:
    """The built-in models, in the order in which a log is shown to them.  To add one, add its line here."""
    from memlens.allocators.paddle.auto_growth import AUTO_GROWTH  # late: reading logs does without
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
