"""The reference implementation of the Kineto reader: the whole file through ``json.loads``, then loops over what comes out."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

SPANS = {"cpu_op": "op", "Operator": "op", "python_function": "frame", "user_annotation": "note"}


@dataclass(frozen=True)
class Event:
    """One event: ``kind`` is alloc, free, reserve or release."""

    kind: str
    size: int
    addr: int
    time_us: int
    thread: int
    owner: str | None
    index: int
    stack: tuple[str, ...] = ()
    framed: bool = False


@dataclass(frozen=True)
class PlainLog:
    """What the trace says of one device; ``opening`` is the multiset of what was there before, as sorted (kind, size, addr)."""

    opening: list[tuple[str, int, int]]
    events: list[Event]
    marks: list[tuple[int, str, int | None]]
    ooms: list[tuple[int, int | None]]
    totals: list[int | None]
    malformed: int


def read_plain(text: bytes) -> dict[tuple[int, int], PlainLog]:
    """The logs of a trace by (device type, device id)."""
    whole = json.loads(text.decode("utf-8", "replace"), parse_float=Decimal, parse_constant=lambda _: None)
    listed = whole["traceEvents"] if isinstance(whole, dict) else whole
    base = whole.get("baseTimeNanoseconds", 0) if isinstance(whole, dict) else 0
    base = base if type(base) is int and abs(base) <= 4 * 10**18 else 0
    changes, spans, failures, malformed = [], [], [], 0
    for number, event in enumerate(listed):
        if not isinstance(event, dict):
            continue
        name, phase, category = event.get("name"), event.get("ph"), event.get("cat")
        args: Any = event.get("args")
        args = args if isinstance(args, dict) else {}
        time = nanoseconds(event.get("ts"))
        track = (thread(event.get("pid", -1)), thread(event.get("tid", -1)))
        sound = is_sound(event)
        if phase in ("i", "I") and name == "[memory]":
            change = read_change(args)
            if time is None or change is None or not sound:
                malformed += 1
            else:
                changes.append((time, number, track, change))
        elif phase in ("i", "I") and name == "[OutOfMemory]":
            kind, device, size = (whole_number(args.get(key)) for key in ("Device Type", "Device Id", "Bytes"))
            if time is None or not is_device(kind, device) or not sound:
                malformed += 1
            else:
                failures.append((time, number, (kind, device), size if size and 0 < size <= 1 << 60 else None))
        elif phase == "X" and isinstance(category, str) and category in SPANS and isinstance(name, str):
            span = SPANS[category]
            lasts = 0 if category == "user_annotation" and "dur" not in event else nanoseconds(event.get("dur"))
            if time is None or lasts is None or not sound:
                malformed += 1
                continue
            stack = args.get("Call stack") if span == "op" else None
            span = "note" if span == "op" and "#" in name else span
            spans.append((span, track, time, time + lasts, number, clean(name), clean(stack)))
    has_addresses = any("Addr" in change for *_, change in changes)
    return {
        device: make_log(device, changes, spans, failures, malformed, base, has_addresses)
        for device in {(change["Device Type"], change["Device Id"]) for *_, change in changes}
    }


def make_log(device: Any, changes: Any, spans: Any, failures: Any, malformed: int, base: int, real: bool) -> PlainLog:
    mine = sorted(c for c in changes if (c[3]["Device Type"], c[3]["Device Id"]) == device)
    notes = sorted((start, number, name, end) for kind, _, start, end, number, name, _ in spans if kind == "note")
    ooms = sorted((time, number, size) for time, number, of, size in failures if of == device)
    things = (
        [(n[0], 0, n[1], n) for n in notes] + [(c[0], 1, c[1], c) for c in mine] + [(o[0], 2, o[1], o) for o in ooms]
    )
    things.sort(key=lambda thing: thing[:3])
    index = {(kind, number): k for k, (_, kind, number, _) in enumerate(things)}
    names = owner_finder(spans)
    live: dict[Any, list[int]] = defaultdict(list)
    seen: set[int] = set()
    events: list[Event] = []
    opening: list[tuple[str, int, int]] = []
    totals: list[int | None] = []
    reserved = next((c[3]["Total Reserved"] for c in mine if c[3].get("Total Reserved") is not None), 0)
    said = [c[3]["Total Reserved"] for c in mine if c[3].get("Total Reserved") is not None]
    segments = any(said) and min(said) >= 0
    if segments and reserved:
        opening.append(("reserve", reserved, 0))
    made = 0
    for time, number, track, change in mine:
        at = index[1, number]
        time_us = (time + base) // 1000
        new = change.get("Total Reserved")
        if segments and new is not None and new != reserved:
            events.append(
                Event("reserve" if new > reserved else "release", abs(new - reserved), 0, time_us, track[1], None, at)
            )
            reserved = new
        size = change["Bytes"]
        if real:
            addr = change.get("Addr", 0)
            if size < 0 and addr not in seen:
                opening.append(("alloc", -size, addr))
            seen.add(addr)
        elif size > 0:
            made += 1
            live[size].append(made)
            addr = made
        elif live[-size]:
            addr = live[-size].pop()
        else:
            made += 1
            addr = made
            opening.append(("alloc", -size, addr))
        owner, *stack = names(track, time)
        events.append(Event("alloc" if size > 0 else "free", abs(size), addr, time_us, track[1], owner, at, *stack))
        totals.append(change.get("Total Allocated"))
    if device[0] != 0 and totals[0] is not None:
        rest = totals[0] - mine[0][3]["Bytes"] - sum(size for kind, size, _ in opening if kind == "alloc")
        if rest > 0:
            opening.append(("alloc", rest, 2**64 - 1))
    marks: list[tuple[int, str, int | None]] = []
    for start, number, name, end in notes:
        here = index[0, number]
        after = max(here + 1, sum(thing[0] < end for thing in things))
        place = after == here + 1 and end - start < 1_000_000 and "#" not in name.strip("#")
        marks.append((here, name, None if place else after))
    failed = [(index[2, number], size) for _, number, size in ooms]
    return PlainLog(sorted(opening), events, marks, failed, totals, malformed)


def owner_finder(spans: Any) -> Any:
    """A function from a track and a time, asked for in order of time, to an owner, a stack, and whether it has frames of Python."""
    waiting: dict[Any, list[Any]] = defaultdict(list)
    running: dict[Any, list[Any]] = defaultdict(list)
    for kind, track, start, end, number, name, stack in spans:
        if kind == "op":
            waiting[track, "op"].append((start, -end, number, name, stack))
        if kind == "frame" and level(name):
            waiting[track, "frame"].append((start, -end, number, name, stack))
        if kind == "frame" and level(name) == 2:
            waiting[track, "own"].append((start, -end, number, name, stack))
    for intervals in waiting.values():
        intervals.sort(reverse=True)

    def innermost(track: Any, kind: str, time: int) -> tuple[str, str | None]:
        ahead, now = waiting[track, kind], running[track, kind]
        while ahead and ahead[-1][0] <= time:
            now.append(ahead.pop())
        now[:] = [interval for interval in now if -interval[1] >= time]
        return (now[-1][3], now[-1][4]) if now else ("", None)

    def chain(track: Any, kind: str) -> list[str]:
        found: list[Any] = []
        for interval in reversed(running[track, kind]):
            if not found or interval[1] <= found[-1][1]:  # it ends no earlier
                found.append(interval)
        return [interval[3] for interval in found]

    def find(track: Any, time: int) -> tuple[str | None, tuple[str, ...], bool]:
        (op, stack), (frame, _), (own, _) = (innermost(track, kind, time) for kind in ("op", "frame", "own"))
        if stack:
            frames = [text for text in stack.split(";") if level(text)]
            frame = frames[0] if frames else ""
            own = next((text for text in frames if level(text) == 2), "")
        frame = "(generated code)" if is_generated(frame) else frame
        parts = [op]
        parts += [part for part in (frame, own) if part not in parts]
        operators, lines = chain(track, "op"), stack.split(";") if stack else chain(track, "frame")
        node = re.compile(r"autograd::engine::evaluate_function|\w+Backward\d*$")
        known = bool(lines) or any(map(node.match, operators))
        whole = (*operators, *(as_line(line) for line in lines if level(line))) if known else ()
        return " < ".join(dict.fromkeys(part for part in parts if part)) or None, whole, bool(lines)

    return find


def as_line(frame: str) -> str:
    path, line, function = re.fullmatch(r"(.+?)\((\d+)\): (.*)", frame, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{path}:{line} {function}"


def is_generated(name: str) -> bool:
    """Whether a frame is of code that the compiler wrote, as far as the traces made up here have it."""
    folders = re.split(r"[/\\]", name.partition("(")[0])[:-1]
    return any(folder[:14] == "torchinductor_" != folder for folder in folders) or name[:15] == "<eval_with_key>"


def level(name: str) -> int:
    """0 for no frame of a file, 1 for one of foreign code, 2 for one of the user's."""
    found = re.match(r"(.+?)\(\d+\): ", name)
    if not found or name.startswith(("<built-in ", "nn.Module: ")):
        return 0
    path = found[1]
    folders = re.split(r"[/\\]", path)[:-1]
    if is_generated(name):
        return 1
    if {"torch", "site-packages", "dist-packages", "importlib"} & set(folders):
        return 1
    if path.startswith("<") and not path.startswith(("<stdin", "<ipython", "<string")):
        return 1
    last = re.split(r"[/\\]", path)[-1]
    return 1 if last in {f"{name}.py" for name in ("contextlib", "functools", "threading", "runpy", "queue")} else 2


