"""The formats that there are, and which of them inputs have.  The twin of ``memlens formats``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memlens.analyzing.result import Failure
from memlens.errors import InputError
from memlens.inputs.file_source import open_source
from memlens.inputs.reading import input_name, known_formats, recognise
from memlens.inputs.registry import PADDLE
from memlens.options import ReadAs

if TYPE_CHECKING:
    from memlens.inputs.registry import InputFormat

__all__ = ["SCHEMA", "Formats", "RecognisedInput", "formats"]

SCHEMA = "memlens.formats/1"


@dataclass(frozen=True)
class RecognisedInput:
    """What one input was recognised as.

    Attributes:
        path: The input as it was named.
        format: The name of its format; ``None`` where no reader can read it.
        why: What told, in words.
        compression: ``gzip``, ``zstd``, ``xz``, ``bzip2`` or ``""``.
        looks_like: What it looks like that memlens does not read, or ``""``.
        hint: How to get something that memlens reads, or ``""``.
    """

    path: str
    format: str | None
    why: str
    compression: str
    looks_like: str = ""
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class Formats:
    """What :func:`formats` found.

    Attributes:
        known: Every format, in the order in which they are listed.
        inputs: What each input was recognised as, in the order given.
        failures: Those of several inputs that cannot be read; the error of a single one is raised instead.
    """

    known: tuple[InputFormat, ...]
    inputs: tuple[RecognisedInput, ...] = ()
    failures: tuple[Failure, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.formats/1``."""
        names = ("name", "summary", "sample", "sizes", "places", "origin")
        return {
            "schema": SCHEMA,
            "formats": [{name: getattr(form, name) for name in names} for form in self.known],
            "inputs": [found.to_dict() for found in self.inputs],
            **({"failures": [failure.to_dict() for failure in self.failures]} if self.failures else {}),
        }


def formats(
    logs: str | Path | BinaryIO | Sequence[str | Path | BinaryIO] = (), *, formats: str | Path | None = None
) -> Formats:
    """List the formats that memlens reads, and say which of them inputs have; of these only the beginning is read.

    Args:
        logs: One input or several, as for :func:`memlens.read`; none for the list alone.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Raises:
        InputError: The only input cannot be read.  One of several becomes a :class:`~memlens.analyzing.analyze.Failure` instead.
        UsageError: A file of formats is not sound.
    """
    known = known_formats(formats)
    inputs: list[Any] = list(logs) if isinstance(logs, (list, tuple)) else [logs]
    found: list[RecognisedInput] = []
    failures: list[Failure] = []
    for given in inputs:
        try:
            found.append(_recognised(given, formats))
        except InputError as error:
            if len(inputs) == 1:
                raise
            failures.append(Failure(input_name(given), error.message, error.hint))
    return Formats(known, tuple(found), tuple(failures))


def _recognised(given: Any, formats: str | Path | None) -> RecognisedInput:
    with closing(open_source(given)) as source:
        found = recognise(source, ReadAs(formats=formats))
        with source.open() as stream:
            compression = stream.compression
    unread = found.unread
    if unread is None or (unread.text and found.format is not PADDLE):
        return RecognisedInput(source.name, found.format.name, found.why, compression)
    if unread.text:
        return RecognisedInput(source.name, found.format.name, found.why, compression, unread.title, unread.way)
    return RecognisedInput(source.name, None, "it is told by its first bytes", compression, unread.title, unread.way)
