"""When it is looked for who holds the tensors of a program, and which files are the program's own.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
from array import array

from .holders import Walk

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

#: Walks take a hundredth of the time, or so many seconds where that is more.
_SHARE, _SECONDS = 100, 0.5
#: … a tenth while a quarter of that is not spent: short runs are looked at all along.
_SHARE_OF_LITTLE = 10
#: Operators are no moment before so many of the times that they are looked at, but where twice as much is allocated as at any walk before, while so
#: small a part of the time for walks is spent: a short program has no other.
_SOME_CALLS, _PART = 16, 8
#: Seconds from one end of what runs without gradients to the next at which it is looked at what is allocated.
_MOMENT = 0.02
#: Whether the peak rose, which takes Paddle some microseconds to say, is asked after each operator; where it has not for so many of the times that
#: operators are looked at, once in :data:`PAUSE` seconds.  They are looked at, which takes twice as long, once in :data:`LOOK` seconds.
_QUIET, PAUSE, LOOK = 512, 1e-3, 4e-3
NEVER, ALWAYS, AT_TIMES = range(3)
#: Memory that is allocated, or was since the last walk, is higher by this, a hundredth, than at any walk before.  After operators it must be higher
#: by a power of it with each quarter of the time for such walks that is taken in a hurry: what building a model takes leaves some for its steps.
_HIGHER = 1.01
#: Backward passes, and frames of what began them, that are noted.
_MOST_PASSES, _MOST_FRAMES = 1_000_000, 64
#: Moments after a backward pass.
_AFTER = ("gradients", "zero_grad")
#: Roles whose holders are written once, and not in each walk.
_STAYING = ("parameter", "optimizer", "buffer")

#: Beginnings of the names of code that libraries make; folders of what is installed for the user alone, by Debian, for
#: another Python, or that torch.compile has written.
_MADE = ("<frozen", "<decorator-gen", "<attrs generated", "<__array_function__")
_PACKAGES = tuple(os.sep + name for name in (f"site-packages{os.sep}", f"dist-packages{os.sep}", "torchinductor_"))

#: The name of each file that is the user's, and ``None`` of each other one.
_files: dict[str, str | None] = {}
_installed = tuple(
    {
        os.path.join(form(path), "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        for path in [sysconfig.get_path(name)]
        for form in (str, os.path.realpath)
        if path
    }
)


def own_name_of(file: str) -> str | None:
    """The name of a file of the user's, of one line; ``None`` of any other."""
    try:
        return _files[file]
    except KeyError:
        theirs = (
            os.path.dirname(file) == os.path.dirname(__file__)  # memlens's own
            or file.startswith((*_MADE, *_installed))
            or any(folder in file for folder in _PACKAGES)
            or os.path.realpath(file).startswith(_installed)
        )
        name = "".join(character if character.isprintable() else "?" for character in os.path.basename(file))
        _files[file] = None if theirs else name
        return _files[file]


def others_wait() -> bool:
    """Whether all other threads wait somewhere in Python's own library, and so do nothing to tensors."""
    tops = sys._current_frames()
    del tops[threading.get_ident()]  # the frame of this function, which would hold itself
    files = [top.f_code.co_filename for top in tops.values()]
    return all(file.startswith(_STDLIB) and "-packages" not in file for file in files)


def is_over() -> bool:
    """Whether the main thread has left the program: what its variables held is gone."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and own_name_of(frame.f_code.co_filename) is None:
        frame = frame.f_back
    return frame is None


_STDLIB = os.path.join(os.path.dirname(os.__file__), "")


class Passes:
    """When backward passes began, and the call stacks that began them: what they allocate, on threads of their own, has no stack of Python.

    Nothing is said where several threads begin passes, which may run at once.
    """

    def __init__(self) -> None:
        self._threads: set[int] = set()
        self._stacks: dict[tuple[tuple[str, int, str], ...], int] = {}
        self._time, self._stack = array("q"), array("q")

    def begins(self, frame: FrameType | None) -> None:
        """A pass begins, within a function of the framework that is this frame."""
        stack: list[tuple[str, int, str]] = []
        while frame is not None and len(stack) < _MOST_FRAMES:
            stack.append((frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
            frame = frame.f_back
        self._threads.add(threading.get_ident())
        if len(self._time) < _MOST_PASSES:
            self._time.append(time.time_ns() // 1000)
            self._stack.append(self._stacks.setdefault(tuple(stack), len(self._stacks)))

    def found(self) -> dict[str, Any]:
        """All passes; frames are those of PyTorch's memory history."""
        if len(self._threads) > 1:
            return {}
        stacks = [[dict(zip(("filename", "line", "name"), one)) for one in stack] for stack in self._stacks]  # noqa: B905 - Python 3.8
        return {"stacks": stacks, "time_us": self._time.tolist(), "stack": self._stack.tolist()}


