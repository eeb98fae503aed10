"""The options of all verbs: what to read, where to cut, what to compare and to judge; declared and documented once.

A class has the options of one verb, and inherits those that verbs share.  They are the keyword arguments of the verb's Python function
and the options of its command (:mod:`memlens.options.keywords`), and an object of the class is what the verb is handed.
"""

from memlens.options.parts import Cut, OneWindow, Read, ReadAs, Spread, as_list
from memlens.options.verbs import (
    Accept,
    Analyze,
    Block,
    Compare,
    Diff,
    Export,
    Gate,
    Plot,
    Record,
    Report,
    Slice,
    TryOut,
    Watch,
)

__all__ = [
    "Accept",
    "Analyze",
    "Block",
    "Compare",
    "Cut",
    "Diff",
    "Export",
    "Gate",
    "OneWindow",
    "Plot",
    "Read",
    "ReadAs",
    "Record",
    "Report",
    "Slice",
    "Spread",
    "TryOut",
    "Watch",
    "as_list",
]
