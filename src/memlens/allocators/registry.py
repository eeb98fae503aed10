"""The one list of models of allocators, and the door for those of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.allocators.models import AllocatorModel
from memlens.errors import MemlensError
from memlens.plugins import entry_points, load, package_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib import metadata


#: The entry-point group through which other packages add models.
GROUP = "memlens.allocators"


def built_in() -> tuple[AllocatorModel, ...]:
    """The built-in models, in the order in which a log is shown to them.  To add one, add its line here."""
    from memlens.allocators.paddle.auto_growth import AUTO_GROWTH  # late: reading logs does without
    from memlens.allocators.torch.caching import CACHING

    return (AUTO_GROWTH, CACHING)


def models() -> Iterator[AllocatorModel]:
    """Yield all models: the built-in ones, then installed ones by name, none of which takes the name of a built-in one.

    Raises:
        MemlensError: An installed one cannot be loaded; the message names its package.
    """
    own = built_in()
    yield from own
    taken = {model.name for model in own}
    points = sorted((point for point in entry_points(GROUP) if point.name not in taken), key=lambda point: point.name)
    yield from map(_installed, points)


def _installed(point: metadata.EntryPoint) -> AllocatorModel:
    package = package_of(point)
    origin, update = f"allocator model {point.name!r} of package {package!r}", f"Update {package}."
    model = load(point, origin, update)
    if not isinstance(model, AllocatorModel):
        raise MemlensError(f"{origin} is no AllocatorModel but {type(model).__name__}", update)
    return model
