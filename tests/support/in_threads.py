"""Read a log in small blocks by several threads, however small it is and however few processors there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memlens.inputs import blocks


@contextmanager
def in_small_blocks(size: int, threads: int = 3) -> Iterator[None]:
    """Within this context inputs are read in blocks of so many bytes by so many threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", size)
        patch.setattr(blocks, "processors", lambda: threads)
        yield
