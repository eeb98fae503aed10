"""Every error memlens raises on purpose, each with the exit code the command line ends with.

Catch :class:`MemlensError` to catch them all.  A message says what is wrong and where; ``hint`` says what to do next.
"""

from __future__ import annotations

import re

__all__ = ["AnchorError", "InputError", "MemlensError", "NoEventsError", "OutputError", "UsageError", "masked"]

#: What is secret in a URL: a user's name and password, and the values of parameters that sign or open.
_USER = r"(?<=://)[^/\s?#@]*@"
_SIGNS = r"(?i)([?&][\w.-]*(?:signature|sig|token|secret|password|credential|key|auth)[\w.-]*=)[^&#\s:]+"


def masked(text: str) -> str:
    """A text as it may be shown to others: of URLs in it without a user's name, and with … for what signs or opens."""
    return re.sub(_SIGNS, r"\1…", re.sub(_USER, "", text)) if "://" in text else text


class MemlensError(Exception):
    """Something memlens cannot do, said in words for the person who asked for it.

    Args:
        message: What is wrong, with the file and, where there is one, the line.
        hint: What to do next; shown on a line of its own.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = masked(message)
        self.hint = masked(hint)

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class InputError(MemlensError):
    """An input that cannot be read: missing, a directory, damaged, not a log."""


class NoEventsError(InputError):
    """An input that was read to its end and holds no allocator event."""


class AnchorError(MemlensError):
    """An anchor pattern that marks no line, or fewer lines than asked for."""


class OutputError(MemlensError):
    """An output that cannot be written, or that would be written over unasked."""


class UsageError(MemlensError):
    """Arguments that make no sense together."""

    exit_code = 2
