"""The trust report: what a log holds, what to doubt of it, and whether the framework's own figures say the same."""

from memlens.trust.advice import SWITCH_ON, no_events_error
from memlens.trust.agreement import Disagreement
from memlens.trust.case import Doubt, Note
from memlens.trust.report import Trust, trust_of

__all__ = ["SWITCH_ON", "Disagreement", "Doubt", "Note", "Trust", "no_events_error", "trust_of"]
