"""What is asked for when requests that failed are served: histories written out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from failing_runs import KIB, Machine, run_until_full
from made_allocator import DEFAULTS, MadeProgram, history_of, program_of, recorded, run_made
from msgspec import structs
from night import some

import memlens
from memlens.allocators.history import RequestHistory
from memlens.allocators.placing import Addresses
from memlens.replaying.run import ending_failure, limit_of, with_refused_served
from memlens.reports import terminal
from memlens.reports.whatif import whatif_blocks


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


def test_a_failure_that_was_caught_is_left_out_as_the_run_went_on_without_it() -> None:
    # Request 1 fails, and so many follow that the run did not end there; the last operation frees request 0.
    later = [256] * 150
    history = failing(program_of([512, 2048, *later, "#0"]), [1])
    assert ending_failure(history) is None
    asked = with_refused_served(history)
    assert (asked.size.tolist(), asked.of.tolist()) == ([512, *later, 0], [-1, *[-1] * 150, 0])
    assert asked.line.tolist() == [0, *range(2, 153)]
    found = run_made(asked, DEFAULTS, Addresses())
    assert found.completed
    assert found.reserved_peak == 512 + 150 * 256


def test_a_setting_helps_with_the_failure_a_run_ended_in_whatever_it_caught_before(tmp_path: Path) -> None:
    """Two chunks of 10 KiB lie idle as 20 KiB are refused of 32; 40 KiB, which can never be, were refused long before."""
    machine = Machine(32 * KIB)
    weight = machine.alloc(2 * KIB)
    assert weight is not None
    assert machine.alloc(40 * KIB) is None
    machine.fail(40 * KIB, "size")
    for _ in range(110):
        machine.free(machine.alloc(KIB) or 0)
    for block in [machine.alloc(10 * KIB), machine.alloc(10 * KIB)]:
        machine.free(block or 0)
    assert machine.alloc(20 * KIB) is None
    failed = machine.fail(20 * KIB, "full")
    path = tmp_path / "run.log"
    path.write_bytes(machine.text)
    ((found,), (log,)) = memlens.whatif(path).logs, memlens.analyze(path).logs
    assert (found.refused_line, found.live_peak_bytes, found.beyond_bytes) == (failed.line, 22 * KIB, 0)
    assert found.best is not None
    assert log.remedy is not None
    assert log.remedy.line == "FLAGS_free_idle_chunk=1"


def test_the_limit_is_said_to_be_the_most_that_was_reserved_until_then(tmp_path: Path) -> None:
    """24 KiB, all given back before 40 KiB are refused of the 32 KiB that are free then."""
    machine = Machine(32 * KIB)
    blocks = [machine.alloc(8 * KIB) for _ in range(3)]
    for block in blocks:
        machine.free(block or 0)
    machine.allocator.retry = True
    assert machine.alloc(40 * KIB) is None
    machine.fail(40 * KIB, "full")
    path = tmp_path / "run.log"
    path.write_bytes(machine.text)
    shown = " ".join(terminal.render(whatif_blocks(memlens.whatif(path)), width=160).split())
    assert "24.00 KiB, the most reserved until more was refused, with 32.00 KiB free then" in shown


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
