"""A verdict of the gate for systems that run jobs: GitHub's workflow commands, which become annotations of the run, and JUnit XML.

A workflow command is a line of output that begins with ``::``.  So what comes from a log is escaped by GitHub's rules here, and
:func:`fenced` keeps other output from being taken for commands.  In XML, text from a log is made visible first, as on the terminal:
what XML cannot hold (controls, lone surrogates) is not in it then.
"""

from __future__ import annotations

import secrets
import xml.etree.ElementTree as ET  # only written here, never read
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlens.gating.explanation import growth_words, row_words, verdict_words
from memlens.reports.diff.findings import finding_blocks
from memlens.reports.gate import accept_command, telling
from memlens.reports.terminal import render
from memlens.text import Terms, clipped, name_list, plural, terms_of, visible

if TYPE_CHECKING:
    from memlens.gating.judging import Judged
    from memlens.gating.verdict import Blame, Verdict

__all__ = ["escape_message", "escape_property", "fenced", "junit", "workflow_commands"]

#: GitHub shows so many annotations of a kind of one step.
_MOST = 10
_SUITE = "memlens gate"
#: Findings described in the text of a failure.
_FINDINGS = 3


def workflow_commands(verdict: Verdict) -> str:
    """Workflow commands, one a line: an error for each figure that fails, the worst first, a notice for what else is to know."""
    return "".join(f"{line}\n" for line in _lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    for reason in verdict.reasons[:_MOST]:
        yield _command("error", "memlens gate: not judged", reason)
    over = [row for row in verdict.failing if not row.missing]
    missing = verdict.missing if not verdict.rules.allow_missing and verdict.verdict == "regression" else ()
    most = _MOST - bool(missing)
    shown = over if len(over) <= most else over[: most - 1]
    for row in shown:
        yield _command("error", f"memlens gate: {clipped(row.name)}", row_words(row))
    if len(over) > len(shown):
        yield _command(
            "error",
            "memlens gate",
            f"{plural(len(over) - len(shown), 'more figure')} over the limit: {verdict_words(verdict)}",
        )
    if missing:
        yield _command(
            "error", "memlens gate: missing windows", f"the log lacks {name_list(missing)}, which the base has"
        )
    if verdict.not_reached or (verdict.ok and growth_words(verdict)):
        yield _command("notice", f"memlens gate: {verdict.verdict}", verdict_words(verdict))
    if verdict.windows and verdict.new:
        yield _command("notice", "memlens gate: new windows", f"the base lacks {name_list(verdict.new)}")
    if verdict.ok and verdict.improved and (command := accept_command(verdict)):
        count = plural(len(verdict.improved), "figure is", "figures are")
        yield _command(
            "notice", "memlens gate: improved", f"{count} lower by more than the limit; to keep that: {command}"
        )


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={escape_property(visible(title))}::{escape_message(visible(message))}"


def escape_message(text: str) -> str:
    """The data of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """A property of a workflow command."""
    return escape_message(text).replace(":", "%3A").replace(",", "%2C")


def fenced(text: str) -> str:
    """The same output between two commands that make GitHub take nothing within for a command."""
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}\n{text}::{token}::\n"


def junit(verdict: Verdict) -> str:
    """JUnit XML with a newline at its end: a test case for each gated metric of each window."""
    terms = terms_of(verdict.trust.layer)
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
            why = {"type": "missing" if row.missing else "regression", "message": row_words(row)}
            ET.SubElement(case, "failure", why).text = _failure(row, blamed.get((row.name, row.metric)), terms)
    ET.indent(suites)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(suites, encoding='unicode')}\n"


def _skipped(row: Judged) -> bool:
    return row.ok and (row.missing or row.unjudged is not None)


def _case(suite: ET.Element, window: str, metric: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": visible(window), "name": metric, "time": "0"})


def _failure(row: Judged, blame: Blame | None, terms: Terms) -> str:
    lines = [row_words(row)]
    if blame is not None:
        for finding in telling(blame)[:_FINDINGS]:
            lines += ["", render(list(finding_blocks(finding, blame.diff, terms))).rstrip("\n")]
    return "\n".join(lines)
