"""A log that is still written, read as it grows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memlens.errors import InputError
from memlens.inputs.blocks import Block, Blocks, shared_out
from memlens.options import ReadAs
from memlens.source import is_url, local_path
from memlens.watching.growing_file import GrowingFile, Look, Piece
from memlens.watching.runs import LiveRun
from memlens.windows.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from memlens.gating.limits import Metric
    from memlens.watching.result import LogState


#: Bytes of text that are read at once, before the figures are shown.
_AT_ONCE = 64 << 20


class Followed:
    """Reads a log as it grows, in bounded memory; the figures are those of :func:`memlens.analyze` of what was read.

    The log may be compressed, and may not be there yet.  Text is read in whole lines: a last line without its end waits for the rest of it.

    What becomes of its name is seen at each look (:mod:`memlens.watching.growing_file`).  Where it was rotated, made shorter or written anew,
    what the new file begins with tells what it is:

    - The same text as before: the log was copied anew, or cut.  All figures start again with it.
    - Events, of the first of which one is of a thread that was seen before, or lines that do not tell of threads: the log goes on, levels, windows and
      numbers of lines with it.
    - Other events, events of another format, or the same events that the run began with: it is of another run, and all figures start anew.

    Until that is known, it counts as what its first events make it.

    Args:
        path: The log: a file, a pipe, or ``-`` for standard input.
        by: Cut it by this regular expression; ``None`` for the steps of the run, where its log counts them.
        how: Its format, and the file of the formats of the user's own, where they are given.
        budgets: What levels may be: the first line at which one is exceeded is noted.

    Raises:
        UsageError: ``by`` is no regular expression.
        InputError: The log is named by a URL.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        by: str | None = None,
        how: ReadAs | None = None,
        budgets: Mapping[Metric, int] | None = None,
    ) -> None:
        self.path = str(path)
        self._by = None if by is None else Pattern(by, regex=True)
        if self._by is not None:
            _ = self._by.compiled  # a wrong one is said at once
        self._how, self._budgets = how or ReadAs(), budgets or {}
        where = str(local_path(self.path))
        if is_url(where):
            raise InputError(f"{self.path}: cannot be followed", "Files of this machine can, and pipes: pipe it in.")
        self._file = GrowingFile(where)
        self._blocks: Blocks | None = None
        self._run = self._new_run()
        self._other: LiveRun | None = None  # what this piece is if it is of another run, as long as that is not known
        self._before = b""  # how the piece before began
        self._bytes = self._rotations = self._restarts = 0
        self._written = 0.0
        self._waiting = self._file.waiting
        self._problem = ""
        self._states: tuple[LogState, ...] | None = None  # as long as nothing changes

    def _new_run(self) -> LiveRun:
        return LiveRun(self.path, self._how, self._by, self._budgets)

    def poll(self) -> bool:
        """Read what is new, some dozens of MB at most.

        Returns:
            Whether anything changed: then there may be more.

        Raises:
            InputError: It cannot be read, or is of a format that cannot be followed.
            UsageError: The format that was asked for does not exist, or a file of formats is not sound.
        """
        try:
            look, waiting = self._file.look(), self._file.waiting
            if look is Look.NEXT:
                self._end_piece()
            if look is Look.NOTHING or (look is Look.NEXT and not self._begin_piece()):
                changed, self._waiting = waiting != self._waiting, waiting
                return changed
            self._states, self._waiting = None, self._file.waiting
            return self._read() or look is Look.NEXT
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def flush(self) -> None:
        """Read all that is there now as the end of the log, a last line without its end as well.  Nothing is read afterwards.

        Raises:
            MemlensError: As for :meth:`poll`.
        """
        enough, self._states = self._file.mark(), None
        while self.poll() and not enough():
            pass
        self._end_piece(last=True)
        for run in self._runs:
            run.end()

    @property
    def ended(self) -> bool:
        """Whether nothing can come any more: what is read is a pipe that all writers have closed."""
        return self._file.over

    def states(self) -> tuple[LogState, ...]:
        """The state now, for each device of the log by rising number; at least one."""
        waiting = self._file.waiting
        if self._states is None or self._states[0].waiting != waiting:
            piece = self._file.piece
            again, other = (False, None) if piece is None else self._compared(piece, ended=True)
            run = self._other if other and self._other is not None else self._run
            self._states = run.states(
                waiting=waiting,
                bytes=self._bytes,
                rotations=self._rotations - bool(other),
                restarts=self._restarts + bool(other and not again),
                problem=self._problem or ("" if piece is None else piece.problem(ended=False)),
                written=self._written,
            )
        return self._states

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    @property
    def _runs(self) -> tuple[LiveRun, ...]:
        return (self._run,) if self._other is None else (self._run, self._other)

    def _begin_piece(self) -> bool:
        before, piece = self._blocks is not None, self._file.next()
        if piece is None:
            return False
        self._blocks = Blocks(piece, growing=True)
        if before:
            self._rotations += 1
            self._other = self._new_run()
        return True

    def _read(self, *, ended: bool = False) -> bool:
        """Read what there is of a piece, up to a limit; all of it where it has ended."""
        piece, blocks = self._file.piece, self._blocks
        assert piece is not None
        assert blocks is not None
        before = piece.given
        if not ended:
            piece.left = _AT_ONCE

        def spans() -> Iterator[Callable[[], Block]]:
            for block in blocks:
                for run in self._runs:
                    run.recognise(piece.head, block.offset, ended=ended)
                yield lambda block=block: block  # type: ignore[misc]

        for results in shared_out(spans(), lambda block: [(run, run.read(block)) for run in self._runs], blocks.pool):
            for run, result in results:
                run.add(result)
        self._judge(piece, ended=ended)
        if piece.given == before:
            return False
        self._bytes += piece.given - before
        self._written = time.monotonic()
        return True

    def _end_piece(self, *, last: bool = False) -> None:
        """No more of this piece comes: its last line ends, with or without a line end."""
        piece, blocks = self._file.piece, self._blocks
        if piece is None or blocks is None:
            return
        blocks.growing = False
        piece.finish(end_line=not last)
        self._read(ended=True)
        for run in self._runs:
            run.recognise(piece.head, piece.given, ended=True)
        if last:
            self._problem = piece.problem(ended=True)
        else:
            self._run.next_piece(piece.given)
            self._before = piece.head

    def _judge(self, piece: Piece, *, ended: bool) -> None:
        """Decide whether this piece goes on with the log, where that is known by now."""
        again, other = self._compared(piece, ended=ended)
        if self._other is None or other is None:
            return
        if other:
            self._run, self._rotations = self._other, self._rotations - 1
            self._restarts += not again
        self._other = None

    def _compared(self, piece: Piece, *, ended: bool) -> tuple[bool, bool | None]:
        """Whether this piece begins with the same text as the one before, and whether it does not go on with the log; ``None`` where that is not known.

        Args:
            piece: The piece.
            ended: What is there now decides.
        """
        if self._other is None:
            return False, None
        before, now = self._before, piece.head
        again = bool(now and before) and (now.startswith(before) or before.startswith(now))
        if again:
            return True, True if ended or len(now) >= len(before) else None
        return False, self._run.is_other(self._other, ended=ended)
