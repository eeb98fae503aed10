"""``memlens whatif``: replay a run under other settings of its allocator."""

from __future__ import annotations

from functools import partial

import click

from memlens.cli.options import verb
from memlens.cli.output import Show, reading, report_failures, trial_bar, write_result
from memlens.options.keywords import option
from memlens.options.verbs import TryOut


class ShowTrials(Show):
    """How settings are shown.

    Attributes:
        top: Show N settings, and count the rest. Default: as many as make one screen.
    """

    top: int | None = option("N", default=None, kind=0)


@verb("whatif", [click.Argument(["log"], metavar="LOG")], *(TryOut, ShowTrials))
def command(log: str, options: TryOut, show: ShowTrials) -> int:
    """Replay a run under other settings of its allocator: which one needs least memory, and which one would have carried it on.

    LOG is a log of Paddle with request lines, or a PyTorch memory snapshot with its trace. First the run is replayed as it was set: only where
    chunks, moments and addresses come out as recorded is anything said of other settings. Then each is replayed without a limit and under many limits, with
    new chunks at several addresses, for these decide which block serves a request: a range is what all of them give. Nothing is called better that lies within
    the other's range. It is always the whole run that is replayed: a window has no beginning of its own.

    The exit code is 1 where the run cannot be replayed, or does not come out as recorded.

    Examples:
      memlens whatif run.log
      memlens whatif run.log --memory 7.5GiB
      memlens whatif run.log --set FLAGS_auto_growth_chunk_size_in_mb=64
      memlens whatif snapshot.pickle --set expandable_segments=True
      memlens whatif run.log --all --format csv -o settings.csv
    """
    from memlens.replaying.run import whatif_with
    from memlens.reports.whatif import whatif_blocks

    with reading(options, show, [log]) as how, trial_bar(show) as tried:
        found = whatif_with(log, how.replace(tried=tried))
    write_result(found, show, partial(whatif_blocks, found, top=show.top, full=show.everything))
    report_failures(found.failures)
    return 0 if found.proved else 1
