"""Whose the peak of a snapshot is: shares per frame, from the entries and the segments of the pickle themselves."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memlens

BACKSLASH = chr(92)
#: Code of installed packages, and code that torch.compile has written.
_NOT_THE_USERS = r"[/\\](?:site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3|torchinductor_|^<"


def users_frame(frames: list[dict[str, Any]]) -> str | None:
    """The innermost Python frame of a stack that no package has: file, line, function."""
    for frame in frames:
        path = frame["filename"]
        if path.endswith(".py") and not re.search(_NOT_THE_USERS, path):
            return f"{path.replace(BACKSLASH, '/').rpartition('/')[2]}:{frame['line']} {frame['name']}"
    return None


def live_at_peak(snapshot: dict[str, Any], device: int) -> list[tuple[int, list[dict[str, Any]]]]:
    """The blocks live at the first highest level: their sizes and stacks; a stack is empty where it is not known."""
    held: dict[int, tuple[int, list[dict[str, Any]]]] = {}
    for segment in snapshot["segments"]:
        place = segment["address"]
        for block in segment["blocks"] if segment["device"] == device else ():
            past = (block.get("history") or [{}])[0]
            if block["state"] == "active_allocated":
                size = past.get("real_size") or block.get("requested_size") or block["size"]
                held[place] = size, block.get("frames") or past.get("frames") or []
            place += block["size"]
    traces = snapshot.get("device_traces") or []
    trace = [entry for entry in (traces[device] if traces else []) if entry["action"] in ("alloc", "free_requested")]
    first = {entry["addr"]: entry for entry in reversed(trace)}
    live = {at: block for at, block in held.items() if at not in first}
    live |= {at: (entry["size"], []) for at, entry in first.items() if entry["action"] != "alloc"}
    level = high = sum(size for size, _ in live.values())
    best = [*live.values()]
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"], entry.get("frames") or []
            level += entry["size"]
        else:
            level -= live.pop(entry["addr"])[0]
        if level > high:
            high, best = level, [*live.values()]
    return best


def claims(shared: Path) -> Iterator[tuple[str, dict[str, Any], list[tuple[int, list[dict[str, Any]]]]]]:
    for path in sorted((shared / "data/torch/snapshots").glob("*.pickle")):
        with path.open("rb") as file:
            snapshot = pickle.load(file)
        for log in memlens.analyze(path).logs:
            for claim in log.to_dict()["claims"]:
                if claim["kind"] == "largest_at_peak":
                    device = int(re.sub(r"\D", "", log.device or "0") or 0)
                    yield path.name, claim, live_at_peak(snapshot, device)


def test_the_largest_part_of_a_peak_is_all_that_its_label_says(shared: Path) -> None:
    seen = Counter[str]()
    for name, claim, blocks in claims(shared):
        of: Counter[str | None] = Counter()
        for size, frames in blocks:
            of[users_frame(frames) or "" if frames else None] += size
        assert sum(of.values()) == claim["peak_bytes"], name
        if claim["before_input"]:
            key = None
        else:
            key = claim["owner"].split(" < ")[-1]
        if claim["before_input"] or " < " not in claim["owner"]:
            assert of[key] == claim["total_bytes"], (name, claim)
            assert all(size <= claim["total_bytes"] for size in of.values()) or " < " in claim["text"], name
            seen["whole"] += 1
        else:  # by a frame of a package, called from the user's
            first = claim["owner"].split(" < ")[0].partition(" ")[0]
            those = [
                size
                for size, frames in blocks
                if users_frame(frames) == key
                and any(first in f"{f['filename']}:{f['line']}".replace(BACKSLASH, "/") for f in frames)
            ]
            assert (sum(those), len(those)) == (claim["total_bytes"], claim["blocks"]), (name, claim)
            seen["pair"] += 1
    assert seen["whole"] > 3


def test_a_frame_in_several_stacks_is_summed(shared: Path) -> None:
    (claim,) = (one for name, one, _ in claims(shared) if name == "state_only_2023.pickle")
    # 762.08 MiB of 770.21: the stacks differ only in what calls this line
    assert claim["text"].startswith("762.08 MiB (99%)")
    assert "pytorch_backend.py:195" in claim["text"]
