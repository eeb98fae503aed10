"""``memlens.names``: what ``memlens record`` writes of a program, for one that is started without it."""

from __future__ import annotations

from typing import Any, Literal

from memlens.errors import UsageError
from memlens.native import load
from memlens.recording.inside import imports

__all__ = ["names"]

_SAID = ("holders", "lines")


def names(say: Literal["holders", "lines"] = "holders") -> None:
    """Say from here on which line of this program allocates, and which variable holds each tensor, as ``memlens record`` has it said.

    Call it before Paddle or PyTorch is imported; what was taken from their modules before is missed.  Once it is said it goes on to the end of the process.

    * **Paddle**: lines on file descriptor 2, among those of the allocator where it logs (``GLOG_vmodule='auto_g*=10,b*=3'``).
    * **PyTorch**: holders, in the snapshots of its memory history and in the traces that its profiler makes with ``profile_memory=True``; lines it has itself.

    Args:
        say: Holders as well, or lines alone.

    Raises:
        UsageError: There is no such thing to say.

    Example:
        >>> memlens.names()                                              # doctest: +SKIP
        >>> import paddle                                                # doctest: +SKIP
    """
    if say not in _SAID:
        raise UsageError(f"names says no {say!r}", f"There are: {', '.join(_SAID)}.")
    imports.start(asked_for(say))


def asked_for(say: str) -> dict[str, Any]:
    """What the modules in the program are told that say names: of ``holders``, ``lines`` or ``none``."""
    if say == "none":
        return {"lines": None, "holders": None}
    compiled, holders = load("memlens.recording.inside._calls"), say == "holders"
    lines = {"holders": holders, "compiled": getattr(compiled, "__file__", None)}
    return {"lines": lines, "holders": {} if holders else None}
