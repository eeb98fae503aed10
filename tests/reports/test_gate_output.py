"""A verdict for machines and services: JSON, JUnit, GitHub, and Markdown that always fits into a comment."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any, cast

import made_diffs as made
import made_verdicts as verdicts
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from night import some
from texts import json_of

from memlens.gating.verdict import Verdict
from memlens.reports.gate import LARGEST, comment
from memlens.reports.gate.ci import escape_message, escape_property, fenced, junit, workflow_commands

any_text = st.text(st.characters(codec=None), max_size=60)


def named(name: str, count: int = 3, **changes: Any) -> Verdict:
    """A verdict whose windows and files bear such a name."""
    return verdicts.many(count, f"{name.replace('{', '').replace('}', '')}{{}}", path=name, base=name, **changes)


# --- JSON and CSV ---


def test_json_holds_the_names_of_the_contract_and_exact_bytes() -> None:
    text = json_of(cast("Any", verdicts.failing()))
    values = json.loads(text)
    assert (values["schema"], values["verdict"]) == ("memlens.gate/2", "regression")
    first = values["windows"][0]
    assert [first[key] for key in ("name", "metric", "base_bytes", "head_bytes", "limit_bytes", "ok")] == [
        "SOT_CALL_0", "remaining", made.BLOCK, 2 * made.BLOCK, made.BLOCK + (1 << 20), False
    ]  # fmt: skip
    assert values["limits"] == {
        name: {"percent": "2", "absolute_bytes": floor}
        for name, floor in (("peak", 64 << 10), ("remaining", 1 << 20), ("growth", 64 << 10))
    }
    assert values["blame"][0]["metrics"] == ["remaining"]
    assert values["blame"][0]["findings"][0]["kind"] == "missing_free"


@pytest.mark.parametrize("make", verdicts.EVERY.values(), ids=verdicts.EVERY)
def test_json_is_ascii_and_finite(make: Any) -> None:
    text = json_of(make())
    assert text.isascii()
    assert not re.search(r"\b(NaN|Infinity)\b", text)
    assert {row["ok"] for row in json.loads(text)["windows"]} <= {True, False}


# --- JUnit ---


def cases(verdict: Verdict) -> list[Any]:
    found = JUnitXml.fromstring(junit(verdict).encode())
    return [case for suite in found for case in suite]


def test_junit_has_a_case_for_each_gated_figure_and_a_failure_with_its_finding() -> None:
    report = JUnitXml.fromstring(junit(verdicts.failing()).encode())
    # Peak and remaining of three windows and of the run, and growth, which cannot be told of three.
    assert (report.tests, report.failures, report.errors, report.skipped) == (8, 2, 0, 1)
    found = {(case.classname, case.name): case for case in cases(verdicts.failing())}
    assert len(found) == 8
    (failure,) = found["SOT_CALL_0", "remaining"].result
    assert isinstance(failure, Failure)
    assert failure.message.startswith("remaining went from 3.38 MiB to 6.75 MiB")
    assert "Missing free: 3.38 MiB (3538944 B)" in failure.text
    assert not found["SOT_CALL_0", "peak"].result
    assert [type(result) for result in found["(whole log)", "growth"].result] == [Skipped]


@given(any_text, any_text)
def test_any_text_of_a_log_is_sound_xml(name: str, line: str) -> None:
    verdict = named(name, blame=())
    blamed = verdicts.failing(notes=(line,), path=line)
    for one in (verdict, blamed, verdicts.hostile()):
        text = junit(one).encode()
        assert len(list(ET.fromstring(text).iter("testcase"))) == len(cases(one)) > 0


# --- GitHub ---


def test_what_is_special_in_a_workflow_command_is_escaped() -> None:
    assert escape_message("100%: a,b\r\nc") == "100%25: a,b%0D%0Ac"
    assert escape_property("100%: a,b\r\nc") == "100%25%3A a%2Cb%0D%0Ac"
    # The escape of an escape is the text again, whatever it holds.
    assert escape_message("%0A") == "%250A"


COMMAND = re.compile(r"::(error|notice) (?:file=[^:,\r\n]*,line=\d+,)?title=([^:,\r\n]*)::([^\r\n]*)")


def titles(text: str) -> list[str]:
    matches = [COMMAND.fullmatch(line) for line in text.splitlines()]
    return [match[2] if match else "no command" for match in matches]


def test_each_failing_figure_is_an_error_and_the_worst_comes_first() -> None:
    lines = workflow_commands(verdicts.failing()).splitlines()
    failing = titles(workflow_commands(verdicts.failing()))
    # Growth of three windows is not judged.
    assert failing == ["memlens gate%3A SOT_CALL_0", "memlens gate%3A (whole log)", "memlens gate%3A regression"]
    assert "(+100.00%25)" in lines[0]
    assert workflow_commands(verdicts.unjudged()).startswith("::error title=memlens gate%3A not judged::")
    assert [line.split()[0] for line in workflow_commands(verdicts.passing()).splitlines()] == ["::notice"]
    assert "--accept" in workflow_commands(verdicts.improved())
    for verdict in (verdicts.shorter(), verdicts.growing(), verdicts.passing()):
        notice = workflow_commands(verdict).splitlines()[-1]
        assert notice == f"::notice title=memlens gate%3A {verdict.verdict}::{escape_message(verdict.explanation)}"


@given(any_text)
def test_no_text_of_a_log_makes_a_command_of_its_own(name: str) -> None:
    for line in workflow_commands(named(name), lambda file: file).split("\n")[:-1]:
        assert COMMAND.fullmatch(line)


def test_other_output_is_fenced_with_a_word_that_nobody_can_guess() -> None:
    first, second = fenced("::error::owned\n"), fenced("::error::owned\n")
    assert first != second
    stop, text, start, end = first.split("\n")
    assert (text, end) == ("::error::owned", "")
    token = stop.removeprefix("::stop-commands::")
    assert start == f"::{token}::"
    assert len(token) == 32


# --- Markdown ---


@pytest.mark.parametrize(
    "character", some(["|", "`", "\x00", "\U0010ffff", "\u0301", "a", "\u4e2d", "<", "@x", "\u202e", "\ud800"])
)
@pytest.mark.parametrize(("length", "windows", "notes"), [(100, 200, 50), (100_000, 20, 5)])
def test_no_name_makes_a_comment_too_long(character: str, length: int, windows: int, notes: int) -> None:
    text = comment(named(character * length, windows, notes=(character * length,) * notes))
    assert len(text.encode()) < LARGEST
    assert "regression" in text


@given(any_text)
def test_a_comment_keeps_its_table(name: str) -> None:
    text = comment(named(name, 2, blame=()))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| remaining | 50" in line]
    assert len(rows) == 2
    # Cells end at bare pipes only.
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {8}


def test_junit_tells_what_is_missing_or_not_judged() -> None:
    failed = [case for case in cases(verdicts.missing()) if [type(result) for result in case.result] == [Failure]]
    assert {case.classname for case in failed} == {"EVAL_1", "EVAL_2"}
    (case,) = cases(verdicts.unjudged())
    assert [type(result) for result in case.result] == [Error]
    assert "several processes" in case.result[0].message
