"""A verdict of the gate as GitHub's workflow commands, which become annotations of the run.

A workflow command is a line of output that begins with ``::``.  So what comes from a log is escaped by GitHub's rules here, and
:func:`fenced` keeps other output from being taken for commands.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlens.reports.gate_words import accept_command, clipped, growth_words, name_list, row_words, verdict_words
from memlens.reports.text import plural, visible

if TYPE_CHECKING:
    from memlens.gating.verdict import Verdict

__all__ = ["escape_message", "escape_property", "fenced", "workflow_commands"]

#: GitHub shows so many annotations of a kind of one step.
_MOST = 10


def workflow_commands(verdict: Verdict) -> str:
    """Workflow commands, one a line: an error for each figure that fails, the worst first, a notice for what else is to know."""
    return "".join(f"{line}\n" for line in _lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    for reason in verdict.reasons[:_MOST]:
        yield _command("error", "memlens gate: not judged", reason)
    over = [row for row in verdict.failing if not row.missing]
    missing = verdict.missing if not verdict.allow_missing and verdict.verdict == "regression" else ()
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
