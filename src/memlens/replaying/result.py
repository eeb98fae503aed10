"""Results of replays of a run under other settings: the proof, each setting tried, what none can beat; and all of it in plain types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from memlens.results import Answered, Result, Tabular
from memlens.text import format_bytes

if TYPE_CHECKING:
    from memlens.allocators.models import Values
    from memlens.results import Failure


SCHEMA = "memlens.whatif/1"


class MemoryRange(Result, frozen=True):
    """Bytes from the lowest to the highest, over all ways in which new chunks may get their addresses."""

    low_bytes: int
    high_bytes: int

    @property
    def text(self) -> str:
        """``7.59 MiB``, or ``7.59 MiB to 8.20 MiB``."""
        return " to ".join(dict.fromkeys(map(format_bytes, (self.low_bytes, self.high_bytes))))


class RefusedRequest(Result, frozen=True):
    """A request that a limit refuses.

    Attributes:
        line: Its line, 1-based; ``None`` where that is not known.
        requested_bytes: What it asks for.
        reserved_bytes: What is reserved then.
        free_bytes: What of that holds no block, in all chunks that may serve it.
        largest_free_bytes: The largest piece of it.
    """

    line: int | None
    requested_bytes: int
    reserved_bytes: int
    free_bytes: int
    largest_free_bytes: int


class ReplayProof(Result, frozen=True):
    """How far the run, replayed as it was set, comes out as recorded.

    Attributes:
        holds: All of it does: only then is anything said of other settings.
        chunks: Chunks taken from the device in the log.
        chunks_alike: Those that the replay takes at the same moment, of the same size.
        releases: Chunks given back in the log.
        releases_alike: Those that the replay gives back then.
        addresses: Blocks whose address is in the log.
        addresses_alike: Those that the replay puts there.
        line: Where the first difference is, 1-based.
        difference: What it is, in words; ``""`` where there is none.
    """

    holds: bool
    chunks: int
    chunks_alike: int
    releases: int
    releases_alike: int
    addresses: int
    addresses_alike: int
    line: int | None = None
    difference: str = ""


class SettingTrial(Result, frozen=True):
    """The run under one setting.

    Attributes:
        line: The very line to set; ``""`` where the run is replayed as it was set.
        values: What differs from how the run was set, by name.
        reserved_peak: The reserved peak without a limit.
        completes: With how much memory the run completes: with the lowest of it where addresses are kind, and from the highest on with all
            that was tried, whatever the addresses; in between it depends.  ``None`` where no limits were tried.
        within_limit: Whether it completes within the limit that was asked for: ``completes``, ``fails``, or ``depends`` on addresses;
            ``None`` without a limit.
        completing: Replays that complete within the limit, of ``replays``.
        replays: Ways in which new chunks were given their addresses.
        refused: Where it fails within the limit, in the first of the replays that do.
        taken: Chunks taken from the device without a limit, new ones where the recorded ones were: each is a call that takes its time.
        given_back: Chunks given back then.
        better: It needs less than the run as it was set, by a thousandth at least, and the ranges of the two lie apart; or the run fails within the limit as
            it was set, and with this it completes, whatever the addresses.
        since: The first release that has all that it sets, ``PaddlePaddle 3.3``; ``""`` where all that are modelled have it.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        "line", "values", "as_run=own", "reserved_peak", "completes", "within_limit", "completing", "replays",
        "refused", "taken", "given_back", "better", "since",
    )  # fmt: skip

    line: str
    values: Values
    reserved_peak: MemoryRange
    completes: MemoryRange | None = None
    within_limit: str | None = None
    completing: int = 0
    replays: int = 0
    refused: RefusedRequest | None = None
    taken: int = 0
    given_back: int = 0
    better: bool = False
    since: str = ""

    @property
    def own(self) -> bool:
        """Whether it is the run as it was set."""
        return not self.line

    @property
    def needs(self) -> MemoryRange:
        """With how much memory the run completes, as far as that was tried: its reserved peak is enough in any case."""
        return self.completes or self.reserved_peak


