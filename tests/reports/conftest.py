"""Hand-made results: what reports show is tested without any log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from answers import HOSTILE, LONG, fake_trust, with_answer

from memlens.analyzers.peak import LiveGroup, Peak, Remaining
from memlens.analyzers.series.growth import Growth, Pile
from memlens.analyzers.stats import Stats
from memlens.analyzers.unmatched import HeldGroup, Unmatched
from memlens.analyzing.result import Analysis, LogAnalysis, WindowAnalysis
from memlens.results import Failure
from memlens.trust import Trust

BLOCK = 3_538_944  # the tensor of case 1: 3.375 MiB
REST = 23_889_664 - 2 * BLOCK - 2048  # so that what is live at the peak adds up to it


@dataclass(frozen=True)
class Remark:
    code: str
    message: str
    hint: str = ""
    line: int | None = None


class Make:
    """Makes results whose figures follow from a few numbers by hand arithmetic."""

    HOSTILE = HOSTILE
    LONG = LONG
    BLOCK = BLOCK

    def trust(self, **values: Any) -> Trust:
        usual = "ok: 4 events in 300 lines (27.60 KiB); every FREE has its ALLOC"
        return fake_trust(**{"summary_text": usual, **values})

    def doubtful(self) -> Trust:
        doubt = Remark(
            "torn_lines", f"2 lines are torn, the first in line 12: {HOSTILE}", "Give every process its own file."
        )
        note = Remark("out_of_memory", "the run met 1 out-of-memory failure, first in line 250.")
        return self.trust(
            ok=False, doubts=(doubt,), notes=(note,), summary_text="doubtful: torn lines; 4 events in 300 lines"
        )

    def case1(self, name: str = "SOT_CALL_0", **changes: Any) -> WindowAnalysis:
        """Case 1's small subgraph as PIR runs it: three blocks allocated, one freed."""
        results = {
            "remaining": Remaining(2 * BLOCK, 23_889_664, 23_889_664 + 2 * BLOCK),
            "peak": Peak(
                23_889_664 + 3 * BLOCK,
                3 * BLOCK,
                34_506_496,
                event=35,
                line=69,
                live=(LiveGroup(BLOCK, 5, 5 * BLOCK), LiveGroup(REST, 1, REST), LiveGroup(512, 4, 2048)),
            ),
            "stats": Stats(3 * BLOCK, 3, BLOCK, 1, 3 * BLOCK, 3, 0, 0, BLOCK, BLOCK, 3 * BLOCK, 3 * BLOCK, 3, 116),
            "unmatched": Unmatched(
                *(2, 2 * BLOCK, 0, 0, 23_889_664, 0, 0, 0, 0, 0, 0, 0),
                held=(
                    HeldGroup(BLOCK, 1, BLOCK, "never", None, 33, 58, None, None),
                    HeldGroup(BLOCK, 1, BLOCK, "later", None, 34, 64, 60, 150),
                ),
            ),
        }
        values: dict[str, Any] = {"peak_time_us": 16_538_542_212_401, "duration_us": 116, **changes}
        return WindowAnalysis(name, 52, 75, 7, results, **values)

    def opening(self) -> LogAnalysis:
        """A snapshot whose level falls: five blocks from before it, of which it frees two; it holds one block of its own."""
        results = {
            "remaining": Remaining(-BLOCK, 5 * BLOCK, 4 * BLOCK),
            "peak": Peak(5 * BLOCK, 0, 6 * BLOCK, None, live=(LiveGroup(BLOCK, 5, 5 * BLOCK, "(before the input)"),)),
            "stats": Stats(BLOCK, 1, 2 * BLOCK, 2, 0, 0, 0, 0, BLOCK, BLOCK),
            "unmatched": Unmatched(
                *(1, BLOCK, 3, 3 * BLOCK, 0, 2, 2 * BLOCK, 0, 0, 0, 0, 0),
                held=(HeldGroup(BLOCK, 1, BLOCK, "never", "train.py:7 step", 7, 3, None, None),),
                opening=(HeldGroup(BLOCK, 3, 3 * BLOCK, "never", "(before the input)", 0, None, None, None),),
            ),
        }
        window = WindowAnalysis("(whole log)", 1, 3, 3, results, whole=True)
        remark = "Nothing that is recorded rises above what was live before the first event."
        return self.log(window, path="ring.pickle", remarks=(remark,))

    def window(self, name: str, number: int, *, open_end: bool = False) -> WindowAnalysis:
        """A window of a series: ``number`` MiB remain, the rise is twice that."""
        left = number << 20
        results = {
            "remaining": Remaining(left, 10 * left, 11 * left),
            "peak": Peak(12 * left, 2 * left, 13 * left, event=number, line=10 * number),
            "stats": Stats(
                3 * left, 1000 * number, 2 * left, 999 * number, 0, 0, 0, 0, left, left, duration_us=number * 61_000_000
            ),
        }
        return WindowAnalysis(
            name, 10 * number, 10 * number + 9, 1999 * number, results, open_end, duration_us=number * 61_000_000
        )

    def growth(self) -> Growth:
        return Growth(
            *(31, 30, (0,) * 31, 14_848, 512.0, "growing", "STEP_2", 1, 0, "STEP_31"),
            growing_windows=29,
            piling=(Pile(512, 29, 14_848, None, 29, 512.0),),
        )

    def log(self, *windows: WindowAnalysis, path: str = "run.log", **values: Any) -> LogAnalysis:
        return with_answer(LogAnalysis(path, values.pop("trust", self.trust()), windows, **values))

    def series(self, count: int = 25, *, open_end: bool = False, **values: Any) -> LogAnalysis:
        names = {3: HOSTILE, 4: LONG}
        windows = [
            self.window(names.get(number, f"STEP_{number}"), number, open_end=open_end and number == count)
            for number in range(1, count + 1)
        ]
        return self.log(*windows, growth=self.growth(), by=r"(STEP_\d+)", **values)

    def analysis(self, *logs: LogAnalysis, failures: tuple[Failure, ...] = (), **values: Any) -> Analysis:
        return with_answer(Analysis(logs, failures, **values))


@pytest.fixture
def make() -> Make:
    return Make()