def clean(text: Any) -> str | None:
    return text[:4096].encode("utf-8", "replace").decode() if isinstance(text, str) else None


def read_change(args: dict[str, Any]) -> dict[str, int] | None:
    change: dict[str, int] = {}
    for key in ("Device Type", "Device Id", "Bytes", "Addr", "Total Allocated", "Total Reserved"):
        if key in args:
            number = whole_number(args[key])
            if number is None:
                return None
            change[key] = number
    if not is_device(change.get("Device Type"), change.get("Device Id")):
        return None
    if not 0 < abs(change.get("Bytes", 0)) <= 1 << 47 or not 0 <= change.get("Addr", 0) < 1 << 64:
        return None
    if any(abs(change.get(key, 0)) > 1 << 60 for key in ("Total Allocated", "Total Reserved")):
        return None
    return change


def is_device(kind: int | None, device: int | None) -> bool:
    return kind is not None and device is not None and 0 <= kind < 256 and -1 <= device < 32768


def is_sound(event: dict[str, Any]) -> bool:
    """Whether what is not asked for by itself has the type that it has in every trace: one decoder reads all kinds of events."""
    args = event.get("args")
    if not isinstance(args, (dict, type(None))) or any(
        type(event.get(key, -1)) not in (int, str) for key in ("pid", "tid")
    ):
        return False
    found = {} if args is None else args
    most = {"Device Type": (0, 255), "Device Id": (-1, 32767), "Bytes": (-(10**999), 10**999), "Addr": (0, 10**999)}
    most |= dict.fromkeys(("Total Allocated", "Total Reserved"), (-(1 << 60), 1 << 60))
    numbers = all(
        type(found[key]) is int and low <= found[key] <= high for key, (low, high) in most.items() if key in found
    )
    return numbers and isinstance(found.get("Call stack"), (str, type(None))) and isinstance(event.get("cat", ""), str)


def whole_number(value: Any) -> int | None:
    return value if type(value) is int else None


def is_number(value: Any) -> bool:
    if type(value) is Decimal:
        return value.is_finite() and value.adjusted() <= 20
    return type(value) is int


def nanoseconds(value: Any) -> int | None:
    return math.floor(value * 1000) if is_number(value) and 0 <= value <= 4 * 10**15 else None


def thread(value: Any) -> int:
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"-?[0-9]{1,15}", value) else -1
    return value if type(value) is int and abs(value) <= 10**15 else -1