class Walks:
    """Looks who holds each tensor, from time to time.

    At moments of one kind whose numbers double (of operators where there are no backward passes, or no more), where more is allocated than at any
    walk before, and soon after the peak rose; more often as long as that takes no more than a hundredth of the time, and there is room.  Walks that look for garbage may take as much again.

    Args:
        framework: What a walk asks of tensors: ``is_tensor``, ``beyond``, ``address`` (0 for none), and ``whole``: nothing that they hold was left out;
            ``graphs``, for further rows of address 0 on what was found; and ``level`` and ``peak``: the bytes that are allocated now, and that were at most, 0 where that is not known.
        put: Takes the rows of a walk: an address, and who holds the block there, ``no variable`` where what stays is not found again, be it garbage.  One of
            address 0 ends it: ``-`` where all was looked at that variables lead to, and what has no row is held by none, ``some`` after a short one.
        room: Whether there is room for more rows.

    Attributes:
        on: Whether it looks at all; what fails switches it off.
        peak: Gives the bytes that were allocated at most.
        above_peak: After an operator where it gives more than this, :meth:`ran` is to be called.
        asks: When this is asked: ``ALWAYS`` after an operator, ``AT_TIMES``, or ``NEVER`` until it is looked at an operator again.
    """

    def __init__(
        self, framework: Any, put: Callable[[Iterator[tuple[int, str]]], None], room: Callable[[], bool]
    ) -> None:
        self.on = True
        self._framework, self._put, self._room = framework, put, room
        self._began, self._next, self._asked = time.monotonic(), 0.0, 0.0
        self._taken = self._taken_short = self._taken_searching = 0.0  # seconds
        self._passed = self._longest = 0  # operators before the last backward pass, and between two of them at most
        self._came = False  # to a moment, which others follow
        self._highest, self._rose = 0, False  # what was allocated at most at a walk, other than after operators
        #: What the peak must rise to for another walk after an operator, and to what it must have risen for one after the next.
        self.above_peak = self._risen = float("inf")
        self.peak: Callable[[], float] = framework.peak
        self.asks, self._rose_at = ALWAYS, 0
        self._counts: dict[str, int] = {}
        self._kept: dict[str, Any] = {}
        #: By its address, each tensor that stays, as its id, and what was written of it last.
        self._written: dict[int, tuple[int, str]] = {}

    def anew(self) -> None:
        """Write all holders in the next walk."""
        self._written = {}

    def due(self, moment: str, times: int = 1) -> bool:
        """Whether to walk at a moment, the latest of so many.

        An ``operator`` or a ``backward`` pass is about to run, its ``gradients`` are there, they are about to be given back (``zero_grad``), what ran
        without gradients is over (``inference``), memory ran out again (``failure``), or the program says a ``mark``.
        """
        counts = self._counts
        if moment == "inference":
            if "backward" in counts or time.monotonic() < self._asked + _MOMENT:
                return False
            self._asked = time.monotonic()
        count = counts[moment] = counts.get(moment, 0) + times
        of_operator = moment == "operator"
        if moment == "backward":
            self._longest = max(self._longest, counts.get("operator", 0) - self._passed)
            self._passed = counts.get("operator", 0)
        if of_operator:
            quiet = count > self._rose_at + _QUIET
            self.asks = NEVER if not self._may_hurry() else AT_TIMES if quiet else ALWAYS
        trains = "backward" in counts
        if of_operator and trains:  # more operators have run since than between two passes, which are over
            count -= self._passed + 2 * self._longest
        if not self.on or count < 1:
            return False
        # A part is left for backward passes, which may come yet: models are made without gradients, too.
        budget = self._budget() * (0.75 if moment == "inference" else 1)
        if of_operator and not trains and count < _SOME_CALLS:
            self._came = _PART * self._taken <= budget and self._framework.level() > 2 * self._highest
            return self._came
        if self._taken > budget:
            return False
        # Half of it is for the moments that come by their numbers; while little is spent, any rise counts.
        whole = self._taken - self._taken_short + self._taken_searching
        least = _HIGHER if 4 * whole > budget else 1
        higher = not of_operator and 2 * whole <= budget and self._framework.level() > least * self._highest
        if moment in _AFTER:  # the gradients of the pass before which memory rose
            higher, self._rose = higher or self._rose, False
        else:
            self._rose = self._rose or higher
        doubled = count.bit_length() > max(count - times, 0).bit_length()
        self._came = higher or doubled or (time.monotonic() >= self._next and self._room())
        return self._came

    def _budget(self) -> float:
        """Seconds that walks may have taken by now."""
        return max(_SECONDS, (time.monotonic() - self._began) / _SHARE)

    def _may_hurry(self) -> bool:
        """Whether a quarter of the time for walks, and of all of it some, is left for those that follow a rise at once."""
        return 4 * self._taken_short <= self._budget() >= self._taken

    def look(self, moment: str, times: int = 1) -> None:
        """Walk if it is time to, at the latest of so many moments."""
        if self.due(moment, times):
            self.walk(after=moment in _AFTER)

    def ran(self, operator: str, tensors: tuple[Any, ...]) -> None:
        """An operator has run in which the peak rose, or the next one has: walk, which says where its result went, too.

        Args:
            operator: Its name.
            tensors: What it was given, which may be held by nothing else.
        """
        rose, self.asks = self.peak() > self._risen, NEVER
        if self.on and self._may_hurry():
            self.asks, self._rose_at = ALWAYS, self._counts.get("operator", 0)
            self._rose = True
            self.walk(passed=(operator, tensors))
            self.above_peak = -1.0 if rose else self._risen

    def walk(self, *, passed: tuple[str, Any] | None = None, at_exit: bool = False, after: bool = False) -> None:
        """Walk now.

        Args:
            passed: An operator and what it was given: look at that and at the variables of functions alone, which come and go.
            at_exit: Much is held by nobody any more, which says nothing of the run.
            after: A backward pass is over, before which it was the time to look for garbage, which takes long.
        """
        if not self.on:
            return
        began = time.thread_time()
        search = None if after or (self._came and self._taken_searching > self._budget()) else True
        self._came = self._searched = False
        try:
            level, self.peak = self._framework.level(), self._framework.peak
            hurried = max(0.0, self._taken_short - (time.monotonic() - self._began) / _SHARE_OF_LITTLE)
            quarters = min(3, int(16 * hurried / self._budget()))
            self.above_peak = self._risen = _HIGHER ** (4**quarters) * self.peak()
            if passed is None:
                self._highest = max(self._highest, level)
            self._put(self._rows(passed, garbage=False if at_exit else search))
        except RecursionError:  # the program is at its limit, and may come back
            pass
        except Exception:  # noqa: BLE001  the program goes on
            self.on = False
        taken = time.thread_time() - began
        little = 4 * (self._taken + self._taken_searching) <= self._budget()
        self._next = time.monotonic() + taken * (_SHARE_OF_LITTLE if little else _SHARE)
        if self._searched:
            self._taken_searching += taken
        else:
            self._taken += taken
            self._taken_short += taken if passed else 0

    def _rows(self, passed: Any, *, garbage: bool | None) -> Iterator[tuple[int, str]]:
        written, framework, short = {}, self._framework, passed is not None
        walk = Walk(framework.is_tensor, own_name_of, garbage=garbage, beyond=framework.beyond, kept=self._kept)
        said: set[int] = set()
        found = (*walk.run(short=short), *_given(passed, framework))
        for tensor, role, path, where in found:
            address = framework.address(tensor)
            if not address or address in said:  # of views the shortest path
                continue
            said.add(address)
            text, (before, said_before) = f"{role} {path} ({where})", self._written.get(address, (0, ""))
            stays, same = role in _STAYING, before == id(tensor)
            known = stays and same and (short or said_before == text)
            if stays:
                written[address] = id(tensor), said_before if known else text
            if not known:
                yield address, text
        reached = walk.reached and walk.named and framework.whole
        for address in self._written.keys() - said if reached else ():  # they were found before
            yield address, "no variable"
        self._searched = walk.searched
        self._written = written if reached else {**self._written, **written}
        if short:
            yield 0, "some"
        elif reached and walk.whole:
            for text in framework.graphs(found):
                yield 0, text
            yield 0, "-"


def _given(passed: Any, framework: Any) -> Iterator[tuple[Any, str, str, str]]:
    """What an operator was given, as rows of a walk."""
    operator, values = passed or ("", ())
    frame: FrameType | None = sys._getframe() if passed else None
    while frame is not None and own_name_of(frame.f_code.co_filename) is None:
        frame = frame.f_back
    if frame is not None:
        where = f"{frame.f_code.co_name}, {own_name_of(frame.f_code.co_filename)}"
        for value in values:
            for one in value if type(value) in (list, tuple) else (value,):
                if framework.is_tensor(type(one)):
                    yield one, "temporary", f"argument of {operator}", where
