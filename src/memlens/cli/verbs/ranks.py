"""``memlens ranks``: what the ranks of one job say together."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import click

from memlens.cli.options import Show, verb
from memlens.keywords import option
from memlens.options import OfRanks

__all__ = ["command"]

#: Of many logs that could not be read so many are named on stderr; the result has all.
_MOST_ERRORS = 5


@dataclass(frozen=True, kw_only=True)
class ShowRanks(Show):
    """How the ranks of a job are shown.

    Attributes:
        top: Show N rows of each list, and count the rest.
    """

    top: int | None = option(None, "N", kind=0)


@verb(
    "ranks",
    [click.Argument(["logs"], metavar="LOG...", nargs=-1)],
    *(OfRanks, ShowRanks),
    examples="""\
  memlens ranks logs/
  memlens ranks "runs/{node}/workerlog.{rank}"
  memlens ranks "logs/pp{pp}_tp{tp}_dp{dp}.log.zst" --jobs 16
  memlens ranks logs/ --by "STEP (\\d+) START"
  memlens ranks logs/ --scheduler tcp://head:8786 --format json \\
                      -o ranks.json
  memlens ranks s3://bucket/run/rank0.log s3://bucket/run/rank1.log""",
)
def command(logs: tuple[str, ...], options: OfRanks, show: ShowRanks) -> int:
    """Say how the ranks of one job spread, which of them stand out and by what, and which one failed first.

    LOG is a file or URL of each rank, a folder (of which all logs in it and in its folders are taken), or one path template with fields in
    braces, runs/{node}/workerlog.{rank}. What the paths say of ranks is told from the template, or from usual names: rank0017, workerlog.3, node4, pp1_tp0.

    A rank stands out among its peers: the ranks of its pipeline stage, where stages differ, or all. The few farthest are compared with the median
    rank by a diff of their logs.

    Ranks that stand out are a result and no failure: the exit code is 0, and 1 only where no log could be read.
    """
    from memlens.cli.output import note_others, progress_bar, refuse_outputs, report_failures, write_result
    from memlens.ranking.found import find_logs
    from memlens.ranking.run import check_options, ranks_of
    from memlens.reports.ranks import ranks_blocks

    check_options(options)
    found = find_logs(logs, options, note_others(show))
    refuse_outputs(show, found.paths, formats=options.formats)
    with progress_bar(filter(os.path.isfile, found.paths), show) as progress:
        ranking = ranks_of(found, replace(options, progress=progress))
    write_result(ranking, show, lambda: ranks_blocks(ranking, top=show.top, full=show.everything))
    if ranking.read:
        return 0
    report_failures(ranking.ranks[:_MOST_ERRORS])
    return 1
