"""The one list of analyzers, and the door for those of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from memlens.analyzers.composition import composition
from memlens.analyzers.lifetimes import lifetimes
from memlens.analyzers.peak import peak, remaining
from memlens.analyzers.roles.activations import activations
from memlens.analyzers.segments import segments
from memlens.analyzers.stats import stats
from memlens.analyzers.unmatched import unmatched
from memlens.errors import MemlensError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib import metadata

    from memlens.windows.windows import Window


#: The entry-point group through which other packages add analyzers.
GROUP = "memlens.analyzers"


class Analyzer(Struct, frozen=True):
    """An analyzer of windows.

    Attributes:
        name: The name that ``-A`` and the machine output use.
        function: Analyzes one or more windows of one log at once, results in their order: anything that can write itself down in plain JSON types
            (``to_dict``).
    """

    name: str
    function: Callable[[Sequence[Window]], Sequence[Any]]

    def many(self, windows: Sequence[Window]) -> Sequence[Any]:
        """Analyze windows of one log in one pass, results in their order."""
        return self.function(windows) if windows else []

    def __call__(self, window: Window) -> Any:
        """Analyze one window."""
        return self.function([window])[0]


#: Every built-in analyzer of a window, in the order in which reports show them.  To add one, add its line here.
BUILT_IN: tuple[Analyzer, ...] = (
    Analyzer("remaining", remaining),
    Analyzer("composition", composition),
    Analyzer("activations", activations),
    Analyzer("peak", peak),
    Analyzer("segments", segments),
    Analyzer("stats", stats),
    Analyzer("unmatched", unmatched),
    Analyzer("lifetimes", lifetimes),
)

#: The analyzer of a series of windows as one thing, :func:`memlens.analyzers.series.growth.growth`; it is not one of a window.
OF_SERIES = "growth"


def names() -> tuple[str, ...]:
    """The names of all analyzers of windows: the built-in ones in report order, then installed ones by name."""
    from memlens.plugins import entry_points

    own = [analyzer.name for analyzer in BUILT_IN]
    return (*own, *sorted({point.name for point in entry_points(GROUP)} - {*own, OF_SERIES}))


def get(name: str) -> Analyzer:
    """The analyzer of that name; a built-in one is never replaced by an installed one.

    Raises:
        UsageError: There is no such analyzer; the message lists those there are.
        MemlensError: An installed one cannot be loaded; the message names its package.
    """
    for analyzer in BUILT_IN:
        if analyzer.name == name:
            return analyzer
    import difflib

    from memlens.plugins import entry_points

    listed = f"There are: {', '.join(names())}."
    if name == OF_SERIES:
        raise UsageError(f"{name!r} analyzes a series of windows, not one", listed)
    if points := [point for point in entry_points(GROUP) if point.name == name]:
        return _installed(points)
    known = (*names(), OF_SERIES)
    close = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    raise UsageError(f"no analyzer is called {name!r}", f"{guess}There are: {', '.join(known)}.")


def _installed(points: Sequence[metadata.EntryPoint]) -> Analyzer:
    """The analyzer behind the entry points of one name; two packages that give one name are told apart by the user."""
    from memlens.plugins import blaming, load, package_of

    packages = sorted({package_of(point) for point in points})
    if len(packages) > 1:
        raise MemlensError(
            f"several packages give an analyzer {points[0].name!r}: {', '.join(packages)}",
            "Uninstall all but one of them.",
        )
    point, package = points[0], packages[0]
    origin, update = f"analyzer {point.name!r} of package {package!r}", f"Update {package}."
    function = load(point, origin, update)
    if not callable(function):
        raise MemlensError(f"{origin} is no function of a window but {type(function).__name__}", update)

    def one(window: Window) -> Any:
        with blaming(f"{origin} failed on {window.name!r}"):
            result = function(window)
        if not hasattr(result, "to_dict"):
            raise MemlensError(f"{origin} gave {type(result).__name__}, which has no to_dict()")
        return result

    return Analyzer(point.name, lambda windows: [one(window) for window in windows])
