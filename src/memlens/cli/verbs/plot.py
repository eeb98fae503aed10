"""``memlens plot``: the picture of a report as a still one."""

from __future__ import annotations

import click

from memlens.cli.options import verb
from memlens.cli.output import Output, named_logs, reading, report_failures
from memlens.errors import UsageError
from memlens.options.keywords import option
from memlens.options.verbs import Plot

_FORMS = ("svg", "png", "pdf")


class PlotTo(Output):
    """Where a picture goes.

    Attributes:
        form: Write the picture as this. Default: what the name of FILE ends in.
    """

    form: str | None = option("", "--format", default=None, choices=_FORMS)


@verb("plot", [click.Argument(["logs"], metavar="LOG...", nargs=-1, required=True)], *(Plot, PlotTo))
def command(logs: tuple[str, ...], options: Plot, show: PlotTo) -> int:
    r"""Draw the picture of a report of LOG as a still one for a pull request or a paper: an SVG, a PNG or a PDF.

    Each log is drawn with what is live, by who holds it, what is reserved, its peak, where it runs out of memory, and its steps or the windows of --by; several,
    or several devices, one below the other with one scale. No peak is lost, however long the log is. Pictures are drawn by Matplotlib: pip install 'memlens[plot]'.

    Examples:
      memlens plot run.log -o run.svg
      memlens plot run.log --by "STEP (\d+) START" -o steps.png
      memlens plot run.log.gz --x time --theme dark -o run.png
      memlens plot workerlog.* -o ranks.svg
      memlens plot bad.log --base good.log -o both.svg
      memlens plot run.log --width 3.5 --height 2.5 -o column.pdf
      memlens plot run.log --format svg -o - | wc -c
    """
    from memlens.drawing.plot import form_of, plot_with, require_matplotlib

    if show.output is None:
        raise UsageError("where the picture goes is not said", "Name a file: -o figure.svg, or - for stdout.")
    require_matplotlib()
    form = form_of(show.output, show.form)
    others = () if options.base is None else (str(options.base),)
    logs = logs if others else named_logs(logs, options, show)
    with reading(options, show, (*others, *logs)) as how:
        figure = plot_with(list(logs), how)
    figure.save(show.output, show.force, form)
    report_failures(figure.failures)
    return 1 if figure.failures else 0
