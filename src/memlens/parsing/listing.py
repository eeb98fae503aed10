"""The formats that there are, and which of them inputs have.  The twin of ``memlens formats``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memlens.parsing.file_source import open_source
from memlens.parsing.inputs import known_formats, recognise
from memlens.reading import ReadAs

if TYPE_CHECKING:
    from memlens.parsing.input_formats import InputFormat

__all__ = ["SCHEMA", "Formats", "RecognisedInput", "formats"]

SCHEMA = "memlens.formats/1"


@dataclass(frozen=True)
class RecognisedInput:
    """What one input was recognised as.

    Attributes:
        path: The input as it was named.
        format: The name of its format.
        why: What told, in words.
        compression: ``gzip``, ``zstd``, ``xz``, ``bzip2`` or ``""``.
    """

    path: str
    format: str
    why: str
    compression: str

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {"path": self.path, "format": self.format, "why": self.why, "compression": self.compression}


@dataclass(frozen=True)
class Formats:
    """What :func:`formats` found.

    Attributes:
        known: Every format, in the order in which they are listed.
        inputs: What each input was recognised as, in the order given.
    """

    known: tuple[InputFormat, ...]
    inputs: tuple[RecognisedInput, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.formats/1``."""
        names = ("name", "summary", "sample", "origin")
        return {
            "schema": SCHEMA,
            "formats": [{name: getattr(form, name) for name in names} for form in self.known],
            "inputs": [found.to_dict() for found in self.inputs],
        }


def formats(
    logs: str | Path | BinaryIO | Sequence[str | Path | BinaryIO] = (), *, formats: str | Path | None = None
) -> Formats:
    """List the formats that memlens reads, and say which of them inputs have; of these only the beginning is read.

    Args:
        logs: One input or several, as for :func:`memlens.read`; none for the list alone.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Raises:
        InputError: An input cannot be read.
        UsageError: A file of formats is not sound.
    """
    known = known_formats(formats)
    inputs = list(logs) if isinstance(logs, (list, tuple)) else [logs]
    return Formats(known, tuple(_recognised(given, formats) for given in inputs))


def _recognised(given: Any, formats: str | Path | None) -> RecognisedInput:
    with closing(open_source(given)) as source:
        found = recognise(source, ReadAs(formats=formats))
        with source.open() as stream:
            return RecognisedInput(source.name, found.format.name, found.why, stream.compression)
