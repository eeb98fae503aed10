"""Runs as their files have them: lines by regular expressions, entries of a pickle, events of JSON.  Nothing here is memlens's.

It reads whole and sound inputs, for judges of what memlens says of them; :func:`raw_runs` is all that these need.
"""

from __future__ import annotations

import csv
import gzip
import io
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import plain_kineto
import zstandard

#: Beginnings of holders that stay.
_STAYING = ("parameter ", "optimizer ", "buffer ")
#: What holders begin with, or are, by their role.
_ROLES = {
    **{word: word for word in ("parameter", "gradient", "optimizer", "buffer", "saved", "variable", "garbage")},
    "no variable": "nobody",
    "the backward graph": "saved",
    "a variable that no walk saw": "variable",
    "a gradient that no walk saw": "gradient",
    "optimizer state that no walk saw": "optimizer",
    **dict.fromkeys(("a temporary", "a temporary of the backward pass"), "temporary"),
}


#: What leads on from a variable.
_LEADS = re.compile(r"variable [^.\[ ]+(\..*) \([^()]*\)")


def _known_as(row: tuple[int, int, str], earlier: Sequence[tuple[int, int, str]], whole: set[int]) -> str:
    """The holder that a row of a block names; a short walk says no other one than a walk that saw all before, where both lead on alike, or that one's stays."""
    (_, walk, name), known = row, [one[2] for one in earlier if one[1] in whole or one[2].startswith(_STAYING)]
    if walk in whole or name.startswith(_STAYING) or not known:
        return name
    one, other = _LEADS.fullmatch(known[-1]), _LEADS.fullmatch(name)
    return known[-1] if known[-1].startswith(_STAYING) or (one and other and one[1] == other[1]) else name


def _of_passes(call: str) -> int:
    """How many backward passes run within a call, one within the other."""
    operator, *lines = call.split(" < ")
    return ("GradNode" in operator or operator == "run_backward") + lines.count("run_backward")


class RawEvent(NamedTuple):
    """One event.

    Attributes:
        kind: ``alloc``, ``free``, ``reserve`` or ``release``.
        size: Bytes.
        block: The address, or what tells blocks apart; ``None`` where nothing does.
        place: Its line or entry, from 1; ``None`` for what was there before the first one.
        owner: Whose it is: the innermost frame or operator, and the first frame of the user's; ``""`` where its stack is known to be none.
        call: The call of the program that it is within, as a whole; ``-`` for none.
    """

    kind: str
    size: int
    block: Any
    place: int | None
    owner: str | None = None
    call: str = "-"


class Failure(NamedTuple):
    """A request that was refused: its line or entry, that of the message, and what is said of it."""

    place: int
    message: int
    requested: int | None = None
    device_free: int | None = None
    device_total: int | None = None


