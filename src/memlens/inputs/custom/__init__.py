"""Formats that users describe in TOML, and where they are looked for.

``[[tool.memlens.format]]`` in the nearest ``pyproject.toml``, or ``[[format]]`` in a file of their own.  Several tables of one name are
several kinds of lines of one format.  docs/formats.md has all keys.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlens.errors import UsageError
from memlens.inputs.input_format import InputFormat, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


_NAME = r"[a-z0-9][a-z0-9_.-]*\Z"
_MOST_BYTES = 1 << 22
_MOST_KINDS = 50


def user_formats(
    path: str | Path | None = None, taken: Callable[[], Collection[str]] = frozenset
) -> tuple[InputFormat, ...]:
    """The formats of users, in the order of their file.

    Args:
        path: A TOML file; ``None``: the nearest ``pyproject.toml`` upward from the working directory.
        taken: Says which names they may not have.

    Raises:
        UsageError: The file cannot be read, or a format in it is not sound; the message names the file, the format and the sample.
    """
    where = formats_file(path)
    if where is None:
        return ()
    try:
        with open(where, "rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        if path is None:  # nobody asked for it
            return ()
        raise UsageError(f"{where}: cannot be read: {error.strerror}", "--formats takes a TOML file.") from None
    if path is None and (len(text) > _MOST_BYTES or b"memlens" not in text):  # the usual case, at no cost
        return ()
    if len(text) > _MOST_BYTES:
        raise UsageError(f"{where}: is too large for a file of formats", "--formats takes a small TOML file.")
    found = _formats(where, text, own=path is not None)
    for form in found:
        if form.name in taken():
            raise _no_name(where, form.name)
    return found


def formats_file(path: str | Path | None = None) -> str | None:
    """The file that formats of users are read from: the one named, or the nearest ``pyproject.toml``, or ``None``."""
    if path is not None:
        return os.fspath(path)
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return None
    nearest = (folder / "pyproject.toml" for folder in (here, *here.parents))
    return next((str(found) for found in nearest if os.path.isfile(found)), None)


@lru_cache(maxsize=8)
def _formats(where: str, text: bytes, *, own: bool) -> tuple[InputFormat, ...]:
    """The formats that stand in a file."""
    import tomllib

    try:
        content: Any = tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of TOML, or of UTF-8
        raise UsageError(f"{where}: is no TOML: {error}", "Repair it: memlens looks for formats in it.") from None
    tables: Any = []
    if own and "format" in content:
        tables = content["format"]
    elif isinstance(tool := content.get("tool"), dict) and isinstance(memlens := tool.get("memlens"), dict):
        tables = memlens.get("format", [])
    if not isinstance(tables, list):
        raise UsageError(f"{where}: format is no list of tables", "Write [[format]] with two brackets on each side.")
    if own and not tables:
        raise UsageError(f"{where}: there is no format in it", "Write a table [[format]]; docs/formats.md shows one.")
    named: dict[str, list[Mapping[str, Any]]] = {}
    for number, table in enumerate(tables, 1):
        if not isinstance(table, dict) or not isinstance(table.get("name"), str):
            raise UsageError(f"{where}: format number {number} has no name", 'Write name = "…" in its table.')
        named.setdefault(table["name"], []).append(table)
    return tuple(_format(where, name, parts) for name, parts in named.items())


def _format(where: str, name: str, tables: Sequence[Mapping[str, Any]]) -> InputFormat:
    # Imported here, since most inputs are of no such format.
    from memlens.inputs.custom.lines import line_of, recognise
    from memlens.inputs.custom.reader import UserReader

    if not re.match(_NAME, name):
        raise _no_name(where, name)
    if len(tables) > _MOST_KINDS:
        raise UsageError(
            f"{where}: format {name!r} has more than {_MOST_KINDS} kinds of lines", "Join some in one regex."
        )
    lines = tuple(line_of(f"{where}: format {name!r}", table) for table in tables)
    reader = partial(UserReader, name=name, lines=lines)
    summary = next((str(table["summary"]) for table in tables if table.get("summary")), "a format of your own")
    return InputFormat(
        name=name,
        title=f"a log of the format {name!r}",
        summary=summary,
        sample=lines[0].samples[0].line,
        recognise=partial(recognise, lines),
        read=partial(read_lines, reader),
        lines=reader,
        origin=where,
    )


def _no_name(where: str, name: str) -> UsageError:
    return UsageError(
        f"{where}: {name!r} cannot be the name of a format",
        "Use lower-case letters, digits, ., - and _, and no name of a built-in format.",
    )
