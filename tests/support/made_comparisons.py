"""Comparisons of many runs made by hand: what their reports show is tested without any log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import made_runs
from answers import HOSTILE, replace, with_answer

from memlens.analyzers.failures import MemoryFailure
from memlens.comparing.layout import (
    DEFAULT,
    DEFAULT_OF_RANKS,
    Layout,
    choose_metrics,
    field_values,
    lay_out,
    lay_out_list,
)
from memlens.comparing.ranks import HeldMore, Job, names_of_ranks, outliers_of
from memlens.comparing.result import Comparison
from memlens.comparing.scaling import slopes
from memlens.summarizing.figures import RunWindow
from memlens.summarizing.summary import Oom, Run

MIB = 1 << 20
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
    return with_answer(
        Comparison(runs, layout, choose_metrics(metrics or DEFAULT["list", cut]), **{"cut": cut, **values})
    )


def matrix(template: str, *runs: Run, metrics: Sequence[str] = (), **options: Any) -> Comparison:
    """Runs laid out by their fields."""
    values = field_values([run.fields for run in runs], tuple(runs[0].fields))
    layout: Layout = lay_out(
        values, [run.path for run in runs], options.get("rows", ()), options.get("cols"), options.get("base")
    )
    windows = tuple(run.window(None) for run in runs)
    chosen = choose_metrics(metrics or DEFAULT["list" if layout.cols is None else "matrix", False])
    scaling, found = tuple(slopes(runs, windows, values)), tuple(outliers_of(runs, windows, values, chosen))
    return with_answer(Comparison(runs, layout, chosen, template, scaling=scaling, outliers=found))


def of_job(
    *runs: Run,
    holds: Mapping[str, tuple[HeldMore, ...]] | None = None,
    failure: MemoryFailure | None = None,
    **values: Any,
) -> Comparison:
    """The ranks of one job; by the name of a rank what it holds more at its peak, and how the first one failed."""
    metrics = choose_metrics(DEFAULT_OF_RANKS)
    job = Job(runs, [run.window(None) for run in runs], names_of_ranks(runs))
    ranks, found = job.ranks(metrics), [one for metric in metrics for one in job.outliers(metric)]
    if failure is not None and ranks.first_failure is not None:
        ranks = replace(ranks, first_failure=replace(ranks.first_failure, failure=failure))
    held = [replace(one, holds=(holds or {}).get(one.rank, ()) if one.metric == "peak_bytes" else ()) for one in found]
    varying = [name for name, texts in field_values([run.fields for run in runs], runs[0].fields).items() if texts[1:]]
    return with_answer(Comparison(runs, Layout(tuple(varying)), metrics, ranks=ranks, outliers=tuple(held), **values))


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


def _rank(path: str, mib: float, fields: dict[str, str], **values: Any) -> Run:
    usual = {"allocs": 8800, "begins_us": 7200_000_000, "ends_us": 7800_000_000}
    return run(
        path, window(mib, reserved=mib + 512, live_bytes=round(mib / 2) * MIB), fields=fields, **{**usual, **values}
    )


def failed_at(line: int, asked: int | None, mib: float, owner: str | None = "embedding") -> MemoryFailure:
    """A failure on a device of which nothing is left."""
    return MemoryFailure(
        line, line * 2, "GPU 0", asked, owner, round(mib * MIB), round((mib + 512) * MIB), 512 * MIB, 3, 300 * MIB, 0, 0, 100 * MIB, 80 << 30, None, 0,
        "too much", "612.00 MiB was free in all", None, None, None, 0, True,
    )  # fmt: skip


def ranks_healthy() -> Comparison:
    """Eight ranks of about as much."""
    figures = (1000, 1010, 990, 1005, 995, 1001, 1002, 998)
    return of_job(*(_rank(f"log/workerlog.{rank}", mib, {"rank": str(rank)}) for rank, mib in enumerate(figures)))


def ranks_loud() -> Comparison:
    """64 ranks of four stages on eight machines: two that stand out by blocks, one by reserved bytes; three that ran out of memory; some without a log, or a long one."""
    runs, gib = [], 1024
    for rank in range(64):
        stage, node = rank // 16, rank // 8
        path = f"x/node{node}/pp{stage}_rank{rank}.log"
        fields = {"node": str(node), "pp": str(stage), "rank": str(rank)}
        mib = 60 * gib + (8 * gib if stage == 0 else 0) + rank % 5 + {21: 2150, 50: 3 * gib}.get(rank, 0)
        if rank in (40, 41):
            continue
        if rank == 33:
            one = window(mib, reserved=mib + 9 * gib, live_bytes=mib // 2 * MIB)
            runs.append(run(path, one, fields=fields, doubts=("unknown_frees",), allocs=8800))
        elif rank in (3, 9, 60):
            oom = Oom(2 << 30, "GPU 0", 1942 + rank, (7700 + rank) * 1_000_000, 8000)
            runs.append(_rank(path, mib, fields, status="oom", oom=oom, ooms=1))
        elif rank == 17:
            message = f"{path}: 1,234 lines and no allocator event"
            runs.append(run(path, fields=fields, status="unreadable", message=message))
        else:
            runs.append(_rank(path, mib, fields, **({"allocs": 800, "ends_us": 7300_000_000} if rank == 44 else {})))
    holds = {
        "rank 21": (HeldMore(1075 * MIB, 2, 2150 * MIB, "embedding"),),
        "rank 50": (HeldMore(3 << 30, 1, 3 << 30, None),),
    }
    return of_job(
        *runs, holds=holds, failure=failed_at(1945, 2 << 30, 68 * gib), template="x/node{node}/pp{pp}_rank{rank}.log"
    )


def ranks_hostile() -> Comparison:
    """Names of ranks, owners and messages that would act on a terminal, in a browser or in Markdown."""
    fields = [{"node": f"{HOSTILE}{k // 4}", "rank": f"{HOSTILE}{k}"} for k in range(8)]
    runs = [_rank(f"{HOSTILE}{k}.log", 3000 if k == 6 else 1000, one) for k, one in enumerate(fields)]
    runs[7] = run(LONG, fields=fields[7], status="unreadable", message=f"{LONG}: {HOSTILE}")
    runs[0] = replace(runs[0], status="oom", oom=Oom(None, HOSTILE, 5, None, 10), ooms=2)
    holds = {f"rank {HOSTILE}6": (HeldMore(2000 * MIB, 1, 2000 * MIB, HOSTILE),)}
    return of_job(*runs, holds=holds, failure=failed_at(5, None, 1000, HOSTILE))


def ranks_unreadable() -> Comparison:
    """None of them could be read."""
    paths = [f"workerlog.{k}" for k in range(12)]
    gone = (run(path, fields={"rank": path[10:]}, status="missing", message=f"{path}: no such file") for path in paths)
    return of_job(*gone)