@dataclass
class RawRun:
    """One run, or one device of it.

    Attributes:
        events: The events, those that were there before first.
        notes: Lines, or annotations, and where they stand.
        failures: Requests refused.
        lines: How many lines it has; of what has entries 0.
        chunks: It tells of all chunks.
        by: A regular expression that cuts it into steps, ``""`` for none.
        ends: The lines that it matches end what they name.
        asked: The part that is asked for, by its events; all of it where ``None``.
        snapshot: It is one moment, without a trace.
        uncounted: It is not known in how many blocks that was which was there before.
        claims: All that is claimed of it, where one claim follows from another.
        later: So many windows closed since growth was judged.
        until: Where annotations end, by where they stand.
    """

    events: list[RawEvent]
    notes: Sequence[tuple[int, str]] = ()
    failures: Sequence[Failure] = ()
    lines: int = 0
    chunks: bool = True
    by: str = ""
    ends: bool = False
    asked: tuple[int, int] | None = None
    snapshot: bool = False
    uncounted: bool = False
    claims: Sequence[Mapping[str, Any]] = ()
    later: int = 0
    until: Mapping[int, int] = field(default_factory=dict)
    partner: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        live: dict[Any, int] = {}
        for number, one in enumerate(self.events):
            if one.kind == "alloc":
                live[one.block] = number
            elif one.kind == "free" and one.block in live:
                self.partner[live.pop(one.block)] = number

    @cached_property
    def opening(self) -> int:
        """How many events were there before."""
        return sum(one.place is None for one in self.events)

    @cached_property
    def allocated(self) -> list[int]:
        """The bytes that blocks hold before the first event and after each."""
        return self._levels("alloc", "free")

    @cached_property
    def reserved(self) -> list[int]:
        """The bytes that chunks hold."""
        return self._levels("reserve", "release")

    def _levels(self, more: str, less: str) -> list[int]:
        return [0, *accumulate(one.size * ((one.kind == more) - (one.kind == less)) for one in self.events)]

    @cached_property
    def holders(self) -> dict[int, str]:
        """Who was last seen to hold a block, by its ALLOC: the line of a walk, or nobody where a later whole walk has no line of it, unless it is one that stays.

        Of what no walk saw its life tells; of what was saved for a backward pass, too, where nobody held it.
        """
        rows, whole = self._walks()
        named = any(one.owner for one in self.events)
        holders: dict[int, str] = {}
        alone = set[int]()
        let_go: dict[int, int] = {}
        for born in (k for k, one in enumerate(self.events) if one.kind == "alloc"):
            seen, freed = rows.get(born, []), self.partner.get(born, len(self.events))
            if seen:
                holders[born] = seen[-1][2]
            after = [at for at, walk in whole if born < at <= freed and (not seen or walk > seen[-1][1])]
            if not after or holders.get(born, "").startswith(_STAYING):
                continue
            if seen:
                let_go[born] = after[0]
                if freed - after[0] < seen[-1][0] - born:
                    continue  # somebody held it for longer
            elif named and self._is_young(born, after[-1] - born, rows):
                continue
            alone.add(born)
            holders[born] = "no variable"
        if any(_HOLDS.search(line) for _, line in self.notes):
            if named:
                weights = ("parameter ", "gradient ")
                parameters = {self.events[k].size for k, by in holders.items() if by.startswith(weights)}
                for born in (k for k, one in enumerate(self.events) if one.kind == "alloc"):
                    holder = holders.get(born)
                    if born in alone and self._within_a_line(born):
                        holders[born] = holder = "a temporary"
                    if life := self._told_by_life(born, self.partner.get(born), holder, parameters):
                        holders[born] = life
                self._as_others(holders)
            self._at_the_peak(holders, rows, let_go)
        return holders

    def _walks(self) -> tuple[dict[int, list[tuple[int, int, str]]], list[tuple[int, int]]]:
        """Of each block, by its ALLOC, the rows that walks have of it: how many events stand before, the number of the walk, the holder; and the walks that saw all."""
        said = [(place, found[1], found[2]) for place, line in self.notes if (found := _HOLDS.search(line))]
        live: dict[Any, int] = {}
        rows: dict[int, list[tuple[int, int, str]]] = {}
        whole: list[tuple[int, int]] = []
        at, walk = 0, 0
        for place, address, name in said:
            while at < len(self.events) and (self.events[at].place or 0) < place:
                event = self.events[at]
                if event.kind == "alloc":
                    live[event.block] = at
                elif event.kind == "free":
                    live.pop(event.block, None)
                at += 1
            if address == "0x0":
                whole += [(at, walk)] * (name != "some")
                walk += 1
            elif address in live:
                rows.setdefault(live[address], []).append((at, walk, name))
        for born, seen in rows.items():
            # What an operator was given counts where it is let go of right after, and was given to no other one.
            last = max((row for row in seen if row[2].startswith("temporary ")), default=None)
            freed = self.partner.get(born)
            if last and (freed is None or any(one.call != "-" for one in self.events[last[0] : freed + 1])):
                last = None
            kept = [row for row in seen if not row[2].startswith("temporary ") or row == last]
            of_whole = {walk for _, walk in whole}
            rows[born] = [(*row[:2], _known_as(row, kept[:k], of_whole)) for k, row in enumerate(kept)]
        return {born: seen for born, seen in rows.items() if seen}, whole

    def _is_young(self, born: int, looked: int, rows: Mapping[int, Sequence[tuple[int, int, str]]]) -> bool:
        """Whether the last one that the same call made, of the same size, was older when it was first found than a block was when one looked last."""
        call, size = self.events[born].call, self.events[born].size
        alike = [k for k in rows if (self.events[k].call, self.events[k].size) == (call, size)] if call != "-" else []
        return bool(alike) and looked < rows[max(alike)][0][0] - max(alike)

    def _within_a_line(self, born: int) -> bool:
        """Whether a block goes while no operator runs, and none was called at another line meanwhile."""
        freed, lines, before = self.partner.get(born), list[str](), ""
        for one in self.events[: 0 if freed is None else freed + 1]:
            before = before if one.call == "-" else one.call.partition(" < ")[2]
            lines.append(before)
        return freed is not None and self.events[freed].call == "-" and len({*lines[born:]}) == 1

    def _at_the_peak(
        self, holders: dict[int, str], rows: Mapping[int, Sequence[tuple[int, int, str]]], let_go: Mapping[int, int]
    ) -> None:
        """What is live at the peak and goes before the last ALLOC has the holder of the row that is next to the peak, unless nobody held it then."""
        levels, held = list[int](), 0
        for k, one in enumerate(self.events):
            held += one.size if one.kind == "alloc" else 0
            held -= sum(self.events[born].size for born, freed in self.partner.items() if freed == k)
            levels.append(held)
        peak = levels.index(max(levels)) + 1
        end = max(k for k, one in enumerate(self.events) if one.kind == "alloc")
        for born, seen in rows.items():
            if born < peak <= self.partner.get(born, end) < end and let_go.get(born, peak + 1) > peak:
                early, late = [row for row in seen if row[0] <= peak], [row for row in seen if row[0] > peak]
                row = min([*early[-1:], *late[:1]], key=lambda row: abs(row[0] - peak))
                if not row[2].startswith(_STAYING):
                    holders[born] = row[2]

    def _as_others(self, holders: dict[int, str]) -> None:
        """What no walk saw is as the last one like it that a walk saw: what goes when nothing is made any more saved; in a training it may be a graph's."""
        end = max(k for k, one in enumerate(self.events) if one.kind == "alloc")
        unseen = [k for k, by in holders.items() if by == "a variable that no walk saw"]
        told = ("variable ", "saved ", "the backward graph", "optimizer", "garbage ")
        alike: dict[tuple[str, int], str] = {}
        for born in sorted(holders.keys() - set(unseen)):
            if holders[born].startswith(told):
                alike[self.events[born].call, self.events[born].size] = holders[born]
        trained = any(_of_passes(one.call) for one in self.events)
        for born in unseen:
            call, size = self.events[born].call, self.events[born].size
            like = alike.get((call, size), "") if call != "-" else ""
            if like.startswith(("saved ", "the backward")) and self.partner.get(born, 0) > end:
                holders[born] = "the backward graph"
            elif like.startswith("optimizer"):
                holders[born] = "optimizer state that no walk saw"
            elif like.startswith("garbage "):
                holders[born] = like
            elif not like and trained:
                holders[born] = "a variable or a graph that no walk saw"
            elif not like and self._within_a_line(born):
                after = self._calls_of(born)
                if after and call not in after:
                    holders[born] = "a temporary"

    def _calls_of(self, born: int) -> list[str]:
        """The calls after that which made a block until it goes, one after the other; those of the same operator at the same line are one."""
        calls = [one.call for one in self.events[born : self.partner[born] + 1] if one.call != "-"]
        return [call for before, call in pairwise(calls) if call != before]

    def _told_by_life(self, born: int, freed: int | None, holder: str | None, parameters: set[int]) -> str | None:
        if holder not in (None, "no variable"):
            return None
        calls = [one.call for one in self.events[born : born + 1 if freed is None else freed + 1]]
        passes = [*map(_of_passes, calls)]
        if freed is not None and passes[-1] > passes[0]:
            return "the backward graph"
        if holder is not None:  # a gradient of a pass before, through which the one after differentiates
            return "the backward graph" if freed is not None and passes[0] and passes[-1] and 0 in passes else None
        if freed is not None and all(passes):
            return "a temporary of the backward pass"
        lines = {"-" if call == "-" else call.partition(" < ")[2] for call in calls}
        if freed is not None and calls[-1] != "-" and len(lines) == 1:
            return "a temporary"
        if passes[0]:
            return "a gradient that no walk saw" if self.events[born].size in parameters else None
        return "a variable that no walk saw" if freed is not None and calls[-1] == "-" else None

    def roles_after(self, event: int) -> Counter[str]:
        """The bytes of each role that are live right after an event, as far as it is known who holds them."""
        totals = Counter[str]()
        for block in self.live_after(event):
            if role := self.role_of(block):
                totals[role] += self.events[block].size
        return totals

    def role_of(self, block: int) -> str | None:
        """The role of a block, as far as it is known who holds it."""
        holder = self.holders.get(block)
        return holder and (_ROLES.get(holder) or _ROLES[holder.partition(" ")[0]])

    def held_by(self, block: int) -> str | None:
        """Who holds a block, as sentences name it, its keys and indices left aside."""
        return in_common(re.sub(r"^(variable|saved) ", "", self.holders[block])) if block in self.holders else None

    @property
    def bounds(self) -> tuple[int, int]:
        """The events that are asked for."""
        return self.asked or (self.opening, len(self.events))

    def highest(self, lo: int, hi: int, levels: Sequence[int]) -> tuple[int, int | None]:
        """The highest level from one event on and before another, with the event that reaches it first; ``None`` where it is there from the start."""
        high = max(levels[lo : hi + 1])
        at = levels.index(high, lo, hi + 1) - 1
        return high, at if at >= lo else None

    def place(self, event: int | None) -> int | None:
        return None if event is None else self.events[event].place

    def before(self, place: int) -> int:
        """How many events stand before a line or entry."""
        return sum((one.place or 0) < place for one in self.events)

    def live_after(self, event: int) -> list[int]:
        """The ALLOCs of the blocks that are live after an event."""
        last = len(self.events)
        born = (k for k in range(event + 1) if self.events[k].kind == "alloc")
        return [k for k in born if self.partner.get(k, last) > event]

    @cached_property
    def windows(self) -> dict[str, tuple[int, int]]:
        """The events of the windows that the expression cuts, by their names; what precedes the first is ``(before)``."""
        found = [(place, re.search(self.by, text)) for place, text in self.notes]
        cuts = [(place, match[match.re.groups and 1]) for place, match in found if match]
        names = ["(before)", *(name for _, name in cuts)]
        places = [one.place or 0 for one in self.events]
        edges = [0]
        for start, _ in cuts:
            at = edges[-1]
            while at < len(places) and places[at] < start:
                at += 1
            edges.append(at)
        if self.ends:
            # A bar that is drawn anew before anything happens says nothing of a step; no line but the last names what follows it.
            counts = [[*map(int, re.findall(r"\d+", name))] for name in names]
            some = [k for k in range(len(edges)) if k < 2 or edges[k] > edges[k - 1] or counts[k] > counts[k - 1]]
            edges, names = [edges[k] for k in some], [names[k] for k in some]
        times: Counter[str] = Counter()
        for k, name in enumerate(names):
            times[name] += 1
            names[k] = name if times[name] == 1 else f"{name} #{times[name]}"
        if self.ends:
            names = [names[0], *names[2:], "(after)"]
        own = [len(places), *(self.before(self.until.get(start, 1 << 60)) for start, _ in cuts if not self.ends)]
        cut = zip(
            names, edges, [*edges[1:], len(places)], [*own, *[len(places)] * (len(names) - len(own))], strict=True
        )
        return {name: (max(lo, self.opening), min(hi, end)) for name, lo, hi, end in cut}

    @cached_property
    def judged(self) -> dict[str, tuple[int, int]]:
        """The windows that growth is judged over: all but one that the log ends, and what precedes the first only where it has events."""
        last = max((place for place, text in self.notes if re.search(self.by, text)), default=0)
        closed = [*self.windows.items()][: None if last in self.until and not self.later else -1 - self.later]
        return {name: bounds for k, (name, bounds) in enumerate(closed) if k or bounds[1] > bounds[0]}


