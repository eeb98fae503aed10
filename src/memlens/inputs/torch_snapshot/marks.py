"""Marks of a memory snapshot: the user's annotations and metadata, earlier snapshots, out-of-memory entries.

Every mark reads ``START name`` or ``END name``, ``SNAPSHOT`` or ``OUT OF MEMORY``; only a ``user_defined`` entry may have another text.

* An *annotation* has a time, and entries have one.  Its START stands before the first entry that is not earlier than it, its END before
  the first entry that is later.  Times of entries that step back count as the latest one so far.  Annotations that ended before the first entry are left
  out: they mark nothing that was recorded.
* *Metadata* stands with each entry.  Where it changes, what it was ENDs and what it becomes STARTs, before that entry; only entries of blocks and
  segments are looked at.
* A ``user_defined`` entry, as torch wrote them for annotations in 2024, is the mark itself.
* An earlier snapshot and an allocation that failed are marked before their entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.facts import Mark
from memlens.inputs.torch_snapshot.entries import Action, Entries
from memlens.inputs.torch_snapshot.values import LONGEST_TEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Annotation", "marks_of", "read_annotations"]

#: Time, stage, name, device (-1 for every one).
Annotation = tuple[int, str, str, int]


def read_annotations(annotations: Any) -> tuple[list[Annotation], int]:
    """The annotations of a snapshot by time, and how many cannot be read."""
    if annotations is None:
        return [], 0
    if type(annotations) is not list:
        return [], 1
    found = []
    for annotation in annotations:
        if type(annotation) is not dict:
            continue
        stage, name, time = (annotation.get(key) for key in ("stage", "name", "time_us"))
        device = annotation.get("device", -1)
        if stage in ("START", "END") and type(name) is str and type(time) is int and 0 <= time < 1 << 62:
            found.append((time, stage, name[:LONGEST_TEXT], device if type(device) is int and device >= 0 else -1))
    found.sort(key=lambda annotation: annotation[0])
    return found, len(annotations) - len(found)


def marks_of(
    entries: Entries, annotations: Sequence[Annotation], device: int, texts: Sequence[str]
) -> tuple[tuple[Mark, ...], bool]:
    """The marks of one device, in order, and whether its annotations could be placed.

    Args:
        entries: The device's trace.
        annotations: All annotations, by time.
        device: The device's number.
        texts: The texts that metadata are numbers of.
    """
    own = [annotation for annotation in annotations if annotation[3] in (-1, device)]
    timed = bool(len(entries)) and bool((entries.time_us >= 0).any())
    found = [*_from_entries(entries, texts), *(_from_annotations(entries.time_us, own) if timed else ())]
    found.sort(key=lambda mark: mark[0])
    return tuple(Mark(offset, offset + 1, text) for offset, text in found), timed or not own


def _from_entries(entries: Entries, texts: Sequence[str]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    events = np.flatnonzero(entries.action <= Action.SEGMENT_UNMAP)
    metadata = np.append(np.int32(-1), entries.metadata[events])
    for change in np.flatnonzero(metadata[1:] != metadata[:-1]).tolist():
        index, before, after = int(events[change]), int(metadata[change]), int(metadata[change + 1])
        if before >= 0:
            found.append((index, f"END {texts[before][:LONGEST_TEXT]}"))
        if after >= 0:
            found.append((index, f"START {texts[after][:LONGEST_TEXT]}"))
    found += [(index, text[:LONGEST_TEXT]) for index, text in entries.user_defined.items() if text]
    for action, text in ((Action.SNAPSHOT, "SNAPSHOT"), (Action.OOM, "OUT OF MEMORY")):
        found += [(index, text) for index in np.flatnonzero(entries.action == action).tolist()]
    return found


def _from_annotations(time_us: NDArray[np.int64], annotations: Sequence[Annotation]) -> list[tuple[int, str]]:
    so_far = np.maximum.accumulate(time_us)
    first = int(time_us[time_us >= 0][0])
    found = []
    for time, stage, name, _ in _recorded(annotations, first):
        offset = int(so_far.searchsorted(time, "left" if stage == "START" else "right"))
        found.append((offset, f"{stage} {name}"))
    return found


def _recorded(annotations: Sequence[Annotation], first: int) -> list[Annotation]:
    """The annotations without those that began and ended before a time."""
    open_by_name: dict[str, list[Annotation]] = {}
    early = 0
    for annotation in annotations:
        if annotation[0] >= first:
            break
        early += 1
        began = open_by_name.setdefault(annotation[2], [])
        if annotation[1] == "START":
            began.append(annotation)
        elif began:
            began.pop()
    still_open = [annotation for began in open_by_name.values() for annotation in began]
    still_open.sort(key=lambda annotation: annotation[0])
    return [*still_open, *annotations[early:]]
