"""Anchors that a program prints into its own log, and the same marks for the profiler of PyTorch and the memory histories of PyTorch and Paddle.

Nothing is imported for it, and nothing of it fails the program.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["mark", "window"]


def mark(text: str) -> None:
    r"""Print an anchor: a line of its own in the log.

    The line goes to file descriptor 2 in one write, as the lines of glog do, wherever ``sys.stderr`` points; what the program printed
    before is flushed, so that it stands before the line.  In a trace of PyTorch's profiler the text is an annotation without duration; in its
    memory history one too (torch 2.5 and later), which reads ``START text`` and ``END text`` there; in that of Paddle it reads as in the log.

    Args:
        text: What the line says; what would end the line, and other control characters, become blanks.

    Example:
        >>> for step in range(100):                                      # doctest: +SKIP
        ...     memlens.mark(f"STEP {step}")                             # memlens analyze run.log --by 'STEP (\d+)'
    """
    _walk()
    _print(line := _one_line(text))
    _annotate(line)


@contextmanager
def window(name: str) -> Iterator[None]:
    """Print ``START name`` before a block and ``END name`` after it, also where an exception ends it.

    ``memlens analyze LOG --start "START name" --end "END name"`` looks at it, in the log, in a trace of PyTorch's profiler and in its memory history
    alike: there it is an annotation over the block, or one before it and one after it.  It decorates functions as well: ``@memlens.window("forward")``.

    Args:
        name: What it is called; see :func:`mark`.
    """
    line = _one_line(name)
    profiled = _profiled()
    _print(f"START {line}")
    if profiled:  # a trace names an annotation where it starts only
        _annotate(f"START {line}")
    annotation = nullcontext() if profiled else _annotation(line)
    with suppress(Exception):
        annotation.__enter__()
    try:
        yield
    finally:
        _walk()
        with suppress(Exception):
            annotation.__exit__(None, None, None)
        if profiled:
            _annotate(f"END {line}")
        _print(f"END {line}")


def _walk() -> None:
    """Have it looked for who holds memory, where names are said, and it is time to."""
    for name in ("program_lines", "torch_names"):
        with suppress(Exception):
            sys.modules[f"_memlens.{name}"].marked()


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in str(text))


def _print(line: str) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, none at all, or a stand-in of any kind
            stream.flush()
    data = f"{line}\n".encode()
    with suppress(OSError):
        while data:  # a non-blocking pipe may take only a part
            data = data[os.write(2, data) :]
    with suppress(Exception):  # Paddle's memory history: nothing where it is not recorded
        sys.modules["paddle"].device.cuda._annotate_memory_history(line)  # noqa: SLF001


def _annotate(text: str) -> None:
    with suppress(Exception), _annotation(text):
        pass


def _annotation(text: str) -> Any:
    """The context manager that marks a block for PyTorch, where the program uses it."""
    with suppress(Exception):
        return sys.modules["torch"].profiler.record_function(text)
    return nullcontext()


def _profiled() -> bool:
    """Whether PyTorch's profiler is running."""
    with suppress(Exception):
        return bool(sys.modules["torch"].autograd.profiler._is_profiler_enabled)  # noqa: SLF001
    return False
