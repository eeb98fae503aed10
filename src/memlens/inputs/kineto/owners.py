"""Who is to blame for a change of memory in a Kineto trace: the operator and the Python frames that it happens in.

A ``[memory]`` event names neither.  Its operator is the innermost one whose time holds it, on the same thread of the same process; its
Python frame likewise, among the frames alone: the two kinds do not nest in each other.  The name of the owner is the operator, then the
innermost frame of a Python file, then, where that one is PyTorch's own code, the innermost frame that is not::

    aten::addmm < torch/nn/modules/linear.py(130): forward < train.py(31): step

Frames of built-in functions and of modules (``nn.Module: Linear_0``) are passed over: what the operator says they say too, and they hold
addresses and running numbers, which no two runs share.  A frame of generated code is called so (:mod:`memlens.inputs.generated_code`), and is never the user's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.inputs.generated_code import GENERATED, is_generated
from memlens.inputs.kineto.intervals import innermost
from memlens.inputs.kineto.records import SpanKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.kineto.records import Changes, Spans

    Integers = NDArray[np.int64]

__all__ = ["OwnerNames", "owners_of"]

_JOINED = " < "
_FILE_FRAME = re.compile(r"(?P<path>(?!<built-in |nn\.Module: ).+?)\(\d+\): ")
#: Code that the user has not written: PyTorch's, that of installed packages, and the interpreter's own wrappers around it.
_FOREIGN = re.compile(
    r"(?:.*[/\\])?(?:torch|site-packages|dist-packages|importlib)[/\\]"
    r"|<(?!stdin|ipython|string)|(?:.*[/\\])?(?:contextlib|functools|threading|runpy|queue)\.py\Z"
)
_NO_FRAME, _FRAME, _OWN_FRAME = 0, 1, 2


class OwnerNames(NamedTuple):
    """For each change the number of its owner, int32, -1 for none; and the names of the owners."""

    owner: NDArray[np.int32]
    names: tuple[str, ...]


def owners_of(changes: Changes, spans: Spans, texts: Sequence[str]) -> OwnerNames:
    """Name the owners of changes of memory.

    Args:
        changes: The changes.
        spans: The operators and frames of the whole trace.
        texts: The names of the spans, and their call stacks, by number.
    """
    track, of_track = _tracks(spans, changes)
    level = np.array([_frame_level(text) for text in texts], np.int64)[spans.name] if len(spans.name) else spans.name
    is_frame = spans.kind == SpanKind.FRAME
    op = _enclosing(spans, track, spans.kind == SpanKind.OP, of_track, changes.time)
    frame = _enclosing(spans, track, is_frame & (level >= _FRAME), of_track, changes.time)
    own = _enclosing(spans, track, is_frame & (level >= _OWN_FRAME), of_track, changes.time)
    name, stack = np.append(spans.name, -1), np.append(spans.stack, -1)
    # int64 (changes, 4): the texts that a name is made of; -1 for none.
    parts = np.stack((name[op], stack[op], name[frame], name[own]), axis=1)
    made, which = _distinct_rows(parts)
    names: dict[str, int] = {}
    number = np.full(len(made), -1, np.int32)
    _, first = np.unique(which, return_index=True)
    for k in which[np.sort(first)].tolist():  # owners are numbered in the order in which they come
        number[k] = _number(names, _joined(made[k].tolist(), texts))
    return OwnerNames(number[which], tuple(names))


def _number(names: dict[str, int], name: str) -> int:
    return names.setdefault(name, len(names)) if name else -1


def _joined(row: Sequence[int], texts: Sequence[str]) -> str:
    """The name of an owner, from the numbers of operator, call stack, frame and own frame."""
    op, stack, frame, own = (texts[number] if number >= 0 else "" for number in row)
    if stack:
        frame, own = _of_stack(stack)
    return _JOINED.join(dict.fromkeys(part for part in (op, _shown(frame), own) if part))


def _of_stack(stack: str) -> tuple[str, str]:
    """The innermost frame of a file, and the innermost one of the user's, of a stack written in one line (until 2022)."""
    frames = [text for text in stack.split(";") if _frame_level(text)]
    return (frames[0] if frames else ""), next((text for text in frames if _frame_level(text) == _OWN_FRAME), "")


def _frame_level(name: str) -> int:
    found = _FILE_FRAME.match(name)
    if found is None:
        return _NO_FRAME
    path = found["path"]
    return _FRAME if _FOREIGN.match(path) or is_generated(path) else _OWN_FRAME


def _shown(name: str) -> str:
    """What a frame is called in the name of an owner."""
    found = _FILE_FRAME.match(name)
    return GENERATED if found is not None and is_generated(found["path"]) else name


def _tracks(spans: Spans, changes: Changes) -> tuple[Integers, Integers]:
    """Threads, numbered over all processes: of each span and of each change, int64."""
    rows = np.stack((np.concatenate((spans.pid, changes.pid)), np.concatenate((spans.tid, changes.tid))), axis=1)
    _, number = _distinct_rows(rows)
    return number[: len(spans.pid)], number[len(spans.pid) :]


def _distinct_rows(rows: Integers) -> tuple[Integers, Integers]:
    """The distinct rows, sorted, and for each row which of them it is."""
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    number = np.zeros(len(rows), np.int64)
    for column in rows.T:  # one number for the columns so far, renumbered so that it stays small
        _, rank = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (int(rank.max()) + 1) + rank.reshape(-1), return_inverse=True)
        number = number.reshape(-1)
    _, first = np.unique(number, return_index=True)
    return rows[first], number.astype(np.int64)


def _enclosing(
    spans: Spans, track: Integers, chosen: NDArray[np.bool_], of_track: Integers, moment: Integers
) -> Integers:
    """The innermost of the chosen spans around each moment, as an index of all spans; -1 for none."""
    rows = np.flatnonzero(chosen)
    found = innermost(track[rows], spans.start[rows], spans.end[rows], of_track, moment)
    return np.where(found >= 0, np.append(rows, -1)[found], -1)
