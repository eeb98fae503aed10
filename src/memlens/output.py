"""Outputs that appear whole or not at all: written beside their place and renamed into it at the end."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from memlens.errors import OutputError

__all__ = ["open_output", "refuse_overwrite", "silence_stdout"]

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


def refuse_overwrite(path: str | Path | None, force: bool = False) -> None:
    """Say early, before any work, that an output cannot be written.

    Raises:
        OutputError: The file exists and ``force`` is off, it is a directory, or its directory does not exist.
    """
    if _is_stdout(path):
        return
    target = Path(cast("str | Path", path))
    if target.is_dir():
        raise OutputError(f"cannot write {_shown(target)}: it is a directory", "Name a file.")
    if not target.parent.is_dir():
        raise OutputError(f"cannot write {_shown(target)}: there is no directory {_shown(target.parent)}")
    if target.is_file() and not force:
        raise OutputError(f"{_shown(target)} exists", "Name another file, or write over it with -f (--force).")


@contextmanager
def open_output(path: str | Path | None, force: bool = False) -> Iterator[BinaryIO]:
    """Open an output for bytes.

    A file is written beside its place and renamed into it when the block ends; an exception, Ctrl-C included, leaves
    neither it nor a part of it.  Devices and pipes are written directly.  A reader that closes the pipe behind stdout ends
    the block quietly.

    Args:
        path: Where to write; ``None`` or ``-`` is stdout.
        force: Write over a file that exists.

    Raises:
        OutputError: The file exists and ``force`` is off, or it cannot be written.
    """
    if _is_stdout(path):
        with _stdout() as out:
            yield out
        return
    refuse_overwrite(path, force)
    # A symbolic link stays one: what it points at is written.
    target = Path(os.path.realpath(cast("str | Path", path)))
    with _beside(target, force) if _replaceable(target) else _direct(target) as out:
        yield out


def _is_stdout(path: str | Path | None) -> bool:
    return path is None or str(path) == "-"


def _shown(path: Path) -> str:
    """A path as shown in a message: control characters escaped, for a terminal must not obey a file name."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return text if text.isprintable() else repr(text)


def _replaceable(target: Path) -> bool:
    """Whether a rename may put a new file in place of what is there: ``/dev/null`` and pipes must stay what they are."""
    try:
        return stat.S_ISREG(target.stat().st_mode)
    except FileNotFoundError:
        return True


@contextmanager
def _stdout() -> Iterator[BinaryIO]:
    out = sys.stdout.buffer
    try:
        sys.stdout.flush()
        yield out
        out.flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        silence_stdout()
        raise OutputError(f"cannot write to stdout: {error.strerror}") from error


def silence_stdout() -> None:
    """Let what stdout still buffers go nowhere, or the interpreter fails once more when it flushes at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())  # fails where stdout is no file (a test, a notebook)
        finally:
            os.close(nowhere)


@contextmanager
def _direct(target: Path) -> Iterator[BinaryIO]:
    try:
        with target.open("wb") as out:
            yield out
    except BrokenPipeError:
        return
    except OSError as error:
        raise _failed(target, error) from error


@contextmanager
def _beside(target: Path, force: bool) -> Iterator[BinaryIO]:
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        # 0o666 less the umask, as for any new file; O_EXCL so that nobody's file is taken for ours.
        out = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), "wb")
    except OSError as error:
        raise _failed(target, error) from error
    try:
        try:
            with out:
                yield out
            _put(part, target, force)
        except OSError as error:
            if error.errno not in _DISK_ERRORS and error.filename not in (str(part), str(target)):
                raise
            raise _failed(target, error) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _put(part: Path, target: Path, force: bool) -> None:
    """Rename, keeping the mode of a file that is written over, and not replacing one that has come meanwhile."""
    if force:
        with suppress(FileNotFoundError):
            shutil.copymode(target, part)
        part.replace(target)
        return
    try:
        os.link(part, target)  # unlike a rename this fails where the target exists
    except FileExistsError:
        raise OutputError(f"{_shown(target)} exists", "It came while this one was being written.") from None
    except OSError:  # a file system without hard links
        part.replace(target)


def _failed(target: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {_shown(target)}: {error.strerror or error}")
