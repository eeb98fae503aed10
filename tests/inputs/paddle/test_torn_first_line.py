"""The place of a refused request is found wherever the text above its message is cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import memlens

if TYPE_CHECKING:
    from pathlib import Path


def test_the_refused_request_is_found_wherever_the_text_above_its_message_is_torn(shared: Path, tmp_path: Path) -> None:
    # Line 1,327 asks for a chunk, line 1,341 has the message.  A line of another length each time is put in between what is
    # read above the message and the request, so that the cut moves through a line byte by byte.
    lines = (shared / "data/paddle/05_oom_331.log").read_bytes().splitlines(keepends=True)
    path, wrong = tmp_path / "oom.log", []
    for length in range(430):
        path.write_bytes(b"".join([*lines[:1326], b"x" * length + b"\n", *lines[1326:]]))
        found = [(oom.line, oom.message_line) for oom in memlens.analyze(path, top=1).logs[0].trust.ooms]
        if found != [(1328, 1342)]:
            wrong.append((length, found))
    assert wrong == []
