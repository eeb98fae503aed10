"""Judges of what ``memlens whatif`` claims of a run: its requests, from the lines of its log, served once more by a plain allocator under the setting that a claim names.

For logs of Paddle's auto-growth allocator that one thread wrote; new chunks lie where chance puts them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from night import chance_of
from paddle_allocator import MIB, DeviceRefusedError, PaddleAllocator
from raw_runs import RawRun

Values = Mapping[str, Any]
#: Bytes in one piece, of which the least chunks are; no limit.
_PIECE, _NO_LIMIT = 256, 1 << 60


class Requests:
    """What a run asks for and gives back, up to the request that it was refused, that one included.

    Attributes:
        run: The run.
        least: The least bytes of a chunk, by what the log says of it.
        others: Those of the other processes of a log.
    """

    def __init__(self, run: RawRun, others: Sequence[RawRun] = ()) -> None:
        self.others = [Requests(one) for one in others]
        said = (re.search(r"chunk_size_:(\d+)", line) for _, line in run.notes)
        self.run, self.least = run, int(next(found for found in said if found)[1])
        self.stop = run.before(run.failures[0].place) if run.failures else len(run.events)
        self.refused = run.failures[0].requested if run.failures else None

    @property
    def live_peak(self) -> int:
        return max([*self.run.allocated[: self.stop + 1], self.run.allocated[self.stop] + (self.refused or 0)])

    def served(self, setting: str, limit: int = _NO_LIMIT) -> tuple[PaddleAllocator, int | None]:
        """The allocator after all of it, and the line of what it refused."""
        flags = {name: int(value) for name, _, value in (flag.partition("=") for flag in setting.split())}
        small = flags.get("FLAGS_small_pool_size_in_mb", 0) * MIB
        least = flags.get("FLAGS_auto_growth_chunk_size_in_mb", 0) * MIB or self.least
        pools = [flags.get(f"FLAGS_{one}_pool_auto_growth_chunk_size_in_mb", 0) * MIB for one in ("small", "large")]
        allocator = PaddleAllocator(
            chance_of("addresses"),
            chunk=(pools[0] or _PIECE, pools[1] or _PIECE) if small else (least, least),
            idle=bool(flags.get("FLAGS_free_idle_chunk")),
            miss=bool(flags.get("FLAGS_free_when_no_cache_hit")),
            small=small,
            capacity=limit,
            retry=False,
        )
        places: dict[Any, int] = {}
        for one in self.run.events[: self.stop]:
            allocator.lines.clear()
            if one.kind == "alloc":
                try:
                    places[one.block] = allocator.serve(1, one.size)
                except DeviceRefusedError:
                    return allocator, one.place
            elif one.kind == "free" and one.block in places:
                allocator.free(1, places.pop(one.block))
        if self.refused is not None:
            try:
                allocator.serve(1, self.refused)
            except DeviceRefusedError:
                return allocator, self.run.failures[0].place
        return allocator, None

    def completes(self, setting: str, limit: int) -> bool:
        return self.served(setting, limit)[1] is None


def judge(claims: Iterable[Values], of: Requests) -> Counter[str]:
    """Judge claims as they stand in JSON; how many of which kind."""
    seen: Counter[str] = Counter()
    for claim in claims:
        if claim["kind"] in JUDGES:
            JUDGES[claim["kind"]](claim, of)
            seen[claim["kind"]] += 1
    return seen


def _needs(v: Values, of: Requests) -> None:
    """A setting completes with what it needs at most; where that is one figure, it does not with less, wherever chunks lie."""
    setting, low, high = v["setting"], v["needs_bytes"], v["needs_most_bytes"]
    assert low <= high
    assert of.completes(setting, high)
    assert low < high or not of.completes(setting, low - _PIECE)
    _chunks(v, of)


def _chunks(v: Values, of: Requests) -> None:
    """How many are taken depends a little on where they lie."""
    if "chunks" in v:
        assert abs(of.served(v["setting"])[0].taken - v["chunks"]) <= v["chunks"] / 10
    if "chunks_as_set" in v:
        taken = sum(one.kind == "reserve" for one in of.run.events[: of.stop]) + bool(of.run.failures)
        assert v["chunks_as_set"] == taken < v["chunks"]


def _as_set(low: int, high: int, of: Requests) -> None:
    """What the run as it was set needs is what it reserved."""
    assert low <= max(of.run.reserved) <= high


def _needs_as_set(v: Values, of: Requests) -> None:
    _as_set(v["needs_bytes"], v["needs_most_bytes"], of)


def _needs_less(v: Values, of: Requests) -> None:
    _needs(v, of)
    _as_set(v["as_set_bytes"], v["as_set_most_bytes"], of)
    assert v["saved_bytes"] == v["as_set_bytes"] - v["needs_most_bytes"] > 0
    exact = v["needs_bytes"] == v["needs_most_bytes"] and v["as_set_bytes"] == v["as_set_most_bytes"]
    assert v["certain"] == exact


def _bound(v: Values, of: Requests) -> None:
    assert v["live_peak_bytes"] == of.live_peak


def _completes(v: Values, of: Requests) -> None:
    assert v["within"] == (v["needs_most_bytes"] <= v["limit_bytes"])
    if v["kind"] == "completes_as_set":
        _as_set(v["needs_bytes"], v["needs_most_bytes"], of)
        assert max(of.run.reserved) <= v["limit_bytes"]
    else:
        assert of.completes(v["setting"], v["limit_bytes"])
        _chunks(v, of)


def _fails(v: Values, of: Requests) -> None:
    """The run as it was set does what it did up to the first chunk that is too much."""
    over = [k for k, level in enumerate(of.run.reserved) if level > v["limit_bytes"]]
    if "line" in v and not over:
        assert v["line"] == of.run.failures[0].place  # all that was given fits, and what was refused does not
    elif "line" in v:
        assert v["line"] == of.run.events[over[0]].place  # the ALLOC that the chunk was for
        assert v["reserved_bytes"] == of.run.reserved[over[0] - 1]
        assert v.get("free_bytes", 0) == v["reserved_bytes"] - of.run.allocated[over[0] - 1]
    assert v.get("largest_free_bytes", 0) <= min(v.get("free_bytes", 0), v.get("requested_bytes", 0))


def _depends(v: Values, of: Requests) -> None:
    assert 0 < v["completing"] < v["replays"]
    assert of.live_peak <= v["limit_bytes"]


def _ran_out(v: Values, of: Requests) -> None:
    assert v["line"] == of.run.failures[0].place


def _none_helps(v: Values, of: Requests) -> None:
    _bound(v, of)
    assert v.get("over_bytes", 1) > 0
    assert v.get("over_bytes", v["live_peak_bytes"] - v["limit_bytes"]) == v["live_peak_bytes"] - v["limit_bytes"]


def _none_surely(v: Values, of: Requests) -> None:
    assert of.live_peak <= v["limit_bytes"] < max(of.run.reserved)
    assert v.get("completing", 0) < v.get("replays", 1)


def _others(v: Values, of: Requests) -> None:
    assert v["others"] > 0
    _chunks(v, of)


def _others_need_less(v: Values, of: Requests) -> None:
    settings = "FLAGS_free_idle_chunk=1", "FLAGS_free_when_no_cache_hit=1"
    less = [any(one.served(setting)[0].peak < max(one.run.reserved) for setting in settings) for one in of.others]
    assert (v["others"], v["better"]) == (len(less), sum(less))


def _remedied(v: Values, of: Requests) -> None:
    """What a report of a failure says of other settings: the one with which the run gets past it, or that none can."""
    reserved, left = of.run.reserved[of.stop], of.run.failures[0].device_free
    most = reserved + ((of.refused or 0) - 1 if left is None else left)
    assert (v["live_peak_bytes"], v["limit_bytes"]) == (of.live_peak, reserved)
    assert v["over_bytes"] == max(of.live_peak - most, 0)
    assert not v["line"] or of.completes(v["line"], reserved)
    assert (v["kind"] == "no_remedy") == (v["over_bytes"] > 0)


JUDGES = {
    **dict.fromkeys(("remedy", "no_remedy", "no_sure_remedy"), _remedied),
    "needs_as_set": _needs_as_set,
    "setting_needs_less": _needs_less,
    "fewer_chunks": _needs,
    "no_setting_needs_less": _bound,
    **dict.fromkeys(("completes_as_set", "setting_helps"), _completes),
    "depends_as_set": _depends,
    "fails_as_set": _fails,
    "ran_out": _ran_out,
    "no_setting_helps": _none_helps,
    "no_setting_surely_helps": _none_surely,
    "others_help": _others,
    "others_need_less": _others_need_less,
}
