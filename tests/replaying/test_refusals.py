"""What is asked for when requests that failed are served: histories written out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from failing_runs import run_until_full
from made_allocator import DEFAULTS, MadeProgram, history_of, program_of, recorded, run_made
from msgspec import structs
from night import some

import memlens
from memlens.allocators.history import RequestHistory
from memlens.allocators.placing import Addresses
from memlens.replaying.run import ending_failure, limit_of, with_refused_served


def failing(program: MadeProgram, failed: list[int]) -> RequestHistory:
    """A program whose requests failed where that is said: nothing frees them."""
    return structs.replace(history_of(program), failed=np.array(failed, np.int64))


def test_a_run_that_ended_in_a_failure_is_replayed_up_to_it() -> None:
    history = failing(program_of([256, 512, 1024, "#0", "#1"]), [2])
    assert ending_failure(history) == 2
    asked = with_refused_served(history)
    assert (asked.size.tolist(), asked.of.tolist()) == ([256, 512, 1024], [-1, -1, -1])
    assert not len(asked.failed)


def test_of_several_tries_at_its_end_the_first_is_the_last_that_is_replayed() -> None:
    history = failing(program_of([256, 1024, 1024, "#0"]), [1, 2])
    assert ending_failure(history) == 1
    assert with_refused_served(history).size.tolist() == [256, 1024]


def test_a_failure_that_was_caught_is_served_and_given_back_at_once() -> None:
    # Request 1 fails, and so many follow that the run did not end there; request 3 frees request 0.
    later = [256] * 150
    history = failing(program_of([512, 2048, *later, "#0"]), [1])
    assert ending_failure(history) is None
    asked = with_refused_served(history)
    assert asked.operation.tolist()[:4] == [0, 0, 1, 0]
    assert asked.of.tolist()[:4] == [-1, -1, 1, -1]
    assert asked.size.tolist()[:4] == [512, 2048, 0, 256]
    assert (asked.operation.tolist()[-1], asked.of.tolist()[-1], len(asked)) == (1, 0, len(history) + 1)
    assert asked.line.tolist()[:4] == [0, 1, -1, 2]
    found = run_made(asked, DEFAULTS, Addresses())
    # Of 2,560 bytes in the first two chunks 2,048 are free again, and serve eight of the 150 blocks.
    assert found.completed
    assert found.reserved_peak == 512 + 2048 + (150 - 8) * 256


def test_the_limit_is_the_most_that_was_reserved_before_the_refusal_whatever_was_free() -> None:
    history = recorded(program_of([1024, 2048, "#0", 4096]), limit=4096)
    assert history.failed.tolist() == [3]
    assert limit_of(history, 3) == 1024 + 2048
    assert limit_of(structs.replace(history, limit_bytes=None), 3) == 1024 + 2048


@pytest.mark.parametrize("seed", some(range(12), 4))
def test_what_a_message_says_was_free_stands_beside_the_limit_and_bounds_it(seed: int, tmp_path: Path) -> None:
    machine, failed = run_until_full(seed, "full")
    path = tmp_path / "run.log"
    path.write_bytes(machine.text)
    ((found,), (log,)) = memlens.whatif(path).logs, memlens.analyze(path).logs
    assert found.device_free_bytes == (failed.left or None)
    assert (found.limit_bytes, found.limit_from) == (failed.reserved, "log")
    assert found.limit_most_bytes == machine.total - machine.others
    assert found.refused_line == log.ooms[0].line
