"""``memlens.whatif``: read a log, prove that the run can be replayed, and replay it under other settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.allocators import registry
from memlens.allocators.history import ChunkChange, NotReplayable
from memlens.allocators.proof import prove
from memlens.errors import Failure, InputError
from memlens.inputs import Reading, input_name, named_devices
from memlens.keywords import with_keywords
from memlens.options import TryOut
from memlens.replaying.asked import as_asked, ending_failure
from memlens.replaying.choosing import chosen_settings, named_values, own_settings
from memlens.replaying.packing import best_packing
from memlens.replaying.result import ReplayedLog, ReplayProof, WhatIf
from memlens.replaying.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.registry import Model
    from memlens.events import EventLog
    from memlens.inputs import Input

__all__ = ["Replayable", "replayable", "whatif", "whatif_with"]


def whatif_with(log: Input, options: TryOut) -> WhatIf:
    """Replay a run under other settings of its allocator.

    Args:
        log: A path, a URL, a binary file, or a log already read.
        options: See :class:`memlens.options.TryOut`.

    Raises:
        UsageError: A setting that the allocator does not have.
        InputError: The run of the only device cannot be replayed; one of several becomes a :class:`memlens.errors.Failure` instead.
        MemlensError: The log cannot be read.
    """
    logs = Reading(how=options, times=True, threads=True).read_all(log)
    found, failures = [], []
    for one, name, device in named_devices(input_name(log), logs):
        known = replayable(one)
        if isinstance(known, NotReplayable):
            if not device:
                raise InputError(f"{name}: cannot be replayed: {known.reason}", known.hint)
            failures.append(Failure(name, f"{name}: cannot be replayed: {known.reason}", known.hint))
        else:
            found.append(_replayed(one, name, known, options))
    if not found:
        raise InputError(failures[0].message, failures[0].hint)
    return WhatIf(tuple(found), tuple(failures))


whatif = with_keywords("whatif", whatif_with, TryOut)


@dataclass(frozen=True)
class Replayable:
    """A run that its model can replay: what it asked for, and the model."""

    model: Model
    history: RequestHistory


def replayable(log: EventLog) -> Replayable | NotReplayable:
    """The run of a log and the model of its allocator, or why there is none."""
    model = registry.model_of(log)
    if isinstance(model, NotReplayable):
        return model
    history = model.history(log)
    return history if isinstance(history, NotReplayable) else Replayable(model, history)


def _replayed(log: EventLog, name: str, known: Replayable, options: TryOut) -> ReplayedLog:
    model, history = known.model, known.history
    own = own_settings(model, history, options.own)
    named = named_values(model, options.settings)

    def line_of(operation: int) -> int | None:
        offset = int(history.line[operation])
        return log.source.line_numbers([offset])[0] if offset >= 0 else None

    proof = proof_of(log, known, own)
    last = ending_failure(history)
    refused = None if last is None else line_of(last)
    said = {name: own[name] for name in history.settings if name in own}
    head = ReplayedLog(name, log.facts.layer, model.name, said, proof, refused_line=refused)
    if not proof.holds:
        return head
