"""Colours of the page by arithmetic: all are 3:1 against the page (WCAG 2.2, 1.4.11), and those of groups differ, for colour-blind readers, too.

Colour blindness is simulated by the matrices of Machado, Oliveira and Fernandes (2009) for the whole lack of one kind of cone; colours are compared in
OKLab, where 0.02 is about what is just noticed.
"""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from memlens.drawing.lifetimes import FATES
from memlens.drawing.stacks import _REST, ROLE_INKS
from memlens.drawing.stills import inks

SEEN = {
    "by most": np.eye(3),
    "without red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "without green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "without blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}
_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.793617785, -0.0040720468],
        [1.9779984951, -2.428592205, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.808675766],
    ]
)


def linear(colour: str) -> np.ndarray:
    parts = np.array(list(bytes.fromhex(colour[1:]))) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) + 0.05 for colour in (one, other))
    return high / low


def difference(one: str, other: str, seen: str) -> float:
    views = [_TO_LAB @ np.cbrt(_TO_CONES @ np.clip(SEEN[seen] @ linear(colour), 0, 1)) for colour in (one, other)]
    return float(np.linalg.norm(views[0] - views[1]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_whatever_a_colour_tells_is_seen_against_the_page(scheme: str) -> None:
    known = inks(scheme)
    shown = [
        name
        for name in known
        if re.match(r"(size|owner|role)-|piles$|steady$|passing$|allocated|base$|head$|reserved$|chosen$|kept$", name)
    ]
    assert len(shown) == 32
    for name in shown:
        assert contrast(known[name], known["back"]) >= 2.95, name
    for name in ("text", "quiet", "bad", "good"):
        for back in ("back", "raised"):
            assert contrast(known[name], known[back]) >= 4.5, (name, back)
    assert min(contrast(known["text"], known[band]) for band in ("band", "band-other")) >= 4.5


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_groups_that_stand_side_by_side_differ(scheme: str, seen: str) -> None:
    known = inks(scheme)
    owners = [*(f"owner-{k}" for k in range(1, 9)), "owner-other"]
    rare = {"buffer", "model", "communication", "result", "garbage", "nobody"}
    roles = [*(ink for role, ink in ROLE_INKS.items() if role not in rare), _REST]
    assert set(roles) == set(owners)
    for group in (
        owners,
        [ink for ink, _ in FATES.values()],
        ["base", "head", "reserved"],
        ["steady", "piles", "passing"],
        ["allocated", "allocated-light"],
    ):
        for one, other in combinations(group, 2):
            assert difference(known[one], known[other], seen) >= 0.07, (one, other)
    for one, other in combinations({*ROLE_INKS.values(), *owners}, 2):
        assert difference(known[one], known[other], seen) >= 0.045, (one, other)
