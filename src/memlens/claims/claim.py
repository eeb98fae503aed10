"""A claim: what memlens concludes, as data.  Claims are made by rules beside what they are about, and ranked, joined and worded here alone."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from memlens.claims.template import PAUSE, Words, names_in, parsed, write
from memlens.claims.words import WORDS as _OF_LOGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Tone: TypeAlias = Literal["good", "bad", "plain"]
#: What a pause is followed by: a semicolon or a colon, and a blank.
_MARK = "; "
_BRACKETS = re.compile(r"\([^()]*\)")
#: Claims that are read at a glance, with those that go on with them; and words of a sentence.
_MOST, MOST_WORDS = 3, 25


class _Words(dict[str, Words]):
    """Words by the kind of the claim; those of comparisons are loaded with the first of their kinds that is asked for."""

    def __missing__(self, kind: str) -> Words:
        from memlens.claims.words_compared import WORDS_COMPARED

        self.update(WORDS_COMPARED)
        return WORDS_COMPARED[kind]


#: The words of every kind of claim.
WORDS = _Words(_OF_LOGS)


class Weight(IntEnum):
    """How much a claim matters: what a user would act on comes first.  The claims of one sentence have one weight."""

    #: What a user set as a limit is exceeded.
    BUDGET = 100
    #: Stands before the sentence that follows: what is in doubt, which device it is about.
    OPENING = 95
    FAILURE = 90
    #: Two runs share little.
    UNLIKE = 88
    #: What is asked for: which run needs more, what is over its limit, who needs most.
    DIFFERENCE = 85
    #: How a run ended, where it did not run to its end.
    ENDING = 84
    #: More lies idle than memory grows by, of which little is kept.
    WASTE = 82
    GROWTH = 80
    #: What explains a difference.
    CAUSE = 75
    #: Where two runs part.
    PARTING = 74
    #: What a figure grows with.
    SCALING = 74
    #: Who is unlike its peers.
    OUTLIER = 73
    #: Much of what is reserved is not in use.
    IDLE = 70
    PEAK = 60
    #: What would help.
    REMEDY = 55
    #: Memory does not grow.
    STEADY = 50
    #: What is live at the end.
    LEFT = 40
    #: What no setting can beat.
    BOUND = 30
    #: Why not all is known.
    LIMITS = 20


class Claim(Struct, frozen=True):
    """One conclusion.

    Attributes:
        kind: What is claimed, a name of :data:`WORDS`.
        weight: How much it matters: heavier claims are told first, those of one weight in the order in which they were made.
        values: The figures (bytes, counts, lines), names and flags that it consists of, by name; names are text from logs.
        tone: ``bad`` where memory ran out, grew, or costs more than before; ``good`` where a question was asked and nothing of that was
            found; else ``plain``.
    """

    kind: str
    weight: Weight
    values: Mapping[str, Any] = {}
    tone: Tone = "plain"

    @property
    def words(self) -> str:
        """The claim in words, without a capital or a full stop, with each :data:`~memlens.claims.template.PAUSE` at which it may be parted: none in brackets."""
        words = WORDS[self.kind].template
        text = write(words, self.values) if isinstance(words, str) else words(self.values)
        return _BRACKETS.sub(lambda found: found[0].replace(PAUSE, ""), text)

    @property
    def text(self) -> str:
        """The claim in words, as it stands in one sentence."""
        return self.words.replace(PAUSE, "")

    def to_dict(self) -> dict[str, Any]:
        """The claim as it stands in the machine output."""
        known = {name: value for name, value in self.values.items() if value is not None}
        return {"kind": self.kind, "weight": int(self.weight), "text": self.text, **known}


class Answer(NamedTuple):
    """A verdict in plain words, with exact figures.

    Attributes:
        sentences: The most important first, for one to three claims and what goes on with them; names in them are text from logs.
        tone: That of the claims: ``bad``, ``good`` or ``plain``.
    """

    sentences: tuple[str, ...]
    tone: Tone = "plain"

    def __str__(self) -> str:
        return " ".join(self.sentences)


def claim(kind: str, weight: Weight, *results: object, tone: Tone = "plain", **values: Any) -> Claim:
    """A claim with the values that its words name: attributes of results by these names, and what is given beside them."""
    names = _values_named(kind)
    found = {name: getattr(result, name) for result in results for name in names if hasattr(result, name)}
    return Claim(kind, weight, found | values, tone)


def logs_peaks(peaks: Sequence[tuple[int, str]], count: int, tone: Tone = "plain") -> Claim:
    """How high the highest and the lowest of so many logs come: ``peaks`` are those that are known, of one or more, each with its log."""
    heights = [peak for peak, _ in peaks]
    (most, log), (least, lowest) = (peaks[heights.index(pick(heights))] for pick in (max, min))
    values = {"count": count, "known": len(peaks), "peak_bytes": most, "log": log, "as_high": heights.count(most)}
    low = {"lowest_bytes": least, "lowest": lowest, "as_low": heights.count(least)} if least < most else {}
    return Claim("logs_peaks", Weight.PEAK, values | low, tone)


@cache
def _values_named(kind: str) -> tuple[str, ...]:
    """The values that the words of a kind name."""
    words = WORDS[kind]
    templates = (text for text in (words.template, words.joined) if isinstance(text, str))
    return tuple(dict.fromkeys(name for text in templates for name in names_in(parsed(text))))


def ranked(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Claims with the weightiest first, those of one weight as they were made."""
    return tuple(sorted(claims, key=lambda claim: -claim.weight))


