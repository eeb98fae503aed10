"""The options that cut a log, shared by the verbs."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from memlens.cli.options import Output, verb
from memlens.errors import UsageError
from memlens.events import EventLog, Kind
from memlens.facts import Facts
from memlens.options import Cut
from memlens.source import MemorySource
from memlens.windows.patterns import Pattern

TEXT = b"START a\nAlloc 1 bytes, ptr = 0x1\nEND a\nSTART b\nAlloc 2 bytes, ptr = 0x2\n"


@pytest.fixture
def log() -> EventLog:
    return EventLog.from_rows(
        [(Kind.ALLOC, 1, 1), (Kind.ALLOC, 2, 2)],
        offset=np.array([TEXT.index(b"Alloc"), TEXT.rindex(b"Alloc")], np.int64),
        source=MemorySource(TEXT),
        facts=Facts(bytes=len(TEXT), lines=5),
    )


def parse(*arguments: str) -> Cut:
    """What a verb gets for some arguments."""
    got: list[Cut] = []

    @verb("try", [], Cut, Output, examples="")
    def command(cut: Cut, to: Output) -> None:
        assert to == Output(output=None, force=False)
        got.append(cut)

    CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    return got[0]


def test_without_options_the_window_is_the_whole_log(log: EventLog) -> None:
    cut = parse()
    assert (cut, cut.given, cut.patterns) == (Cut(), False, ())
    assert [(w.name, len(w)) for w in cut.windows(log)] == [("(whole log)", 2)]


def test_a_start_and_ends_give_one_window(log: EventLog) -> None:
    cut = parse("--start", "START a", "--end", "nothing", "--end-regex", "^END")
    assert cut.patterns == (Pattern("START a"), Pattern("nothing"), Pattern("^END", regex=True))
    assert [(w.name, len(w), w.end_line) for w in cut.windows(log)] == [("START a", 1, 2)]


def test_nth_counts_the_starts(log: EventLog) -> None:
    (window,) = parse("--start-regex", "START (.)", "--nth", "2").windows(log)
    assert (window.name, window.start_line) == ("b", 4)


def test_by_gives_a_series(log: EventLog) -> None:
    cut = parse("--by", "START (.)", "--end", "END a")
    assert (cut.series, cut.given) == (True, True)
    assert [(w.name, len(w), w.open_end) for w in cut.windows(log)] == [("a", 1, False), ("b", 1, True)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--start", "a", "--start-regex", "b"),
        ("--by", "a", "--start", "b"),
        ("--nth", "2"),
        ("--by", "a", "--nth", "2"),
    ],
)
def test_options_that_make_no_sense_together_are_wrong_usage(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        parse(*arguments)