# -- lines ---------------------------------------------------------------------------------------------------------------------

#: Blocks, by the allocator that tells of them: the first of these that a log has.
_BLOCKS = (
    re.compile(r"\b(?:Alloc (?P<size>\d{1,15})|Free (?P<freed>\d{1,15})) bytes, ptr = (?P<block>0x[0-9a-f]+)"),
    re.compile(
        r"Allocate (?P<size>\d{1,15}) bytes at address (?P<block>0x[0-9a-f]+)|(?P<free>Try free allocation )(?P<at>0x[0-9a-f]+)"
    ),
)
_CHUNK = re.compile(r"Not found and reallocate (\d{1,15})(?:\((0x[0-9a-f]+)\))?|Free chunk with size (\d{1,15})\b")
_NAIVE = re.compile(r"Allocate (\d+) bytes on |  pointer=(0x[0-9a-f]+)|Free pointer=(0x[0-9a-f]+)")
_STATS = re.compile(
    r"(?:Host|Device)MemoryStat(Allocated|Reserved)\d+: Update current_value with (-?\d+), after update, current"
)
_HOLDS = re.compile(r"memlens holds (0x[0-9a-f]+) (.*)")
_CALLED = re.compile(
    r"^I\d{4} [\d:.]+ +(\d+) (?:backward\.cc:\d+\] (\w+)\(0x\w+\) Preparing|line\.py:0\] memlens calls (.+))"
)
_OPERATOR = re.compile(
    r"Running(?:_AD_API(?:_GRAD|_Grad)?| AD API(?: GRAD| Grad)?): ([\w.<>]+)|Running Eager Backward Node: ([\w.<>]+)"
    r"|(?:RunInstruction|begin: RunInstructionBase) OP id:\d+ name:([\w.<>]+)|Start run Place\([\w:]+\) Op\(([\w.<>]+)\), inputs"
)
_REQUEST = re.compile(r"\b(?:Allocate (\d+) bytes, aligned to (\d+)|Alloc (\d+) bytes)")
_REFUSED = re.compile(
    r"Out of memory error on .*Cannot allocate (?P<asked>[\d.]+[kKMGT]?B) memory.*available memory is only (?P<left>[\d.]+[kKMGT]?B)"
    r"|Allocation of (?P<bytes>\d+) bytes failed after|CustomDevice error, the error code is : 2"
)
_TAKEN = re.compile(r", ([\d.]+[kKMGT]?B) memory has been allocated")
_HEADER = re.compile(r"\b[IWEF]\d{4} [\d:.]{15} +(\d+) ")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def in_common(holder: str) -> str:
    """A holder without its keys and indices, and an optimizer, also one in garbage, without its states."""
    alike = re.sub(r"\[(?:'[^']*'|\d+)\]", "[*]", holder)
    return re.sub(r"^(optimizer .+|garbage \w+)\.\w+\[\*\](?= \()", r"\1", alike)


