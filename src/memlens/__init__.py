r"""memlens reads the allocator log of a deep-learning run and says where the memory went.

>>> import memlens
>>> log = memlens.read("train.log")                           # doctest: +SKIP
>>> log.trust.ok                                              # doctest: +SKIP
True
>>> memlens.analyze("train.log", by=r"START (SOT_CALL_\d+)").to_pandas()   # doctest: +SKIP

Every verb of the command line has a twin here with the same words.  Names are loaded when they are first used, so that
``import memlens`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlens.analyzing.analyze import Analysis, LogAnalysis, WindowAnalysis, analyze
    from memlens.analyzing.block import BlockLife, block
    from memlens.comparing.result import Comparison, Run, RunWindow
    from memlens.comparing.run import compare
    from memlens.diffing.result import Diff, Finding, WindowDiff
    from memlens.diffing.run import diff
    from memlens.drawing.plot import PlotFigure, plot
    from memlens.drawing.report import ReportPage, report
    from memlens.errors import AnchorError, InputError, MemlensError, NoEventsError, OutputError, UsageError
    from memlens.events import EventLog, Kind
    from memlens.exporting.export import Exported, export
    from memlens.extract import slice_log as slice  # noqa: A004  the verb is called slice
    from memlens.gating.baseline import Baseline
    from memlens.gating.judging import Judged
    from memlens.gating.run import accept, gate
    from memlens.gating.verdict import Verdict
    from memlens.inputs import read
    from memlens.inputs.registry import Formats, formats
    from memlens.lifetimes import Lifetimes
    from memlens.ranking.result import Rank, Ranking, RankOutlier
    from memlens.ranking.run import ranks
    from memlens.recording.marks import mark, window
    from memlens.recording.result import RecordedLog, Recording
    from memlens.recording.run import record
    from memlens.recording.torch_history import TorchRecording, record_torch
    from memlens.replaying.result import ReplayedLog, SettingTrial, WhatIf
    from memlens.replaying.run import whatif
    from memlens.trust import Trust
    from memlens.units import format_bytes, parse_bytes
    from memlens.watching.crossings import Crossing
    from memlens.watching.state import LiveWindow, LogState
    from memlens.watching.watch import Watched, watch
    from memlens.windows.patterns import Anchor, Pattern
    from memlens.windows.windows import Window

__all__ = [
    "Analysis",
    "Anchor",
    "AnchorError",
    "Baseline",
    "BlockLife",
    "CacheListing",
    "Comparison",
    "Crossing",
    "Diff",
    "EventLog",
    "Exported",
    "Finding",
    "Formats",
    "InputError",
    "Judged",
    "KeptLog",
    "Kind",
    "Lifetimes",
    "LiveWindow",
    "LogAnalysis",
    "LogState",
    "MemlensError",
    "MemlensWarning",
    "NoEventsError",
    "OutputError",
    "Pattern",
    "PlotFigure",
    "Rank",
    "RankOutlier",
    "Ranking",
    "RecordedLog",
    "Recording",
    "ReplayedLog",
    "ReportPage",
    "Run",
    "RunWindow",
    "SettingTrial",
    "TorchRecording",
    "Trust",
    "UsageError",
    "Verdict",
    "Watched",
    "WhatIf",
    "Window",
    "WindowAnalysis",
    "WindowDiff",
    "__version__",
    "accept",
    "analyze",
    "block",
    "cache",
    "compare",
    "diff",
    "export",
    "format_bytes",
    "formats",
    "gate",
    "mark",
    "parse_bytes",
    "plot",
    "ranks",
    "read",
    "record",
    "record_torch",
    "report",
    "slice",
    "watch",
    "whatif",
    "window",
]

__version__ = "0.1.0"

#: Where each public name lives; the imports above say the same to type checkers.
_HOMES = {
    "memlens.analyzing.analyze": ("Analysis", "LogAnalysis", "WindowAnalysis", "analyze"),
    "memlens.analyzing.block": ("BlockLife", "block"),
    "memlens.caching.listing": ("CacheListing", "KeptLog", "cache"),
    "memlens.comparing.result": ("Comparison", "Run", "RunWindow"),
    "memlens.comparing.run": ("compare",),
    "memlens.exporting.export": ("Exported", "export"),
    "memlens.extract": ("slice",),
    "memlens.diffing.result": ("Diff", "Finding", "WindowDiff"),
    "memlens.diffing.run": ("diff",),
    "memlens.drawing.plot": ("PlotFigure", "plot"),
    "memlens.drawing.report": ("ReportPage", "report"),
    "memlens.errors": (
        "AnchorError",
        "InputError",
        "MemlensError",
        "MemlensWarning",
        "NoEventsError",
        "OutputError",
        "UsageError",
    ),
    "memlens.events": ("EventLog", "Kind"),
    "memlens.gating.baseline": ("Baseline",),
    "memlens.gating.judging": ("Judged",),
    "memlens.gating.run": ("accept", "gate"),
    "memlens.gating.verdict": ("Verdict",),
    "memlens.lifetimes": ("Lifetimes",),
    "memlens.inputs": ("read",),
    "memlens.inputs.registry": ("Formats", "formats"),
    "memlens.ranking.result": ("Rank", "RankOutlier", "Ranking"),
    "memlens.ranking.run": ("ranks",),
    "memlens.recording.result": ("RecordedLog", "Recording"),
    "memlens.recording.run": ("record",),
    "memlens.recording.marks": ("mark", "window"),
    "memlens.recording.torch_history": ("TorchRecording", "record_torch"),
    "memlens.watching.crossings": ("Crossing",),
    "memlens.watching.state": ("LiveWindow", "LogState"),
    "memlens.watching.watch": ("Watched", "watch"),
    "memlens.windows.windows": ("Anchor", "Pattern", "Window"),
    "memlens.replaying.result": ("ReplayedLog", "SettingTrial", "WhatIf"),
    "memlens.replaying.run": ("whatif",),
    "memlens.trust": ("Trust",),
    "memlens.units": ("format_bytes", "parse_bytes"),
}
#: Public names that a module cannot use itself, for they are Python's.
_OTHER_NAMES = {"slice": "slice_log"}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), _OTHER_NAMES.get(name, name))
    globals()[name] = value  # found at once the next time
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
