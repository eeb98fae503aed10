"""Owners by number: each text once, in the order in which they are asked for."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np

from memlens.drawing.owners import Owners
from memlens.events import EventLog, Kind
from memlens.facts import Facts


def texts_of(owners: Owners) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(owners.to_dict()["json"])))


def test_events_and_texts_share_one_numbering() -> None:
    rows = [(Kind.ALLOC, 8, 16 * k) for k in range(5)]
    log = EventLog.from_rows(
        rows, owner=np.array([-1, 1, 0, -1, 1], np.int32), owner_names=("relu", "</script>"), facts=Facts(opening=1)
    )
    owners = Owners(log)
    assert owners.code(np.array([4, 3, 4])).tolist() == [0, -1, 0]
    assert owners.code_texts(["relu", None, "</script>"]) == [1, -1, 0]
    # The first event is an opening block of which nothing is known.
    assert owners.code(np.arange(5)).tolist() == [2, 0, 1, -1, 0]
    assert owners.code(np.zeros(0, np.int64)).tolist() == []
    assert texts_of(owners) == ["</script>", "relu", "(before the input)"]


def test_a_log_without_owners_has_none() -> None:
    owners = Owners(EventLog.from_rows([(Kind.ALLOC, 8, 16)]))
    assert owners.code(np.array([0])).tolist() == [-1]
    assert texts_of(owners) == []