def read_packed(path: Path) -> bytes:
    """The text of a log, packed or not."""
    packed = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(packed)
    if path.suffix == ".zst":
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
            return reader.read()
    return packed


def of_paddle(text: str) -> RawRun:
    """A log of Paddle: blocks and chunks of its auto-growth allocator, or else of its oldest one, or else figures alone."""
    plain = _ANSI.sub("", text)
    notes = list(enumerate(plain.split("\n"), 1))
    events: list[RawEvent] = []
    readers: list[Callable[[list[tuple[int, str]]], list[RawEvent]]] = [
        *(partial(_with_chunks, blocks=one) for one in _BLOCKS),
        *(_naive, _stats, _with_chunks),
    ]
    for read in readers:
        if not any(one.kind == "alloc" for one in events):
            events = read(notes) or events
    told = any(one.kind == "reserve" for one in events) and "PreAlloc " not in plain
    return RawRun(events, notes, _refused(notes), lines=text.count("\n") + (text[-1:] not in ("", "\n")), chunks=told)


def _with_chunks(notes: Sequence[tuple[int, str]], blocks: re.Pattern[str] = _BLOCKS[0]) -> list[RawEvent]:
    events: list[RawEvent] = []
    owners: dict[str, str] = {}
    calls: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for at_line, (place, line) in enumerate(notes):
        found: list[tuple[int, RawEvent]] = []
        if " 0x" in line or "(0x" in line:
            for m in blocks.finditer(line):
                one = m.groupdict()
                block = one["block"] or one["at"]
                size = int(one["size"] or one.get("freed") or sizes.pop(block, 0))
                sizes[block] = size
                found.append((m.start(), RawEvent("alloc" if one["size"] else "free", size, block, place)))
        if "hunk with size" in line or "Not found and" in line:
            for m in _CHUNK.finditer(line):
                kind = "reserve" if m[1] else "release"
                found.append((m.start(), RawEvent(kind, int(m[1] or m[3]), m[2], place)))
        if ("Run" in line or "run " in line) and (named := _OPERATOR.search(line)):
            headers = [m[1] for m in _HEADER.finditer(line, 0, named.start())]
            owners[headers[-1] if headers else _thread_before(notes, at_line)] = next(filter(None, named.groups()))
        if line.startswith("I") and (called := _CALLED.search(line)):
            # A line of the program before a call, - after it; an operator of the backward pass is of the call that it is within.
            by_thread, node, call = called.groups()
            _, _, frames = calls.get(by_thread, "-").partition(" < ")
            calls[by_thread] = called_now = call or f"{node} < {frames}"
            owners[by_thread] = "" if called_now == "-" else " < ".join(called_now.split(" < ")[:2])
        threads = [(m.end(), m[1]) for m in _HEADER.finditer(line)] if found else []
        for at, event in sorted(found):
            by = [name for end, name in threads if end <= at]
            of = by[-1] if by else ""
            events.append(event._replace(owner=owners.get(of), call=calls.get(of, "-")))
    return events


