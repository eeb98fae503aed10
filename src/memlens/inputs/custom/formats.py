"""Formats that users describe in TOML: where they are looked for, and whether what they say holds together.

``[[tool.memlens.format]]`` in the nearest ``pyproject.toml``, or ``[[format]]`` in a file of their own.  Several tables of one name are
several kinds of lines of one format.  docs/formats.md has all keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlens.errors import UsageError
from memlens.inputs.input_format import InputFormat
from memlens.scanner.formats import LineFormat

if TYPE_CHECKING:
    from memlens.inputs.custom.lines import UserLine

__all__ = ["formats_file", "user_formats"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*\Z")
_KINDS = ("alloc", "free", "reserve", "release")
_KEYS = frozenset(
    {"name", "summary", "literal", "regex", "kind", *_KINDS, "size_unit", "size_base", "addr_base", "time", "ignore"}
    | {"samples", "traps"}
)
_MOST_BYTES = 1 << 22
_MOST_KINDS = 50


def user_formats(path: str | Path | None = None, taken: Collection[str] = ()) -> tuple[InputFormat, ...]:
    """The formats of users, in the order of their file.

    Args:
        path: A TOML file; ``None``: the nearest ``pyproject.toml`` upward from the working directory.
        taken: Names that they may not have.

    Raises:
        UsageError: The file cannot be read, or a format in it is not sound; the message names the file, the format and the sample.
    """
    where = formats_file(path)
    if where is None:
        return ()
    try:
        status = os.stat(where)
    except OSError as error:
        raise UsageError(f"{where}: cannot be read: {error.strerror}", "--formats takes a TOML file.") from None
    found = _load(where, status.st_mtime_ns, status.st_size, own=path is not None)
    for form in found:
        if form.name in taken:
            raise _no_name(where, form.name)
    return found


def formats_file(path: str | Path | None = None) -> str | None:
    """The file that formats of users are read from: the one named, or the nearest ``pyproject.toml``, or ``None``."""
    if path is not None:
        return os.fspath(path)
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        return None
    while True:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(path):
            return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


@lru_cache(maxsize=8)
def _load(where: str, _changed: int, size: int, *, own: bool) -> tuple[InputFormat, ...]:
    """The formats of one state of a file."""
    if size > _MOST_BYTES:
        if own:
            raise UsageError(f"{where}: is too large for a file of formats", "--formats takes a small TOML file.")
        return ()
    try:
        with open(where, "rb") as file:
            text = file.read()
    except OSError as error:
        if not own:
            return ()
        raise UsageError(f"{where}: cannot be read: {error.strerror}", "--formats takes a TOML file.") from None
    if not own and b"memlens" not in text:  # the usual case, at no cost
        return ()
    tables = _tables(where, text, own=own)
    if own and not tables:
        raise UsageError(f"{where}: there is no format in it", "Write a table [[format]]; docs/formats.md shows one.")
    named: dict[str, list[Mapping[str, Any]]] = {}
    for number, table in enumerate(tables, 1):
        if not isinstance(table, dict) or not isinstance(table.get("name"), str):
            raise UsageError(f"{where}: format number {number} has no name", 'Write name = "…" in its table.')
        named.setdefault(table["name"], []).append(table)
    return tuple(_format(where, name, parts) for name, parts in named.items())


def _tables(where: str, text: bytes, *, own: bool) -> Sequence[Any]:
    import tomllib

    try:
        content: Any = tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of TOML, or of UTF-8
        raise UsageError(f"{where}: is no TOML: {error}", "Repair it: memlens looks for formats in it.") from None
    found: list[Any] = []
    if own and "format" in content:
        found = content["format"]
    elif isinstance(tool := content.get("tool"), dict) and isinstance(memlens := tool.get("memlens"), dict):
        found = memlens.get("format", [])
    if not isinstance(found, list):
        raise UsageError(f"{where}: format is no list of tables", "Write [[format]] with two brackets on each side.")
    return found


def _format(where: str, name: str, tables: Sequence[Mapping[str, Any]]) -> InputFormat:
    from memlens.inputs.custom.reader import read_user_format

    if not _NAME.match(name):
        raise _no_name(where, name)
    if len(tables) > _MOST_KINDS:
        raise UsageError(
            f"{where}: format {name!r} has more than {_MOST_KINDS} kinds of lines", "Join some in one regex."
        )
    lines = tuple(_line(_Table(where, name, table)) for table in tables)
    _check(where, name, lines)
    summary = next((str(table["summary"]) for table in tables if table.get("summary")), "a format of your own")
    return InputFormat(
        name=name,
        title=f"a log of the format {name!r}",
        summary=summary,
        sample=lines[0].samples[0].line,
        recognise=partial(_recognise, lines),
        read=partial(read_user_format, name=name, lines=lines),
        origin=where,
    )


def _no_name(where: str, name: str) -> UsageError:
    return UsageError(
        f"{where}: {name!r} cannot be the name of a format",
        "Use lower-case letters, digits, ., - and _, and no name of a built-in format.",
    )


def _recognise(lines: Sequence[UserLine], head: bytes) -> str:
    """The first line among the first bytes that is one of the format's, in words."""
    from memlens.inputs.custom.lines import TextError

    whole = head[: head.rfind(b"\n") + 1] or head
    if not any(line.format.literal in whole for line in lines):
        return ""
    for number, text in enumerate(whole.split(b"\n"), 1):
        for line in lines:
            try:
                if line.find(text) is not None:
                    return f"line {number:,} is one of its lines"
            except TextError:
                continue
    return ""


