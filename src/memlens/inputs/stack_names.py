"""Names of owners whose call stack is known: the labels of its frames, innermost first, joined.

Frames of code that a program has written, and of what calls it (``torch.compile``, FX graphs, kernels), are told from all others: such a file is called after a hash
of its content (``/tmp/torchinductor_user/xy/cxy….py``) or by a running number (``<eval_with_key>.12``), and its line numbers mean
nothing to anyone.  As an owner it would hide the user's line that called it, and make one owner of the user's into as many as there are graphs.  So every frame of such code
has one name, :data:`GENERATED`, and frames of the compiler that only pass a call on have none.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


#: Labels in a name, and its characters, at most.
_MOST_LABELS, _LONGEST_NAME = 6, 240
#: What every frame of generated code is called.
GENERATED = "(generated code)"

_GENERATED = re.compile(
    # The caches of Inductor and Triton, wherever they lie: a file stands in a folder of the second and third letter of its own name.
    r"(?:.*[/\\])?(?:torchinductor_[^/\\]+|torch_compile_debug|\.triton[/\\]cache)[/\\]"
    r"|.*[/\\](?P<folder>[a-z2-7]{2})[/\\]c(?P=folder)[a-z2-7]{20,}\.py"
    r"|<(?:eval_with_key|torch_package_|@beartype|attrs generated|__array_function__|lambdifygenerated|dynamic|generated)"
)
_COMPILER = re.compile(r"(?:.*[/\\])?torch[/\\](?:_dynamo|_inductor|_functorch|_higher_order_ops|fx)[/\\]")


def is_generated(path: str) -> bool:
    """Whether a frame's file is code that a program has written."""
    return _GENERATED.match(path) is not None


def is_compiler(path: str) -> bool:
    """Whether a frame's file is of PyTorch's compiler, which calls generated code."""
    return _COMPILER.match(path) is not None


def joined(labels: Iterable[str]) -> str:
    """The name of an owner: the first few different labels, as many as there is room for."""
    name = ""
    for label in islice(dict.fromkeys(labels), _MOST_LABELS):
        longer = f"{name} < {label}" if name else label
        if len(longer) > _LONGEST_NAME:
            break
        name = longer
    return name