def _thread_before(notes: Sequence[tuple[int, str]], at: int) -> str:
    """The thread of the last header in the lines before one, which goes on with theirs."""
    found = (_HEADER.findall(notes[k][1]) for k in range(at - 1, -1, -1))
    return next((threads[-1] for threads in found if threads), "")


def _naive(notes: Iterable[tuple[int, str]]) -> list[RawEvent]:
    events, asked, sizes = [], 0, {}
    for place, line in notes:
        if found := _NAIVE.search(line):
            asked = int(found[1] or asked)
            if found[2]:
                sizes[found[2]] = asked
                events.append(RawEvent("alloc", asked, found[2], place))
            elif found[3]:
                events.append(RawEvent("free", sizes.pop(found[3]), found[3], place))
    return events


def _stats(notes: Iterable[tuple[int, str]]) -> list[RawEvent]:
    found = [(place, _STATS.search(line)) for place, line in notes]
    kinds = {"Allocated": ("alloc", "free"), "Reserved": ("reserve", "release")}
    return [RawEvent(kinds[m[1]][int(m[2]) < 0], abs(int(m[2])), None, place) for place, m in found if m is not None]


def _refused(notes: Sequence[tuple[int, str]]) -> list[Failure]:
    """What is refused: at the last request before the message that no block follows, or else at the message."""
    found = []
    for at, (place, line) in enumerate(notes):
        if ("error" in line or "failed" in line) and (message := _REFUSED.search(line)):
            asked = int(message["bytes"]) if message["bytes"] else _bytes(message["asked"])
            left, taken = _bytes(message["left"]), _TAKEN.search(line)
            total = left + (_bytes(taken[1]) or 0) if left is not None and taken else None
            last = next((one for one in reversed(notes[:at]) if _REQUEST.search(one[1])), None)
            request = _REQUEST.search(last[1]) if last else None
            waits = last is not None and request is not None and request[3] is None
            if waits and last and request and asked in (None, int(request[1]), int(request[2])):
                found.append(Failure(last[0], place, asked or int(request[2]), left, total))
            else:
                found.append(Failure(place, place, asked, left, total))
    return found


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    number, unit = text.rstrip("kKMGTB"), text[-2].upper()
    return round(float(number) * (1 << 10 * max(" KMGT".find(unit), 0)))


