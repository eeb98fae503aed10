"""When it is looked for who holds the tensors of a program, and which files are the program's own.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.
"""

from __future__ import annotations

import os
import sysconfig
import time

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: Walks take a fiftieth of the time, or so many seconds where that is more.
_SHARE, _SECONDS = 50, 0.25
#: Of operators each fourth is looked at, and none before so many.
_EACH, _SOME_CALLS = 4, 256
#: Memory that is allocated is higher by this, a hundredth, than at any walk before.
_HIGHER = 1.01
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


class Walks:
    """Looks who holds each tensor, from time to time.

    At moments of one kind whose numbers double (of operators where there are no backward passes), and where more is allocated than at any walk before;
    more often as long as that takes no more than a fiftieth of the time, and there is room.

    Args:
        walk: The class of a walk.
        framework: What a walk asks of tensors: ``is_tensor``, ``beyond``, ``address`` (0 for none), and ``whole``: nothing that they hold was left out;
            and ``level``: the bytes that are allocated now, 0 where that is not known.
        put: Takes the rows of a walk: an address, and who holds the block there.  The last one, of address 0, says that all was
            looked at that variables lead to: what has no row is held by none.
        room: Whether there is room for more rows.

    Attributes:
        on: Whether it looks at all; what fails switches it off.
    """

    def __init__(
        self, walk: Any, framework: Any, put: Callable[[Iterator[tuple[int, str]]], None], room: Callable[[], bool]
    ) -> None:
        self.on = True
        self._walk, self._framework, self._put, self._room = walk, framework, put, room
        self._began, self._taken, self._next = time.monotonic(), 0.0, 0.0
        self._highest, self._rose = 0, False
        self._counts: dict[str, int] = {}
        self._quiet: dict[int, int] = {}
        #: Of each tensor that stays, what was written of it last.
        self._written: dict[tuple[int, int], str] = {}

    def anew(self) -> None:
        """Write all holders in the next walk."""
        self._written = {}

    def due(self, moment: str) -> bool:
        """Whether to walk at a moment.

        An ``operator`` or a ``backward`` pass is about to run, its ``gradients`` are there, they are about to be given back (``zero_grad``), or the program
        says a ``mark``.
        """
        counts = self._counts
        count = counts[moment] = counts.get(moment, 0) + 1
        if not self.on or (moment == "operator" and (count < _SOME_CALLS or count % _EACH)):
            return False
        now = time.monotonic()
        by_time = moment != "operator" or "backward" not in counts
        left = max(_SECONDS, (now - self._began) / _SHARE) - self._taken
        if left < 0:
            return False
        # Half of it is for the moments that come by their numbers.
        higher = left >= self._taken and self._framework.level() > _HIGHER * self._highest
        if moment in _AFTER:  # the gradients of the pass before which memory rose
            higher, self._rose = higher or self._rose, False
        else:
            self._rose = self._rose or higher
        return higher or (by_time and (not count & (count - 1) or (now >= self._next and self._room())))

    def look(self, moment: str) -> None:
        """Walk if it is time to."""
        if self.due(moment):
            self.walk(after=moment in _AFTER)

    def walk(self, *, at_exit: bool = False, after: bool = False) -> None:
        """Walk now.

        Args:
            at_exit: Much is held by nobody any more, which says nothing of the run.
            after: A backward pass is over, before which it was the time to look for garbage, which takes long.
        """
        if not self.on:
            return
        began = time.thread_time()
        try:
            self._highest = max(self._highest, self._framework.level())
            self._put(self._rows(at_exit=at_exit, garbage=False if at_exit else None if after else True))
        except RecursionError:  # the program is at its limit, and may come back
            pass
        except Exception:  # noqa: BLE001  the program goes on
            self.on = False
        taken = time.thread_time() - began
        self._taken += taken
        self._next = time.monotonic() + taken * _SHARE

    def _rows(self, *, at_exit: bool, garbage: bool | None) -> Iterator[tuple[int, str]]:
        written, framework = {}, self._framework
        walk = self._walk(framework.is_tensor, own_name_of, garbage=garbage, beyond=framework.beyond, quiet=self._quiet)
        said: set[int] = set()
        for tensor, role, path, where in walk.run():
            address = framework.address(tensor)
            if not address or address in said:  # of views the shortest path
                continue
            said.add(address)
            text = f"{role} {path} ({where})"
            stays = role in _STAYING
            if stays:
                written[id(tensor), address] = text
            if not stays or self._written.get((id(tensor), address)) != text:
                yield address, text
        self._written = written
        if walk.whole and walk.named and framework.whole and not at_exit:
            yield 0, "-"
