"""The figures that the framework prints about itself, read from single lines; and what stands above an out-of-memory message.

Lines with figures are few, so each is read by the regular expressions of :mod:`memlens.inputs.paddle.message_formats`.  A reader finds the lines
worth a look by :data:`LITERALS`, and hands each to :func:`read_figures`.

What was asked for when memory ran out the message need not say: the request before it that never got its block, and who asked.
An allocator that fails throws: its thread writes ``Allocate … aligned to N`` and no ``Alloc`` after it, and then the message, mostly
below a traceback.  So the text right before a message tells what it leaves out, and where memory ran out: at that request, before anything was
freed on the way to the message.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from memlens.facts import MAX_SIZE, Figure, OutOfMemory
from memlens.inputs.paddle import context, events
from memlens.inputs.paddle.message_formats import (
    CUT_OFF,
    CUT_OFF_NAMES,
    DEVICE,
    EXECUTOR_MEMORY,
    JSON,
    OP_MEMORY,
    TRAINER,
    USAGE_BYTE,
    USAGE_MB,
)
from memlens.text import STACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memlens.inputs.blocks import Block
    from memlens.windows.patterns import Matcher


#: Bytes before a message that are looked at: a traceback, and what is logged between the request and it.
_FAR = 1 << 15
#: Bytes that a message has at most that a log is cut in; the title that the framework puts over one, and how far above it stands.
_LONGEST_CUT, _SUMMARY, _NEAR = 600, b"Error Message Summary:", 100

_TRACEBACK = rb"(?<!C\+\+ )\bTraceback \(most recent call last\):"
_FRAME = rb'File "([^"\n]{1,1000})", line (\d{1,9}), in ([^\n]{1,200})'
#: Where the functions lie through which a recorded program calls the framework.
_RECORDER = b"memlens/recording/inside/"
#: Where something stands in a text, what it is, and what it says.
_Found: TypeAlias = tuple[int, str, bytes]
_OPERATOR = rb"\b_(?:legacy_)?C_ops\.(\w{1,64})\("


def read_figures(line: bytes, offset: int) -> Iterator[Figure]:
    """The figures that the framework prints about itself in one line.

    Args:
        line: The text of the line, with or without its line end.
        offset: Byte offset of the line.
    """
    for origin, metric, (low, high), device in _figures(line):
        if high < 1 << 62:  # beyond that no memory is, and no sum of ours could be compared
            yield Figure(offset, metric, low, high, origin, device)


#: Wide enough that no size times a unit is ever rounded.
_exact = Context(prec=60)


def _scale(unit: str) -> Decimal:
    """Bytes in a unit by its first letter: ``M``, ``MB`` and ``MiB`` are 2**20, ``B`` and ``""`` 1."""
    return Decimal(1024 ** ("bkmgtp".index(unit[0].lower()) if unit else 0))


def _figures(line: bytes) -> Iterator[tuple[str, str, tuple[int, int], int]]:
    """Origin, metric, range of bytes and device (or -1) of each figure in a line."""
    for usage, read in ((USAGE_MB, _six_digits), (USAGE_BYTE, _integer)):
        for match in usage.find_all(line):
            for metric in ("reserved", "allocated"):
                if (span := read(match[metric].decode())) is not None:
                    yield usage.name, metric + "_peak", span, int(match["device"])
    for framework in (OP_MEMORY, EXECUTOR_MEMORY):
        matches = list(framework.find_all(line))
        for match in matches:
            if (span := _six_digits(match["value"].decode())) is not None:
                yield framework.name, _metric(match["key"].decode()), span, -1
        if matches:
            return  # else the trainer's format would read the same figures again
    for match in TRAINER.find_all(line):
        unit = (match["unit"] or b"").decode()
        if (span := _trainer_figure(match["key"].decode(), match["value"].decode(), unit)) is not None:
            yield TRAINER.name, _metric(match["key"].decode()), span, -1
    found = list(JSON.find_all(line))
    if len({match["key"] for match in found}) > 1:  # one key alone may be anybody's
        for match in found:
            yield JSON.name, match["key"].decode(), (int(match["value"]), int(match["value"])), -1


def _metric(key: str) -> str:
    return key.rpartition("_")[2] + ("_peak" if key.startswith("max_") else "")


def _integer(text: str) -> tuple[int, int] | None:
    return (int(text), int(text)) if text.isdigit() else None


@lru_cache(maxsize=4096)  # such figures are printed after every operator, and most of them again and again
def _six_digits(text: str) -> tuple[int, int] | None:
    """All byte counts that a C++ stream prints as ``text`` MB: divided by 2**20, six significant digits."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 <= value < 1 << 42:
        return None

    def printed(count: int) -> float:
        return float(f"{count / (1 << 20):.6g}")

    # Six digits move a figure by 5 parts in a million at most; look a little further on both sides.
    below, above = int(value * (1 - 1e-5) * (1 << 20)) - 1, int(value * (1 + 1e-5) * (1 << 20)) + 2
    low = _first(lambda count: printed(count) >= value, max(below, 0), above)
    high = _first(lambda count: printed(count) > value, low, above) - 1
    if low <= high:
        return low, high
    return _digits(text, Decimal(1 << 20))  # more digits than a stream prints: somebody else's text


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest count of bytes, ``low`` to ``high``, from which on a condition holds; ``high`` where it never does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _trainer_figure(key: str, text: str, unit: str) -> tuple[int, int] | None:
    if unit in ("B", "") and text.isdigit():
        return _integer(text)
    if unit == "":  # the trainers that print no unit print bytes, or, under these names, a fraction of GiB
        return _digits(text, _scale("G")) if key.startswith(("current_memory_", "max_memory_")) else None
    if text.isdigit():  # integers are divided and rounded down by every trainer seen
        scale = int(_scale(unit))
        return int(text) * scale, (int(text) + 1) * scale - 1
    return _digits(text, _scale(unit))


