"""``memlens cache``: list or clear what is kept of logs that were read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from memlens.cli.options import Show, verb
from memlens.options import Cache
from memlens.reports.blocks import Block, Column, Line, Table, apart
from memlens.text import plural
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.caching.listing import CacheListing, KeptLog

__all__ = ["command"]

_COLUMNS = (
    Column("path", "Log", "name"),
    Column("kept_us", "Kept", "word"),
    Column("size_bytes", "Size", "bytes", strong=True),
    Column("hits", "Hits", "count"),
    Column("used_us", "Of use last", "word", drop=1),
)


@verb(
    "cache",
    [click.Argument(["logs"], metavar="[LOG]...", nargs=-1)],
    *(Cache, Show),
    only=("cache", "clear", "color", "form", "output", "force"),
    examples="""\
  memlens analyze run.log --cache user
  memlens cache
  memlens cache --clear run.log
  memlens cache --clear
  memlens cache --cache beside logs/
  MEMLENS_CACHE_LIMIT=50GB memlens analyze run.log --cache user""",
)
def command(logs: tuple[str, ...], options: Cache, show: Show) -> None:
    """List what --cache keeps of logs that were read, or clear it: all of it, or that of each LOG.

    LOG is a file, a folder of files, or a URL; what lies beside a file is listed as well. Shown are the log as it was named when it was read, when that
    was, what its entries take, and how often they spared reading it; and what all may take: what MEMLENS_CACHE_LIMIT says (20GB), else 10 GB, or a
    tenth of the free room where that is less. Beyond that entries are removed, those first that were of no use for the longest time.
    """
    from memlens.caching.listing import cache
    from memlens.cli.output import refuse_outputs, write_result

    refuse_outputs(show, ())
    listing = cache(logs, cache=options.cache, clear=options.clear)
    write_result(listing, show, lambda: _blocks(listing))


def _blocks(listing: CacheListing) -> list[Block]:
    """The folder with what it keeps and may keep, and a row a log."""
    count, total = plural(len(listing.logs), "log"), format_bytes(listing.total_bytes)
    if not listing.logs:
        said = "nothing to clear" if listing.cleared else "nothing is kept"
    elif listing.cleared:
        said = f"cleared {count}, {total}"
    else:
        said = f"{count} kept in {total}"
    limit = f", of at most {format_bytes(listing.limit_bytes)}" if listing.folder and not listing.cleared else ""
    answer = Line(f"{said}{limit}", "strong", listing.folder or "beside the logs")
    if not listing.logs:
        return [answer]
    return [answer, *apart(Table("", _COLUMNS, tuple(_row(log, listing.folder) for log in listing.logs)))]


def _row(log: KeptLog, folder: str) -> tuple[str | int, ...]:
    name = log.path or "(cannot be read)"
    beside = " (beside it)" if log.folder != folder and folder else ""
    return f"{name}{beside}", _when(log.kept_us), log.size_bytes, log.hits, _when(log.used_us)


def _when(time_us: int) -> str:
    """A moment by the clock of this machine, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(time_us / 1e6))
