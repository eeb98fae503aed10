"""Commands in a terminal of their own: what they write as the terminal gets it, and what then stands on its lines."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from commands import HERE

ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: Variables that decide about colours, widths and characters: a test sets those that it is about.
_DECIDING = ("COLUMNS", "CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LC_ALL", "LC_CTYPE")


def in_terminal(
    *arguments: object, columns: int = 80, rows: int = 50, folder: Path | None = None, **environment: str
) -> str:
    """Run ``memlens`` with stdout and stderr in a terminal of some columns, and give what it wrote there, line ends as ``\\n``."""
    inherited = {key: value for key, value in os.environ.items() if key not in _DECIDING}
    inherited |= {**HERE, "TERM": "xterm", "LANG": "C.UTF-8"}
    leader, follower = pty.openpty()
    try:
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        ran = subprocess.Popen(
            [sys.executable, "-m", "memlens", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=follower,
            env=inherited | environment,
            cwd=folder,
        )
    finally:
        os.close(follower)
    written = bytearray()
    try:
        while True:
            try:
                piece = os.read(leader, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            written += piece
    finally:
        os.close(leader)
        ran.wait(60)
    return written.decode().replace("\r\n", "\n")