def _digits(text: str, scale: Decimal) -> tuple[int, int]:
    """All byte counts that round to a decimal number of ``scale`` bytes with as many digits as were printed."""
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    half = Decimal(5).scaleb((exponent if isinstance(exponent, int) else 0) - 1)
    low = _exact.multiply(_exact.subtract(value, half), scale).to_integral_value(ROUND_CEILING)
    high = _exact.multiply(_exact.add(value, half), scale).to_integral_value(ROUND_FLOOR)
    if low > high:  # so many digits that no whole number of bytes lies between: the nearest one is meant
        low = high = _exact.multiply(value, scale).to_integral_value(ROUND_HALF_EVEN)
    return max(int(low), 0), int(high)


def text_before(block: Block, ooms: Sequence[OutOfMemory]) -> tuple[list[bytes], bytes]:
    """The text before each of some out-of-memory messages of a block, and the end of the block."""

    def text(end: int) -> bytes:
        return block.data[max(block.begin, end - _FAR) : end].tobytes()

    return [text(oom.offset + block.begin - block.offset) for oom in ooms], text(block.end)


class RefusedRequests:
    """Completes out-of-memory messages; carries the end of the text from block to block.

    Args:
        marks: The user's own lines that name an owner, which count before all others.
    """

    def __init__(self, marks: Sequence[Matcher]) -> None:
        self._marks = marks
        self._tail = b""

    def completed(self, oom: OutOfMemory, before: bytes) -> OutOfMemory:
        """A message with what the text before it tells, which begins with its block where it is short."""
        return self._filled_in(oom, self._tail + before)

    def cut_off(self, end: int, line_ends: int) -> OutOfMemory | None:
        """The message that the log was cut in, which is the last text of it; ``None`` where there is none.

        Only what the framework wrote counts: its summary of an error, or a request that still waits, stands before it.

        Args:
            end: Byte offset of the end of the log.
            line_ends: How many line ends it has.
        """
        text = self._tail
        begin = max(len(text) - _LONGEST_CUT, 0)
        if not any(text.find(name, begin) >= 0 for name in CUT_OFF_NAMES):  # as in nearly every log
            return None
        found = CUT_OFF.pattern.search(text, begin)
        if found is None:
            return None
        at = text.rstrip().rfind(b"\n") + 1
        device = re.compile(DEVICE).search(text, at)
        oom = self._filled_in(
            OutOfMemory(
                end - len(text) + at,
                line_ends - text.count(b"\n", at) + 1,
                device[1].decode() if device is not None else "",
                None,
                None,
                text[at:].decode("utf-8", "replace").strip()[:300],
            ),
            text[: min(found.start(), at)],
            text[found.start() : at],
        )
        summary = text.find(_SUMMARY, max(found.start() - _NEAR, 0), found.start()) >= 0
        return oom if summary or oom.unanswered_bytes is not None else None

    def _filled_in(self, oom: OutOfMemory, text: bytes, between: bytes = b"") -> OutOfMemory:
        """A message with what the text above it tells, and with the place of the request that was refused.

        Args:
            oom: The message.
            text: The text above it.
            between: What stands between that and the message's line.
        """
        if len(text) >= _FAR:  # the first line may be cut
            text = text[-_FAR:].partition(b"\n")[2]
        lines, last = [], -1
        for place, kind, value in sorted((*_lines(text), *self._marked(text)), key=lambda found: found[0]):
            last = int(value) if kind == "thread" else last
            lines.append(_Line(place, last, kind, value))
        thread, size, at = _waiting(lines)
        mark, operator = (_last(lines, thread, kind) for kind in ("mark", "operator"))
        chunk = max((int(match["size"]) for match in events.CHUNK_SIZE.pattern.finditer(text)), default=0)
        owner = mark or _called(lines, thread, at or len(text)) or _traceback(text[at:]) or operator
        oom = replace(oom, unanswered_bytes=size, owner=owner, chunk_bytes=chunk)
        if size is None:
            return oom
        after = text[text.rfind(b"\n", 0, at) + 1 :] + between
        return replace(oom, offset=oom.offset - len(after), line=oom.line - after.count(b"\n"), message_line=oom.line)

    def _marked(self, text: bytes) -> Iterator[_Found]:
        """Where the lines end that the user's patterns name, and the names."""
        for matcher in self._marks:
            for match in matcher.find(np.frombuffer(text, np.uint8)):
                end = text.find(b"\n", match.start)
                yield len(text) if end < 0 else end, "mark", match.name.encode()

    def end_block(self, tail: bytes) -> None:
        """Take the end of the block whose messages were completed."""
        self._tail = (self._tail + tail)[-_FAR:]


