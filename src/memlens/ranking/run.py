"""``memlens.ranks``: read the logs of the ranks of one job, and put the ranks side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memlens.comparing.templates import natural
from memlens.errors import MemlensError, UsageError
from memlens.inputs.blocks import processors
from memlens.inputs.remote import is_url
from memlens.keywords import with_keywords
from memlens.options import Cut, OfRanks, ReadAs, Spread, as_list, part_of
from memlens.ranking.found import FoundLogs, find_logs
from memlens.ranking.judging import Gathered, judge
from memlens.ranking.summaries import RankOrder, summarize
from memlens.scheduling.executors import opened
from memlens.scheduling.jobs import run_jobs
from memlens.windows.windows import anchors_of

if TYPE_CHECKING:
    from memlens.ranking.result import Ranking

__all__ = ["ranks", "ranks_with"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def ranks_with(logs: str | Path | Sequence[str | Path], options: OfRanks) -> Ranking:
    """Say how the ranks of one job spread, which of them stand out and by what, and which one failed first.

    Args:
        logs: Their logs: paths, URLs and folders, which stand for all logs in them and in their folders; or one text that is a path template,
            ``runs/{node}/workerlog.{rank}``.  Of an input with several devices each GPU is a rank.
        options: See :class:`memlens.options.OfRanks`.

    Raises:
        UsageError: Arguments that make no sense together.
        InputError: No file matches the template.
        MemlensError: A cluster that was named does not answer.
    """
    _check(options)
    found = find_logs(logs, options)
    return _judged(found, options)


ranks = with_keywords("ranks", ranks_with, OfRanks)


def _check(options: OfRanks) -> None:
    """Refuse what every log would be refused for, before any is read.

    Raises:
        UsageError: The cut makes no sense, or a pattern is no regular expression.
    """
    from memlens.windows.patterns import Matcher
    from memlens.windows.windows import as_patterns

    anchors_of(options.start, options.end, options.start_regex, options.end_regex, options.nth)
    if options.diffs < 0:
        raise UsageError(f"there are no {options.diffs} diffs", "0 makes none.")
    for pattern in (*options.patterns, *as_patterns(as_list(options.owners), regex=True)):
        Matcher(pattern)


def _judged(found: FoundLogs, options: OfRanks) -> Ranking:
    cut, how = part_of(options, Cut), replace(part_of(options, ReadAs), progress=None)
    owners = tuple(as_list(options.owners))
    order = sorted(range(len(found.paths)), key=lambda k: [*map(natural, found.fields[k].values()), natural(found.paths[k])])
    found = replace(found, paths=tuple(found.paths[k] for k in order), fields=tuple(found.fields[k] for k in order))
    orders = [RankOrder(path, cut, how, owners, options.strict) for path in found.paths]
    gathered = Gathered(found)
    with opened(_spread(options, len(orders))) as executor:
        read = 0
        for index, result in _run(summarize, orders, executor):
            gathered.add(index, result)
            read += _size(found.paths[index])
            if options.progress is not None:
                options.progress(read)
        ranking, wanted = judge(gathered, options)
        if wanted:
            from memlens.ranking.diffs import DiffOrder, RankDiff, compare_ranks

            pairs = [
                DiffOrder(base, head, cut, how if device is None else replace(how, device=device), owners, options.strict)
                for _, base, head, device in wanted
            ]
            outliers = list(ranking.outliers)
            for index, said in _run(compare_ranks, pairs, executor):
                diff = RankDiff(said.message) if isinstance(said, MemlensError) else said
                outliers[wanted[index][0]] = replace(outliers[wanted[index][0]], diff=diff)
            ranking = replace(ranking, outliers=tuple(outliers))
    return ranking


def _spread(options: OfRanks, logs: int) -> Spread:
    """Who reads the logs: where nothing is asked for a process a processor."""
    spread = part_of(options, Spread)
    if spread.executor is None and spread.scheduler is None and spread.jobs is None:
        return replace(spread, jobs=max(min(processors(), logs), 1))
    return spread


def _run(
    work: Callable[[Item], Result], items: Sequence[Item], executor: Executor | None
) -> Iterator[tuple[int, Result | MemlensError]]:
    """The result of each item, or the error that it ends in, as they come.

    Raises:
        UsageError: One that every log would end in.
    """
    pairs: Iterator[tuple[int, Any]]
    pairs = _here(work, items) if executor is None else run_jobs(work, items, executor)
    for index, result in pairs:
        if isinstance(result, UsageError):
            raise result
        yield index, result


def _here(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result | MemlensError]]:
    for index, item in enumerate(items):
        try:
            yield index, work(item)
        except MemlensError as error:
            yield index, error
        except MemoryError:
            yield index, MemlensError("not enough memory for this log", "Read it on a larger machine.")


def _size(path: str) -> int:
    try:
        return 0 if is_url(path) else os.path.getsize(path)
    except (OSError, ValueError):
        return 0
