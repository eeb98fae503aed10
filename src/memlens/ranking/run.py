"""``memlens.ranks``: read the logs of the ranks of one job, and put the ranks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.comparing.run import check_cut
from memlens.comparing.templates import natural
from memlens.errors import MemlensError, UsageError
from memlens.keywords import with_keywords
from memlens.options import OfRanks, as_list
from memlens.ranking.found import FoundLogs, find_logs
from memlens.ranking.judging import Gathered, judge
from memlens.ranking.naming import labels_of
from memlens.ranking.summaries import RankOrder, summarize
from memlens.scheduling.spreading import on_all_processors, spread_out
from memlens.windows.windows import as_patterns

if TYPE_CHECKING:
    from memlens.ranking.result import Ranking

__all__ = ["check_options", "ranks", "ranks_of", "ranks_with"]


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
    check_options(options)
    return ranks_of(find_logs(logs, options), options)


ranks = with_keywords("ranks", ranks_with, OfRanks)


def check_options(options: OfRanks) -> None:
    """Refuse what every log would be refused for, before any is read.

    Raises:
        UsageError: The cut makes no sense, or a pattern is no regular expression.
    """
    check_cut(options, as_patterns(as_list(options.owners), regex=True))
    if options.diffs < 0:
        raise UsageError(f"there are no {options.diffs} diffs", "0 makes none.")


def ranks_of(found: FoundLogs, options: OfRanks) -> Ranking:
    """The same of logs that were found, by options that were checked."""
    names = labels_of(found.paths, found.fields)
    order = sorted(range(len(names)), key=lambda k: natural(names[k]))
    found = replace(found, paths=tuple(found.paths[k] for k in order), fields=tuple(found.fields[k] for k in order))
    gathered = Gathered(found)
    orders = [RankOrder(path, options) for path in found.paths]
    for index, result in spread_out(summarize, orders, on_all_processors(options, len(orders)), options.progress):
        gathered.add(index, result)
    ranking, wanted = judge(gathered, options)
    if not wanted:
        return ranking
    from memlens.ranking.diffs import DiffOrder, RankDiff, compare_ranks

    pairs = [
        DiffOrder(one.head, one.base, options if one.device is None else replace(options, device=one.device))
        for one in wanted
    ]
    outliers = list(ranking.outliers)
    for index, said in spread_out(compare_ranks, pairs, on_all_processors(options, len(pairs)), None):
        diff = RankDiff(said.message) if isinstance(said, MemlensError) else said
        at = wanted[index].outlier
        outliers[at] = replace(outliers[at], diff=diff)
    return replace(ranking, outliers=tuple(outliers))
