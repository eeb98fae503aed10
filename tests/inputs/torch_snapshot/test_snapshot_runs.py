"""Runs of entries read as columns are what the machine reads instruction by instruction."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many, some
from snapshots import FORMS, Allocator, entries_of, pickled, snapshot, unshared

from memlens.inputs.torch_snapshot import pickles
from memlens.inputs.torch_snapshot.entries import Action, read_entries
from memlens.inputs.torch_snapshot.entry_runs import EntryRuns, Rows
from memlens.inputs.torch_snapshot.pickles import BadPickle, load
from memlens.inputs.torch_snapshot.stacks import Tables


def columns_of(data: bytes, *, fast: bool) -> tuple[list[dict[str, Any]], int]:
    """The entries of each device as plain columns, and how many of them were read in runs."""
    tables, runs = Tables(), EntryRuns()
    value = load(io.BytesIO(data).read, runs if fast else None)
    in_runs = sum(item.entries for trace in value["device_traces"] for item in trace if isinstance(item, Rows))
    found = []
    for trace in value["device_traces"]:
        entries = read_entries(trace, runs.objects, tables)
        found.append(
            {
                **{name: getattr(entries, name).tolist() for name in ("action", "addr", "size", "stream", "time_us")},
                "stack": [tables.whole(number) if number >= 0 else () for number in entries.stack.tolist()],
                "metadata": [
                    tables.texts.values[number] if number >= 0 else "" for number in entries.metadata.tolist()
                ],
                "pool": [tables.pools.values[number] if number >= 0 else None for number in entries.pool.tolist()],
                "user_defined": entries.user_defined,
                "malformed": entries.malformed,
                "device_free": entries.device_free,
            }
        )
    return found, in_runs


def plain_stack(entry: dict[str, Any]) -> tuple[str, ...]:
    """The call stack of an entry; one of Paddle's with its operator, of which it has a frame where it has no stack."""
    frames = tuple(f"{f['filename']}:{f['line']} {f['name']}" for f in entry["frames"])
    name = entry.get("op_name")
    return (name, *(frames if frames != (f":0 {name}",) else ())) if name else frames


def plain_columns(trace: list[dict[str, Any]]) -> dict[str, Any]:
    """The same from the dicts that were pickled."""
    return {
        "action": [
            int(Action[entry["action"].upper()] if entry["action"] != "annotation" else Action.USER_DEFINED)
            for entry in trace
        ],
        "addr": [entry["addr"] for entry in trace],
        "size": [entry["size"] for entry in trace],
        "stream": [entry["stream"] for entry in trace],
        "time_us": [entry.get("time_us", -1) for entry in trace],
        "stack": [plain_stack(entry) for entry in trace],
        "metadata": [entry.get("user_metadata", "") for entry in trace],
        "pool": [entry.get("pool_id") for entry in trace],
        "user_defined": {
            k: entry["op_name"]
            if "op_name" in entry
            else f"{entry['frames'][0]['name']} {entry['frames'][0]['filename']}"
            for k, entry in enumerate(trace)
            if entry["action"] in ("user_defined", "annotation")
        },
        "malformed": 0,
        "device_free": {},
    }


