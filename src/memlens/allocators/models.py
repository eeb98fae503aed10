"""A model of an allocator: the contract between the registry and the models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from memlens.allocators.history import NotReplayable, RequestHistory
    from memlens.allocators.rules import AllocatorRules
    from memlens.events import EventLog


#: What a setting is set to, and settings by name; what is not among them has its default.
Value = bool | int | float | str
Values = Mapping[str, Value]


class AllocatorSetting(Struct, frozen=True):
    """A setting of an allocator.

    Attributes:
        name: As the framework calls it, ``FLAGS_auto_growth_chunk_size_in_mb``, ``expandable_segments``.
        kind: What it is: bytes counted in MiB, yes or no, a whole number, any number, a word.
        default: What it is unless it is set.
        summary: What it does, in half a line.
        tried: Values that are worth a try.
        since: The first release that has it, ``PaddlePaddle 3.3``; ``""`` where all that are modelled have it.
        settable: A user can set it; else it is the device's or the release's, and can only be said of the run.
    """

    name: str
    kind: Literal["mebibytes", "switch", "count", "number", "word"]
    default: Value
    summary: str
    tried: tuple[Value, ...] = ()
    since: str = ""
    settable: bool = True


class AllocatorModel(Struct, frozen=True):
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
        runs: Of a log that several processes wrote the log of each, with what to call it; of others nothing.
        apart: What a user set, a setting that holds several others replaced by these; in most models there is none.
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
    runs: Callable[[EventLog], Sequence[tuple[EventLog, str]]] = lambda _: ()
    apart: Callable[[Values], Values] = lambda values: values

    @property
    def defaults(self) -> dict[str, Value]:
        """The value of each setting unless it is set."""
        return {setting.name: setting.default for setting in self.settings}
