"""The environment that makes a program log what memlens reads: the variables of each preset as data, each with its reason.

What the user says goes first: ``--env`` wins over the variables that they have set, and those win over the preset.  Where one of theirs
takes the log away or changes what it measures, they are told.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from memlens.errors import UsageError
from memlens.recording.inside.histories import ENTRIES, PADDLE_STACKS, STACKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The folder whose ``sitecustomize`` Python runs before the program.
STARTUP = Path(__file__).parent / "startup"


class _Variable(Struct, frozen=True):
    name: str
    value: str
    why: str


class Settings(Struct, frozen=True):
    """The environment of a program that is recorded.

    Attributes:
        environment: All of it.
        changed: What differs from the environment of the recorder; ``None`` was taken away.
        shown: What is set, kept and taken away, and why, a line each.
        warnings: What of it spoils the log, in words.
    """

    environment: Mapping[str, str]
    changed: Mapping[str, str | None]
    shown: tuple[str, ...]
    warnings: tuple[str, ...]


#: The source files that log Alloc and Free, by the values of ``FLAGS_allocator_strategy``; "" is what Paddle takes without it.
_ALLOCATORS = {"": "auto_growth_best_fit_allocator", "naive_best_fit": "naive_best_fit_allocator"}
#: The level of these lines.
_LEVEL = 10
#: What has Paddle log the operators of the backward pass (``backward.cc``).
_BACKWARD = ",b*=3"

_PADDLE = (
    # Not the whole name of the file, nor two of them: see `_spoilt`.
    _Variable("GLOG_vmodule", "{allocator:.6}*=10{backward}", "the allocator logs each Alloc and Free"),
    _Variable("FLAGS_new_executor_sequential_run", "true", "operators run in one order in every run"),
    _Variable("PYTHONUNBUFFERED", "1", "what is printed stands at its place in the log"),
)
_WHY_STACKS = "each has the call stack of Python; all has that of C++ too, none has no stacks"
_TORCH = (
    _Variable("MEMLENS_TORCH_ENTRIES", str(ENTRIES), "so many of the latest entries of the history are kept"),
    _Variable("MEMLENS_TORCH_STACKS", STACKS[0], _WHY_STACKS),
)
_PADDLE_HISTORY = (
    _Variable("FLAGS_use_virtual_memory_auto_growth", "1", "Paddle records the history of this allocator alone"),
    _Variable("MEMLENS_PADDLE_ENTRIES", str(ENTRIES), "so many of the latest entries of the history are kept"),
    _Variable("MEMLENS_PADDLE_STACKS", PADDLE_STACKS[0], "each has the call stack of Python; none has no stacks"),
)
_PRESETS: dict[str, tuple[_Variable, ...]] = {"paddle": _PADDLE, "paddle-history": _PADDLE_HISTORY, "torch": _TORCH}


def settings(
    preset: str, given: Sequence[str], own: Mapping[str, str], record: str, *, names: bool = False
) -> Settings:
    """The environment for a program.

    Args:
        preset: ``paddle``, ``paddle-history`` or ``torch``.
        given: What the user sets for it: ``NAME=VALUE``, or ``NAME=`` to take it away.
        own: The environment of the recorder.
        record: What ``MEMLENS_RECORD`` tells the program's Python processes, as JSON.
        names: Paddle's log is to say which line of the program allocates (of the backward pass Paddle itself says the operators), PyTorch's snapshots
            which variable holds it.

    Raises:
        UsageError: Something given is no such setting.
    """
    given_values = dict(map(_parsed, given))
    values, shown = {**own}, []
    for name, value in given_values.items():
        if value:
            values[name] = value
            shown.append(f"set {name}={value} (--env)")
        elif name in values:
            del values[name]
            shown.append(f"removed {name} (--env)")
    for one in _PRESETS[preset]:
        if one.name in given_values:
            continue
        allocator = _allocator(values)
        backward = _BACKWARD if names and allocator == _ALLOCATORS[""] else ""
        value = one.value.format(allocator=allocator, backward=backward)
        # Python and glog take an empty variable for none.
        if values.get(one.name):
            if values[one.name] != value:
                shown.append(f"kept {one.name}={values[one.name]} of your environment, not {value}: {one.why}")
            continue
        values[one.name] = value
        shown.append(f"set {one.name}={value}: {one.why}")
    warnings = tuple(_spoilt(values)) if preset == "paddle" else ()
    if "PYTHONPATH" not in given_values or given_values["PYTHONPATH"]:
        values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(STARTUP), values.get("PYTHONPATH")]))
        why = (_WHY_NAMES if names else {}).get(preset, _WHY_STARTUP[preset])
        shown.append(f"set PYTHONPATH={STARTUP}{os.pathsep}...: {why}")
        if "MEMLENS_RECORD" not in given_values:
            values["MEMLENS_RECORD"] = record
    changed = {name: value for name, value in values.items() if own.get(name) != value}
    return Settings(values, {**changed, **dict.fromkeys(own.keys() - values.keys())}, tuple(shown), warnings)


_WHY_STARTUP = {
    "paddle": "each rank has a log of its own",
    "paddle-history": "the memory history is kept, and written at the end: Paddle tells nobody that memory ran out",
    "torch": "the memory history is kept",
}
_WHY_NAMES = {
    "paddle": f"{_WHY_STARTUP['paddle']}, and lines of the program that allocate stand in it (--names none: not)",
    "torch": f"{_WHY_STARTUP['torch']}, with the variables that hold it (--names none: not)",
}


def _parsed(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals) or "\0" in text:
        raise UsageError(f"--env {text!r} sets no variable", "Give NAME=VALUE, or NAME= to take the variable away.")
    return name, value


def _allocator(values: Mapping[str, str]) -> str:
    """The source file of the allocator that the program will use."""
    return _ALLOCATORS.get(values.get("FLAGS_allocator_strategy", ""), _ALLOCATORS[""])


def _spoilt(values: Mapping[str, str]) -> Iterator[str]:
    """Say which of the user's own variables spoil a log of Paddle."""
    vmodule = values.get("GLOG_vmodule", "")
    if len(vmodule) > 15:
        yield (
            f"GLOG_vmodule is {len(vmodule)} characters long: with more than 15 Paddle 3.3.1 dies or hangs at exit"
            " (double free or corruption)"
        )
    pairs = (pair.rpartition("=") for pair in vmodule.split(","))
    # glog takes the first pattern that fits.
    allocator, own = _allocator(values), values.get("GLOG_v", "")
    if _number(next((level for name, _, level in pairs if fnmatchcase(allocator, name)), own)) < _LEVEL:
        yield f"neither GLOG_vmodule nor GLOG_v has {allocator} log at level {_LEVEL}: its Alloc and Free lines will be missing"
    if _number(own) >= 6:
        yield f"GLOG_v={own} changes what it measures: from 6 on, a training loop keeps memory for the log alone"
    if _number(least := values.get("GLOG_minloglevel", "")) >= 1:
        yield f"GLOG_minloglevel={least} leaves all lines of the allocator out of the log"


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0
