"""Context lines: the lines that say which operator runs, and so what the allocations after them are blamed on.

The regular expressions are the definition, seen in real logs of Paddle 2.6 to 3.3; ``owner`` is the operator as the framework
names it.  The lines of the C++ API are left out: they stand inside those read here and only add a counter to the name.  So are
lines that come after the work (``Finish_AD_API``, ``done: RunInstructionBase``, ``After launching op_name``).

A context line belongs to the thread of the nearest glog header before it.  As a rule that one stands right before the text; where
the message begins with a line break, it ends the line above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.inputs.paddle.swar import as_word, decimal_after, gather
from memlens.scanner.formats import LineFormat, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.windows.patterns import Matcher

    Block = NDArray[np.uint8]
    Positions = NDArray[np.int64]

__all__ = [
    "CALL",
    "FORMATS",
    "INSTRUCTION",
    "KERNEL",
    "NODE",
    "Contexts",
    "find_contexts",
    "marked_lines",
    "merge",
    "read_names",
]

_USUAL_NAME, _LONGEST_NAME = 24, 64
#: Looked ahead at, so that a line torn in the middle of a name does not hide the text that another one begins there.
_OWNER = r"(?=(?P<owner>[A-Za-z0-9_.<>]{1,64}))"
_MEANS = {"owner": "the operator that runs from here on"}
_BANNER = "=" * 26

CALL = LineFormat(
    name="api_call",
    layer="eager",
    literal=b"Running",
    regex=rf"(?:={{26}})?Running(?:_AD_API(?:_GRAD|_Grad)?| AD API(?: GRAD| Grad)?): {_OWNER}",
    means=_MEANS,
    samples=(
        Sample(f"{_BANNER}Running_AD_API: conv2d{_BANNER}", {"owner": "conv2d"}),
        Sample(f"{_BANNER}Running_AD_API_GRAD: reshape_grad{_BANNER}", {"owner": "reshape_grad"}),
        Sample(f"{_BANNER}Running_AD_API_Grad: GradNodeAccumulation{_BANNER}", {"owner": "GradNodeAccumulation"}),
        Sample(
            "I1120 10:54:54.176385 14189 dygraph_functions.cc:1775] Running AD API: adamw_",
            {"owner": "adamw_"},
        ),
        Sample("nodes.cc:29774] Running AD API GRAD: mean_all_grad", {"owner": "mean_all_grad"}),
        Sample("accumulation_node.cc:157] Running AD API Grad: GradNodeAccumulation", {}),
    ),
    traps=(
        f"{_BANNER}Finish_AD_API: conv2d{_BANNER}",
        f"{_BANNER}Running_C++_API: conv2d8{_BANNER}",
        "dygraph_functions.cc:1893] Finish AD API: adamw_",
        "dygraph_functions.cc:1833] Running C++ API: adamw_",
        "eager_op_function.cc:955] Running Eager Final State API: adamw_",
        "Running AD API: ",
    ),
)

NODE = LineFormat(
    name="backward_node",
    layer="eager",
    literal=b"Running Eager Backward Node: ",
    regex=rf"Running Eager Backward Node: {_OWNER}",
    means=_MEANS,
    samples=(
        Sample(
            "I1120 10:54:54.205667 14189 run_program_op_node.h:1131] Running Eager Backward Node: GradNodeRunProgram",
            {"owner": "GradNodeRunProgram"},
        ),
    ),
    traps=(
        "run_program_op_node.h:1179] End Eager Backward Node: GradNodeRunProgram: Ptr 0x5619134aaac0",
        "backward.cc:164] Node: GradNodeBase addr:0x5619, Found pending node: GradNodeRunProgram",
    ),
)

INSTRUCTION = LineFormat(
    name="instruction",
    layer="executor",
    literal=b" OP id:",
    # The executor of the old representation says so before the work; that of the new one, from 3.0 on, with "begin: ".
    regex=rf"(?:RunInstruction|begin: RunInstructionBase) OP id:[0-9]{{1,15}} name:{_OWNER}",
    means=_MEANS,
    samples=(
        Sample(
            "I1120 10:54:54.189160 14189 program_interpreter.cc:1187] RunInstruction OP id:0 name:conv2d type:kGpuAsync runs on MainThread",
            {"owner": "conv2d"},
        ),
        Sample(
            "begin: RunInstructionBase OP id:12 name:pd_op.batch_norm_ type:kGpuAsync runs on MainThread",
            {"owner": "pd_op.batch_norm_"},
        ),
    ),
    traps=(
        "done: RunInstructionBase OP id:12 name:pd_op.relu type:kGpuAsync runs on MainThread",
        "new_ir_interpreter.cc:1200] RunInstructionBase OP id:12 name:pd_op.relu type:kGpuAsync runs on MainThread",
        "program_interpreter.cc:1187] RunInstruction OP id: name:conv2d",
    ),
)

KERNEL = LineFormat(
    name="kernel_run",
    layer="executor",
    literal=b"Start run Place(",
    # The executor of the old representation says this of every run, also of the first, which it does while it builds its list.
    regex=r"Start run Place\([A-Za-z0-9_:]{1,24}\) Op\((?=(?P<owner>[A-Za-z0-9_.<>]{1,64})\), inputs)",
    means=_MEANS,
    samples=(
        Sample(
            "I1120 10:54:54.120337 14189 interpreter_util.cc:731] Start run Place(hostdev:0) Op(conv2d), inputs:{Filter[conv2d_0.w_0:float[16]]}",
            {"owner": "conv2d"},
        ),
        Sample("Start run Place(gpu_pinned) Op(matmul_v2_grad), inputs:{}", {"owner": "matmul_v2_grad"}),
    ),
    traps=(
        "interpreter_util.cc:1088] End run Place(hostdev:0) Op(conv2d), inputs:{Filter[conv2d_0.w_0:float[16]]}",
        "Start run Place(hostdev:0) Op(), inputs:{}",
    ),
)

#: Everything read as a context line without being asked for.
FORMATS = (CALL, NODE, INSTRUCTION, KERNEL)


class Contexts(NamedTuple):
    """Context lines of one block, in order; their names are read later, of those lines alone that own something.

    Attributes:
        start: Where their text starts, or, of lines that a caller's pattern marks, where the line ends; int64, rising.  The nearest
            header before that names their thread.
        name_at: Where their name starts, int64; of a line that a caller's pattern marks, ``-1 - k`` for ``given[k]``.
        given: The names that a caller's patterns gave.
    """

    start: Positions
    name_at: Positions
    given: tuple[str, ...] = ()


def find_contexts(
    block: Block, calls: Positions, nodes: Positions, instructions: Positions, inputs: Positions
) -> Contexts:
    """Find the context lines among the places where a text of theirs stands.

    Args:
        block: uint8; must reach 128 bytes before and after every place.
        calls: Where ``AD_API`` or ``AD API`` stands, int64.
        nodes: Where ``Node:`` and a blank stand.
        instructions: Where ``OP id:`` stands.
        inputs: Where ``, inputs`` stands.
    """
    found = [_calls(block, calls), _nodes(block, nodes), _instructions(block, instructions), _kernels(block, inputs)]
    found = [part for part in found if len(part[0])]
    if not found:
        return Contexts(calls[:0], calls[:0])
    start, name_at = np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])
    named = _OF_A_NAME[block[name_at]]
    if not named.all():
        start, name_at = start[named], name_at[named]
    if len(found) > 1:
        order = start.argsort(kind="stable")
        start, name_at = start[order], name_at[order]
    return Contexts(start, name_at)


def marked_lines(text: Block, begin: int, matchers: Sequence[Matcher]) -> Contexts | None:
    """The context lines that a caller named by patterns, at the ends of their lines; ``None`` where there is none.

    Args:
        text: uint8, whole lines.
        begin: The position of its first byte.
        matchers: What to look for; where several match one line the first of them names the owner.
    """
    found = {start: name for matcher in reversed(matchers) for start, name in matcher.find(text)}
    if not found:
        return None
    starts = np.array(sorted(found), np.int64)
    ends = np.append(np.flatnonzero(text == 0x0A), len(text))
    numbers: dict[str, int] = {}
    name = np.array([numbers.setdefault(found[start], len(numbers)) for start in starts.tolist()], np.int64)
    return Contexts(ends[ends.searchsorted(starts)] + begin, -1 - name, tuple(numbers))


def merge(contexts: Contexts, marked: Contexts) -> Contexts:
    """All context lines in the order of the file; of two at one place that of a caller comes last, and counts."""
    start = np.concatenate((contexts.start, marked.start))
    order = start.argsort(kind="stable")
    return Contexts(start[order], np.concatenate((contexts.name_at, marked.name_at))[order], marked.given)


def read_names(block: Block, contexts: Contexts, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The names that some context lines give: for each of the rows the number of its name, int64; and the different names."""
    name_at = contexts.name_at[rows]
    own = name_at >= 0
    numbers = -1 - name_at
    names = dict.fromkeys(contexts.given)
    if own.any():
        which, found = _intern(_names(block, name_at[own]))
        names.update(dict.fromkeys(found))
        places = {name: number for number, name in enumerate(names)}
        numbers[own] = np.array([places[name] for name in found], np.int64)[which]
    return numbers, tuple(names)


