"""Lines by which the allocator says what it is asked for and how it finds it: read only where a replay asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import MAX_SIZE, RequestLine, RequestLines
from memlens.inputs.paddle import events
from memlens.inputs.paddle import other_events as others
from memlens.inputs.paddle.lines import number_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.paddle.rows import BlockRows

__all__ = ["request_lines"]

#: The formats of request lines, by what they are, and the groups that are their values.
_FORMATS = {
    RequestLine.REQUEST: (events.REQUEST, ("requested", "aligned")),
    RequestLine.STREAM_REQUEST: (others.STREAM_REQUEST, ("requested",)),
    RequestLine.SERVED: (events.SERVED, ("size", "free")),
    RequestLine.CHUNK_SIZE: (events.CHUNK_SIZE, ("size",)),
    RequestLine.PREALLOC: (events.PREALLOC, ("pool", "megabytes")),
    RequestLine.PADDED: (events.PADDED, ("extra",)),
    RequestLine.CUSTOM_DEVICE: (events.CUSTOM_DEVICE, ()),
    RequestLine.STRICT: (events.STRICT, ()),
}


def request_lines(rows: BlockRows, event_rows: NDArray[np.int64]) -> RequestLines:
    """The lines of requests in a block, those whose sizes are all to be believed.

    Args:
        rows: What the scanner found.
        event_rows: The rows of the events, int64, rising.
    """
    parts = []
    for what, (form, groups) in _FORMATS.items():
        number = number_of(form)
        at = rows.of(number)
        values = np.zeros((2, len(at)), np.int64)
        for value, group in zip(values, groups, strict=False):
            value[:] = rows.values(number, group, at)
        if what == RequestLine.PREALLOC:
            values[1] <<= 20
        parts.append((at, np.full(len(at), what, np.int8), *values))
    at, kind, first, second = map(np.concatenate, zip(*parts, strict=True))
    order = at.argsort(kind="stable")
    order = order[(first[order] <= MAX_SIZE) & (second[order] <= MAX_SIZE)]
    at = at[order]
    return RequestLines(
        kind[order],
        rows.found.line_start[at] + rows.to_input,
        event_rows.searchsorted(at),
        rows.found.header[at, 0],
        first[order],
        second[order],
    )
