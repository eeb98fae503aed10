"""Judges of what ``memlens compare`` claims of many runs, and of the ranks of a job: plain arithmetic over the lines of each log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from math import prod
from pathlib import Path
from statistics import median, median_low
from typing import Any

import claim_judge
from plain_ranks import plain_outliers, plain_peers
from raw_runs import RawRun, raw_runs

Values = Mapping[str, Any]
_MIB = 1 << 20
_TIME = re.compile(r"^[IWE](\d{4} [\d:]{8}\.\d{6})")
_FIGURES: dict[str, Callable[[RawRun], int]] = {
    "peak_bytes": lambda run: max(run.allocated),
    "reserved_peak_bytes": lambda run: max(run.reserved),
    "live_bytes": lambda run: run.allocated[-1],
}


class RawRuns:
    """Runs that are compared.

    Attributes:
        runs: Each by its path.
        fields: The fields of each: by name what a template has in braces there, or else the numbers in its path that differ.
        failed: The paths of those that ran out of memory, with what was asked for.
        base: Those that are compared with this one, or with the one whose field has this value, are so.
        metrics: What is compared.
        in_matrix: They are found by a template.
        claims: All that is claimed, where one claim follows from another.
    """

    def __init__(self, paths: Iterable[Path], template: str = "", base: str = "") -> None:
        self.runs = {str(path): raw_runs(path)[""] for path in paths}
        self.base, self.metrics, self.claims = base, [*_FIGURES], list[Values]()
        self.in_matrix = bool(template)
        named = re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+?)", re.escape(template)) + "$")
        found = {
            path: m.groupdict() if template and (m := named.search(path)) else _numbers(path) for path in self.runs
        }
        varying = [name for name in next(iter(found.values())) if len({one[name] for one in found.values()}) > 1]
        self.fields = {path: {name: one[name] for name in varying} for path, one in found.items()}
        self.failed = {path: run.failures[0].requested for path, run in self.runs.items() if _failed(run)}

    @property
    def cells(self) -> int:
        """How many runs there are, with those that a matrix lacks."""
        texts = zip(*(fields.values() for fields in self.fields.values()), strict=True)
        return prod(len({*values}) for values in texts) if self.in_matrix else len(self.runs)

    def figures(self, metric: str) -> dict[str, int]:
        """A metric of the runs that have it; of one that failed no more is known than how high it came."""
        kind = "reserve" if metric == "reserved_peak_bytes" else "alloc"
        having = {path: run for path, run in self.runs.items() if any(one.kind == kind for one in run.events)}
        live = {path: run for path, run in having.items() if metric != "live_bytes" or path not in self.failed}
        return {path: _FIGURES[metric](run) for path, run in live.items()}

    def measured(self, metric: str) -> dict[str, int]:
        """A metric of the runs that did not fail."""
        return {path: figure for path, figure in self.figures(metric).items() if path not in self.failed}

    def outliers(self, metric: str) -> dict[str, tuple[int, str]]:
        """The ranks that stand out: how far they are from the median of their peers, and the first of these that has it."""
        figures = self.figures(metric)
        group = self.peers(figures)
        failed = frozenset(k for k, path in enumerate(figures) if path in self.failed)
        found = {}
        for k in plain_outliers([*figures.values()], group, _MIB, failed) if figures else ():
            peers = [path for path, other in zip(figures, group, strict=True) if other == group[k]]
            middle = median_low(figures[path] for path in peers)
            path = [*figures][k]
            found[path] = figures[path] - middle, next(one for one in peers if figures[one] == middle)
        return found

    def peers(self, figures: Mapping[str, int], least: int = _MIB) -> list[tuple[str, ...]]:
        """The group of each of some ranks."""
        chosen = self.peers_by(figures, least)
        return [tuple(self.fields[path][name] for name in chosen) for path in figures]

    def peers_by(self, figures: Mapping[str, int], least: int = _MIB) -> list[str]:
        """The fields that make groups of peers; what numbers machines does not."""
        names = [name for name in next(iter(self.fields.values())) if name != "node"]
        values = {name: [self.fields[path][name] for path in figures] for name in names}
        codes = {name: [sorted({*texts}).index(text) for text in texts] for name, texts in values.items()}
        return plain_peers([*figures.values()], codes, least) if figures else []

    def held(self, path: str) -> Counter[tuple[int, str | None]]:
        """How many blocks of each size and owner are live at the peak of a run."""
        run = self.runs[path]
        live = run.live_after(run.allocated.index(max(run.allocated)) - 1)
        return Counter((run.events[k].size, run.events[k].owner) for k in live)

    def time_of(self, path: str, stop: int | None = None) -> datetime:
        """When the last event before a place happened, or the first of all."""
        events = self.runs[path].events
        at = events[0 if stop is None else self.runs[path].before(stop) - 1].place or 0
        found = next(filter(None, (_TIME.match(self.runs[path].notes[k][1]) for k in range(at - 1, -1, -1))))
        return datetime.strptime(f"2024{found[1]}+0000", "%Y%m%d %H:%M:%S.%f%z")

    def allocs(self, path: str) -> int:
        stop = self.runs[path].failures[0].place if path in self.failed else None
        events = self.runs[path].events
        return sum(one.kind == "alloc" for one in events[: None if stop is None else self.runs[path].before(stop)])


def _numbers(path: str) -> dict[str, str]:
    found = re.findall(r"([A-Za-z]+)[._=-]?(\d+)", path)
    return {{"workerlog": "rank"}.get(word, word): number.lstrip("0") or "0" for word, number in found}


def _failed(run: RawRun) -> bool:
    """Whether hardly anything is allocated after a failure."""
    allocs = [one.place or 0 for one in run.events if one.kind == "alloc"]
    return bool(run.failures) and 100 * sum(at > run.failures[0].message for at in allocs) <= len(allocs)


# -- runs of any kind ----------------------------------------------------------------------------------------------------------


def _highest(v: Values, of: RawRuns) -> None:
    figures = of.measured(v["metric"])
    assert v["highest"] == max(figures.values())
    assert v["runs"] == len(figures) + (v["kind"] == "with_itself")
    if v["kind"] == "with_itself":
        assert {*figures} == {v["path"]}
    elif v["kind"] == "figures_range":
        assert (v["lowest"], v["apart"]) == (min(figures.values()), v["highest"] - v["lowest"])
        for name in ("highest", "lowest"):
            having = [path for path, figure in figures.items() if figure == v[name]]
            assert v[f"{name}_runs"] == len(having)
            assert v.get(f"{name}_path") == (having[0] if len(having) == 1 else None)
    else:
        assert min(figures.values()) == v["highest"]


def _against_base(v: Values, of: RawRuns) -> None:
    figures, way = of.measured(v["metric"]), v["change"]
    changes = {}
    for path in figures:
        alike = [one for one in figures if of.base == one or of.base in of.fields[one].values()]
        alike = [
            one
            for one in alike
            if all(text in (of.fields[path][name], of.base) for name, text in of.fields[one].items())
        ]
        base = of.base if of.base in of.runs else next(iter(alike), path)
        if base in figures and base != path:
            changes[path] = figures[path] - figures[base]
    moved = {path: change for path, change in changes.items() if change * way > 0}
    assert (v["changed"], v["runs"]) == (len(moved), len(changes))
    assert moved[v["path"]] == way == max(moved.values(), key=abs)


def _out_of_memory(v: Values, of: RawRuns) -> None:
    asked = {*of.failed.values()}
    assert (v["failed"], v["runs"]) == (len(of.failed), len(of.runs))
    assert v.get("requested_bytes") == (asked.pop() if len(asked) == 1 < len(of.failed) else None)
    assert (v["kind"] == "all_out_of_memory") <= (v["failed"] == v["runs"])
    named = [(one["path"], one.get("requested_bytes")) for one in v.get("named", ())]
    known = {(path, None if "requested_bytes" in v else size) for path, size in of.failed.items()}
    assert {*named} <= known
    assert "named" not in v or len(named) + v.get("more", 0) == v["failed"]
    if alike := v.get("alike"):
        values = {path: {_field(*one) for one in fields.items()} for path, fields in of.fields.items()}
        assert {path for path in of.runs if {*alike} <= values[path]} == of.failed.keys()


def _without_figures(v: Values, of: RawRuns) -> None:
    named = {one["path"] for one in v["named"]}
    assert v["count"] == len(named) + v.get("more", 0)
    assert v.get("runs", v.get("ranks")) == len(of.runs)
    if v["status"] == "missing":
        assert v["count"] == of.cells - len(of.runs)
        assert not named & of.runs.keys()
    else:
        wrong = claim_judge.is_doubtful if v["status"] == "in_doubt" else lambda run: not run.events
        found = {path for path, run in of.runs.items() if wrong(run)}
        assert named <= found
        assert v["count"] == len(found)


def _not_known(v: Values, of: RawRuns) -> None:
    """No line of their logs tells of what the figure counts."""
    unknown = of.runs.keys() - of.figures(v["metric"]).keys() - of.failed.keys()
    named = {one["path"] for one in v["named"]}
    assert named <= unknown
    assert (v["count"], v["runs"]) == (len(unknown), len(of.runs)) == (len(named) + v.get("more", 0), len(of.runs))


#: What the processes of made runs write as they die.
_DEATHS = re.compile("double free or corruption|SIG[A-Z]+")


def _runs_ended(v: Values, of: RawRuns) -> None:
    """Of one run alone the judge of single runs says so; of several the text after the last ALLOC of each, or that its last step is cut."""
    named = {one["path"] for one in v["named"]}
    endings = {path: _ending(run) for path, run in of.runs.items() if path not in of.failed}
    ended = {path: what for path, (how, what) in endings.items() if how == v["how"]}
    assert named <= ended.keys()
    assert v["count"] == len(ended) == len(named) + v.get("more", 0)
    assert v.get("runs", v.get("ranks")) == len(of.runs)
    for one in v["named"]:
        assert one.get("what", v.get("what", "")) == ended[one["path"]]
    if v["count"] == 1:
        run = of.runs[v["named"][0]["path"]]
        run.by = _STEPS
        claim_judge.JUDGES["run_ended"](v, run)


_STEPS = r"^(STEP \d+) START"


def _ending(run: RawRun) -> tuple[str, str]:
    """How a run ended, and of what."""
    last = max((one.place or 0 for one in run.events if one.kind == "alloc"), default=0)
    for place, text in run.notes:
        if place > last and "Traceback" in text:
            what = next(line for at, line in run.notes if at > place and not line.startswith(" "))
            return "exception", what.partition(":")[0]
        if place > last and (death := _DEATHS.search(text)):
            return "death", death[0]
    run.by = _STEPS
    allocs = [sum(one.kind == "alloc" for one in run.events[lo:hi]) for lo, hi in run.windows.values()]
    cut = (
        len(allocs) > 3
        and allocs[-1] < min(allocs[1:-1])
        and run.allocated[-1] > max(run.allocated[lo] for lo, _ in run.windows.values())
    )
    return ("cut", "") if cut else ("", "")


def _field(name: str, value: str) -> str:
    return f"{name} {value}" if value.isdecimal() else value


def _scales(v: Values, of: RawRuns) -> None:
    """Slopes of the runs that are alike in all fields but one, each the median of those between any two."""
    figures, field = of.measured(v["metric"]), v["field"]
    rows: dict[tuple[str, ...], dict[float, int]] = {}
    for path, figure in figures.items():
        fields = of.fields[path]
        key = tuple(text for name, text in fields.items() if name != field)
        rows.setdefault(key, {})[float(fields[field])] = figure
    others = [name for name in next(iter(of.fields.values())) if name != field]
    found: dict[str, list[tuple[str, float]]] = {}
    for key, points in rows.items():
        if len(points) >= 3:
            place = _field(v["cols"], dict(zip(others, key, strict=True))[v["cols"]]) if v["cols"] else ""
            found.setdefault(place, []).append(_slope(points))
    moves = {place: [slope for how, slope in slopes if how == "moves"] for place, slopes in found.items()}
    still = [place for place, moving in moves.items() if not moving]
    if v["kind"] == "scales":
        places = [*found] if v.get("everywhere") or not v.get("places") else v["places"]
        moving = [slope for place in places for slope in moves[place]]
        assert v["slope"] in moving
        assert any(abs(v["slope"]) == max(map(abs, moves[place])) for place in places)
        assert (len(moves[places[0]]), len(found[places[0]])) == (v["moving"], v["rows"])
        assert v["up_to"] or all(abs(v["slope"] - slope) <= 0.01 * abs(slope) for slope in moving)
        assert not {*places} & {*still}
    elif v["kind"] == "scales_not":
        assert still == [*found]
        assert v["steady"] == all(how == "flat" for slopes in found.values() for how, _ in slopes)
    else:
        assert v["places"] == still


def _slope(points: Mapping[float, int]) -> tuple[str, float]:
    pairs = [((y - b) / (x - a)) for (a, b), (x, y) in combinations(sorted(points.items()), 2)]
    slope = median(pairs)
    if not slope or abs(slope) * (max(points) - min(points)) < 0.01 * median(points.values()):
        return "flat", slope
    return "moves" if 4 * sum(one * slope > 0 for one in pairs) >= 3 * len(pairs) else "unsteady", slope


def _run_stands_out(v: Values, of: RawRuns) -> None:
    """It is so far from the median of the runs that are alike but for the number of their rank."""
    figures = of.figures(v["metric"])
    jobs = {path: [text for name, text in of.fields[path].items() if name != "rank"] for path in figures}
    peers = [figures[path] for path in figures if jobs[path] == jobs[v["path"]]]
    assert v["peers"] == len(peers)
    assert v["off"] == figures[v["path"]] - median_low(peers)


# -- the ranks of a job --------------------------------------------------------------------------------------------------------


def _spread(v: Values, of: RawRuns) -> None:
    assert v["ranks"] == len(of.runs)
    if v["kind"] == "no_spread":
        assert not any(map(of.figures, of.metrics))
        return
    figures = sorted(of.figures(v["metric"]).values())
    assert v["measured"] == len(figures)
    assert (v["min"], v["median"], v["max"]) == (figures[0], median_low(figures), figures[-1])
    assert v["apart"] == v["max"] - v["min"]


def _missing(v: Values, of: RawRuns) -> None:
    numbers = {int([*fields.values()][-1]) for fields in of.fields.values()}
    missing = [number for number in range(min(1, *numbers), max(numbers)) if number not in numbers]
    assert (v["missing"], int(v["rank"].rpartition(" ")[2])) == (len(missing), missing[0])


def _first_to_fail(v: Values, of: RawRuns) -> None:
    assert (v["failed"], v["ranks"]) == (len(of.failed), len(of.runs))
    assert v["path"] in of.failed
    when = {path: of.time_of(path, of.runs[path].failures[0].place) for path in of.failed}
    allocs = {path: of.allocs(path) for path in of.failed}
    if v["known_by"] == "only":
        assert len(of.failed) == 1
    elif v["known_by"] == "time":
        (first, at), *later = sorted(when.items(), key=lambda one: one[1])
        assert (v["path"], timedelta(microseconds=v["lead_us"])) == (first, later[0][1] - at)
        assert of.fields[later[0][0]]["rank"] == v["next_rank"].split()[-1]
        # Clocks of machines differ by a second, or by as much as their logs begin apart.
        far = {path: max(timedelta(seconds=1), abs(of.time_of(path) - of.time_of(first))) for path, _ in later}
        assert v["within_clocks"] == any(then - at < far[path] for path, then in later)
    elif v["known_by"] == "progress":
        fewest, more = sorted(allocs.values())[:2]
        assert allocs[v["path"]] == fewest == more - v["lead_allocs"]
    else:
        fewest, more = sorted(allocs.values())[:2]
        assert fewest == more or len(next(iter(of.fields.values()))) > 1
    assert v.get("lead_us", 1) > 0


def _failure(v: Values, of: RawRuns) -> None:
    (first,) = (claim["path"] for claim in of.claims if claim["kind"] == "first_to_fail")
    claim_judge.JUDGES["out_of_memory"](v, of.runs[first])


def _stand_out(v: Values, of: RawRuns) -> None:
    found = {path for metric in of.metrics for path in of.outliers(metric)}
    if v["kind"] in ("stand_out", "more_stand_out"):
        told = [claim for claim in of.claims if claim["kind"] in ("stands_out", "more_stand_out")]
        assert len(found) == sum(claim.get("ranks", claim.get("others", 0) + 1) for claim in told)
        assert v["kind"] != "stand_out" or v["ranks"] == len(found)
    else:
        assert not found
        figures = of.figures("peak_bytes")
        assert v.get("peers_by", []) == of.peers_by(figures)


def _stands_out(v: Values, of: RawRuns) -> None:
    found = of.outliers(v["metric"])
    off, usual = found[v["path"]]
    ends = v["off"], v.get("off_to", v["off"])
    assert off in ends or v.get("others")
    assert {*ends} <= {one for one, _ in found.values()}
    if "blocks" in v:
        more = of.held(v["path"])
        more.subtract(of.held(usual))
        totals = {kind: kind[0] * count for kind, count in more.items() if count > 0}
        kind = v["size_bytes"], v.get("owner")
        assert v["more_bytes"] == v["size_bytes"] * v["blocks"] == totals[kind] == max(totals.values())
        assert v["outweighs"] == (v["more_bytes"] > 1.005 * off)
        assert v["part"] == (v["more_bytes"] < 0.995 * off)


def _too_few(v: Values, of: RawRuns) -> None:
    assert v["ranks"] == len(of.figures("peak_bytes")) < 4


def _groups(v: Values, of: RawRuns) -> None:
    """Each group is some ranks beside each other, apart from all others."""
    figures = sorted(of.figures(v["metric"]).values())
    assert not of.peers_by(of.figures(v["metric"]))
    gaps = [k for k in range(1, len(figures)) if figures[k] - figures[k - 1] >= max(0.01 * median(figures), _MIB)]
    edges = [0, *gaps, len(figures)]
    for one in v["largest"]:
        assert any(
            hi - lo == one["ranks"] and median_low(figures[lo:hi]) == one["median"] for lo, hi in combinations(edges, 2)
        )
    assert sum(one["ranks"] for one in v["largest"]) <= len(figures)
    assert v["groups"] >= len(v["largest"])


def _ended_early(v: Values, of: RawRuns) -> None:
    allocs = {path: of.allocs(path) for path in of.runs}
    peers = zip(allocs, of.peers(allocs, 1), strict=True)
    alike = dict(peers)
    usual = median_low(count for path, count in allocs.items() if alike[path] == alike[v["path"]])
    assert (v["allocs"], v["median_allocs"]) == (allocs[v["path"]], usual)
    assert v["allocs"] <= 0.9 * usual
    assert v["path"] not in of.failed
    assert v["several"] == (len(v["ranks"]) > 1)


JUDGES: dict[str, Callable[[Values, RawRuns], None]] = {
    **dict.fromkeys(["figures_range", "same_figure", "one_figure", "with_itself"], _highest),
    "runs_against_base": _against_base,
    **dict.fromkeys(["all_out_of_memory", "some_out_of_memory"], _out_of_memory),
    "without_figures": _without_figures,
    "figure_not_known": _not_known,
    "runs_ended": _runs_ended,
    **dict.fromkeys(["scales", "scales_not", "scales_not_in"], _scales),
    "run_stands_out": _run_stands_out,
    **dict.fromkeys(["spread", "no_spread"], _spread),
    "ranks_without_log": _missing,
    "first_to_fail": _first_to_fail,
    "run_out_of_memory": _failure,
    **dict.fromkeys(["stand_out", "more_stand_out", "none_stands_out", "none_in_its_group"], _stand_out),
    "stands_out": _stands_out,
    "too_few_ranks": _too_few,
    "groups": _groups,
    "ended_early": _ended_early,
}


def judge(claims: Sequence[Values], of: RawRuns) -> Counter[str]:
    """Judge claims as they stand in JSON; how many of which kind."""
    of.claims = [claim for claim in claims if claim["kind"] in JUDGES]
    for claim in of.claims:
        JUDGES[claim["kind"]](claim, of)
    return Counter(claim["kind"] for claim in of.claims)
