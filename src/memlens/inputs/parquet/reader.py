"""Reads Parquet files of events: those that ``memlens export`` writes, and tables of the same columns that others have made.

A table needs the columns ``kind``, ``size_bytes`` and ``addr``; all others of :data:`COLUMNS` are read where they are there and have a
fitting type, and whatever else there is is passed over.  A file without the metadata of an export
(:mod:`memlens.inputs.parquet.metadata`) is the table alone: nothing is known of lines without events.

The file is hostile data: pyarrow checks its pages by their check sums, no more rows are made than its bytes can stand for, every value is
checked, and an error of pyarrow's is an :class:`~memlens.errors.InputError`.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from memlens.claims.roles import ROLE_NUMBERS
from memlens.errors import AnchorError, InputError, NoEventsError
from memlens.facts import Facts, Kind, Mark
from memlens.inputs.builder import Builder
from memlens.inputs.parquet.metadata import KEY, DamagedError, Metadata, StoredSource, read_metadata
from memlens.text import plural
from memlens.windows.landmarks import LONGEST_LINE, Landmarks
from memlens.windows.patterns import Anchor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.inputs.file_source import FileSource
    from memlens.inputs.input_format import Request
    from memlens.inputs.streams import ByteStream
    from memlens.log import Log
    from memlens.windows.patterns import Pattern


#: The columns of whole numbers by their names in the file: the column of the log, its type, and what stands for a value that is not there.
COLUMNS: dict[str, tuple[str, type[np.generic], int]] = {
    "size_bytes": ("size", np.int64, -1),
    "addr": ("addr", np.uint64, 0),
    "line": ("line", np.int64, 0),
    "time_us": ("time_us", np.int64, -1),
    "thread": ("thread", np.int64, -1),
    "stream": ("stream", np.int64, -1),
    "requested_bytes": ("requested", np.int64, -1),
    "offset": ("offset", np.int64, -2),
}
#: The columns of text, which have the same name in the log.
NAMED = ("owner", "holder", "pool", "user_metadata")
#: Those of a few names, what stands for each, and the type of their numbers.
_CODED = {"kind": {kind.name: int(kind) for kind in Kind}, "role": ROLE_NUMBERS}
_NEEDED = ("kind", "size_bytes", "addr")
_PIECE = 1 << 20
#: Bytes that any compressed input may unpack to.
_UNPACKED = 1 << 26
_LAST = (1 << 64) - 1
#: Rows that a file may have for each of its bytes beyond so many rows, and bytes that a byte of it may unpack to.
_MOST_ROWS_A_BYTE, _ROWS, _MOST_BYTES_A_BYTE = 64, 1 << 22, 4096
_HINT = "Write it with: memlens export LOG --to parquet -o events.parquet"
_DAMAGED = "Copy the file again, or export the log again."


def need_pyarrow(what: str) -> None:
    """Say how to get pyarrow where it is missing.

    Raises:
        InputError: It is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401  whether it is there
    except ImportError:
        raise InputError(f"{what} needs pyarrow", "Install it with: pip install 'memlens[parquet]'") from None