def of_rmm(text: str) -> RawRun:
    """A CSV log of RMM."""
    events, failures = [], []
    for place, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
        size = int(row["Size"])
        if row["Action"] == "allocate failure":
            failures.append(Failure(place, place, size))
        else:
            kind = "alloc" if row["Action"] == "allocate" else "free"
            events.append(RawEvent(kind, size, row["Pointer"], place))
    return RawRun(events, (), failures, lines=text.count("\n"), chunks=False)


# -- entries -------------------------------------------------------------------------------------------------------------------

_PASSING_ON = ("_call_impl", "_wrapped_call_impl", "decorate_context")
_PACKAGE = re.compile(r".*/(?:site-packages|dist-packages|lib(?:64)?/python\d[\d.]*)/(?=.+/)")
_USERS = re.compile(r"[/\\](?:site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3|torchinductor_|^<")
_CPP = re.compile(
    r"\bat::_ops::(?!(?:(?:new_)?empty|empty_memory_format|empty_strided|empty_like|resize_|set_)::)(\w+)::(?:call|redispatch)\b|(?:generated::)?(\w+Backward\d*)::apply\("
)


def of_snapshot(snapshot: Mapping[str, Any]) -> dict[int, RawRun]:
    """The devices of a memory snapshot of PyTorch."""
    traces = snapshot.get("device_traces") or []
    there = {segment.get("device", 0) for segment in snapshot["segments"]} | {k for k, one in enumerate(traces) if one}
    return {device: _of_device(snapshot, device, traces[device] if traces else []) for device in sorted(there)}