class _Line(NamedTuple):
    """Something that stands in a text: where, the thread of the last header up to there, what it is, and what it says."""

    at: int
    thread: int
    kind: str
    value: bytes


def _waiting(lines: Sequence[_Line]) -> tuple[int | None, int | None, int]:
    """The thread that asked for a block and was not given it, how much it asked for, and where in the text it did.

    Nothing where several threads wait: any of them may be the one that failed.  Where none does, the thread of the last header.
    """
    waiting: dict[int, tuple[int, int]] = {}
    for at, thread, kind, value in lines:
        if kind == "request":
            waiting[thread] = int(value), at
        elif kind == "alloc":
            waiting.pop(thread, None)
    if len(waiting) != 1:
        return None if waiting else lines[-1].thread if lines else -1, None, 0
    ((thread, (size, at)),) = waiting.items()
    return thread, size, at


def _last(lines: Sequence[_Line], thread: int | None, kind: str) -> str:
    """The value of the last line of a kind and of a thread."""
    value = next((line.value for line in reversed(lines) if (line.thread, line.kind) == (thread, kind)), b"")
    return value.decode("utf-8", "replace")


def _called(lines: Sequence[_Line], thread: int | None, at: int) -> str:
    """What a recorded program called when it asked, and from which of its lines; empty where it does not say.

    In the backward pass the call is that of the pass, whose nodes say themselves that they begin.
    """
    call, node = b"", b""
    for line in lines:
        if line.at >= at:
            break
        if (line.thread, line.kind) == (thread, "call"):
            call, node = line.value, b""
        elif (line.thread, line.kind) == (thread, "operator"):
            node = line.value
    text = call.decode("utf-8", "replace")
    _, separator, frames = text.partition(STACK)
    return "" if text == context.NOBODY else f"{node.decode()}{separator}{frames}" if node and call else text


def _lines(text: bytes) -> Iterator[_Found]:
    """Headers, requests, blocks given and context lines."""
    for match in events.HEADER.pattern.finditer(text):
        yield match.start(), "thread", match["thread"]
    for match in events.REQUEST.pattern.finditer(text):
        if int(match["aligned"]) <= MAX_SIZE:
            yield match.start(), "request", match["aligned"]
    for match in events.BLOCK.pattern.finditer(text):
        if match["kind"] == b"Alloc":
            yield match.start(), "alloc", b""
    for form in context.FORMATS:
        for match in form.pattern.finditer(text):
            yield match.start(), "call" if form is context.PROGRAM else "operator", match["owner"]


def _traceback(text: bytes) -> str:
    """The operator that the last traceback in a text ends in and the Python frames that led to it, innermost first; empty without one."""
    start = max((match.end() for match in re.finditer(_TRACEBACK, text)), default=None)
    if start is None:
        return ""
    from memlens.inputs.stack_names import joined, place_of

    text = text[start:]
    operators = re.findall(_OPERATOR, text)
    frames = [
        f"{place_of(file.decode('utf-8', 'replace').strip())[:80]}:{int(line)} {_cut(function)}"
        for file, line, function in re.findall(_FRAME, text)
        if _RECORDER not in file
    ]
    return joined([*map(_cut, operators[-1:]), *reversed(frames)])


def _cut(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()[:80]
