"""Outputs that appear whole or not at all: written beside their place and renamed into it at the end."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from memlens.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
#: Bytes that are held back in memory.
_HELD = 1 << 20


def refuse_inputs(outputs: Iterable[str | Path | None], inputs: Iterable[object]) -> None:
    """Say early, before any work, that an output is an input of the same command: writing it would destroy what is read.

    Two paths are one where they lead to one place or to one file: links, hard links and ``./`` included.

    Args:
        outputs: Where results go; ``-`` is stdout where it is a file, and ``None`` is nothing.
        inputs: What is read: paths, ``-`` for stdin, URLs, binary files, logs already read; ``None`` is nothing.

    Raises:
        UsageError: One of the outputs is one of the inputs.
    """
    read = {place: given for given in inputs for place in _places(given, sys.stdin)}
    for output in outputs:
        for place in _places(output, sys.stdout):
            if place in read:
                what = "stdout" if str(output) == "-" else _shown(output)
                given = read[place]
                other = isinstance(given, (str, Path)) and str(given) not in ("-", str(output))
                which = f"{_shown(given)}, " if other else ""
                raise UsageError(f"{what} is {which}an input of this command", "Name another file to write to.")


def _places(given: object, stream: object) -> Iterator[object]:
    """Yield what tells a file from all others: its place without links, and its number on its device."""
    from memlens.source import is_url, local_path

    given = local_path(given)
    if (source := getattr(given, "source", None)) is not None:  # a log that was read
        given = getattr(source, "path", None)
    with suppress(OSError, ValueError, AttributeError):
        if isinstance(given, (str, os.PathLike)) and str(given) != "-":
            if is_url(given):
                return
            yield os.path.realpath(given)
            status = os.stat(given)
        else:
            opened: Any = stream if str(given) == "-" else given
            status = os.fstat(opened.fileno())
        if stat.S_ISREG(status.st_mode):
            yield status.st_dev, status.st_ino


def refuse_overwrite(path: str | Path | None, force: bool = False) -> None:
    """Say early, before any work, that an output cannot be written.

    Raises:
        OutputError: The file exists and ``force`` is off, it is a directory, its directory does not exist, or nothing can be there: its
            name is too long, or its directory may not be entered or written to.
    """
    if (target := _file(path)) is None:
        return
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            target.lstat()  # from Python 3.14 on what follows is merely false of what nothing can be called
        if target.is_dir():
            raise OutputError(f"cannot write {_shown(target)}: it is a directory", "Name a file.")
        if not target.parent.is_dir():
            raise OutputError(f"cannot write {_shown(target)}: there is no directory {_shown(target.parent)}")
        if target.is_file() and not force:
            raise OutputError(f"{_shown(target)} exists", "Name another file, or write over it with -f (--force).")
        if not (os.path.lexists(target) or os.access(target.parent, os.W_OK)):
            raise OutputError(
                f"cannot write {_shown(target)}: the directory {_shown(target.parent)} cannot be written to"
            )
    except OSError as error:
        raise _failed(target, error) from error


@contextmanager
def open_output(path: str | Path | None, force: bool = False, *, whole: bool = False) -> Iterator[BinaryIO]:
    """Open an output for bytes.

    A file is written beside its place and renamed into it when the block ends; an exception, Ctrl-C included, leaves
    neither it nor a part of it.  Devices and pipes are written directly.  A reader that closes the pipe behind stdout ends
    the block quietly.

    Args:
        path: Where to write; ``None`` or ``-`` is stdout.
        force: Write over a file that exists.
        whole: To stdout, to a device or to a pipe nothing goes either before the block has ended.

    Raises:
        OutputError: The file exists and ``force`` is off, or it cannot be written.
    """
    refuse_overwrite(path, force)
    target = _file(path)
    if target is not None and _replaceable(target):
        # A symbolic link stays one: what it points at is written.
        with _beside(Path(os.path.realpath(target)), force) as out:
            yield out
        return
    # A link of the system to a pipe, as /dev/stdout may be, leads to no path.
    with (
        _stdout() if target is None else _direct(target) as out,
        _held_back(out) if whole else nullcontext(out) as held,
    ):
        yield held


@contextmanager
def _held_back(out: BinaryIO) -> Iterator[BinaryIO]:
    """Write to an output when the block ends, and nothing where it fails; meanwhile what is long lies in a nameless file."""
    from tempfile import SpooledTemporaryFile

    with SpooledTemporaryFile(_HELD) as held:
        yield cast("BinaryIO", held)
        held.seek(0)
        while part := held.read(_HELD):
            out.write(part)


def _file(path: str | Path | None) -> Path | None:
    """The file that is meant; ``None`` for stdout."""
    return None if path is None or str(path) == "-" else Path(path)


def _shown(path: Any) -> str:
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
        if (failed := stdout_failed(error)) is None:
            raise
        raise failed from error


def stdout_failed(error: Exception) -> OutputError | None:
    """Return the message where stdout takes no more, for the disk below it is full or it was closed; ``None`` of any other error.

    What it still holds goes nowhere then.
    """
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in _DISK_ERRORS | {errno.EBADF}:
        return None
    silence_stdout()
    return OutputError(f"cannot write to stdout: {error.strerror}")


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
    """Write a new file beside an output, and give it the output's name when the block ends; two writers take two names."""
    part = target.with_name(f".{target.name[:60]}.{os.urandom(4).hex()}.part")
    try:
        out = part.open("xb")
    except OSError as error:
        raise _failed(target, error) from error
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
            import shutil

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
