"""A verdict of the gate as JUnit XML: a test case for each gated metric of each window.

Text from a log is made visible first, as on the terminal: what XML cannot hold (controls, lone surrogates) is not in it then.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET  # only written here, never read
from typing import TYPE_CHECKING

from memlens.reports.diff_findings import finding_blocks
from memlens.reports.gate_screens import telling
from memlens.reports.gate_words import clipped, row_words
from memlens.reports.place_words import in_words_of
from memlens.reports.terminal import render as render_terminal
from memlens.reports.text import visible

if TYPE_CHECKING:
    from memlens.gating.judging import Judged
    from memlens.gating.verdict import Blame, Verdict

__all__ = ["render"]

_SUITE = "memlens gate"
#: Findings told in the text of a failure.
_FINDINGS = 3


def render(verdict: Verdict) -> str:
    """One XML document with a newline at its end."""
    rows = [row for row in verdict.windows if row.limit_bytes is not None or row.missing or row.unjudged is not None]
    counts = {
        "tests": len(rows) if not verdict.reasons else 1,
        "failures": sum(not row.ok for row in rows),
        "errors": 1 if verdict.reasons else 0,
        "skipped": sum(_skipped(row) for row in rows),
    }
    attributes = {name: str(count) for name, count in counts.items()} | {"time": "0"}
    suites = ET.Element("testsuites", {"name": _SUITE, **attributes})
    suite = ET.SubElement(suites, "testsuite", {"name": _SUITE, **attributes})
    if verdict.reasons:
        case = _case(suite, clipped(verdict.path), "verdict")
        error = ET.SubElement(case, "error", {"type": verdict.verdict, "message": visible(clipped(verdict.reasons[0]))})
        error.text = "\n".join(map(visible, verdict.reasons))
    blamed = {(blame.name, metric): blame for blame in verdict.blame for metric in blame.metrics}
    for row in rows:
        case = _case(suite, clipped(row.name), row.metric)
        if _skipped(row):
            ET.SubElement(case, "skipped", {"message": row.unjudged or row_words(row)})
        elif not row.ok:
            failure = ET.SubElement(
                case, "failure", {"type": "missing" if row.missing else "regression", "message": row_words(row)}
            )
            with in_words_of(verdict.trust.layer):
                failure.text = _told(row, blamed.get((row.name, row.metric)))
    ET.indent(suites)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(suites, encoding='unicode')}\n"


def _skipped(row: Judged) -> bool:
    return row.ok and (row.missing or row.unjudged is not None)


def _case(suite: ET.Element, window: str, metric: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": visible(window), "name": metric, "time": "0"})


def _told(row: Judged, blame: Blame | None) -> str:
    lines = [row_words(row)]
    if blame is not None:
        for finding in telling(blame)[:_FINDINGS]:
            lines += ["", render_terminal(list(finding_blocks(finding, blame.diff))).rstrip("\n")]
    return "\n".join(lines)