def read_parquet(source: FileSource, request: Request) -> list[Log]:
    """Read a table of events.

    Args:
        source: The input; compressed once more or not.
        request: What is wanted of it.  Anchors are looked for among the lines that were kept.

    Raises:
        AnchorError: No line that was kept matches an anchor; the log itself may have one.
        InputError: It cannot be read, or is no table of events.
        NoEventsError: It has no row.
    """
    need_pyarrow(f"{source.name}: reading Parquet")
    with _explained(source.name), closing(source.open()) as stream:
        columns, text = _table(source, stream)
        events = len(columns["kind"])
        seen = Facts(
            bytes=stream.consumed or source.size, lines=events, layer="parquet", has_lines=False, has_chunks=False
        )
        metadata = Metadata(facts=seen) if text is None else read_metadata(text, events)
        if request.progress is not None:
            request.progress(stream.consumed or source.size)

    def nothing(facts: Facts) -> NoEventsError:  # noqa: ARG001 - asked for
        return NoEventsError(f"{source.name}: a table of events without a row", _HINT)

    facts, landmarks = structs.asdict(metadata.facts), None
    marks: tuple[Mark, ...] | None = None if text is not None else ()
    if (kept := metadata.marks) is not None:
        ends = [end or None for end in kept.ends.tolist()] or repeat(None)
        marks = tuple(map(Mark, kept.offsets.tolist(), kept.lines.tolist(), kept.texts.tolist(), ends))
    if (kept := metadata.landmarks) is not None:
        texts = tuple(text.encode("utf-8", "surrogateescape") for text in kept.texts.tolist())
        landmarks = Landmarks(tuple(kept.offsets.tolist()), tuple(kept.lines.tolist()), texts, kept.complete)
    log = Builder(StoredSource(source.name, metadata.places), request, {}).finish(
        cut_short=facts.pop("cut_short"),
        facts=facts,
        columns={**columns, "device": columns.get("device", metadata.device), "marks": marks},
        nothing=nothing,
    )
    anchors = () if log.marks is not None else tuple(_anchor(log, landmarks, one) for one in request.patterns)
    return [log.without_cache(anchors=anchors, landmarks=landmarks)]


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Whatever pyarrow and the checks find wrong is one error, with a hint."""
    import pyarrow as pa

    try:
        yield
    except DamagedError as error:
        raise InputError(f"{name}: {error}", _HINT) from None
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise InputError(f"{name}: is no Parquet file that can be read: {reason}", _DAMAGED) from None


def _table(source: FileSource, stream: ByteStream) -> tuple[dict[str, Any], bytes | None]:
    """The columns of a log by their names there, and the metadata of the export."""
    import pyarrow as pa
    from pyarrow import parquet

    if source.path is not None and not stream.compression:
        where, size = source.path, source.size
    else:
        data = _whole(stream)
        where, size = pa.BufferReader(data), len(data)
    with parquet.ParquetFile(where, thrift_string_size_limit=1 << 30, page_checksum_verification=True) as file:
        schema, claimed = file.schema_arrow, file.metadata
        missing = [name for name in _NEEDED if name not in schema.names]
        if missing:
            raise DamagedError(f"a Parquet file, but no table of events: it has no column {', '.join(missing)}")
        if len(set(schema.names)) < len(schema.names):
            raise DamagedError("a Parquet file, but no table of events: two columns have one name")
        unpacked = sum(claimed.row_group(group).total_byte_size for group in range(claimed.num_row_groups))
        if claimed.num_rows > _ROWS + size * _MOST_ROWS_A_BYTE or unpacked > size * _MOST_BYTES_A_BYTE:
            raise DamagedError(f"it claims {claimed.num_rows:,} rows in {size:,} bytes, which no table of events has")
        columns: dict[str, Any] = {}
        for name in (
            *_CODED,
            *NAMED,
            *COLUMNS,
            "device",
        ):  # one by one: what is unpacked takes more memory than what is kept
            if name in schema.names:
                columns |= _column(name, file.read(columns=[name]).column(0))
        if {len(column) for column in columns.values() if isinstance(column, np.ndarray)} != {claimed.num_rows}:
            raise DamagedError("it has another number of rows than it says")
        text = (schema.metadata or {}).get(KEY)
        if text is None:  # what another program calls a role
            columns.pop("role", None)
        return _checked(columns), text


def _whole(stream: ByteStream) -> bytes:
    """All bytes of an input that cannot be read at any place; Parquet is packed itself, so that packing it once more wins little."""
    data = bytearray()
    while piece := stream.read(_PIECE):
        data += piece
        if stream.compression and len(data) > _UNPACKED + stream.consumed * _MOST_ROWS_A_BYTE:
            raise DamagedError("it unpacks to more than any Parquet file does")
    if stream.problem:
        raise DamagedError(stream.problem)
    return bytes(data)


def _column(name: str, column: Any) -> dict[str, Any]:
    """The columns of a log that a column of a file makes.

    Raises:
        DamagedError: A value is not what its column may hold.
    """
    import pyarrow as pa

    if name in (*_CODED, *NAMED):
        codes, names = _coded(name, column)
        if name in NAMED:
            return {name: codes, f"{name}_names": names}
        return {name: np.array([*(_CODED[name].get(text, -1) for text in names), -1], np.int8)[codes]}
    # A column of numbers in which some were missing is one of floating-point numbers after pandas.
    if not any(fits(column.type) for fits in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)):
        raise DamagedError(f"its column {name} holds no whole numbers but {column.type}")
    own, dtype, unknown = ("device", np.int32, 0) if name == "device" else COLUMNS[name]
    try:
        known = column.cast(pa.from_numpy_dtype(dtype))
    except pa.ArrowInvalid as error:
        raise DamagedError(f"its column {name} holds what is no whole number, or too large: {error}") from None
    if name != "device":
        return {own: known.fill_null(unknown).to_numpy()}
    devices = known.drop_null().unique().to_pylist()
    if len(devices) > 1:
        raise DamagedError(f"it has events of {len(devices)} devices: write a file for each")
    return {own: devices[0]} if devices else {}


def _coded(name: str, column: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Texts as the numbers of names, -1 for none; and the names."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        if not any(fits(column.type) for fits in (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)):
            raise DamagedError(f"its column {name} holds no text but {column.type}")
        column = column.cast(pa.string()).dictionary_encode()
    known: dict[str, int] = {}
    parts = [np.zeros(0, np.int32)]
    for chunk in column.chunks:
        texts = chunk.dictionary.cast(pa.string()).to_pylist()
        numbers = [-1 if text is None else known.setdefault(text, len(known)) for text in texts]
        codes = chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        parts.append(np.array([*numbers, -1], np.int32)[codes])
    return np.concatenate(parts), tuple(known)


def _checked(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a log.

    Raises:
        DamagedError: Their values make no log.
    """
    kind, size, addr = columns["kind"], columns["size"], columns["addr"]
    if (kind < 0).any() or (size < 0).any():
        raise DamagedError(
            "a row of it is no event: its kind is not ALLOC, FREE, RESERVE or RELEASE, or it has no size"
        )
    chunks = kind > Kind.FREE
    if (addr[chunks] > np.uint64(_LAST) - size[chunks].astype(np.uint64)).any():
        raise DamagedError("a chunk of it lies beyond all addresses")
    if "offset" not in columns:
        columns["offset"] = np.arange(len(kind), dtype=np.int64)
        columns.setdefault("line", columns["offset"] + 1)
    if (columns["offset"] < -1).any() or (np.diff(columns["offset"]) < 0).any():
        raise DamagedError("its events are not in the order of the log: offset falls")
    return columns


def _anchor(log: EventLog, landmarks: Landmarks | None, pattern: Pattern) -> Anchor:
    """The lines that match a pattern, among those that were kept.

    Raises:
        AnchorError: None does, or not all lines that may be anchors were kept, or not whole.
    """
    kept = landmarks or Landmarks()
    matches = kept.matches(pattern)
    if not matches or not kept.complete or any(len(text) > LONGEST_LINE for text in kept.texts):
        raise AnchorError(
            f"{log.source.name}: whether a line matches {pattern} cannot be told: of the text of the log the file has"
            f" {plural(len(kept.texts), 'line')} only, which begin like START, STEP and the like, and {LONGEST_LINE} bytes of each",
            "Cut the log itself, or export the window: memlens export LOG --start …",
        )
    return Anchor.of(pattern, matches)
