# The public names of memlens, as type checkers see them: ``__init__.py`` loads each when it is first used.

from memlens.analyzing.analyze import analyze
from memlens.analyzing.block import BlockLife, block
from memlens.analyzing.result import Analysis, LogAnalysis, WindowAnalysis
from memlens.comparing.result import Comparison
from memlens.comparing.run import compare
from memlens.diffing.finding import Finding
from memlens.diffing.result import Diff, WindowDiff
from memlens.diffing.run import diff
from memlens.drawing.plot import PlotFigure, plot
from memlens.drawing.report import ReportPage, report
from memlens.errors import AnchorError, InputError, MemlensError, NoEventsError, OutputError, UsageError
from memlens.events import EventLog, Kind, Lifetimes
from memlens.exporting.export import Exported, export
from memlens.exporting.extract import slice_log as slice  # noqa: A004  the verb is called slice
from memlens.gating.baseline import Baseline
from memlens.gating.judging import Judged
from memlens.gating.run import accept, gate
from memlens.gating.verdict import Verdict
from memlens.inputs import read
from memlens.inputs.registry import Formats, formats
from memlens.log import Log
from memlens.recording.logs import RecordedLog, Recording
from memlens.recording.marks import mark, window
from memlens.recording.names import names
from memlens.recording.run import record
from memlens.recording.torch_history import TorchRecording, record_torch
from memlens.replaying.result import ReplayedLog, SettingTrial, WhatIf
from memlens.replaying.run import whatif
from memlens.schemas import schema
from memlens.summarizing.figures import RunWindow
from memlens.summarizing.summary import Run
from memlens.text import format_bytes, parse_bytes
from memlens.trust import Trust
from memlens.version import __version__
from memlens.watching.result import Crossing, LiveWindow, LogState, Watched
from memlens.watching.watch import watch
from memlens.windows.patterns import Anchor, Pattern
from memlens.windows.windows import Window

__all__ = [
    "Analysis",
    "Anchor",
    "AnchorError",
    "Baseline",
    "BlockLife",
    "Comparison",
    "Crossing",
    "Diff",
    "EventLog",
    "Exported",
    "Finding",
    "Formats",
    "InputError",
    "Judged",
    "Kind",
    "Lifetimes",
    "LiveWindow",
    "Log",
    "LogAnalysis",
    "LogState",
    "MemlensError",
    "NoEventsError",
    "OutputError",
    "Pattern",
    "PlotFigure",
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
    "compare",
    "diff",
    "export",
    "format_bytes",
    "formats",
    "gate",
    "mark",
    "names",
    "parse_bytes",
    "plot",
    "read",
    "record",
    "record_torch",
    "report",
    "schema",
    "slice",
    "watch",
    "whatif",
    "window",
]