def with_marks_and_pools(chance: random.Random, trace: list[dict[str, Any]]) -> None:
    """Put ``user_defined`` entries among those of a trace, and pools into those that name one: one tuple for many entries, or one each."""
    pools = [(0, 0), (0, 1), (7, 0)]
    for k in range(0, len(trace), 25):
        if "op_name" in trace[0]:
            break  # Paddle's are there
        frames = [{"name": chance.choice(("START", "END")), "filename": f"part {k}", "line": 0}]
        trace.insert(k, trace[0] | {"action": "user_defined", "addr": 0, "size": 0, "frames": frames})
    for k, entry in enumerate(trace):
        if "pool_id" in entry:
            pool = pools[k // 40 % 3]
            entry["pool_id"] = pool if chance.random() < 0.5 else (pool[0], int(str(pool[1])))


@settings(max_examples=many(60))
@given(st.integers(0, 2**32), st.integers(0, 400), st.sampled_from(FORMS), st.integers(2, 5), st.booleans())
def test_runs_are_what_the_plain_way_reads(seed: int, steps: int, era: str, protocol: int, slow: bool) -> None:
    made = snapshot([Allocator(random.Random(seed)).run(steps, streams=True)], era)
    with_marks_and_pools(random.Random(seed), made["device_traces"][0])
    data = pickled(made, protocol, slow=slow)
    fast, in_runs = columns_of(data, fast=True)
    assert fast == columns_of(data, fast=False)[0] == [plain_columns(made["device_traces"][0])]
    if protocol >= 4 and len(made["device_traces"][0]) > 300:
        assert in_runs > 100


@settings(max_examples=many(10))
@given(st.integers(0, 2**32), st.integers(3000, 20_000), st.sampled_from(["newest", "paddle"]))
def test_runs_may_be_cut_by_windows_and_batches(seed: int, window: int, form: str) -> None:
    made = snapshot([Allocator(random.Random(seed)).run(600)], form)
    with_marks_and_pools(random.Random(seed), made["device_traces"][0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickles, "WINDOW", window)
        patch.setattr(pickles, "_MARGIN", 1400)
        fast, in_runs = columns_of(pickled(made), fast=True)
    assert fast == [plain_columns(made["device_traces"][0])]
    assert in_runs > 200


def odd_entries(chance: random.Random, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of all sorts among the usual ones."""
    shared = {"user_metadata": "shared", "frames": [{"name": "f", "filename": "f.py", "line": 1}]}
    odd: list[dict[str, Any]] = [
        {"size": 2**40 + 1, "addr": 2**63 - 5},
        {"size": 0, "stream": 2**40},
        {"user_metadata": "ü" * 100},
        {"user_metadata": "x" * 300},
        {"frames": []},
        {"frames": [{"name": "once", "filename": "o.py", "line": chance.randrange(100)}]},
        {"frames": [entries[0]["frames"][0]] if entries[0]["frames"] else []},
        shared,
    ]
    return [{**entry, **chance.choice(odd)} if chance.random() < 0.2 else entry for entry in entries]


@settings(max_examples=many(25))
@given(st.integers(0, 2**32), st.sampled_from(["newest", "paddle"]), st.booleans())
def test_odd_values_among_the_entries_are_read(seed: int, form: str, apart: bool) -> None:
    chance = random.Random(seed)
    allocator = Allocator(chance).run(300)
    trace = odd_entries(chance, entries_of(allocator.entries, form))
    made = {"segments": [], "device_traces": [trace]}
    assert columns_of(pickled(unshared(made) if apart else made), fast=True)[0] == [plain_columns(trace)]


def test_bytes_that_look_like_entries_are_not_taken_for_any() -> None:
    allocator = Allocator(random.Random(5)).run(200)
    trace = [dict(entry) for entry in allocator.entries]
    data = pickled({"device_traces": [trace]})
    at = data.index(b"}\x94(h", len(data) // 2)
    for k in range(0, len(trace), 3):
        trace[k]["user_metadata"] = data[at : at + 12].decode("latin-1") + str(k)
    made = {"segments": [], "device_traces": [trace]}
    assert columns_of(pickled(made), fast=True)[0] == [plain_columns(trace)]


@settings(max_examples=many(150))
@given(st.integers(0, 2**32), st.sampled_from(["2026", "paddle"]), st.data())
def test_damaged_bytes_give_the_same_either_way(seed: int, form: str, data: st.DataObject) -> None:
    text = bytearray(pickled(snapshot([Allocator(random.Random(seed)).run(80)], form)))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(2, len(text) - 1))] = data.draw(st.integers(0, 255))
    found = []
    for fast in (True, False):
        try:
            found.append(columns_of(bytes(text), fast=fast)[0])
        except (BadPickle, KeyError, TypeError, AttributeError):  # not a snapshot any more
            found.append([])
    assert found[0] == found[1]


def test_a_trace_that_is_named_as_the_frames_of_its_entry_is_no_stack() -> None:
    """Byte 2308 is the memo index of an entry's frames; 91 is that of the trace, whose entries a fast reader holds as rows."""
    text = bytearray(pickled(snapshot([Allocator(random.Random(91)).run(80)])))
    text[2308] = 91
    fast, plain = (columns_of(bytes(text), fast=fast)[0] for fast in (True, False))
    assert fast == plain
    assert fast[0]["stack"][14] == ()


@pytest.mark.night
def test_real_snapshots_give_the_same_either_way(shared: Path) -> None:
    for path in some(sorted((shared / "data/torch/snapshots").glob("*.pickle")), 3):
        if path.stat().st_size > 1_300_000:  # the larger ones have nothing new, and take the plain way long
            continue
        data = path.read_bytes()
        fast, in_runs = columns_of(data, fast=True)
        plain, none = columns_of(data, fast=False)
        assert fast == plain, path.name
        assert none == 0
        count = sum(len(device["action"]) for device in fast)
        assert in_runs >= 0.9 * count or count < 10, path.name
