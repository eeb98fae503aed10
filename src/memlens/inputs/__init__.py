"""Inputs: the one door through which every input is read, whatever its format.

:mod:`memlens.inputs.registry` has the formats and tells which of them an input has.  Text in which nothing else is recognised is read
as a log of Paddle; where that finds no event, the other formats of text are tried on the whole of it.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct, field
from msgspec.structs import replace

from memlens import native
from memlens.errors import InputError, NoEventsError, UsageError
from memlens.facts import CPU
from memlens.inputs.built_in import PADDLE
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import Request
from memlens.inputs.registry import TRIED, Recognised, check_alike, known_formats, recognise
from memlens.options import Read, ReadAs
from memlens.options.keywords import with_keywords
from memlens.source import is_folder, is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.events import EventLog
    from memlens.log import Input, Log
    from memlens.windows.patterns import Pattern

__all__ = [
    "Reading",
    "check_alike",
    "choose_device",
    "device_label",
    "device_named",
    "expanded",
    "input_key",
    "input_name",
    "named_devices",
    "read",
    "read_all",
    "several_devices",
    "without_cpu",
]


#: Names of files whose lines cannot be looked up at little cost; a guess, which the time of a peak depends on and no more.
_COMPRESSED = frozenset({".gz", ".zst", ".xz", ".bz2"})
#: What errors say for which no format is to blame: a file without any byte, a run without any block.
_SAYS_ALL = (": the file is empty", ": ran out of memory on its first request")


def read_with(where: str | Path | BinaryIO, options: Read) -> Log:
    """Read a log: of Paddle, a PyTorch memory snapshot, a Kineto trace, a log of RMM, or of a format of your own.

    Args:
        where: A path, ``-`` for standard input, a URL (``s3://``, ``https://``, …), or an open binary file.  Formats and compression
            are known by the content.
        options: See :class:`memlens.options.Read`.

    Raises:
        InputError: It cannot be read, or has no such device.
        NoEventsError: It holds no allocator event.
        UsageError: An unknown column or format, a pattern that is no regular expression, or several devices of which none is named.
    """
    patterns, owners, columns = tuple(options.patterns), tuple(options.owners), tuple(options.columns)
    request = Request(patterns, owners, columns, strict=options.strict, progress=options.progress)
    logs = read_all(where, request, options)
    if len(logs) > 1:
        raise several_devices(input_name(where), logs)
    return logs[0]


read = with_keywords("read", read_with, Read)


def expanded(
    inputs: Sequence[Input],
    how: ReadAs,
    passed_over: Callable[[str, Sequence[str]], None] | None = None,
    *,
    below: Callable[[str], None] | None = None,
) -> list[Input]:
    """Inputs with the logs of a folder in its place, by name, ``workerlog.2`` before ``workerlog.10``.

    A file in it counts where its content says that it is something that memlens reads; its folders do not, nor do names that begin with a
    dot.  A folder without a log stays what it is: to read it is an error.  A URL is one of a folder where it ends with a slash.

    Args:
        inputs: As for :func:`memlens.analyze`.
        how: How inputs are to be read.
        passed_over: Called with a folder and the files in it that are no logs, if there are any.
        below: Also the logs in the folders of a folder; called, in words, with each of these that cannot be read.

    Raises:
        UsageError: No format has the name that was asked for, or a file of formats is not sound.
    """
    found: list[Input] = []
    for given in inputs:
        if is_folder(given):
            from memlens.inputs.folders import logs_in

            found += logs_in(str(given), how, passed_over, below) or [given]
        else:
            found.append(given)
    return found


def several_devices(name: str, logs: Sequence[EventLog]) -> UsageError:
    """The error for an input with several devices of which none is named."""
    listed = ", ".join("cpu" if log.device == CPU else str(log.device) for log in logs)
    return UsageError(
        f"{name}: has {len(logs)} devices: {listed}",
        "Name one of them: --device N on the command line; device=N in Python, where the CPU is number -1.",
    )


def read_all(
    where: str | Path | BinaryIO, request: Request | None = None, how: ReadAs | None = None
) -> tuple[Log, ...]:
    """Read an input, whatever it is.

    Args:
        where: As for :func:`read`.
        request: What is wanted of it.
        how: The format, the device and further formats, where they are given.

    Returns:
        A log for each device, by rising number; one where the input does not tell devices apart or one was asked for.

    Raises:
        MemlensError: As for :func:`read`.
    """
    request, how = request or Request(), how or ReadAs()
    if is_folder(where):
        from memlens.inputs.folders import refuse_folder

        refuse_folder(str(where), how)
    began, source = time.perf_counter(), FileSource(where)
    with closing(source):
        found, logs = _read(source, request, how)
    _say(source.name, found, logs, time.perf_counter() - began)
    return choose_device(source.name, logs, how.device)


def _read(source: FileSource, request: Request, how: ReadAs) -> tuple[Recognised, Sequence[Log]]:
    """Which format an input has, and its logs; errors as of :func:`read`."""
    found = recognise(source, how)
    if found.unread is not None:
        from memlens.inputs.unread import refuse_unread

        refuse_unread(source.name, found.unread)
    if how.layer is not None:
        if found.format is not PADDLE:
            raise UsageError(
                f"{source.name} is {found.format.title}, which has no layer {how.layer!r}",
                "Layers are those of Paddle's allocator; leave out --layer.",
            )
        request = replace(request, layer=how.layer)
    for pattern in request.patterns:
        pattern.compiled  # noqa: B018 - a wrong pattern is an error before anything is read
    try:
        logs = found.format.read(source, request)
    except NoEventsError as error:
        if found.asked or how.layer is not None or any(text in error.message for text in _SAYS_ALL):
            raise
        found, logs = _tried(source, request, how, found, error)
    return found, logs


def _say(name: str, found: Recognised, logs: Sequence[EventLog], seconds: float) -> None:
    """Log what was read, for ``-v``.  Where nobody has imported ``logging``, which takes a moment, nobody listens."""
    if (logging := sys.modules.get("logging")) is None:
        return
    facts, way = logs[0].facts, "plain Python" if native.load("memlens.scanner._scan") is None else "compiled code"
    logging.getLogger("memlens").info(
        "%s: %s (%s), layer %s: %s bytes, %s %s, %s events, read in %.2f s by %s",
        *(name, found.format.title, found.why, facts.layer, f"{facts.bytes:,}", f"{facts.lines:,}"),
        *(found.format.places, f"{sum(map(len, logs)):,}", seconds, way),
        extra={"seconds": seconds},
    )


def _tried(
    source: FileSource, request: Request, how: ReadAs, found: Recognised, error: NoEventsError
) -> tuple[Recognised, Sequence[Log]]:
    """The first of the other formats of text that finds events in an input without one of the format that it was read as, and its logs.

    Raises:
        NoEventsError: Nothing; the message says what it looks like, or names all formats.
    """
    others = [form for form in known_formats(how.formats) if form is not PADDLE]
    if found.format is PADDLE and source.rereadable:
        for form in others:
            if form.is_text:
                try:
                    logs = form.read(source, replace(request, progress=None))
                    return Recognised(form, TRIED), logs
                except NoEventsError:
                    continue
    if found.unread is not None:
        seen = error.message.partition("\n")[0]
        raise NoEventsError(f"{seen}: it looks like {found.unread.title}", found.unread.way) from None
    if found.format is not PADDLE:
        raise error
    names = ", ".join(form.name for form in others)
    how_far = "Not recognised either" if source.rereadable else "Not recognised by its beginning either"
    raise NoEventsError(f"{error.message}\n{how_far}: {names}.", error.hint) from None


def choose_device(name: str, logs: Sequence[Log], device: int | None) -> tuple[Log, ...]:
    """The logs of the device that was asked for; all where none was.

    Raises:
        InputError: The input has no such device.
    """
    if device is None:
        return tuple(logs)
    chosen = tuple(log for log in logs if log.device == device)
    if chosen:
        return chosen
    known = [str(log.device) for log in logs if log.device is not None]
    raise InputError(
        f"{name}: has no device {device}",
        f"It has: {', '.join(known)}." if known else "Nothing in it tells of devices; leave out --device.",
    )


def without_cpu(logs: Sequence[Log]) -> tuple[tuple[Log, ...], tuple[str, ...]]:
    """The GPUs of an input that has the CPU too: where runs are compared, memory of the host beside them says little.

    Returns:
        The logs of the GPUs, or all logs where there is no GPU or no CPU among them; and what was left out, in words.
    """
    gpus = tuple(log for log in logs if log.device != CPU)
    if not gpus or len(gpus) == len(logs):
        return tuple(logs), ()
    return gpus, ("memory of the CPU is left out; --device cpu takes it instead",)


def device_label(log: EventLog) -> str:
    """How a log of one device among several is called: ``[device 1]``, ``[CPU]``."""
    return f"[{device_named(log.device)}]"


def device_named(device: int | None) -> str:
    """How a device is called: ``device 1``, ``CPU``."""
    return "CPU" if device == CPU else f"device {device}"


def named_devices(name: str, logs: Sequence[Log]) -> list[tuple[Log, str, str]]:
    """The logs of one input, each with what to call it and its device, ``device 1``; where there is one only, by the input's name and ``""``."""
    if len(logs) == 1:
        return [(logs[0], name, "")]
    return [(log, f"{name} {device_label(log)}", device_named(log.device)) for log in logs]


class Reading(Struct):
    """Reads one log after another and adds their progress up.

    Attributes:
        patterns: Anchors to find in the same pass.
        strict: An input that is cut short is an error.
        times: Read the time of every event, also where that costs a second look at the text.
        owners: Further context lines.
        how: The format and the device, where they are given; and who is told of the bytes read so far, over all logs.
        threads: Read the thread of every event.
        requests: Read the lines of requests too, where the input has such.
        landmarks: Keep lines that may mark the work of the run.
    """

    patterns: tuple[Pattern, ...] = ()
    strict: bool = False
    times: bool = False
    owners: Sequence[Pattern] = ()
    how: ReadAs = field(default_factory=ReadAs)
    threads: bool = False
    requests: bool = False
    landmarks: bool = False
    _before: int = 0

    def read(self, given: Input) -> Log:
        """Read one input that has one device, or the device that was named; a log that was read comes back as it is.

        Raises:
            UsageError: It has several devices, and none was named.
        """
        logs = self.read_all(given)
        if len(logs) > 1:
            raise several_devices(input_name(given), logs)
        return logs[0]

    def read_all(self, given: Input) -> tuple[Log, ...]:
        """Read one input, a log for each of its devices; a log that was read comes back as it is."""
        from memlens.log import Log

        if isinstance(given, Log):
            return (given,)
        before = self._before

        def add_up(done: int) -> None:
            self._before = before + done
            if self.how.progress is not None:
                self.how.progress(self._before)

        request = Request(
            self.patterns,
            tuple(self.owners),
            self._columns(given),
            strict=self.strict,
            landmarks=self.landmarks,
            progress=add_up,
        )
        return read_all(given, request, self.how)

    def _columns(self, given: Input) -> tuple[str, ...]:
        plain_file = isinstance(given, (str, Path)) and str(given) != "-" and Path(given).suffix not in _COMPRESSED
        times = () if plain_file and not is_url(given) and not self.times else ("time_us",)
        more = {"thread": self.threads, "requests": self.requests}
        return (*times, *(name for name, wanted in more.items() if wanted))


def input_key(given: Input) -> object:
    """A key of an input: those with the same key are one input."""
    return str(given) if isinstance(given, (str, Path)) else id(given)


def input_name(given: Input) -> str:
    """An input as it was named."""
    from memlens.events import EventLog

    return given.source.name if isinstance(given, EventLog) else FileSource(given).name
