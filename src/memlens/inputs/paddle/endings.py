"""How a run ended, by the text after the last ALLOC of its log: a Python exception, or the death of the process, as line formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Ending, Kind
from memlens.scanner.formats import LineFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.inputs.blocks import Block


#: Bytes of the end of a log that are looked at: a process frees all it has at exit, a line each.
_FAR = 1 << 20
_WHAT = {"what": "what it ended with"}


EXCEPTION = LineFormat(
    "python_exception",
    "python",
    b"Traceback (most recent call last):",
    r"(?:(?P<ignored>Exception ignored [^\n]{0,300}\n)|(?<!C\+\+ )\b)Traceback \(most recent call last\):"
    r"(?:[^\n]*(?:\n[ \t][^\n]*){1,400}\n(?P<what>[A-Za-z_][\w.]{0,80})(?=:|\s*(?:\n|\Z)))?",
    {"ignored": "it was passed over while the interpreter went down", "what": "the exception"},
    samples=(
        (
            'Traceback (most recent call last):\n  File "train.py", line 15, in <module>\n    step()\n<what=ValueError>:'
            " no such batch<ignored!>"
        ),
        'Traceback (most recent call last):\n  File "train.py", line 15, in <module>\n<what=KeyboardInterrupt>',
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File<ignored!><what!>",
        "<ignored=Exception ignored in: Reader.__del__\n>Traceback (most recent call last):\n  File",
    ),
    traps=("C++ Traceback (most recent call last):", "Original traceback"),
)
#: What a process writes that dies.
DEATHS = tuple(
    LineFormat(name, layer, literal.encode(), regex, _WHAT, {}, (sample,), tuple(traps))
    for name, layer, literal, regex, sample, *traps in (
        (
            *("died_of_signal", "platform", "is detected by the operating system"),
            r"FatalError: `[^`\n]{1,100}` is detected by the operating system(?:[^\n]*\n){1,2}[^\n]*SignalInfo: \*\*\* (?P<what>SIG[A-Z]{2,8})\b",
            (
                "FatalError: `Segmentation fault` is detected by the operating system.\n  [TimeInfo: *** Aborted at 1795646414 ***]\n"
                "  [SignalInfo: *** <what=SIGSEGV> (@0x0) received by PID 12273 (TID 0x7f0a89477b80) from PID 0 ***]"
            ),
            *("FatalError: Segmentation fault", "the signal is detected by the operating system"),
        ),
        (
            *("died_of_free", "libc", "double free or corruption", r"(?P<what>double free or corruption)"),
            "<what=double free or corruption> (!prev)",
        ),
        (
            *(
                "died_of_pointer",
                "libc",
                "(): invalid ",
                r"(?P<what>(?:free|munmap_chunk|realloc)\(\): invalid [a-z ]{1,30})",
            ),
            *("<what=munmap_chunk(): invalid pointer>", "check(): invalid pointer"),
        ),
        (
            *(
                "died_of_corruption",
                "libc",
                "corrupted ",
                r"(?P<what>corrupted (?:size vs\. prev_size|double-linked list))",
            ),
            *("<what=corrupted size vs. prev_size>", "the image is corrupted and left out"),
        ),
        (
            *("died_of_exception", "libstdc++", "terminate called after throwing an instance of '"),
            r"terminate called after throwing an instance of '(?P<what>[^'\n]{1,100})'",
            "terminate called after throwing an instance of '<what=std::bad_alloc>'\n  what():  std::bad_alloc",
            "terminate called after throwing an instance of itself",
        ),
        (
            *("died_in_python", "python", "Fatal Python error: ", r"Fatal Python error: (?P<what>[^\n\r]{1,80})"),
            *("Fatal Python error: <what=Segmentation fault>", "Segmentation fault"),
        ),
    )
)
FORMATS = (EXCEPTION, *DEATHS)


def text_after_allocs(block: Block, columns: Mapping[str, NDArray[np.generic]]) -> tuple[bool, bytes]:
    """Whether a block has an ALLOC, and its text from the last one on, as much of it as is looked at.

    Args:
        block: The block.
        columns: Its events.
    """
    allocs = np.flatnonzero(columns["kind"] == Kind.ALLOC)
    begin = int(columns["offset"][allocs[-1]]) - block.offset + block.begin if len(allocs) else block.begin
    return bool(len(allocs)), block.data[max(begin, block.end - _FAR) : block.end].tobytes()


class LastText:
    """The text of a log after its last ALLOC, carried from block to block."""

    def __init__(self) -> None:
        self._text = b""

    def add(self, after: tuple[bool, bytes]) -> None:
        """Take what :func:`text_after_allocs` gives of the next block."""
        anew, text = after
        self._text = text if anew else (self._text + text)[-_FAR:]

    def ending(self, end: int, line_ends: int) -> Ending | None:
        """What stands there first of how the run ended.

        Args:
            end: Byte offset of the end of the log.
            line_ends: How many line ends it has.
        """
        text = self._text
        found = [match for form in DEATHS if (match := form.search(text)) is not None]
        found += [match for match in EXCEPTION.find_all(text) if match["ignored"] is None][:1]
        if not found:
            return None
        first = min(found, key=lambda match: match.start())
        what = (first["what"] or b"").decode("utf-8", "replace").strip()
        how = "exception" if first.re is EXCEPTION.pattern else "death"
        line = line_ends - text.count(b"\n", first.start()) + 1
        return Ending(how, what, end - len(text) + first.start(), line)