class ReplayedLog(Answered, frozen=True, eq=False):
    """The run of one log, or of one device of it.

    Attributes:
        path: The input as it was named, with its device where it has several.
        layer: The layer or the format that its events come from.
        model: The model of its allocator.
        settings: How the run was set, as far as its input or the user says, where that is not the default.
        proof: How the replay of the run as it was set compares with its log.
        limit_bytes: The limit that settings are held against; ``None`` for none.
        cut_short: Its input ends early: what the run did later is not known.
        limit_from: Where that comes from: ``given``; ``allowed``: what the log says that the run might have of the device; or ``log``: as much the run had
            reserved as the device refused more.
        limit_most_bytes: The most that it may have been: with what the device said was free; of a log that does not tell that, less than what it had
            reserved together with the chunk that was refused; else the limit.
        device_free_bytes: What the device said was free when it refused more; ``None`` where the log does not say it, or nothing was.
        refused: The run itself ran out of memory.
        refused_line: The line on which it did, 1-based; ``None`` where it did not, and where lines are not known.
        opening_reserved_bytes: What is reserved before the log begins, under all settings: with less memory than that none is tried.
        live_peak_bytes: The most bytes live at once, rounded as the allocator rounds them: no setting needs less.
        trials: The settings tried, best first.
        left_out: Settings that there are and that were not tried, for they are too many.
        has_lines: Its input consists of lines, and not of entries.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        "path", "verdict", "claims", "model", "settings", "proof", "cut_short", "limit_bytes", "limit_from", "limit_most_bytes",
        "device_free_bytes",
        "refused", "refused_line", "opening_reserved_bytes", "live_peak_bytes", "trials", "left_out",
    )  # fmt: skip

    path: str
    layer: str
    model: str
    settings: Values
    proof: ReplayProof
    limit_bytes: int | None = None
    cut_short: bool = False
    limit_from: str = ""
    limit_most_bytes: int | None = None
    device_free_bytes: int | None = None
    refused: bool = False
    refused_line: int | None = None
    opening_reserved_bytes: int = 0
    live_peak_bytes: int | None = None
    trials: tuple[SettingTrial, ...] = ()
    left_out: int = 0
    has_lines: bool = True

    @property
    def own(self) -> SettingTrial | None:
        """The run as it was set."""
        return next((one for one in self.trials if one.own), None)

    @property
    def beyond_bytes(self) -> int:
        """Bytes live at once beyond all that the limit may have been: then no setting can help; 0 where it is not."""
        return 0 if self.limit_most_bytes is None else max((self.live_peak_bytes or 0) - self.limit_most_bytes, 0)

    @property
    def best(self) -> SettingTrial | None:
        """The best setting that is better than how the run was set, and within the limit, if there is one; ``None`` where none is."""
        return next((one for one in self.trials if one.better and one.within_limit in (None, "completes")), None)

    @property
    def remedies(self) -> tuple[SettingTrial, ...]:
        """The settings with which the run surely completes within the limit, and did not as it was set; best first."""
        sure = self.own is not None and self.own.within_limit == "depends"
        completing = (one for one in self.trials if one.within_limit == "completes" and not one.own)
        return tuple(one for one in completing if one.better or sure)

    def without_more_chunks(self, best: SettingTrial) -> SettingTrial | None:
        """Where the best setting takes more chunks than the run as it was set: the best one that is better, too, and does not; ``None`` where there is none."""
        own = self.own
        if own is None or best.taken <= own.taken:
            return None
        good = (one for one in self.trials if one.better and one.within_limit == best.within_limit)
        return next((one for one in good if one.taken <= own.taken), None)


class WhatIf(Tabular, frozen=True, eq=False):
    """A run under other settings of its allocator.

    Attributes:
        logs: One for each device.
        failures: Devices whose run cannot be replayed, and why.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = ("schema", "verdict", "claims", "logs", "failures")

    logs: tuple[ReplayedLog, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether each device could be replayed, and each replay is as recorded."""
        return not self.failures and all(log.proof.holds for log in self.logs)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a setting, best first: its log, the line to set, and its figures."""
        return [_row(log, trial) for log in self.logs for trial in log.trials]


def _row(log: ReplayedLog, trial: SettingTrial) -> dict[str, Any]:
    row: dict[str, Any] = {"path": log.path, "line": trial.line, "as_run": trial.own}
    for name, found in (("reserved_peak", trial.reserved_peak), ("completes", trial.completes)):
        row[f"{name}_low_bytes"] = None if found is None else found.low_bytes
        row[f"{name}_high_bytes"] = None if found is None else found.high_bytes
    refused = trial.refused
    row |= {
        "within_limit": trial.within_limit,
        "completing": trial.completing,
        "replays": trial.replays,
        "refused_line": None if refused is None else refused.line,
        "requested_bytes": None if refused is None else refused.requested_bytes,
        "free_bytes": None if refused is None else refused.free_bytes,
        "largest_free_bytes": None if refused is None else refused.largest_free_bytes,
    }
    row |= {"taken": trial.taken, "given_back": trial.given_back}
    return row | {"better": trial.better, "limit_bytes": log.limit_bytes, "live_peak_bytes": log.live_peak_bytes}
