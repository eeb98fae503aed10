"""Who is to blame for a change of memory in a Kineto trace: the operator and the Python frames that it happens in.

A ``[memory]`` event names neither.  Its operator is the innermost one whose time holds it, on the same thread of the same process; its
Python frame likewise, among the frames alone: the two kinds do not nest in each other.  The name of the owner is the operator, then the
innermost frame of a Python file, then, where that one is PyTorch's own code, the innermost frame that is not::

    aten::addmm < torch/nn/modules/linear.py(130): forward < train.py(31): step

Frames of built-in functions and of modules (``nn.Module: Linear_0``) are passed over: what the operator says they say too, and they hold
addresses and running numbers, which no two runs share.  A frame of generated code is called so (:mod:`memlens.inputs.stack_names`), and is never the user's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from memlens.inputs.kineto.events import SpanKind
from memlens.inputs.stack_names import GENERATED, is_generated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.kineto.events import Spans

    Integers = NDArray[np.int64]


_JOINED = " < "
_FILE_FRAME = re.compile(r"(?P<path>(?!<built-in |nn\.Module: ).+?)\(\d+\): ")
#: Code that the user has not written: PyTorch's, that of installed packages, and the interpreter's own wrappers around it.
_FOREIGN = re.compile(
    r"(?:.*[/\\])?(?:torch|site-packages|dist-packages|importlib)[/\\]"
    r"|<(?!stdin|ipython|string)|(?:.*[/\\])?(?:contextlib|functools|threading|runpy|queue)\.py\Z"
)
_NO_FRAME, _FRAME, _OWN_FRAME = 0, 1, 2
_RANK_BITS = np.int64(32)


def owners_of(
    track: Integers, time: Integers, spans: Spans, texts: Sequence[str]
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Name the owners of changes of memory, or of failures.

    Args:
        track: The track of each change, int64.
        time: When it happens, int64.
        spans: The operators and frames of the whole trace.
        texts: The names of the spans, and their call stacks, by number.

    Returns:
        For each change the number of its owner, int32, -1 for none; and the names of the owners.
    """
    level = np.array([_frame_level(text) for text in texts], np.int64)[spans.name]
    is_frame = spans.kind == SpanKind.FRAME
    op, frame, own = (
        _enclosing(spans, chosen, track, time)
        for chosen in (spans.kind == SpanKind.OP, is_frame & (level >= _FRAME), is_frame & (level >= _OWN_FRAME))
    )
    names_of, stack = np.append(spans.name, -1), np.append(spans.stack, -1)
    # int64 (changes, 4): the texts that a name is made of; -1 for none.
    parts = np.stack((names_of[op], stack[op], names_of[frame], names_of[own]), axis=1)
    rows = list(map(tuple, parts.tolist()))
    # Owners are numbered in the order in which they come.
    owner_of = {row: _joined(row, texts) for row in dict.fromkeys(rows)}
    names = {name: number for number, name in enumerate(dict.fromkeys(filter(None, owner_of.values())))}
    return np.array([names.get(owner_of[row], -1) for row in rows], np.int32), tuple(names)


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
    """The label of a frame in the name of an owner."""
    found = _FILE_FRAME.match(name)
    return GENERATED if found is not None and is_generated(found["path"]) else name


def _enclosing(spans: Spans, chosen: NDArray[np.bool_], track: Integers, time: Integers) -> Integers:
    """The innermost of the chosen spans around each time on its track, as an index of all spans; -1 for none."""
    rows = np.flatnonzero(chosen)
    found = innermost(spans.track[rows], spans.start[rows], spans.end[rows], track, time)
    return np.where(found >= 0, np.append(rows, -1)[found], -1)


def innermost(track: Integers, start: Integers, end: Integers, of_track: Integers, time: Integers) -> Integers:
    """The interval of the same track that holds a time and started last; of those that started together, the one that ends first.

    Intervals may overlap in any way.  Both ends belong to an interval.

    Args:
        track: Whose each interval is, numbered from 0, below 2**31; int64, ``(n,)``.
        start: When it starts, int64.
        end: When it ends, int64.
        of_track: Whose each time is, int64, ``(m,)``.
        time: The times, int64.

    Returns:
        For each time the index of an interval, or -1; int64, ``(m,)``.
    """
    if not len(track) or not len(time):
        return np.full(len(time), -1, np.int64)
    # Times as ranks, so that a track and a time make one number.
    _, rank = np.unique(np.concatenate((start, time)), return_inverse=True)
    rank = rank.astype(np.int64).reshape(-1)
    key = (track << _RANK_BITS) | rank[: len(start)]
    order = np.lexsort((np.arange(len(end)), -end, key))
    key = key[order]
    last = key.searchsorted((of_track << _RANK_BITS) | rank[len(start) :], "right") - 1
    first = key.searchsorted(of_track << _RANK_BITS, "left")
    found = _last_reaching(end[order], last, time)
    found[found < first] = -1  # what was found is another track's
    return np.where(found >= 0, order[found], -1)


def _last_reaching(values: Integers, last: Integers, least: Integers) -> Integers:
    """The last index up to ``last`` whose value is at least ``least``, or -1, for each pair of the two.

    What stands up to an index is cut into aligned blocks of powers of two, as the bits of its length say, the nearest ones the smallest.
    The first block whose largest value is enough is halved until one value is left, on the right where that has one.
    """
    largest = [values]  # of each whole block of 1, 2, 4, … values
    while len(largest[-1]) > 1:
        largest.append(np.maximum(largest[-1][:-1:2], largest[-1][1::2]))
    length = last + 1
    block, size = np.full(len(last), -1, np.int64), np.full(len(last), -1, np.int64)
    for power, most in enumerate(largest):
        at = np.flatnonzero((block < 0) & (length >> power & 1 == 1))
        nearest = (length[at] >> power) - 1
        enough = most[nearest] >= least[at]
        block[at[enough]], size[at[enough]] = nearest[enough], power
        length[at[~enough]] -= 1 << power
    for power in range(len(largest) - 1, 0, -1):
        at = np.flatnonzero(size == power)
        right = 2 * block[at] + 1
        block[at], size[at] = right - (largest[power - 1][right] < least[at]), power - 1
    return block
