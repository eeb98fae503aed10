"""What is live by groups, whose areas are stacked up to the level: by role, owner, holder, size, fate or phase, and what piles up against the rest.

Of a window that is in the page event by event there is the group of each event's block, from which the page adds up what each group has right after any
event.  A longer one has the bytes of each group at one moment of each stretch, the highest, and the group of each event of the stretches that are there
event by event.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.groups import holders_alike, holders_of, kinds_of_blocks, owner_labels, owners_of
from memlens.analyzers.series.growth import Grown, Growth
from memlens.claims.roles import ROLES, TOLD_BY
from memlens.columns import Ints, distinct, first_highest
from memlens.diffing.alignment.blocks import common_name
from memlens.drawing.levels import EXACT, stretches_of
from memlens.drawing.lifetimes import FATES, Blocks, WindowBlocks
from memlens.facts import Kind
from memlens.folding import levels_before
from memlens.text import format_bytes, innermost, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.composition import Roles
    from memlens.analyzers.series.phases import Pieces
    from memlens.windows.windows import Window

#: So many buckets of a long window have one moment of which the bytes of each group are known.
STRETCH = 8
#: The colours of groups that have none by what they are; of more the smallest are one group.
_INKS, _REST = tuple(f"owner-{k}" for k in range(1, 8)), "owner-other"
#: Those of roles.
ROLE_INKS = {
    "parameter": "owner-5",
    "gradient": "owner-1",
    "optimizer": "owner-3",
    "buffer": "role-1",
    "model": "role-2",
    "saved": "owner-8",
    "communication": "role-3",
    "cache": "owner-6",
    "workspace": "owner-4",
    "result": "role-4",
    "variable": "owner-7",
    "garbage": "role-5",
    "temporary": "owner-2",
    "nobody": "role-6",
}
#: Sizes have colours of their own where so much of all bytes times events is of a few; else there are ranges, each a quarter of the one before.  Of these few
#: so many are the largest.
_FEW, _RANGES, _LARGEST = 0.6, 5, 2
#: What piles up is shown first where it is at least so large a share of the peak: what is less could not be seen.
_SEEN = 0.01
#: Kinds of blocks that pile up, which are told apart from others.
_PILES = 10_000


class Way(Struct, frozen=True, eq=False):
    """A way to group the blocks of a window.

    Attributes:
        key: ``growth``, ``role``, ``owner``, ``holder``, ``size``, ``fate``, ``phase``, or ``all`` where it is not known which blocks are live.
        name: What the page calls it.
        groups: Of each, from the bottom of the stack, its colour in the style sheet, its name, and for sizes from which on and up to which.
        code: The group of each block, int8.
    """

    key: str
    name: str
    groups: list[dict[str, Any]]
    code: NDArray[np.int8]


#: What is live where it is not known in which blocks.
_NOTHING = Way("all", "nothing", [{"ink": "allocated", "name": "allocated"}], np.zeros(0, np.int8))


def ways(
    of: WindowBlocks,
    roles: Roles,
    series: Sequence[Window],
    pieces: Pieces | None,
    growth: Growth | None,
    base: Sequence[Way] = (),
) -> list[Way]:
    """Return the ways in which a page groups the blocks of a window, the one that it begins with first.

    Args:
        of: The blocks.
        roles: What tells their roles.
        series: The windows or steps that the log is cut into.
        pieces: The phases of these.
        growth: What is said of their growth.
        base: Ways in which the page has grouped the blocks beside those of another run (:func:`common_ways`): what looks alike on a page is alike.
    """
    if not len(of):
        return [_NOTHING]
    found = [*(base or _for_all(of, [of], [roles])), _by_fate(of), _by_phase(of, pieces)]
    if (piling := _piling(of, series, growth)) is not None:
        seen = of.size[piling.code == 1].sum() >= _SEEN * of.size[of.at_peak].sum()
        found.insert(0 if seen else len(found), piling)
    return [way for way in found if way is not None and (way.key in ("size", "role") or len(way.groups) > 1)]


def common_ways(runs: Sequence[WindowBlocks], roles: Sequence[Roles]) -> list[list[Way]]:
    """Return the ways to group the blocks of several runs alike: of each run its own, by the same groups in the same colours."""
    if not all(map(len, runs)):
        return [[replace(_NOTHING, code=np.zeros(len(of), np.int8))] for of in runs]
    every, cuts = _Together(runs), np.cumsum([len(of) for of in runs])[:-1]
    found = _for_all(every, runs, roles)
    parts = [np.split(way.code, cuts) for way in found]
    return [[replace(way, code=part[k]) for way, part in zip(found, parts, strict=True)] for k in range(len(runs))]


def inked_alike(stacks: Sequence[dict[str, Any]]) -> None:
    """Give an owner, a holder or a phase one colour on all devices of a page, of each of which these are the stacks.

    One for which no colour is left that nothing beside it has, on any of them, is grey.
    """
    for key in ("owner", "holder", "phase"):
        every = [way for view in stacks for way in view["ways"] if way["key"] == key]
        own = [{group["name"]: group["ink"] for group in way["groups"] if group["ink"] != _REST} for way in every]
        inks: dict[str, str] = {}
        for name, _ in Counter(chain(*own)).most_common():
            with_it = [groups for groups in own if name in groups]
            taken = {inks.get(other) for groups in with_it for other in groups}
            inks[name] = next((ink for ink in (with_it[0][name], *_INKS, "owner-8") if ink not in taken), _REST)
        for way, groups in zip(every, own, strict=True):
            known = {name: inks[name] for name in groups}
            way["groups"] = [group | {"ink": known.get(group["name"], _REST)} for group in way["groups"]]


class _Together(Blocks):
    """Blocks of several runs: what colours are given by."""

    def __init__(self, runs: Sequence[WindowBlocks]) -> None:
        self.size = np.concatenate([of.size for of in runs])
        self.at_peak = np.concatenate([of.at_peak for of in runs])
        self._area = np.concatenate([of.area() for of in runs])

    def area(self, part: slice | Ints = slice(None)) -> NDArray[np.float64]:
        """See :class:`memlens.drawing.lifetimes.Blocks`."""
        return self._area[part]


def _way(
    of: Blocks,
    key: str,
    name: str,
    label: NDArray[Any],
    names: Sequence[str | None],
    rest: str,
    inks: Mapping[int, str] | None = None,
    order: Sequence[int] = (),
) -> Way:
    """Group blocks by labels.

    Args:
        of: The blocks.
        key: See :class:`Way`.
        name: Likewise.
        label: The label of each block, an index of ``names``.
        names: What the labels say; ``None`` for one that says nothing.
        rest: What blocks of the labels without a colour are called.
        inks: The colours of labels; else those of the most bytes times events have some.
        order: The labels from the bottom of the stack; else what lives long on average lies at the bottom.
    """
    area, size = of.sums(label, len(names), area=True), of.sums(label, len(names))
    if inks is None:
        largest = [k for k in np.argsort(-area, kind="stable").tolist() if size[k] and names[k] is not None]
        inks = dict(zip(largest, _INKS, strict=False))
    lives = (area / np.maximum(size, 1)).tolist()
    shown = [k for k in order or sorted(inks, key=lambda k: -lives[k]) if size[k]]
    place = np.full(len(names), len(shown), np.int8)
    place[shown] = np.arange(len(shown))
    groups = [{"ink": inks[k], "name": names[k]} for k in shown]
    code = of.each(lambda part: place[label[part]], np.int8)
    if len(code) and code.max() == len(shown):
        groups.append({"ink": _REST, "name": rest})
    return Way(key, name, groups, code)


def _for_all(of: Blocks, runs: Sequence[WindowBlocks], roles: Sequence[Roles]) -> list[Way]:
    """By owner, as sentences name it, by holder and by role, as far as all runs, whose blocks together are ``of``, know these; and by size.

    Roles come first where they are told of half of what is live at the peak: a picture that is mostly grey shows little.
    """
    labelled = [_labelled(*one) for one in zip(runs, roles, strict=True)]
    known = {key: _as_one([one[key] for one in labelled]) for key in labelled[0] if all(key in one for one in labelled)}
    rests = {"owner": "other owners", "holder": "other holders, or none"}
    found = [_way(of, key, key, *known[key], rest) for key, rest in rests.items() if key in known] + [_by_size(of)]
    if "role" in known:
        label, names = known["role"]
        inks = {names.index(ROLES[role]): ink for role, ink in ROLE_INKS.items()}
        told = " and ".join(dict.fromkeys(TOLD_BY[one.told_by] for one in roles))
        untold, live = of.at_peak & (label == names.index(None)), of.size[of.at_peak].sum()
        way = _way(of, "role", f"role, told by {told}", label, names, "role not known", inks)
        found.insert(0 if 2 * of.size[untold].sum() <= live else 1, way)
    return found


def _as_one(labelled: Sequence[tuple[NDArray[Any], list[str | None]]]) -> tuple[NDArray[Any], list[str | None]]:
    """The labels of the blocks of several runs, and what they say; what two modes of a framework call each by its own name is one."""
    if len(labelled) == 1:
        return labelled[0]
    texts = [[text and common_name(text) for text in names] for _, names in labelled]
    number = {text: k for k, text in enumerate(dict.fromkeys(text for own in texts for text in own))}
    numbers = [np.array([number[text] for text in own], np.int32) for own in texts]
    return np.concatenate([own[label] for own, (label, _) in zip(numbers, labelled, strict=True)]), [*number]


def _labelled(of: WindowBlocks, roles: Roles) -> dict[str, tuple[NDArray[Any], list[str | None]]]:
    """Of ``owner``, ``holder`` and ``role``, where any are known, the label of each block, and what the labels say; what reads alike is one."""
    found: dict[str, tuple[NDArray[Any], list[str | None]]] = {}
    log, labels = of.log, owner_labels(of.log)
    texts = [None if label is None else visible(innermost(label)) for label in labels]
    number = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    if log.owner is not None or log.facts.opening:
        numbers = np.array([number[text] for text in texts], np.int32)
        found["owner"] = of.each(lambda part: numbers[owners_of(log, of.alloc[part])], np.int32), [*number]
    if (told := holders_of(log)) is not None:
        holder, named = told
        every, alike, _ = holders_alike(named)
        names = [*map(visible, every[len(named) :]), None]
        of_holder = np.append(alike, len(names) - 1).astype(np.int32)
        found["holder"] = of.each(lambda part: of_holder[holder[of.alloc[part]]], np.int32), names
    role = roles.of_blocks(of.alloc, of.at_peak, of.peak + 1)
    if (role >= 0).any():
        role[role < 0] = len(ROLES)
        found["role"] = role, [*ROLES.values(), None]
    return found


def _by_size(of: Blocks) -> Way:
    sizes = distinct(of.size)
    label = of.each(lambda part: sizes.searchsorted(of.size[part]), np.int32)
    area = of.sums(label, len(sizes), area=True)
    # Those of the most bytes times events, and some that are large by themselves: few blocks of these matter.
    most = np.argsort(-area, kind="stable")[: len(_INKS) - _LARGEST].tolist()
    largest = np.array([*most, *[k for k in range(len(sizes) - 1, -1, -1) if k not in most][:_LARGEST]], np.int64)
    if len(sizes) <= len(_INKS) or area[largest].sum() >= _FEW * area.sum():
        names: list[str | None] = [None] * len(sizes)
        for k in largest.tolist():
            names[k] = format_bytes(int(sizes[k]))
        bounds = {k: (int(sizes[k]), int(sizes[k]) + 1) for k in largest.tolist()}
    else:
        top = 1 << int(sizes[-1]).bit_length()
        least = [top >> 2 * (k + 1) for k in range(_RANGES - 1)] + [0]
        label = of.each(lambda part: _RANGES - 1 - np.searchsorted(least[-2::-1], of.size[part], "right"), np.int8)
        above = [top, *least]
        names = [f"{format_bytes(one)} and more" if one else f"below {format_bytes(least[-2])}" for one in least]
        bounds = {k: (least[k], above[k]) for k in range(_RANGES)}
    # The largest has the darkest colour; of few the lightest ones are left out.
    used = sorted(bounds, key=lambda k: -bounds[k][0])
    way = _way(of, "size", "size", label, names, "other sizes", {k: f"size-{n}" for n, k in enumerate(used, 1)})
    edges = {names[k]: bounds[k] for k in used}
    for group in way.groups:
        group["from"], group["to"] = edges.get(group["name"], (0, 0))
    return way


def _by_fate(of: WindowBlocks) -> Way:
    names, inks = [words for _, words in FATES.values()], {int(fate): ink for fate, (ink, _) in FATES.items()}
    # What is there all the time at the bottom.
    return _way(of, "fate", "fate", of.fate, names, "", inks, sorted(inks, reverse=True))


def _by_phase(of: WindowBlocks, pieces: Pieces | None) -> Way | None:
    """By the phase in which they are allocated."""
    if pieces is None or not len(pieces.lo):
        return None
    label = of.each(lambda part: pieces.of(of.alloc[part]), np.int32)  # -1, none, is the last of the names
    label[label < 0] = len(pieces.names)
    names = [*map(visible, pieces.names), None]
    return _way(of, "phase", "phase that allocates", label, names, "other phases, or none")


def _piling(of: WindowBlocks, series: Sequence[Window], growth: Growth | None) -> Way | None:
    """What piles up, against what else outlives its step and what does not; nothing where memory does not grow."""
    if growth is None or (growth.verdict != "growing" and growth.grown is None):
        return None
    known, edges = of.freed(), np.array([step.lo for step in series], np.int64)
    freed = np.where(known < 0, len(of.log), known)
    passes = (known >= 0) & (edges.searchsorted(of.alloc, "right") == edges.searchsorted(freed, "right"))
    number, sizes, labels = kinds_of_blocks(of.log, of.alloc, sizes=of.size)
    rows = list(zip(sizes.tolist(), map(owner_labels(of.log).__getitem__, labels.tolist()), strict=True))
    if isinstance(most := growth.most, Grown):
        alike = [name is not None and innermost(name) == most.owner for _, name in rows]
        piles = np.array(alike, np.bool_)[number] & ~passes
    else:
        begun = next((step.lo for step in series if step.name == growth.since), len(of.log))
        end = max(step.hi for step in (series[:-1] if growth.open_end is not None else series))
        piles = (of.alloc >= begun) & (of.alloc < end) & (freed >= end)
        if kinds := {(pile.size_bytes, pile.owner) for pile in islice(growth.piling, _PILES)}:
            piles &= np.array([row in kinds for row in rows], np.bool_)[number]
    label = np.where(piles, 1, np.where(passes, 2, 0)).astype(np.int64)
    names_of = ["other blocks that outlive their step", "piles up", "freed in the step that allocates it"]
    inks = {0: "steady", 1: "piles", 2: "passing"}
    return _way(of, "growth", "what piles up", label, names_of, "", inks, [*inks])


def stacks_view(
    of: WindowBlocks, found: Sequence[Way], drawn: dict[str, Any], bars: Ints, others: Ints
) -> dict[str, Any]:
    """Return what the page knows of the groups of a window's blocks.

    Args:
        of: The blocks.
        found: The ways to group them.
        drawn: The page's levels of the window (:func:`memlens.drawing.levels.levels`).
        bars: The blocks that have bars, as their ALLOCs.
        others: Other blocks of which the page knows the group, by their numbers.

    Returns:
        ``moments``, the events right after which the bytes of each group are known beside those of stretches that are there event by event, one in each
        :data:`STRETCH` buckets, the first of their highest level; ``None`` where all events are there.  ``before``, the level before each of these
        stretches; ``events`` and ``excess``, the FREEs in them whose size is not that of their ALLOC, and by how much it is less.  Of each of the ``ways``
        its key, its name and its groups; ``bars``, the group of each bar, and of each of the ``others``; ``sums``, of each group its bytes at the moments; and of each stretch
        ``start``, the bytes of each group before its first event, and ``codes``, the group of the block of each of its events, of one that is no
        block's the number of groups.
    """
    whole = of.hi - of.lo <= EXACT
    stretches = [(of.lo, of.hi)] if whole else stretches_of(drawn)
    moments = np.zeros(0, np.int64) if whole else _moments(drawn)
    view = stacked(of, found, moments, [np.arange(lo, hi) for lo, hi in stretches], [lo - 1 for lo, _ in stretches])
    place = of.alloc.searchsorted(bars)
    for one, way in zip(view["ways"], found, strict=True):
        one |= {"bars": way.code[place], "others": way.code[others]}
    return {**view, "moments": None if whole else moments}


def stacked(
    of: WindowBlocks, found: Sequence[Way], moments: Ints, stretches: Sequence[Ints], before: Sequence[int]
) -> dict[str, Any]:
    """Return the bytes of groups at moments, and what tells them after each place of some stretches.

    Args:
        of: The blocks.
        found: The ways to group them.
        moments: Events right after which the bytes are known, not falling.
        stretches: Of each the event at each place, -1 where there is none.
        before: The last event before each.

    Returns:
        See :func:`stacks_view`; ``events`` are places that all stretches together have, from 0.
    """
    log, anomalies = of.log, of.log.free_anomalies
    starts = np.array(before, np.int64)
    asked = distinct(np.concatenate([moments, starts]))
    places = [_blocks_of(of, events) for events in stretches]
    at_moments, at_starts = asked.searchsorted(moments), asked.searchsorted(starts)
    views = []
    for way, sums in zip(found, group_bytes(of, found, asked), strict=True):
        count = len(way.groups)
        views.append(
            {
                "key": way.key,
                "name": way.name,
                "groups": way.groups,
                "sums": [*sums[:, at_moments]],  # a column each: those of one size have a unit
                "start": [sums[:, k].tolist() for k in at_starts.tolist()],
                "codes": [np.where(at < 0, count if len(of) else 0, way.code[at] if len(of) else 0) for at in places],
            }
        )
    every = np.concatenate([*stretches, np.zeros(0, np.int64)])
    odd = np.isin(anomalies.mismatched, every)
    events, excess = anomalies.mismatched[odd], anomalies.excess[odd]
    return {"before": levels_before(log, starts + 1)[:, 0].tolist(), "ways": views, "events": events, "excess": excess}


def group_bytes(of: WindowBlocks, found: Sequence[Way], events: Ints) -> list[Ints]:
    """Of each way the bytes of each group right after some events, which rise; int64, a row a group."""
    if not len(of):  # all that is known is the level
        return [levels_before(of.log, events + 1)[:, 0][None] for _ in found]
    return of.live_after(events, [(len(way.groups), way.code.__getitem__) for way in found])


def _moments(drawn: dict[str, Any]) -> Ints:
    """Of each few buckets the first event of their highest level, rising."""
    high = drawn["high_bytes"]
    first: Ints = drawn["high_event"][first_highest(high, np.arange(0, len(high), STRETCH))]
    return first


def _blocks_of(of: WindowBlocks, events: Ints) -> Ints:
    """The block that each event allocates or frees; -1 where there is none, and of no event."""
    kind = np.where(events < 0, -1, of.log.kind[events])
    alloc = np.where(kind == Kind.ALLOC, events, np.where(kind == Kind.FREE, of.log.lifetimes.partner[events], -1))
    if not len(of):
        return np.full(len(events), -1)
    place = np.minimum(of.alloc.searchsorted(alloc), len(of) - 1)
    return np.where(of.alloc[place] == alloc, place, -1)