def _of_device(snapshot: Mapping[str, Any], device: int, trace: Sequence[Mapping[str, Any]]) -> RawRun:
    kinds = {"alloc": "alloc", "free_requested": "free"}
    kinds |= {
        "segment_alloc": "reserve",
        "segment_map": "reserve",
        "segment_free": "release",
        "segment_unmap": "release",
    }
    rows = [(place, one) for place, one in enumerate(trace, 1) if one["action"] in kinds]
    # A block can be used again where its free is completed: as a rule with the next entry.
    done = {(place, one["addr"]) for place, one in enumerate(trace, 1) if one["action"] == "free_completed"}
    rows = [(k + (o["action"] == "free_requested" and (k + 1, o["addr"]) in done), o) for k, o in rows]
    events = [
        RawEvent(kinds[o["action"]], o["size"], o["addr"], k, stack_label(o.get("frames")) or "") for k, o in rows
    ]
    segments = [one for one in snapshot["segments"] if one.get("device", 0) == device]
    held: dict[int, RawEvent] = {}
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            past = (block.get("history") or [{}])[0]
            if block["state"] == "active_allocated":
                size = past.get("real_size") or block.get("requested_size") or block["size"]
                label = stack_label(block.get("frames") or past.get("frames"))
                held[address] = RawEvent("alloc", size, address, None, label)
            address += block["size"]
    first = {one.block: one for one in reversed(events) if one.kind in ("alloc", "free")}
    opening = [one for address, one in held.items() if address not in first]
    opening += [one._replace(kind="alloc", place=None, owner=None) for one in first.values() if one.kind == "free"]
    change = sum(one.size * ((one.kind == "reserve") - (one.kind == "release")) for one in events)
    reserved = sum(segment["total_size"] for segment in segments) - change
    opening.append(RawEvent("reserve", reserved, None, None))
    failures = [
        Failure(k, k, one["size"], one.get("device_free")) for k, one in enumerate(trace, 1) if one["action"] == "oom"
    ]
    texts = ((place, one.get("user_metadata")) for place, one in enumerate(trace, 1))
    notes = [(place, text) for place, text in texts if isinstance(text, str) and text]
    changes = [pair for k, pair in enumerate(notes) if not k or notes[k - 1][1] != pair[1]]
    return RawRun(opening + events, changes, failures, snapshot=len(trace) <= 1)


