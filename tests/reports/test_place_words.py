"""Places are called what they are: lines and chunks of text, entries and segments of snapshots and traces."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from snapshots import Allocator, pickled, snapshot

from memlens.cli import main
from memlens.text import LINES, plural, terms_of

#: Words of a log of text; the "lines" around an event are shown of those only.
OF_TEXT = re.compile(r".*\b(?:lines?|chunks?)\b.*", re.IGNORECASE)
VERBS = (
    ["analyze"],
    ["analyze", "-A", "unmatched", "-A", "peak", "-A", "lifetimes", "-A", "stats"],
    ["analyze", "--by", "START step ([0-9]+)"],
    ["analyze", "--start", "START step 1"],
)


def test_terms_are_those_of_the_input_whose_blocks_are_made() -> None:
    text, trace = terms_of(True), terms_of(False)
    assert [text.at(1234), text.line, text.lines] == ["line 1,234", "line", "lines"]
    assert (text, plural(2, text.chunk), text.title("First line")) == (LINES, "2 chunks", "First line")
    assert [trace.at(1234), trace.line, trace.lines] == ["entry 1,234", "entry", "entries"]
    assert trace.title("First line") == "First entry"
    assert [trace.title("Line"), trace.title("Online"), plural(2, trace.chunk)] == ["Entry", "Online", "2 segments"]


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
    assert not OF_TEXT.findall(shown)
    assert re.search(r"\bentr(?:y|ies)\b", shown, re.IGNORECASE)


def test_no_verdict_on_a_snapshot_speaks_of_lines_or_chunks(
    snapshots: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = [tmp_path / "memory.xml", tmp_path / "memory.md"]
    options = ["--limit", "peak=0", "--limit", "remaining=0", "--junit", str(written[0]), "--markdown", str(written[1])]
    assert main(["gate", snapshots[1], "--base", snapshots[0], "--github", *options]) == 3
    for shown in ("".join(capsys.readouterr()), *(path.read_text() for path in written)):
        assert not OF_TEXT.findall(shown)
    assert all(re.search(r"ALLOC entry \d", path.read_text()) for path in written)


@pytest.fixture
def out_of_memory(tmp_path: Path) -> str:
    """A snapshot of two devices, of which the second ran out of memory."""
    devices = [Allocator(random.Random(3), device=device).run(40) for device in (0, 1)]
    devices[1].record("oom", 0, 77 << 20, [])
    path = tmp_path / "oom.pickle"
    path.write_bytes(pickled(snapshot(devices)))
    return str(path)


@pytest.mark.parametrize("more", [[], ["--device", "1"]])
def test_a_comparison_says_first_which_run_ran_out_of_memory(
    out_of_memory: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", out_of_memory, out_of_memory, *more]) == 0
    first = " ".join(capsys.readouterr().out.split()).partition(" Peak ")[0]
    assert len(re.findall(r"met 1 out-of-memory failure, first in entry \d+, asking for 77.00 MiB", first)) == 2
