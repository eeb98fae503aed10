"""The baseline: what one run or several of a program once gave, as a small JSON file to commit.

The same figures give the same bytes, and a diff of it reads well: sorted keys, a value a line.  It is read with suspicion: what is not as it
was written is an error and never a verdict.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from memlens.errors import InputError, UsageError
from memlens.gating.figures import RunFigures  # noqa: TC001  msgspec reads the annotations
from memlens.options import Cut
from memlens.version import __version__

if TYPE_CHECKING:
    from pathlib import Path


SCHEMA = "memlens.baseline/3"

#: Larger than the baseline of a hundred thousand windows; whatever is larger is something else.
_LARGEST = 64 << 20
_ANEW = "Take it anew with memlens gate LOG --baseline FILE --accept, or get the file back as it was committed."


class Anchors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a log is cut, as :class:`memlens.options.Cut` has it."""

    by: str | None = None
    start: str | None = None
    start_regex: str | None = None
    end: tuple[str, ...] = ()
    end_regex: tuple[str, ...] = ()
    nth: Annotated[int, msgspec.Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        _ = self.cut  # which refuses what exclude each other

    @property
    def cut(self) -> Cut:
        """The same as options."""
        return Cut(**msgspec.structs.asdict(self))

    @classmethod
    def of(cls, cut: Cut) -> Anchors:
        """Options, to be kept."""
        return cls(**cut.of(Cut))


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of runs that were accepted.

    Attributes:
        anchors: Where their logs were cut.
        runs: The figures of each run, in the order in which they were given.
        memlens: The version that took it.
        schema: The name and version of the file.
    """

    anchors: Anchors
    runs: Annotated[tuple[RunFigures, ...], msgspec.Meta(min_length=1)]
    memlens: str = __version__
    schema: str = SCHEMA

    def render(self) -> str:
        """The file: JSON, ASCII, the same bytes for the same figures, with a check sum."""
        values = msgspec.to_builtins(self)
        return json.dumps({**values, "check_sha256": _check_sum(values)}, sort_keys=True, indent=1) + "\n"


def _check_sum(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_baseline(path: str | Path) -> Baseline:
    """Read a baseline file.

    Raises:
        InputError: It cannot be read, is none, was damaged or edited, or is of a schema that this memlens does not know.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        take = "Take one with memlens gate LOG --baseline FILE --accept."
        hint = take if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{name}: cannot read the baseline: {error.strerror or error}", hint) from error
    return parse_baseline(text, name)


def parse_baseline(text: bytes, name: str = "<baseline>") -> Baseline:
    """Read the text of a baseline file.

    Args:
        text: What stands in it.
        name: What to call it in errors.

    Raises:
        InputError: See :func:`read_baseline`.
    """
    if len(text) > _LARGEST:
        raise InputError(f"{name}: no baseline of memlens: it is larger than 64 MiB")
    try:
        values = json.loads(text.decode())
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a thousand brackets
        raise InputError(f"{name}: no baseline of memlens: this is no JSON that can be read", _ANEW) from error
    schema = values.get("schema") if isinstance(values, dict) else None
    if not isinstance(schema, str) or not schema.startswith("memlens.baseline/"):
        raise InputError(f"{name}: no baseline of memlens: it does not say that it is one", _ANEW)
    if schema != SCHEMA:
        raise InputError(
            f"{name}: a baseline of the schema {schema[:60]!r}, while memlens {__version__} knows {SCHEMA!r} only",
            _accept_again(values),
        )
    why, check = "its check sum is not that of its figures", values.pop("check_sha256", "")
    try:
        baseline = msgspec.convert(values, Baseline)
        if check == _check_sum(msgspec.to_builtins(baseline)):
            return baseline
    except (ValueError, RecursionError, UsageError) as error:  # msgspec.ValidationError is a ValueError
        why = str(error)
    raise InputError(f"{name}: this baseline was damaged or edited: {why}", _ANEW)


def _accept_again(values: dict[str, Any]) -> str:
    """How to accept a baseline of another schema again, with its anchors where they can be read."""
    try:
        cut = anchor_options(msgspec.convert(values.get("anchors"), Anchors).cut)
    except (ValueError, UsageError):
        cut = ""
    command = f"memlens gate LOG --baseline FILE{f' {cut}' if cut else ''} --accept"
    return f"Remove the file and accept again a run that is known to be good: {command}"


def anchor_options(cut: Cut) -> str:
    """Where to cut, as options of the command line; ``""`` where nothing is cut."""
    options = [("--by", cut.by), ("--start", cut.start), ("--start-regex", cut.start_regex)]
    options += [("--end", end) for end in cut.end] + [("--end-regex", end) for end in cut.end_regex]
    given = [f"{name} {shlex.quote(text)}" for name, text in options if text is not None]
    return " ".join([*given, *([f"--nth {cut.nth}"] if cut.nth != 1 else [])])
