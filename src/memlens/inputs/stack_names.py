"""Names of owners whose call stack is known: the labels of its frames, innermost first, joined.

Frames of code that a program has written, and of what calls it (``torch.compile``, FX graphs, kernels), are told from all others: such a file is called after a hash
of its content (``/tmp/torchinductor_user/xy/cxy….py``) or by a running number (``<eval_with_key>.12``), and its line numbers mean
nothing to anyone.  As an owner it would hide the user's line that called it, and make one owner of the user's into as many as there are graphs.  So every frame of such code
has one name, :data:`GENERATED`, and frames of the compiler that only pass a call on have none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from memlens.text import LIBRARY_CODE, STACK, is_own

if TYPE_CHECKING:
    from collections.abc import Iterable


#: Stands in place of the file in a frame that is an operator of Paddle's.
OPERATOR = "<operator>"
#: Labels in a name, and its characters, at most.
_MOST_LABELS, _LONGEST_NAME = 6, 240
#: What every frame of generated code is called.
GENERATED = "(generated code)"
#: Characters of a frame in the name of an owner, at most.
_LONGEST_FRAME = 80
#: Python frames that stand in every stack and tell nothing: they only call what is above them.
_PASSING_ON = frozenset(
    {
        ("module.py", "_call_impl"),
        ("module.py", "_wrapped_call_impl"),
        ("_contextlib.py", "decorate_context"),
        ("optimizer.py", "wrapper"),
        ("optimizer.py", "_use_grad"),
        ("lr_scheduler.py", "wrapper"),
        ("_tensor.py", "__torch_function__"),
        ("torch/utils/_device.py", "__torch_function__"),
        ("graph.py", "_engine_run_backward"),
        ("paddle/nn/layer/layers.py", "__call__"),
        ("paddle/nn/layer/layers.py", "_dygraph_call_func"),
        ("paddle/base/dygraph/base.py", "_decorate_function"),
        ("paddle/base/wrapped_decorator.py", "__impl__"),
        ("paddle/utils/decorator_utils.py", "wrapper"),
    }
)
# Expressions are compiled when the first stack is named: logs of Paddle have none.
_OPERATOR = r"\bat::_ops::(\w+)::(?:call|redispatch)\b"
_BACKWARD = r"\b(?:torch::autograd::)(?:generated::)?(\w+)::apply\("
#: Operators that only make the memory for the one that is meant.
_MAKING = frozenset({"empty", "empty_memory_format", "empty_strided", "empty_like", "new_empty", "resize_", "set_"})
#: C++ functions between the allocator and whoever called it, and around the program.
PLUMBING = (
    r"torch::unwind|CapturedTraceback|gather_with_cpp|CUDACachingAllocator|CachingAllocator|at::detail::empty|^_?_?libc_start|^_?_?clone"
    r"|^pthread|^_start\b|^std::|^c10::impl::wrap_kernel|^Py|^_Py|^cfunction|^method_vectorcall|::create_out\("
)

#: File, line and function.
Frame = tuple[str, int, str]

_GENERATED = (
    # The caches of Inductor and Triton, wherever they lie: a file stands in a folder of the second and third letter of its own name.
    r"(?:.*[/\\])?(?:torchinductor_[^/\\]+|torch_compile_debug|\.triton[/\\]cache)[/\\]"
    r"|.*[/\\](?P<folder>[a-z2-7]{2})[/\\]c(?P=folder)[a-z2-7]{20,}\.py"
    r"|<(?:eval_with_key|torch_package_|@beartype|attrs generated|__array_function__|lambdifygenerated|dynamic|generated)"
)
#: PyTorch's compiler, which calls generated code.
_COMPILER = r"(?:.*[/\\])?torch[/\\](?:_dynamo|_inductor|_functorch|_higher_order_ops|fx)[/\\]"

_INSTALLED = r".*/(?P<folder>site-packages|dist-packages|lib(?:64)?/python\d[\d.]*)/(?P<place>.+)"

#: … of which traces have no more than the place.
_PLACE = rf"(?!/|\w:)(?:{LIBRARY_CODE})"


def is_generated(path: str) -> bool:
    """Whether a frame's file is code that a program has written."""
    return re.match(_GENERATED, path) is not None


def place_of(path: str) -> str:
    """A file of the user's by its name alone, and one of an installed package or of the interpreter with its folders, as traces have them already."""
    path = path.replace("\\", "/")
    found = re.match(_INSTALLED, path)
    if found is None:
        return path if re.match(_PLACE, path) else path.rpartition("/")[2]
    return found["place"] if "/" in found["place"] else f"{found['folder']}/{found['place']}"


def joined(labels: Iterable[str]) -> str:
    """The name of an owner: the first few different labels, as many as there is room for, the user's innermost line among them."""
    chosen = list(dict.fromkeys(labels))
    own = next((at for at, label in enumerate(chosen) if is_own(label)), 0)
    while own > 1 and (own >= _MOST_LABELS or len(STACK.join(chosen[: own + 1])) > _LONGEST_NAME):
        own -= 1
        del chosen[own]
    name = ""
    for label in islice(chosen, _MOST_LABELS):
        longer = f"{name}{STACK}{label}" if name else label
        if len(longer) > _LONGEST_NAME:
            break
        name = longer
    return name


def name_of(frames: Iterable[Frame]) -> str:
    """The name of a stack as an owner: what called for the memory, then its callers, in at most 240 characters.

    An operator of Paddle's, and Python frames as ``file.py:line function``, without those that only pass a call on; generated code by one name.  A stack without Python frames (the backward
    pass runs on a thread of its own) is named by its operators and autograd nodes, or else by its functions.
    """
    labels = [label for frame in frames for label in _labels_of(frame)]
    best = min((level for level, _ in labels), default=0)
    return joined(label for level, label in labels if level == best) or "(no name)"


@lru_cache(maxsize=1 << 14)
def _labels_of(frame: Frame) -> list[tuple[int, str]]:
    """The labels that a frame may have, each with its level: a stack is named by the labels of the lowest level that it has.

    The levels are operators of Paddle's and Python frames, those that only pass a call on, operators and autograd nodes, functions that tell something, all others.
    """
    file, line, function = frame
    if file == OPERATOR:
        return [(0, _cut(function))]
    place = place_of(file)
    base = place.rpartition("/")[2]
    # torch.profiler's own converter writes the whole frame into the name.
    if file == "none" and ".py(" in function:
        return [(0, _cut(function))]
    if is_generated(file):
        return [(0, GENERATED)]
    if re.match(_COMPILER, file) or not _PASSING_ON.isdisjoint({(base, function), (place, function)}):
        return [(1, _cut(function))]
    if file.endswith((".py", ">")):
        return [(0, _cut(f"{place}:{line} {function}"))]
    plain = _plain(function)
    labels = [(4, plain)]
    place = "" if file in ("", "?", "??") else f"{base}:{line} "
    if place + plain and not re.search(PLUMBING, plain):
        labels.append((3, _cut(place + plain)))
    match = re.search(_OPERATOR, function) or re.search(_BACKWARD, function)
    if match and match[1] not in _MAKING and match[1] != "Node":
        labels.append((2, _cut(match[1])))
    return labels


def _plain(function: str) -> str:
    """A C++ function without its arguments and template parameters."""
    head = function.replace("(anonymous namespace)", "{anonymous}").partition("(")[0]
    return _cut(head.partition("<")[0] or function)


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST_FRAME else f"{label[: _LONGEST_FRAME - 1]}…"
