"""What inputs are read as, and where logs are cut: asked for once, carried out on each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.errors import UsageError

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.windows.windows import Pattern, Window

__all__ = ["Cut", "ReadAs", "as_list"]


@dataclass(frozen=True)
class ReadAs:
    """How inputs are to be read, where they do not tell by themselves.

    Attributes:
        input_format: The name of their format; ``None``: look what each of them is.
        device: The device to read of inputs that have several; ``None``: all.
        formats: A TOML file with formats of users, instead of those in the nearest ``pyproject.toml``.
        layer: The layer of Paddle's allocator to take blocks from.
    """

    input_format: str | None = None
    device: int | None = None
    formats: str | Path | None = None
    layer: str | None = None


@dataclass(frozen=True)
class Cut:
    """One window or a series of windows, by the words of :func:`memlens.windows.windows.window` and :func:`memlens.windows.windows.windows`.

    Raises:
        UsageError: ``by`` and a start are both given.
    """

    start: str | None = None
    end: tuple[str, ...] = ()
    start_regex: str | None = None
    end_regex: tuple[str, ...] = ()
    nth: int = 1
    by: str | None = None

    def __post_init__(self) -> None:
        if self.by is not None and (self.start is not None or self.start_regex is not None):
            raise UsageError(
                "by and start exclude each other", "A series starts a window at each line that `by` matches."
            )

    @property
    def given(self) -> bool:
        """Whether logs are to be cut at all."""
        named = (self.start, self.start_regex, self.by)
        return bool(self.end or self.end_regex) or any(pattern is not None for pattern in named)

    @property
    def series(self) -> bool:
        """Whether the cut gives a series of windows and not one."""
        return self.by is not None

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What to look for while reading, so that the text need not be read twice (a pipe cannot be)."""
        from memlens.windows.windows import as_patterns

        regexes = [pattern for pattern in (self.start_regex, self.by) if pattern is not None]
        literals = [] if self.start is None else [self.start]
        return (
            *as_patterns([*literals, *self.end], regex=False),
            *as_patterns([*regexes, *self.end_regex], regex=True),
        )

    def windows(self, log: EventLog) -> tuple[Window, ...]:
        """The windows asked for: a series, or one; the whole log where nothing was asked for.

        Raises:
            AnchorError: A start that marks no line, or fewer lines than asked for.
        """
        if self.by is not None:
            return log.windows(self.by, end=self.end, end_regex=self.end_regex)
        if not self.given:
            return (log.whole,)
        return (log.window(self.start, self.end, start_regex=self.start_regex, end_regex=self.end_regex, nth=self.nth),)


def as_list(patterns: str | Sequence[str]) -> list[str]:
    """One text or several, as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns)
