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
import sys
from typing import Any

from memlens.version import __version__

#: Where each public name lives; ``__init__.pyi`` says the same to type checkers.
_HOMES = {
    "memlens.analyzing.analyze": ("analyze",),
    "memlens.analyzing.result": ("Analysis", "LogAnalysis", "WindowAnalysis"),
    "memlens.analyzing.block": ("BlockLife", "block"),
    "memlens.summarizing.figures": ("RunWindow",),
    "memlens.summarizing.summary": ("Run",),
    "memlens.comparing.result": ("Comparison",),
    "memlens.comparing.run": ("compare",),
    "memlens.exporting.export": ("Exported", "export"),
    "memlens.exporting.extract": ("slice",),
    "memlens.diffing.finding": ("Finding",),
    "memlens.diffing.result": ("Diff", "WindowDiff"),
    "memlens.diffing.run": ("diff",),
    "memlens.drawing.plot": ("PlotFigure", "plot"),
    "memlens.drawing.report": ("ReportPage", "report"),
    "memlens.errors": ("AnchorError", "InputError", "MemlensError", "NoEventsError", "OutputError", "UsageError"),
    "memlens.events": ("EventLog", "Kind", "Lifetimes"),
    "memlens.gating.baseline": ("Baseline",),
    "memlens.gating.judging": ("Judged",),
    "memlens.gating.run": ("accept", "gate"),
    "memlens.gating.verdict": ("Verdict",),
    "memlens.log": ("Log",),
    "memlens.inputs": ("read",),
    "memlens.inputs.registry": ("Formats", "formats"),
    "memlens.recording.logs": ("RecordedLog", "Recording"),
    "memlens.recording.run": ("record",),
    "memlens.recording.marks": ("mark", "window"),
    "memlens.recording.names": ("names",),
    "memlens.recording.torch_history": ("TorchRecording", "record_torch"),
    "memlens.watching.result": ("Crossing", "LiveWindow", "LogState", "Watched"),
    "memlens.watching.watch": ("watch",),
    "memlens.windows.patterns": ("Anchor", "Pattern"),
    "memlens.windows.windows": ("Window",),
    "memlens.replaying.result": ("ReplayedLog", "SettingTrial", "WhatIf"),
    "memlens.replaying.run": ("whatif",),
    "memlens.schemas": ("schema",),
    "memlens.trust": ("Trust",),
    "memlens.text": ("format_bytes", "parse_bytes"),
}
#: Public names that a module cannot use itself, for they are Python's.
_OTHER_NAMES = {"slice": "slice_log"}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_MODULES)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), _OTHER_NAMES.get(name, name))
    if (keywords := sys.modules.get("memlens.options.keywords")) is not None:
        value = keywords.described(value)
    globals()[name] = value  # found at once the next time
    _show_in_notebooks()
    return value


def _show_in_notebooks() -> None:
    """Let notebooks show results, which know no reports; a program that only marks its log has none, and need not have what they need."""
    if (results := sys.modules.get("memlens.results")) is not None and results.Answered.to_html is None:
        results.Answered.to_html = _html


def _html(result: object) -> str:
    from memlens.drawing.plot import html_of

    return html_of(result)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
