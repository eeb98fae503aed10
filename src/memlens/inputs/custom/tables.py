"""The table of one kind of line of a user's own format: whether what it says holds together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memlens.errors import UsageError
from memlens.facts import Kind
from memlens.inputs.custom.lines import GROUPS, TIME_UNITS, Found, TextError, UserLine, UserSample, bytes_in
from memlens.scanner.formats import LineFormat

__all__ = ["KEYS", "Table", "recognise"]

_KINDS = ("alloc", "free", "reserve", "release")
KEYS = frozenset(
    {"name", "summary", "literal", "regex", "kind", *_KINDS, "size_unit", "size_base", "addr_base", "time", "ignore"}
    | {"samples", "traps"}
)


def recognise(lines: Sequence[UserLine], head: bytes) -> str:
    """The first line among the first bytes that is one of the format's, in words."""
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


class Table:
    """The table of one kind of line, as it was written; every error names the file and the format.

    Args:
        place: What every error begins with.
        values: What the table holds.
    """

    def __init__(self, place: str, values: Mapping[str, Any]) -> None:
        self._place, self._values = place, values
        if unknown := sorted(set(values) - KEYS):
            raise self._wrong(f"there is no key {', '.join(unknown)}", f"There are: {', '.join(sorted(KEYS))}.")

    def line(self) -> UserLine:
        """The kind of line, which reads its samples and not its traps."""
        groups = self._regex("regex").groupindex
        if unknown := sorted(set(groups) - set(GROUPS)):
            what = f"no meaning is known of the group {', '.join(unknown)}"
            raise self._wrong(what, f"There are: {', '.join(GROUPS)}.")
        try:
            unit = bytes_in(self._text("size_unit", "B"))
        except TextError as error:
            raise self._wrong(f"size_unit: {error}", "Write B, KiB, MiB, GiB, KB, MB or GB.") from None
        literal = self._text("literal")
        if "\n" in literal:
            raise self._wrong("literal spans lines", "A format is looked for in one line.")
        means = {group: GROUPS[group] for group in groups}
        name, traps = self._text("name"), self._texts("traps")
        line = UserLine(
            LineFormat(name, f"format:{name}", literal.encode(), self._text("regex"), means, traps=traps),
            self._kinds("kind" in groups),
            unit,
            self._choice("size_base", 10, (10, 16)),
            self._choice("addr_base", 16, (10, 16)),
            self._choice("time", "s", tuple(TIME_UNITS)),
            self._regex("ignore") if "ignore" in self._values else None,
            self._samples(),
        )
        for sample in line.samples:
            if wrong := _wrong_reading(line, sample):
                raise self._wrong(f"sample {sample.line!r}{wrong}", "Correct the sample or the format.")
        for trap in traps:
            if not _wrong_reading(line, UserSample(trap, {})):
                raise self._wrong(f"reads its trap {trap!r}", "Make the regex stricter.")
        return line

    def _wrong(self, what: str, hint: str) -> UsageError:
        return UsageError(f"{self._place}: {what}", hint)

    def _text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or not value:
            what = f"{key} is no text" if key in self._values else f"{key} is missing"
            raise self._wrong(what, f'Write {key} = "…".')
        return value

    def _texts(self, key: str) -> tuple[str, ...]:
        """A text or several."""
        value = self._values.get(key, ())
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, (list, tuple)) or not all(isinstance(item, str) for item in listed):
            raise self._wrong(f"{key} is no list of texts", f'Write {key} = ["…", "…"].')
        return tuple(listed)

    def _choice(self, key: str, default: Any, allowed: Sequence[Any]) -> Any:
        """One of some values."""
        value = self._values.get(key, default)
        if value not in allowed:
            raise self._wrong(f"{key} is {value!r}", f"It is one of {', '.join(map(str, allowed))}.")
        return value

    def _regex(self, key: str) -> re.Pattern[bytes]:
        """A regular expression over bytes."""
        try:
            return re.compile(self._text(key).encode())
        except (re.error, RecursionError, OverflowError) as error:
            raise self._wrong(f"{key} is no regular expression: {error}", "Python's re syntax is expected.") from None

    def _kinds(self, grouped: bool) -> dict[str, Kind]:
        """What events there are, by the word that tells them; ``grouped`` says that the expression has a group for it."""
        given = [(word, Kind[key.upper()]) for key in _KINDS for word in self._texts(key)]
        if not grouped and given:
            raise self._wrong("there are words for kinds but no group (?P<kind>…)", "Write the group, or kind alone.")
        if not grouped:
            return {"": Kind[self._choice("kind", None, tuple(kind.name for kind in Kind))]}
        if not given or len(dict(given)) < len(given):
            raise self._wrong(
                "the words of the group kind are missing, or one of them stands for two kinds",
                'Write alloc = ["…"], free = ["…"], and where there are chunks reserve and release.',
            )
        return dict(given)

    def _samples(self) -> tuple[UserSample, ...]:
        samples = self._values.get("samples", ())
        if not isinstance(samples, list) or not samples:
            raise self._wrong("there is no sample", 'Write samples = [{ line = "…", kind = "ALLOC", size = 4096 }].')
        found = []
        for sample in samples:
            values = {"line": sample} if isinstance(sample, str) else sample
            if not isinstance(values, dict) or not isinstance(values.get("line"), str):
                raise self._wrong(f"{sample!r} is no sample", 'Write { line = "…", kind = "ALLOC", size = 4096 }.')
            line, wanted = values["line"], {key: value for key, value in values.items() if key != "line"}
            for key in wanted.keys() - set(Found._fields):
                hint = f"There are: {', '.join(Found._fields)}."
                raise self._wrong(f"sample {line!r}: there is no {key!r} to check", hint)
            found.append(UserSample(line, wanted))
        return tuple(found)


def _wrong_reading(line: UserLine, sample: UserSample) -> str:
    """What is wrong with how a sample is read, in words that follow it; ``""`` where nothing is."""
    text = sample.line.encode()
    try:
        found = line.find(text)
    except TextError as error:
        return f": {error}"
    if found is None:
        return " is not matched by the regex" if line.format.literal in text else " does not hold the literal"
    for key, wanted in sample.values.items():
        value = found.kind.name if key == "kind" else getattr(found, key)
        if value != wanted:
            return f": {key} is {value!r} and not {wanted!r}"
    return ""
