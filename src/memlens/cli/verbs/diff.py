"""``memlens diff``: say which allocation one run frees and the other keeps."""

from __future__ import annotations

from functools import partial

import click

from memlens.cli.options import verb
from memlens.cli.output import Show, reading, write_result
from memlens.errors import UsageError
from memlens.options.verbs import Diff


@verb("diff", [click.Argument(["base"], metavar="BASE"), click.Argument(["head"], metavar="HEAD")], *(Diff, Show))
def command(base: str, head: str, options: Diff, show: Show) -> None:
    r"""Say which allocation one run frees and the other keeps, where, and which part of the difference that explains.

    BASE is the run to compare against, HEAD the one to judge; each is a file (plain, .gz, .zst, .xz, .bz2) or a
    URL, and one of them may be - for stdin. Both are of one kind: two logs of Paddle, two PyTorch snapshots, two traces. Of inputs
    with several devices each device is compared with the one of its number, and the only GPU of one with the only GPU of the other. Both may be the same log, to compare two windows of it.

    With a start or an end, one window of each run is compared. With --by, or without any anchor where both logs have the same
    family of anchor lines, windows are paired by name, or by what they do where numbers were inserted or lost or start elsewhere:
    which pairs differ, where the runs part first, what repeats. The last window of a series is open where no --end closes it: it is
    shown, and judged with --open only.

    A difference is a result and no failure: the exit code is 0.

    Examples:
      memlens diff good.log bad.log
      memlens diff good.log bad.log --by "START (SOT_CALL_\d+)"
      memlens diff good.log bad.log --by "^STEP (\d+)" --open
      memlens diff good.log bad.log --start "START SOT_CALL_4" \
                                    --end "END SOT_CALL_4"
      memlens diff good.log bad.log --start "STEP 1 START" \
                                    --context 10 --min-size 1MiB
      memlens diff v1.log v2.log --base-start "EPOCH START" --head-start "Epoch 0"
      memlens diff run.log run.log --start-regex "STEP \d+ START" \
                                   --end-regex "STEP \d+ END" \
                                   --base-nth 2 --head-nth 9
      memlens diff good.log bad.log --format markdown -o for-the-pull-request.md
    """
    from memlens.diffing.run import diff_with
    from memlens.reports.diff import diff_blocks

    _check(options)
    with reading(options, show, (base, head), "Give - for one of the two logs.") as how:
        result = diff_with(base, head, how)
    write_result(result, show, partial(diff_blocks, result, top=options.top, full=show.everything))


def _check(options: Diff) -> None:
    """Refuse options that exclude each other, in the words of the command line.

    Raises:
        UsageError: Such options.
    """
    sides, names = ("base", "head"), ("start", "start-regex", "end", "nth")
    known = {f"--{side}-{name}": f"{side}_{name.replace('-', '_')}" for side in sides for name in names}
    given = [name for name, field in known.items() if getattr(options, field) not in (None, ())]
    for side in sides:
        if {f"--{side}-start", f"--{side}-start-regex"} <= set(given):
            raise UsageError(f"--{side}-start and --{side}-start-regex exclude each other", "Give one of them.")
    if options.whole and (options.given or given):
        raise UsageError(
            "--whole and anchors exclude each other", "Leave --whole out to compare the windows that the anchors cut."
        )
    if options.by is not None and (starts := [name for name in given if not name.endswith("-end")]):
        raise UsageError(
            f"--by and {starts[0]} exclude each other",
            "--by cuts both logs by the same regular expression; write one that matches the anchors of both.",
        )
    for side in sides if options.start is None and options.start_regex is None else ():
        if f"--{side}-nth" in given and not {f"--{side}-start", f"--{side}-start-regex"} & set(given):
            hint = "It counts the lines that match the start."
            raise UsageError(f"--{side}-nth needs --start or --{side}-start", hint)