def _calls(block: Block, at: Positions) -> tuple[Positions, Positions]:
    """Where the text of each call starts, and where its name does."""
    if not len(at):
        return at, at
    banner = block[at + 2] == ord("_")
    before, after = gather(block, at - 8), gather(block, at + 6)
    colon = (after & _MASK2) == as_word(b": ")
    grad = after & _MASK7
    joined = (before == as_word(b"Running_")) & (colon | (grad == as_word(b"_GRAD: ")) | (grad == as_word(b"_Grad: ")))
    spaced = (before == as_word(b"Running ")) & (colon | (grad == as_word(b" GRAD: ")) | (grad == as_word(b" Grad: ")))
    fine = np.where(banner, joined, spaced)
    name_at = at + np.where(colon, 8, 13)
    start, name_at = (at - 8)[fine], name_at[fine]
    framed = np.flatnonzero(block[start - 1] == ord("="))
    start[framed] -= 26 * _stands_before(block, start[framed], _BANNER.encode())
    return start, name_at


def _nodes(block: Block, at: Positions) -> tuple[Positions, Positions]:
    text = b"Running Eager Backward "
    at = at.compress(_stands_before(block, at, text)) if len(at) else at
    return at - len(text), at + 6


def _instructions(block: Block, at: Positions) -> tuple[Positions, Positions]:
    if not len(at):
        return at, at
    old, new = b"RunInstruction ", b"begin: RunInstructionBase "
    is_old, is_new = _stands_before(block, at, old), _stands_before(block, at, new)
    _, digits = decimal_after(block, at + 6)
    after = at + 6 + digits
    fine = (is_old | is_new) & (digits >= 1) & (digits <= 15) & ((gather(block, after) & _MASK6) == as_word(b" name:"))
    start = at - np.where(is_old, len(old), len(new))
    return start[fine], (after + 6)[fine]