def answer_of(claims: Iterable[Claim], most: int = _MOST) -> Answer:
    """Rank claims and join them into sentences.

    A claim begins a sentence, or goes on with that of the claim before it, which has its weight, where its words say how
    (:attr:`~memlens.claims.words.Words.joined`).  A sentence that would be too long to be read at once becomes several.

    Args:
        claims: All claims.
        most: Claims, with those that go on with them, at most, beside those that are always there
            (:attr:`~memlens.claims.words.Words.place`); lighter ones are left out.
    """
    in_order = ranked(claims)
    joint: list[tuple[list[str], str]] = []
    before: Claim | None = None
    heading = ""
    for claim in in_order:
        words, text = WORDS[claim.kind], claim.words
        if not claim.values.get(words.named):
            text = f"{text[:1].upper()}{text[1:]}"
        if words.place == "heads":
            heading += f"{text}: "
        elif joint and (mark := _joint(claim, before)):
            parts = joint[-1][0]
            if mark == ". ":
                parts.append(text)
            else:
                # What explains a claim is a sentence of its own where both are too long for one.
                parts[-1] += f"{PAUSE if mark == ': ' else ''}{mark}{claim.words}"
        else:
            joint.append(([f"{heading}{text}"], words.place))
            heading = ""
        before = claim
    left = most - sum(place == "always" for _, place in joint)
    kept: list[str] = []
    for parts, place in joint:
        left -= not place
        if place or left >= 0:
            kept += [sentence for part in parts for sentence in sentences(part)]
    tone: Tone = next((claim.tone for claim in in_order if claim.tone != "plain"), "plain")
    return Answer(tuple(kept), tone)


def sentences(text: str, most: int = MOST_WORDS) -> list[str]:
    """The sentences of a text: where one would have more words than can be read at once, it ends at a :data:`~memlens.claims.template.PAUSE`."""
    found: list[str] = []
    for part in text.split(PAUSE):
        clause = part[len(_MARK) :] if found else part
        if found and len(f"{found[-1]} {clause}".split()) <= most:
            found[-1] += part
        else:
            first = clause.partition(" ")[0]
            found.append(f"{clause[:1].upper()}{clause[1:]}" if found and first.isalpha() else clause)
    return [f"{sentence}." for sentence in found]


def difference(kind: str, **values: Any) -> Claim:
    """A claim on what was asked for: which run needs more, what is over its limit, who needs most."""
    return Claim(kind, Weight.DIFFERENCE, values)


def values_of(result: object, *names: str, **others: Any) -> dict[str, Any]:
    """Values of a claim: attributes of a result, and others."""
    return {name: getattr(result, name) for name in names} | others


def joined(claims: Iterable[Claim]) -> str:
    """Claims that are one sentence, without its capital and its full stop."""
    text, before = "", None
    for claim in claims:
        text += f"{_joint(claim, before)}{claim.words}"
        before = claim
    return text.replace(PAUSE, "")


def _joint(claim: Claim, before: Claim | None) -> str:
    """What stands between a claim and the one before it in one sentence; ``""`` where it begins a sentence."""
    if before is None or before.weight != claim.weight:
        return ""
    words = WORDS[claim.kind]
    return write(words.again if words.again and before.kind == claim.kind else words.joined, claim.values)
