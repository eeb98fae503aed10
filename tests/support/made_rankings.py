"""Ranks of made-up jobs as they are shown: results made by hand, or by judging what summaries would say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memlens.analyzers.failures import MemoryFailure
from memlens.analyzers.peak import LiveGroup
from memlens.errors import InputError, NoEventsError
from memlens.options import OfRanks
from memlens.ranking.diffs import DiffFinding, RankDiff
from memlens.ranking.found import FoundLogs
from memlens.ranking.judging import Gathered, judge
from memlens.ranking.result import Ranking
from memlens.ranking.summaries import FailedRank, RankSummary
from memlens.text import LINES

MIB, GIB = 1 << 20, 1 << 30
_S = 1_000_000


def _ranking(
    found: Mapping[str, RankSummary | Exception], fields: list[Mapping[str, str]], **options: object
) -> Ranking:
    gathered = Gathered(FoundLogs(tuple(found), tuple(fields)))
    for number, one in enumerate(found.values()):
        gathered.add(number, (one,) if isinstance(one, RankSummary) else one)  # type: ignore[arg-type]
    return judge(gathered, OfRanks(**options))[0]  # type: ignore[arg-type]


def _summary(peak: int, held: tuple[LiveGroup, ...] = (), **more: object) -> RankSummary:
    usual = {
        "reserved_peak_bytes": peak + 512 * MIB,
        "live_bytes": peak // 2,
        "allocs": 8800,
        "window": "(whole log)",
        "windows": 1,
    }
    times = {"begins_us": 7200 * _S, "ends_us": 7800 * _S}
    return RankSummary(peak_bytes=peak, held=held, **{**usual, **times, **more})  # type: ignore[arg-type]


def _held(size: int, count: int, owner: str | None) -> LiveGroup:
    return LiveGroup(size, count, size * count, owner)


def failure(line: int, asked: int | None, allocated: int, owner: str | None = "embedding") -> MemoryFailure:
    """A failure on a device of which nothing is left."""
    return MemoryFailure(
        line, line * 2, "GPU 0", asked, owner, allocated, allocated + 512 * MIB, 512 * MIB, 3, 300 * MIB, 0, 0, 100 * MIB, 80 * GIB, None, 0,
        "too much", "612.00 MiB was free in all", None, None, None, 0, True,
    )  # fmt: skip


def _usual(rank: int) -> tuple[LiveGroup, ...]:
    return (_held(512 * MIB, 16, "linear"), _held(64 * MIB, 32, "flash_attn"), _held(4096 * (1 + rank % 3), 1, None))


def quiet() -> Ranking:
    """Sixteen ranks to the byte."""
    found = {f"log/workerlog.{k}": _summary(10 * GIB, _usual(0)) for k in range(16)}
    return _ranking(found, [{"rank": str(k)} for k in range(16)])


def loud() -> Ranking:
    """64 ranks of four stages on eight machines: two that stand out by blocks, one by reserved bytes; the first of three failures told by time; some unreadable or missing."""
    found: dict[str, RankSummary | Exception] = {}
    fields: list[Mapping[str, str]] = []
    for rank in range(64):
        if rank in (40, 41):
            continue
        stage, node = rank // 16, rank // 8
        peak = 60 * GIB + (8 * GIB if stage == 0 else 0) + rank % 5 * MIB
        held = _usual(rank)
        if rank == 21:
            held, peak = (_held(1075 * MIB, 2, "embedding"), *held), peak + 2150 * MIB
        elif rank == 50:
            held, peak = (_held(3 * GIB, 1, None), *held), peak + 3 * GIB
        one: RankSummary | Exception = _summary(peak, held)
        assert isinstance(one, RankSummary)
        if rank == 33:
            one = replace(one, reserved_peak_bytes=peak + 9 * GIB, doubts=("unknown_frees",))
        elif rank in (3, 9, 60):
            failed = FailedRank(failure(1942 + rank, 2 * GIB, peak), 1, 8000, (7700 + rank) * _S, LINES)
            one = replace(one, failed=failed, live_bytes=None)
        elif rank == 17:
            one = NoEventsError("x/node2/pp1_rank17.log: 1,234 lines and no allocator event", "Switch logging on.")
        elif rank == 18:
            one = InputError("x/node2/pp1_rank18.log: cannot be read: Permission denied")
        found[f"x/node{node}/pp{stage}_rank{rank}.log"] = one
        fields.append({"node": str(node), "pp": str(stage), "rank": str(rank)})
    ranking = _ranking(found, fields)
    finding = DiffFinding("only_head", 1075 * MIB, 2, 2150 * MIB, 2150 * MIB, "embedding", 77)
    said = RankDiff(
        "Head peaks at 62.10 GiB, 2.10 GiB more than base (60.00 GiB). All of it is 2 blocks of 1.05 GiB (embedding) that only head keeps: head allocates the first at line 77 and never frees it.",
        (finding,),
    )
    return replace(
        ranking,
        outliers=tuple(
            replace(one, diff=said) if one.rank == "rank 21" and one.metric == "peak_bytes" else one
            for one in ranking.outliers
        ),
    )


def modes() -> Ranking:
    """Two modes, in a series of windows, of ranks that no field tells apart."""
    found = {f"r{k}": _summary((12 if k % 3 else 10) * GIB, windows=40 + k % 2, window="17") for k in range(30)}
    return _ranking(found, [{"rank": str(k)} for k in range(30)], by=r"STEP (\d+)")


def hostile() -> Ranking:
    """Paths, fields and owners that would act on a terminal, in a browser or in Markdown."""
    bad = "\x1b[31m|`<b>\u202ex\n"
    found: dict[str, RankSummary | Exception] = {
        f"{bad}{k}.log": _summary(10 * GIB, (_held(GIB, 10, bad),)) for k in range(8)
    }
    found[f"{bad}6.log"] = _summary(13 * GIB, (_held(3 * GIB, 1, bad), _held(GIB, 10, bad)))
    found[f"{bad}7.log"] = InputError(f"{bad}7.log: {bad}")
    failed = FailedRank(failure(5, None, 10 * GIB, bad), 2, 10, None, LINES)
    found[f"{bad}0.log"] = _summary(10 * GIB, (_held(GIB, 10, bad),), failed=failed)
    return _ranking(found, [{"node": f"{bad}{k // 4}", "rank": f"{bad}{k}"} for k in range(8)])


def unreadable() -> Ranking:
    """None of them could be read."""
    found = {f"workerlog.{k}": InputError(f"workerlog.{k}: no such file") for k in range(12)}
    return _ranking(found, [{"rank": str(k)} for k in range(12)])