def stack_label(frames: Sequence[Mapping[str, Any]] | None) -> str | None:
    """The innermost frame of Python that does more than pass a call on, and the first one of the user's; of a stack without Python its operator."""
    if not frames:
        return None
    told = [one for one in frames if one["filename"].endswith(".py") and one["name"] not in _PASSING_ON]
    if not told:
        operators = [m[1] or m[2] for one in frames if (m := _CPP.search(one["name"]))]
        return operators[0] if operators else ""
    own = next((one for one in told if not _USERS.search(one["filename"])), None)
    both = [_frame(told[0]), *([_frame(own)] if own is not None else [])]
    return " < ".join(dict.fromkeys(both))


def _frame(frame: Mapping[str, Any]) -> str:
    path = frame["filename"].replace("\\", "/")
    inside = _PACKAGE.sub("", path)
    return f"{inside if inside != path else path.rpartition('/')[2]}:{frame['line']} {frame['name']}"


def of_kineto(text: bytes) -> dict[int, RawRun]:
    """The devices of a trace by torch.profiler, the CPU as -1."""
    return {
        -1 if kind == 0 else device: _of_trace(one) for (kind, device), one in plain_kineto.read_plain(text).items()
    }


def _of_trace(plain: plain_kineto.PlainLog) -> RawRun:
    opening = [RawEvent(kind, size, addr, None) for kind, size, addr in plain.opening]
    events = [RawEvent(e.kind, e.size, e.addr, e.index + 1, trace_label(e.owner)) for e in plain.events]
    failures = [Failure(at + 1, at + 1, size) for at, size in plain.ooms]
    told = any(one.kind == "reserve" for one in opening + events)
    # The device's total less what the trace tells of.
    rest = any(one.kind == "alloc" and one.block == 2**64 - 1 for one in opening)
    marks = [(at + 1, text) for at, text, _ in plain.marks]
    until = {at + 1: end + 1 for at, _, end in plain.marks if end is not None}
    return RawRun(opening + events, marks, failures, chunks=told, uncounted=rest, until=until)


def trace_label(owner: str | None) -> str:
    """The operator, and the first frame of the user's."""
    if not owner:
        return ""
    first, *others = owner.split(" < ")
    own = next((one for one in (first, *others) if plain_kineto.level(one) == 2), None)
    if own is None or own == first:
        return first
    return f"{first} < {own}"


# -- any input -----------------------------------------------------------------------------------------------------------------


def raw_runs(path: Path) -> dict[str, RawRun]:
    """The runs in a file by their devices, as memlens names these: ``""`` for the only one."""
    return {device: replace(run) for device, run in _runs_in(path, path.stat().st_mtime_ns).items()}


@lru_cache(64)  # tests read the same files, and write down in a run what they ask
def _runs_in(path: Path, _: int) -> dict[str, RawRun]:
    data = read_packed(path)
    if path.suffix == ".pickle":
        runs = of_snapshot(pickle.loads(data))
    elif ".json" in path.name:
        runs = of_kineto(data)
    else:
        return {"": of_rmm(data.decode()) if ".csv" in path.name else of_paddle(data.decode(errors="replace"))}
    if len(runs) == 1:
        return {"": next(iter(runs.values()))}
    return {"CPU" if device < 0 else f"device {device}": run for device, run in runs.items()}
