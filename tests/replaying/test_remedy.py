"""The setting that the report of a failure names: of made runs by arithmetic, of a real one by the example that ran out of memory."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from unittest import mock

import pytest
from made_allocator import made_log, program_of, recorded
from msgspec import structs

import memlens
from memlens.errors import UsageError
from memlens.options import ReadAs
from memlens.options.verbs import TryOut
from memlens.replaying import remedy
from memlens.replaying.remedy import FailureRemedy, remedy_of

KIB = 1024
#: 8 KiB live at once, of which 16 are reserved unless what is idle is given back.
SPLIT = program_of([3 * KIB, 5 * KIB, "#0", "#1", 8 * KIB])


def test_a_setting_that_carries_the_run_on_is_named() -> None:
    """Chunks of 3 and 5 KiB were reserved when 8 KiB were refused: with as much it would do."""
    found = remedy_of(made_log(recorded(SPLIT, limit=12 * KIB)), ReadAs())
    assert found == FailureRemedy(
        "MADE_free_idle=True would have let it continue within 8.00 KiB",
        "MADE_free_idle=True",
        tried=6,
        limit_bytes=8 * KIB,
        live_peak_bytes=8 * KIB,
    )


def test_a_setting_that_takes_many_more_chunks_is_said_to() -> None:
    program = program_of(
        [*(part for k in range(10) for part in (3 * KIB, f"#{k}")), 3 * KIB, 5 * KIB, "#10", "#11", 8 * KIB]
    )
    found = remedy_of(made_log(recorded(program, limit=12 * KIB)), ReadAs())
    assert found is not None
    assert found.message == (
        "MADE_free_idle=True would have let it continue within 8.00 KiB, with 13 device allocations instead of 3 (slower)"
    )


def test_where_too_much_is_live_none_is_and_it_is_said_by_how_much() -> None:
    program = program_of([3 * KIB, 5 * KIB, 6 * KIB])
    found = remedy_of(made_log(recorded(program, limit=12 * KIB)), ReadAs())
    assert found is not None
    assert (found.line, found.over_bytes) == ("", 2 * KIB)
    assert found.message == (
        "no setting would have let it continue: with what was refused 14.00 KiB are live at once, 2.00 KiB more than the 12.00 KiB"
        " available"
    )


def test_a_run_that_never_failed_or_differs_from_its_replay_gets_none() -> None:
    assert remedy_of(made_log(recorded(SPLIT)), ReadAs()) is None
    history = recorded(SPLIT, limit=12 * KIB)
    assert remedy_of(made_log(structs.replace(history, limit_bytes=None)), ReadAs()) is None


def test_the_report_of_the_example_names_a_setting_that_whatif_confirms(examples: Path) -> None:
    (log,) = memlens.analyze(examples / "oom.log.gz").logs
    assert log.remedy is not None
    (found,) = memlens.whatif(examples / "oom.log.gz").logs
    trial = next(one for one in found.trials if one.line == log.remedy.line)
    assert trial.within_limit == "completes"
    assert log.remedy.limit_bytes == found.limit_bytes == log.ooms[0].reserved_bytes
    plain = json.loads(json.dumps(log.to_dict()))
    assert plain["remedy"]["line"] == log.remedy.line
    assert plain["remedy"]["message"] in str(memlens.analyze(examples / "oom.log.gz")._repr_html_()).replace(
        "<code>", ""
    ).replace("</code>", "")


@pytest.mark.parametrize("most", ["_MOST_BYTES", "_MOST_EVENTS"])
def test_a_large_log_is_not_read_again_but_the_verb_is_named(examples: Path, tmp_path: Path, most: str) -> None:
    with gzip.open(examples / "oom.log.gz") as packed, open(tmp_path / "oom.log", "wb") as out:
        shutil.copyfileobj(packed, out)
    with mock.patch.object(remedy, most, 100):
        (log,) = memlens.analyze(tmp_path / "oom.log").logs
        assert log.remedy == FailureRemedy("memlens whatif tries other settings of the allocator on it")


def test_a_log_that_is_gone_by_then_costs_the_line_alone(examples: Path, tmp_path: Path) -> None:
    shutil.copy(examples / "oom.log.gz", tmp_path / "oom.log.gz")
    (log,) = memlens.analyze(tmp_path / "oom.log.gz").logs
    (tmp_path / "oom.log.gz").unlink()
    assert log.remedy is None


def test_a_run_whose_settings_cannot_be_is_no_error_of_its_report() -> None:
    log = made_log(recorded(SPLIT, limit=12 * KIB))
    with mock.patch.object(remedy, "replayed", side_effect=UsageError("a page that cannot be")):
        assert remedy_of(log, ReadAs()) is None


def test_where_what_lives_would_fit_but_none_is_sure_to_help_that_is_said() -> None:
    # 1, 8 and 1 KiB, then 8 are freed and 9 asked for: chunks never join, and no setting moves the last block.
    history = recorded(program_of([1 * KIB, 8 * KIB, 1 * KIB, "#1", 9 * KIB]), limit=11 * KIB, chunk_kib=10)
    with mock.patch.object(remedy, "TryOut", return_value=TryOut(settings=["chunk_kib=11"])):
        found = remedy_of(made_log(history), ReadAs())
    assert found is not None
    assert (found.line, found.over_bytes, found.tried) == ("", 0, 1)
    assert found.message == (
        "none of 1 setting of the allocator would surely have let it continue within 10.00 KiB;"
        " it could have had up to 11.00 KiB: memlens whatif --memory SIZE"
    )
