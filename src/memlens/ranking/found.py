"""Where the logs of the ranks are, and what their paths say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_in
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.comparing.layout import refuse_fields
from memlens.comparing.templates import Template
from memlens.errors import UsageError
from memlens.inputs import expanded
from memlens.inputs.remote import is_url
from memlens.ranking.naming import fields_of
from memlens.ranking.result import Rank

if TYPE_CHECKING:
    from memlens.options import ReadAs

__all__ = ["FoundLogs", "find_logs", "template_of"]


@dataclass(frozen=True)
class FoundLogs:
    """The logs of the ranks.

    Attributes:
        paths: Their paths or URLs.
        fields: What the path of each says.
        template: The template that found them, or ``None``.
        problems: Folders that could not be looked into, in words.
    """

    paths: tuple[str, ...]
    fields: tuple[Mapping[str, str], ...]
    template: str | None = None
    problems: tuple[str, ...] = ()


def template_of(logs: Sequence[str | Path]) -> Template | None:
    """The template that stands in place of logs: one path or URL with a field in braces that is no file or folder.

    Raises:
        UsageError: A template beside something else, one that makes no sense, or a field with the name of a figure.
    """
    texts = [os.fspath(log) for log in logs]
    named = [text for text in texts if "{" in text and (is_url(text) or not os.path.exists(text))]
    if not named:
        return None
    if len(texts) > 1:
        raise UsageError("a template and other logs exclude each other", "Give the template alone, in quotes.")
    template = Template(named[0])
    refuse_fields(template.fields, {spec.name for spec in fields_in(Rank)})
    return template


def find_logs(
    logs: str | Path | Sequence[str | Path],
    how: ReadAs,
    passed_over: Callable[[str, Sequence[str]], None] | None = None,
) -> FoundLogs:
    """Find the logs of ranks.

    Args:
        logs: Paths, URLs and folders, which stand for all logs in them and in their folders; or one template.
        how: How logs are to be read.
        passed_over: Called with a folder and the files in it that are no logs.

    Raises:
        UsageError: Nothing to read, something that workers cannot open, or a log twice.
        InputError: No file matches the template.
    """
    given = [logs] if isinstance(logs, (str, os.PathLike)) else list(logs)
    if not given:
        raise UsageError("no log of a rank", "Name some, a folder, or a template: 'runs/{node}/workerlog.{rank}'.")
    if not all(isinstance(log, (str, os.PathLike)) and os.fspath(log) != "-" for log in given):
        raise UsageError("ranks are read by their paths", "Name files, URLs or folders, or a template.")
    template = template_of(given)
    if template is not None:
        found = template.find()
        files = [match for match in found if not match.problem]
        problems = tuple(match.problem for match in found if match.problem)
        return FoundLogs(tuple(one.path for one in files), tuple(one.fields for one in files), template.text, problems)
    unreadable: list[str] = []
    paths = tuple(str(log) for log in expanded(given, how, passed_over, below=unreadable.append))
    seen: set[str] = set()
    for path in paths:
        place = path if is_url(path) else os.path.abspath(path)
        if place in seen:
            raise UsageError(f"{path} is named twice", "Name each log once: its rank would be counted twice.")
        seen.add(place)
    return FoundLogs(paths, tuple(fields_of(paths)), problems=tuple(unreadable))
