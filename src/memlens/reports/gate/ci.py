"""A verdict of the gate for systems that run jobs: GitHub's workflow commands, and JUnit XML.

Workflow commands become annotations of the run; such a command is a line of output that begins with ``::``.  So what comes from a log is escaped by GitHub's
rules here, and :func:`fenced` keeps other output from being taken for commands.  In XML, text from a log is made visible first, as on the
terminal: what XML cannot hold (controls, lone surrogates) is not in it then.
"""

from __future__ import annotations

import secrets
import xml.etree.ElementTree as ET  # only written here, never read
from typing import TYPE_CHECKING

from memlens.claims.claim import joined
from memlens.gating.verdict import Blame, Verdict, claim_of, counted
from memlens.reports.diff.findings import effects_of, finding_blocks
from memlens.reports.gate import accept_command, telling
from memlens.reports.terminal import render
from memlens.text import Terms, clipped, name_list, own_line, plural, terms_of, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memlens.gating.judging import Judged


#: GitHub shows so many annotations of a kind of one step.
_MOST = 10
#: Claims that are to know whatever fails.
_TO_KNOW = {"ends_earlier", "grows", "figures_unjudged", "reserved_not_judged", "peak_may_be_higher"}
#: What titles and the suite are called.
_GATE = "memlens gate"
#: Findings described in the text of a failure.
_FINDINGS = 3


def workflow_commands(verdict: Verdict, path_of: Callable[[str], str | None] = lambda _: None) -> str:
    """Workflow commands, one a line: an error for each figure that fails, the worst first, a notice for what else is to know.

    Errors stand at the line of the program that allocates what they tell of, where ``path_of`` knows its file in the repository.
    """
    return "".join(f"{line}\n" for line in _lines(verdict, path_of))


def _lines(verdict: Verdict, path_of: Callable[[str], str | None]) -> Iterator[str]:
    for reason in verdict.reasons[:_MOST]:
        yield _command("error", f"{_GATE}: not judged", reason)
    over = [row for row in verdict.failing if not row.missing]
    missing = verdict.missing if not verdict.allow_missing and verdict.verdict == "regression" else ()
    most = _MOST - bool(missing)
    shown = over if len(over) <= most else over[: most - 1]
    for row in shown:
        file, line = own_line(_owner(verdict, row)) or ("", 0)
        where = f"file={escape_property(path)},line={line}," if file and (path := path_of(file)) else ""
        yield _command("error", f"{_GATE}: {clipped(row.name)}", claim_of(row).text, where)
    if len(over) > len(shown):
        text = f"{plural(len(over) - len(shown), 'more figure')} over the limit: {joined(counted(verdict))}"
        yield _command("error", _GATE, text)
    if missing:
        text = f"the log lacks {name_list(missing)}, which the base has"
        yield _command("error", f"{_GATE}: missing windows", text)
    if verdict.verdict != "unjudged" and any(claim.kind in _TO_KNOW for claim in verdict.claims):
        yield _command("notice", f"{_GATE}: {verdict.verdict}", verdict.explanation)
    if verdict.ok and verdict.improved and (command := accept_command(verdict)):
        lower = plural(len(verdict.improved), "figure is", "figures are")
        text = f"{lower} lower by more than the limit; to keep that: {command}"
        yield _command("notice", f"{_GATE}: improved", text)


def _owner(verdict: Verdict, row: Judged) -> str:
    """Who allocates most of what a figure fails by, as far as that is known."""
    if row.metric == "growth" and verdict.growth is not None and (most := verdict.growth.most) is not None:
        return most.owner or ""
    blame = _blamed(verdict).get((row.name, row.metric))
    return next((finding.owner for finding in telling(blame) if finding.owner), "") if blame is not None else ""


def _blamed(verdict: Verdict) -> dict[tuple[str, str], Blame]:
    """What figures that fail are blamed on, by window and metric."""
    return {(blame.name, metric): blame for blame in verdict.blame for metric in blame.metrics}


def _command(kind: str, title: str, message: str, where: str = "") -> str:
    return f"::{kind} {where}title={escape_property(visible(title))}::{escape_message(visible(message))}"


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
    terms = terms_of(verdict.trust.has_lines)
    rows = verdict.windows
    counts = {
        "tests": len(rows) + bool(verdict.reasons),
        "failures": sum(not row.ok for row in rows),
        "errors": 1 if verdict.reasons else 0,
        "skipped": sum(_skipped(row) for row in rows),
    }
    attributes = {name: str(count) for name, count in counts.items()} | {"time": "0"}
    suites = ET.Element("testsuites", {"name": _GATE, **attributes})
    suite = ET.SubElement(suites, "testsuite", {"name": _GATE, **attributes})
    if verdict.reasons:
        case = _case(suite, clipped(verdict.path), "verdict")
        error = ET.SubElement(case, "error", {"type": verdict.verdict, "message": visible(clipped(verdict.reasons[0]))})
        error.text = "\n".join(map(visible, verdict.reasons))
    blamed = _blamed(verdict)
    for row in rows:
        case = _case(suite, clipped(row.name), row.metric)
        if _skipped(row):
            ET.SubElement(case, "skipped", {"message": row.unjudged or claim_of(row).text})
        elif not row.ok:
            why = {"type": "missing" if row.missing else "regression", "message": claim_of(row).text}
            ET.SubElement(case, "failure", why).text = _failure(row, blamed.get((row.name, row.metric)), terms)
    ET.indent(suites)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(suites, encoding='unicode')}\n"


def _skipped(row: Judged) -> bool:
    return row.ok and (row.missing or row.unjudged is not None)


def _case(suite: ET.Element, window: str, metric: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": visible(window), "name": metric, "time": "0"})


def _failure(row: Judged, blame: Blame | None, terms: Terms) -> str:
    lines = [claim_of(row).text]
    if blame is not None:
        for finding in telling(blame)[:_FINDINGS]:
            lines += ["", render(list(finding_blocks(finding, effects_of(blame.diff), terms))).rstrip("\n")]
    return "\n".join(lines)