def _kernels(block: Block, at: Positions) -> tuple[Positions, Positions]:
    """Of ``Start run Place(P) Op(NAME), inputs``: the name and the place are as long as their characters go back."""
    close = at.compress(block[at - 1] == ord(")")) - 1
    if not len(close):
        return close, close
    text, op = b"Start run Place(", b") Op("
    name_at = close - _run_before(block, close, _OF_A_NAME, _LONGEST_NAME)
    place_end = name_at - len(op)
    place_at = place_end - _run_before(block, place_end, _OF_A_PLACE, _LONGEST_PLACE)
    fine = (name_at < close) & (place_at < place_end) & _stands_before(block, name_at, op)
    fine &= _stands_before(block, place_at, text)
    return (place_at - len(text))[fine], name_at[fine]


def _run_before(block: Block, at: Positions, wanted: NDArray[np.bool_], most: int) -> Positions:
    """How many characters right before each place, of at most so many, are wanted ones; int64."""
    other = ~wanted[gather(block, at - most, most).view(np.uint8)][:, ::-1]
    run: Positions = np.where(other.any(axis=1), other.argmax(axis=1), most)
    return run


def _stands_before(block: Block, at: Positions, text: bytes) -> NDArray[np.bool_]:
    """Whether a text of at most 32 characters ends right before each place."""
    same = np.ones(len(at), np.bool_)
    for stop in range(len(text), 0, -8):
        piece = text[max(stop - 8, 0) : stop]
        words = gather(block, at - (len(text) - stop) - 8)  # the last eight characters, of which `piece` may be fewer
        same &= (words >> np.uint64(8 * (8 - len(piece)))) == as_word(piece)
    return same


_MASK2, _MASK6, _MASK7 = (np.uint64((1 << 8 * count) - 1) for count in (2, 6, 7))
_OF_A_NAME = np.zeros(256, np.bool_)
_OF_A_NAME[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.<>")] = True
_OF_A_PLACE = _OF_A_NAME.copy()
_OF_A_PLACE[list(b".<>")] = False
_OF_A_PLACE[ord(":")] = True
_LONGEST_PLACE = 24
#: For 0 to 64 characters, the masks of as many bytes, uint64 (65, 8).
_MASKS = np.array(
    [[(1 << 8 * min(max(count - 8 * word, 0), 8)) - 1 for word in range(8)] for count in range(_LONGEST_NAME + 1)],
    np.uint64,
)
#: Odd and otherwise arbitrary: they make one number of the eight words of a name.
_MIX = np.array([0x9E3779B97F4A7C15 * (2 * k + 1) ** 5 & (1 << 64) - 1 for k in range(8)], np.uint64)


def _names(block: Block, at: Positions) -> NDArray[np.uint64]:
    """The names that begin at some places: uint64 (n, 3 or 8), zero bytes after their end."""
    words = gather(block, at, _USUAL_NAME)
    lengths = _leading_run(words)
    if (lengths == _USUAL_NAME).any():
        words = gather(block, at, _LONGEST_NAME)
        lengths = _leading_run(words)
    return words & _MASKS[lengths, : words.shape[1]]


def _leading_run(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many characters of names each row begins with, int64."""
    other = ~_OF_A_NAME[words.view(np.uint8)]  # bool, a column a character
    first = other.argmax(axis=1)
    run: NDArray[np.int64] = np.where(other[np.arange(len(first)), first], first, other.shape[1])
    return run


def _intern(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number the different names: for each row its number, and the names."""
    columns = words.shape[1]
    mixed = (words * _MIX[:columns]).sum(axis=1, dtype=np.uint64)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    if (words[first[which]] != words).any():  # two names give one number: compare the names themselves
        texts = np.ascontiguousarray(words).view(f"S{8 * columns}").reshape(-1)
        _, first, which = np.unique(texts, return_index=True, return_inverse=True)
        which = which.reshape(-1)
    return which, tuple(row.tobytes().rstrip(b"\0").decode() for row in words[first])
