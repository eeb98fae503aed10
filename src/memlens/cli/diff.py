"""``memlens diff``: say which allocation one run frees and the other keeps."""

from __future__ import annotations

from dataclasses import dataclass

import click

from memlens.cli.options import Cut, anchor_options, input_options, output_options, owner_options
from memlens.cli.results import FORMATS, Size, refuse_outputs, render_result
from memlens.errors import UsageError

__all__ = ["diff_command"]


@dataclass(frozen=True)
class _OwnCut:
    """Anchors that only one of the two runs has.

    Raises:
        UsageError: Options that make no sense together.
    """

    which: str
    start: str | None
    start_regex: str | None
    end: tuple[str, ...]
    nth: int | None

    def __post_init__(self) -> None:
        if self.start is not None and self.start_regex is not None:
            raise UsageError(
                f"--{self.which}-start and --{self.which}-start-regex exclude each other", "Give one of them."
            )

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, by their names."""
        values = {"start": self.start, "start-regex": self.start_regex, "end": self.end or None, "nth": self.nth}
        return tuple(f"--{self.which}-{name}" for name, value in values.items() if value is not None)


@click.command(
    "diff",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  memlens diff good.log bad.log
  memlens diff good.log bad.log --by "START (SOT_CALL_\\d+)"
  memlens diff good.log bad.log --by "^STEP (\\d+)" --open
  memlens diff good.log bad.log --start "START SOT_CALL_4" \\
                                --end "END SOT_CALL_4"
  memlens diff good.log bad.log --start "STEP 1 START" \\
                                --context 10 --min-size 1MiB
  memlens diff v1.log v2.log --base-start "EPOCH START" --head-start "Epoch 0"
  memlens diff run.log run.log --start-regex "STEP \\d+ START" \\
                               --end-regex "STEP \\d+ END" \\
                               --base-nth 2 --head-nth 9
  memlens diff good.log bad.log --format markdown -o for-the-pull-request.md""",
)
@click.argument("base", metavar="BASE")
@click.argument("head", metavar="HEAD")
@anchor_options()
@click.option(
    "--base-start", metavar="TEXT", help="Like --start, for BASE only, where the two runs name it differently."
)
@click.option("--head-start", metavar="TEXT", help="Like --start, for HEAD only.")
@click.option("--base-start-regex", metavar="REGEX", help="Like --start-regex, for BASE only.")
@click.option("--head-start-regex", metavar="REGEX", help="Like --start-regex, for HEAD only.")
@click.option(
    "--base-end", metavar="TEXT", multiple=True, help="Like --end, for BASE only. May be given several times."
)
@click.option(
    "--head-end", metavar="TEXT", multiple=True, help="Like --end, for HEAD only. May be given several times."
)
@click.option(
    "--base-nth", metavar="K", type=click.IntRange(min=1), help="Like --nth, for BASE only: two windows of one log."
)
@click.option("--head-nth", metavar="K", type=click.IntRange(min=1), help="Like --nth, for HEAD only.")
@click.option(
    "--whole",
    is_flag=True,
    help="Compare the whole logs as one pair of windows, and do not look for anchor lines that both have.",
)
@click.option(
    "--open",
    "open_windows",
    is_flag=True,
    help="Judge open windows too: the last ones of a series, which no end line closes. Without it they are shown only.",
)
@owner_options
@input_options
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show N findings, and N rows of each table, and count the rest. Default: as many as make a page; all in JSON.",
)
@click.option(
    "--min-size",
    metavar="SIZE",
    type=Size(),
    default="0",
    help="Leave findings of blocks smaller than SIZE (4096, 64KiB, 1.5MiB) out of lists; they stay in all figures.",
)
@click.option(
    "--context",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Show N log lines on each side of the FREE that tells the two runs apart.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How to write the result."
)
@output_options
@click.option(
    "--strict", is_flag=True, help="Fail on a compressed log that is cut short, instead of comparing what there is."
)
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def diff_command(
    base: str,
    head: str,
    cut: Cut,
    base_start: str | None,
    head_start: str | None,
    base_start_regex: str | None,
    head_start_regex: str | None,
    base_end: tuple[str, ...],
    head_end: tuple[str, ...],
    base_nth: int | None,
    head_nth: int | None,
    whole: bool,
    open_windows: bool,
    owners: tuple[str, ...],
    input_format: str | None,
    device: int | None,
    layer: str | None,
    formats: str | None,
    top: int | None,
    min_size: int,
    context: int,
    form: str,
    output: str | None,
    force: bool,
    strict: bool,
    no_progress: bool,
) -> None:
    """Say which allocation one run frees and the other keeps, where, and which part of the difference that explains.

    BASE is the run to compare against, HEAD the one to judge; each is a file (plain, .gz, .zst, .xz, .bz2) or a
    URL, and one of them may be - for stdin. Both are of one kind: two logs of Paddle, two PyTorch snapshots, two traces. Of inputs
    with several devices each device is compared with the one of its number, and the only GPU of one with the only GPU of the other. Both may be the same log, to compare two windows of it.

    With a start or an end, one window of each run is compared. With --by, or without any anchor where both logs have the same
    family of anchor lines, windows are paired by name, or by what they do where numbers were inserted or lost or start elsewhere:
    which pairs differ, where the runs part first, what repeats. The last window of a series is open where no --end closes it: it is
    shown, and judged with --open only.

    A difference is a result and no failure: the exit code is 0.
    """
    from memlens.cli.progress import progress_bar
    from memlens.diffing.run import diff
    from memlens.output import open_output
    from memlens.reports.diff import diff_blocks

    _check(
        cut,
        _OwnCut("base", base_start, base_start_regex, base_end, base_nth),
        _OwnCut("head", head_start, head_start_regex, head_end, head_nth),
        whole,
    )
    if base == head == "-":
        raise UsageError("stdin (-) can be read only once", "Give - for one of the two logs.")
    refuse_outputs(output, force, (base, head), formats=formats)
    with progress_bar([] if no_progress else list(dict.fromkeys((base, head)))) as progress:
        result = diff(
            base,
            head,
            start=cut.start,
            end=cut.end,
            start_regex=cut.start_regex,
            end_regex=cut.end_regex,
            nth=cut.nth,
            by=cut.by,
            base_start=base_start,
            head_start=head_start,
            base_start_regex=base_start_regex,
            head_start_regex=head_start_regex,
            base_end=base_end,
            head_end=head_end,
            base_nth=base_nth,
            head_nth=head_nth,
            whole=whole,
            open_windows=open_windows,
            owners=owners,
            context=context,
            top=top,
            min_size=min_size,
            strict=strict,
            progress=None if no_progress else progress,
            input_format=input_format,
            device=device,
            layer=layer,
            formats=formats,
        )
    text = render_result(result, form, output, lambda: diff_blocks(result, top=top))
    with open_output(output, force) as out:
        out.write(text.encode())


def _check(cut: Cut, base: _OwnCut, head: _OwnCut, whole: bool) -> None:
    """Refuse options that exclude each other, in the words of the command line.

    Raises:
        UsageError: Such options.
    """
    own = (*base.given, *head.given)
    if whole and (cut.given or own):
        raise UsageError(
            "--whole and anchors exclude each other", "Leave --whole out to compare the windows that the anchors cut."
        )
    if cut.by is not None and (starts := [name for name in own if not name.endswith("-end")]):
        raise UsageError(
            f"--by and {starts[0]} exclude each other",
            "--by cuts both logs by the same regular expression; write one that matches the anchors of both.",
        )
    common = cut.start is not None or cut.start_regex is not None
    for side in (base, head):
        if side.nth is not None and not common and side.start is None and side.start_regex is None:
            raise UsageError(
                f"--{side.which}-nth needs --start or --{side.which}-start", "It counts the lines that match the start."
            )
