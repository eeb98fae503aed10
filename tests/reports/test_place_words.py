"""Places are called what they are: lines and chunks of text, entries and segments of snapshots and traces."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import made_diffs
import pytest
from snapshots import Allocator, pickled, snapshot

from memlens.cli import main
from memlens.reports.diff_screens import diff_blocks
from memlens.reports.place_words import format_place, in_words_of, place_title, plural_chunks, plural_places
from memlens.reports.terminal import render

if TYPE_CHECKING:
    from memlens.trust.report import Trust

VERBS = (
    ["analyze"],
    ["analyze", "-A", "unmatched", "-A", "peak", "-A", "lifetimes", "-A", "stats"],
    ["analyze", "--by", "START step ([0-9]+)"],
    ["analyze", "--start", "START step 1"],
)


def test_words_are_those_of_the_input_whose_blocks_are_made() -> None:
    def words() -> list[Any]:
        return [format_place(1234), plural_places(1), plural_places(7), plural_chunks(2), place_title("First line")]

    of_text = ["line 1,234", "line", "lines", "2 chunks", "First line"]
    assert words() == of_text
    with in_words_of("kineto"):
        assert words() == ["entry 1,234", "entry", "entries", "2 segments", "First entry"]
        assert place_title("Line") == "Entry"
        assert place_title("Online") == "Online"
    assert words() == of_text


@pytest.fixture
def snapshots(tmp_path: Path) -> list[str]:
    paths = []
    for seed in (1, 2):
        paths.append(tmp_path / f"{seed}.pickle")
        paths[-1].write_bytes(pickled(snapshot([Allocator(random.Random(seed)).run(150)])))
    return list(map(str, paths))


@pytest.mark.parametrize("verb", [*VERBS, ["diff", "--whole"], ["diff", "--by", "START step ([0-9]+)"]], ids=" ".join)
def test_no_screen_of_a_snapshot_speaks_of_lines_or_chunks(
    snapshots: list[str], verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb[0], *snapshots[: 1 + (verb[0] == "diff")], *verb[1:]]) == 0
    shown = "".join(capsys.readouterr())
    assert not re.findall(r".*\b(?:lines?|chunks?)\b.*", shown, re.IGNORECASE)
    assert re.search(r"\bentr(?:y|ies)\b", shown, re.IGNORECASE)


def test_what_piles_up_in_a_snapshot_is_said_in_entries() -> None:
    found = made_diffs.piling()
    trust = cast("Trust", made_diffs.FakeTrust(layer="torch_snapshot"))
    shown = render(diff_blocks(replace(found, base=replace(found.base, trust=trust))), width=120)
    assert "until the work of the window is done, from entry 104 on" in " ".join(shown.split())
    assert not re.findall(r"\blines?\b [0-9]", shown)
