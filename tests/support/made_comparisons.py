"""Comparisons of many runs made by hand: what their reports show is tested without any log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import made_runs

from memlens.comparing.layout import Layout, lay_out, lay_out_list
from memlens.comparing.result import Comparison, Oom, Run, RunWindow, field_values
from memlens.comparing.statistics import DEFAULT, DEFAULT_OF_MATRIX, choose_metrics, outliers, slopes

__all__ = [
    "HOSTILE",
    "MIB",
    "case_2",
    "case_3",
    "case_5",
    "failures",
    "hostile",
    "listed",
    "matrix",
    "ranks",
    "run",
    "series",
    "window",
]

MIB = 1 << 20
#: Text made to break things: markup, escape codes, a title change, bidi and zero-width marks, HTML, Markdown, a formula.
HOSTILE = "[red]STEP[/] \x1b[31m\x1b]0;owned\x07 \u202etxt.exe\u200b <b>|`@root`"
LONG = "/data/runs/2024/" + "a" * 60 + "_" + "b" * 60 + "_17.log"


def window(mib: float, *, reserved: float = 0, name: str = "(whole log)", **values: Any) -> RunWindow:
    peak = round(mib * MIB)
    figures: dict[str, Any] = {
        "rise_bytes": peak,
        "reserved_peak_bytes": round((reserved or mib) * MIB),
        "live_bytes": 0,
        "remaining_bytes": 0,
        "carried_in_bytes": 0,
        "alloc_bytes": 3 * peak,
        "allocs": 1000,
        "free_bytes": 3 * peak,
        "frees": 1000,
        "duration_us": 1_500_000,
        **values,
    }
    return RunWindow(name, 1, 99, 2000, peak_bytes=peak, **figures)


def run(path: str, *windows: RunWindow, **values: Any) -> Run:
    return Run(path, values.pop("fields", {}), values.pop("status", "ok"), windows, **values)


def listed(*runs: Run, base: str | None = None, metrics: Sequence[str] = (), **values: Any) -> Comparison:
    """A row a run."""
    layout = lay_out_list([run.path for run in runs], base)
    cut = "by" in values or values.get("cut", False)
    return Comparison(runs, layout, choose_metrics(metrics or DEFAULT[cut]), **{"cut": cut, **values})


def matrix(template: str, *runs: Run, metrics: Sequence[str] = (), **options: Any) -> Comparison:
    """Runs laid out by their fields."""
    values = field_values([run.fields for run in runs], tuple(runs[0].fields))
    layout: Layout = lay_out(
        values, [run.path for run in runs], options.get("rows", ()), options.get("cols"), options.get("base")
    )
    windows = tuple(run.window(None) for run in runs)
    usual = (DEFAULT if layout.cols is None else DEFAULT_OF_MATRIX)[False]
    return Comparison(
        runs,
        layout,
        choose_metrics(metrics or usual),
        template,
        scaling=tuple(slopes(runs, windows, values)),
        outliers=tuple(outliers(runs, windows, values)),
    )


def case_2() -> Comparison:
    """The published table of case 2."""
    return listed(
        run("pt.log", window(8824.07, reserved=8959.77)),
        run("pir_develop.log", window(9707.65, reserved=11033.88)),
        run("pir_pr.log", window(8727.65, reserved=10053.88)),
    )


def case_3() -> Comparison:
    """The published matrix of case 3, cards 0, 1 and 7."""
    runs = []
    for gbs, branch, card, mib in made_runs.case_3():
        if card not in (0, 1, 7):
            continue
        fields = {"gbs": str(gbs), "branch": branch, "rank": str(card)}
        path = f"gbs{gbs}/{branch}/workerlog.{card}"
        if mib is None:
            failure = Oom(made_runs.OOM_BYTES, "GPU 0", 1234)
            runs.append(run(path, window(31744, oom=True), fields=fields, status="oom", oom=failure, ooms=1))
        else:
            runs.append(run(path, window(mib), fields=fields))
    return matrix("gbs{gbs}/{branch}/workerlog.{rank}", *runs, base="branch=develop", metrics=["peak"])


def case_5() -> Comparison:
    """The published table of case 5: memory and time of an iteration."""
    return listed(
        run("before.log", window(8250, duration_us=982_000)),
        run("after.log", window(7183, duration_us=909_000)),
        metrics=["peak", "duration"],
    )


def failures() -> Comparison:
    """Runs that are missing, unreadable, in doubt, out of memory, and one that went on after a failure."""
    return listed(
        run("base.log", window(100)),
        run("oom.log", window(90, oom=True), status="oom", oom=Oom(256 * MIB, "GPU 0", 7), ooms=1),
        run("oom_unsaid.log", window(90, oom=True), status="oom", oom=Oom(None, "", 7), ooms=1),
        run("gone.log", status="missing", message="gone.log: no such file", hint="Look."),
        run("empty.log", status="unreadable", message="empty.log: the file is empty"),
        run("short.log", status="no_window", message="short.log: no line matches START"),
        run("torn.log", window(120.5), doubts=("several_processes", "malformed")),
        run("brave.log", window(80, duration_us=None), ooms=2),
        problems=("runs/x/: cannot be looked into: Permission denied",),
    )


def hostile() -> Comparison:
    """Names that would act on a terminal, in Markdown or in a spreadsheet."""
    fields = [{"mode": mode, "rank": rank} for mode in (HOSTILE, "=1+2") for rank in "01"]
    runs = [run(f"{one['mode']}/{one['rank']}", window(10 + place), fields=one) for place, one in enumerate(fields)]
    runs.append(
        run(
            LONG,
            fields={"mode": HOSTILE, "rank": HOSTILE},
            status="unreadable",
            message=f"{LONG}: {HOSTILE}",
            doubts=(),
        )
    )
    return matrix("{mode}/{rank}", *runs)


def series() -> Comparison:
    """Two runs cut into windows, one of which lacks the last."""

    def one(path: str, count: int, extra: int) -> Run:
        names = {2: HOSTILE}
        return run(
            path,
            *(
                window(
                    100 + extra * number,
                    name=names.get(number, f"STEP_{number}"),
                    duration_us=50_000 + number,
                    open_end=number == count - 1,
                )
                for number in range(count)
            ),
            remarks=(f"STEP_{count - 1} is open: no end anchor closes it.",),
        )

    runs = (one("runs/a/run.log", 25, 0), one("runs/b/run.log", 24, 2))
    return listed(*runs, by=r"(STEP_\d+)", typical=(window(100, name="(median)"), window(122, name="(median)")))


def ranks() -> Comparison:
    """Eight ranks of which one needs far more; without a base."""
    figures = (1000, 1010, 990, 1005, 995, 1500, 1002, 998)
    return matrix(
        "workerlog.{rank}",
        *(run(f"workerlog.{r}", window(mib), fields={"rank": str(r)}) for r, mib in enumerate(figures)),
    )
