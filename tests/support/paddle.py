"""Reading logs of Paddle as Paddle's reader alone reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import Request, read_lines
from memlens.inputs.paddle import reader
from memlens.log import Log


def read(where: str | Path | BinaryIO | FileSource, **wanted: Any) -> Log:
    """Read a log; what is wanted of it are the fields of a request."""
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list | set) else one for name, one in wanted.items()}
    return read_lines(
        reader.PaddleReader, where if isinstance(where, FileSource) else FileSource(where), Request(**given)
    )[0]
