"""The examples on the page of steps are what is shown of the log that they are of."""

from __future__ import annotations

import re
from pathlib import Path

import memlens
from memlens.reports.series import phases_table, steps_blocks
from memlens.reports.terminal import render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "steps.md"


def test_the_examples_are_what_is_shown(examples: Path) -> None:
    (log,) = memlens.analyze(examples / "cnn_5steps.log.gz", times=False).logs
    assert log.phases is not None
    screens = [render(list(steps_blocks(log, 6)), width=80), render([phases_table(log.phases, 9)], width=100)]
    quoted = [re.sub("(?m)^    ", "", block) for block in re.findall(r"(?m)^(?:    .*\n)+", PAGE.read_text())]
    assert quoted == [re.sub(r"(?m) +$", "", screen) for screen in screens]