class _Table:
    """The table of one kind of line, as it was written."""

    def __init__(self, where: str, name: str, values: Mapping[str, Any]) -> None:
        self._where, self._name, self.values = where, name, values
        if unknown := sorted(set(values) - _KEYS):
            raise self.wrong(f"there is no key {', '.join(unknown)}", f"There are: {', '.join(sorted(_KEYS))}.")

    def wrong(self, what: str, hint: str = "") -> UsageError:
        """An error that names the file and the format."""
        return UsageError(f"{self._where}: format {self._name!r}: {what}", hint)

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{key} is no text" if key in self.values else f"{key} is missing", f'Write {key} = "…".')
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A text or several."""
        value = self.values.get(key, ())
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, (list, tuple)) or not all(isinstance(item, str) for item in listed):
            raise self.wrong(f"{key} is no list of texts", f'Write {key} = ["…", "…"].')
        return tuple(listed)

    def choice(self, key: str, default: Any, allowed: Sequence[Any]) -> Any:
        """One of some values."""
        value = self.values.get(key, default)
        if value not in allowed:
            raise self.wrong(f"{key} is {value!r}", f"It is one of {', '.join(map(str, allowed))}.")
        return value

    def regex(self, key: str) -> re.Pattern[bytes]:
        """A regular expression over bytes."""
        try:
            return re.compile(self.text(key).encode())
        except (re.error, RecursionError, OverflowError) as error:
            raise self.wrong(f"{key} is no regular expression: {error}", "Python's re syntax is expected.") from None


def _line(table: _Table) -> UserLine:
    from memlens.inputs.custom.lines import GROUPS, TIME_UNITS, TextError, UserLine, bytes_in

    groups = table.regex("regex").groupindex
    if unknown := sorted(set(groups) - set(GROUPS)):
        raise table.wrong(f"no meaning is known of the group {', '.join(unknown)}", f"There are: {', '.join(GROUPS)}.")
    try:
        unit = bytes_in(table.text("size_unit", "B"))
    except TextError as error:
        raise table.wrong(f"size_unit: {error}", "Write B, KiB, MiB, GiB, KB, MB or GB.") from None
    literal = table.text("literal")
    if "\n" in literal:
        raise table.wrong("literal spans lines", "A format is looked for in one line.")
    means = {group: GROUPS[group] for group in groups}
    name, traps = table.text("name"), table.texts("traps")
    return UserLine(
        LineFormat(name, f"format:{name}", literal.encode(), table.text("regex"), means, traps=traps),
        dict(_kinds(table, "kind" in groups)),
        unit,
        table.choice("size_base", 10, (10, 16)),
        table.choice("addr_base", 16, (10, 16)),
        table.choice("time", "s", tuple(TIME_UNITS)),
        table.regex("ignore") if "ignore" in table.values else None,
        tuple(_samples(table)),
    )


def _kinds(table: _Table, grouped: bool) -> Iterator[tuple[str, Any]]:
    """What events there are, by the word that tells them."""
    from memlens.facts import Kind

    words = {key: table.texts(key) for key in _KINDS}
    given = [(word, Kind[key.upper()]) for key, listed in words.items() for word in listed]
    if not grouped:
        if given:
            raise table.wrong("there are words for kinds but no group (?P<kind>…)", "Write the group, or kind alone.")
        yield "", Kind[table.choice("kind", None, tuple(kind.name for kind in Kind))]
        return
    if not given or len({word for word, _ in given}) < len(given):
        raise table.wrong(
            "the words of the group kind are missing, or one of them stands for two kinds",
            'Write alloc = ["…"], free = ["…"], and where there are chunks reserve and release.',
        )
    yield from given


def _samples(table: _Table) -> Iterator[Any]:
    from memlens.inputs.custom.lines import UserSample

    samples = table.values.get("samples", ())
    if not isinstance(samples, list) or not samples:
        raise table.wrong("there is no sample", 'Write samples = [{ line = "…", kind = "ALLOC", size = 4096 }].')
    for sample in samples:
        given = {"line": sample} if isinstance(sample, str) else sample
        if not isinstance(given, dict) or not isinstance(given.get("line"), str):
            raise table.wrong(f"{sample!r} is no sample", 'Write { line = "…", kind = "ALLOC", size = 4096 }.')
        yield UserSample(given["line"], {key: value for key, value in given.items() if key != "line"})


def _check(where: str, name: str, lines: Sequence[UserLine]) -> None:
    """Read the samples and the traps of a format.

    Raises:
        UsageError: A sample is not read as it says, or a trap is read.
    """
    from memlens.inputs.custom.lines import TextError

    for line in lines:
        for sample in line.samples:
            at = f"{where}: format {name!r}: sample {sample.line!r}"
            try:
                found = line.find(sample.line.encode())
            except TextError as error:
                raise UsageError(f"{at}: {error}", "Correct the sample or the format.") from None
            if found is None:
                what = (
                    "is not matched by the regex"
                    if line.format.literal in sample.line.encode()
                    else "does not hold the literal"
                )
                raise UsageError(f"{at} {what}", "Correct the sample or the format.")
            for key, wanted in sample.values.items():
                if key not in found._fields:
                    raise UsageError(f"{at}: there is no {key!r} to check", f"There are: {', '.join(found._fields)}.")
                value = found.kind.name if key == "kind" else getattr(found, key)
                if value != wanted:
                    raise UsageError(
                        f"{at}: {key} is {value!r} and not {wanted!r}", "Correct the sample or the format."
                    )
        for trap in line.format.traps:
            try:
                found = line.find(trap.encode())
            except TextError:
                continue
            if found is not None:
                raise UsageError(f"{where}: format {name!r}: reads its trap {trap!r}", "Make the regex stricter.")
