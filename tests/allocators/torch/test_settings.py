"""PYTORCH_CUDA_ALLOC_CONF: read, written, and refused as PyTorch refuses it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from memlens.allocators.history import RequestHistory
from memlens.allocators.models import Values
from memlens.allocators.torch.caching import CACHING
from memlens.allocators.torch.settings import CONF, Configuration, conf_line, recorded_values, whole_values
from memlens.errors import UsageError


def test_settings_are_read_from_the_variable_and_by_their_names() -> None:
    text = (
        " max_split_size_mb : 128 , expandable_segments:True,backend:native,roundup_power2_divisions:[256:1,512:2,>:8]"
    )
    whole = Configuration.of({CONF: text})
    single = Configuration.of(
        {"max_split_size_mb": 128, "expandable_segments": True, "roundup_power2_divisions": "[256:1,512:2,>:8]"}
    )
    for conf in (whole, single):
        assert (conf.expandable, conf.max_split, conf.large_segment) == (True, 128 << 20, 20 << 20)
        # Below 512 MiB one step, so none; 512 MiB to 1 GiB in 2; from 1 GiB on in 8.
        assert conf.divisions.tolist() == [1] * 9 + [2] + [8] * 6
    # A setting that is given by its name wins over the variable.
    assert Configuration.of({CONF: text, "expandable_segments": False}).expandable is False
    assert Configuration.of({CONF: f"{CONF}=expandable_segments:True"}).expandable


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, ""),
        ({"expandable_segments": False, "max_split_size_mb": 0}, ""),
        ({"expandable_segments": True}, "expandable_segments:True"),
        ({"max_split_size_mb": 64, "expandable_segments": True}, "expandable_segments:True,max_split_size_mb:64"),
        ({CONF: "max_split_size_mb:64"}, "max_split_size_mb:64"),
        ({"roundup_power2_divisions": "[256:1,512:4]"}, "roundup_power2_divisions:[256:1,512:4]"),
        (
            {"roundup_power2_divisions": "[256:1,>:4]"},
            "'roundup_power2_divisions:[256:1,>:4]'",
        ),  # > means more to a shell
        ({"device_total_mb": 1024, "oldest_segment_first": True}, ""),
    ],
)
def test_the_line_that_sets_them_says_the_same_when_it_is_read(values: Values, line: str) -> None:
    assert conf_line(values) == f"{CONF}={line}"
    again = {name: value for name, value in values.items() if name in ("device_total_mb", "oldest_segment_first")}
    own, read = Configuration.of(values), Configuration.of({CONF: conf_line(values), **again})
    for name, value in structs.asdict(own).items():
        assert np.array_equal(value, getattr(read, name)), name


@pytest.mark.parametrize(
    "text",
    [
        "no_such_setting:1",
        "expandable_segments:true",
        "expandable_segments",
        "max_split_size_mb:1",
        "max_split_size_mb:-5",
        "max_split_size_mb:99999999999",
        "large_segment_size_mb:10",
        "large_segment_size_mb:64,max_split_size_mb:50",
        "garbage_collection_threshold:1.5",
        "garbage_collection_threshold:x",
        "per_process_memory_fraction:nan",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:[100:2]",
        "roundup_power2_divisions:[256:3]",
        "roundup_power2_divisions:[[256:1]]",
        "backend:cudaMallocAsync",
        "\x1b[31m:1",
        ":::",
    ],
)
def test_what_pytorch_would_not_take_is_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        Configuration.of({CONF: text})


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="expandable_segments"):
        Configuration.of({"expandable_segment": True})


def test_a_snapshot_tells_its_settings_by_its_figures_before_its_text() -> None:
    settings = {
        CONF: "max_split_size_mb:64",
        "max_split_size": f"{256 << 20}",
        "expandable_segments": "True",
        "garbage_collection_threshold": "0.80000000000000004",
    }
    steps = {f"roundup_power2_divisions.{1 << k}": "4" if k > 8 else "0" for k in range(16)}
    values = recorded_values({**settings, **steps})
    conf = Configuration.of(values)
    assert (conf.max_split, conf.expandable, conf.collect_share) == (256 << 20, True, 0.8)
    assert conf.divisions.tolist() == [0] * 9 + [4] * 7
    # As one writes -1 who has no limit; and nothing of it is a setting of the run's own.
    assert recorded_values({CONF: "", "max_split_size": "-1", "expandable_segments": "False"}) == {}


@pytest.mark.parametrize(
    "settings",
    [
        {CONF: "\x1b]0;x"},
        {CONF: "expandable_segments:maybe"},
        {"max_split_size": "9" * 400},
        {"max_split_size": "1"},
        {"garbage_collection_threshold": "nan"},
        {f"roundup_power2_divisions.{1 << k}": "7" for k in range(16)},
    ],
)
def test_settings_that_cannot_be_are_not_believed(settings: dict[str, str]) -> None:
    Configuration.of(recorded_values(settings))


def test_a_line_with_what_a_shell_would_take_for_a_redirection_is_quoted(tmp_path: Path) -> None:
    values: Values = {"roundup_power2_divisions": "[256:1,512:2,>:4]"}
    line = conf_line(values)
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{line} printenv {CONF}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "roundup_power2_divisions:[256:1,512:2,>:4]\n"
    assert not list(tmp_path.iterdir())
    assert whole_values({CONF: line}) == values


def _history(stream: int = 0, pool: int = 0) -> RequestHistory:
    """One request of 1 GiB."""
    none = np.full(1, -1, np.int64)
    return RequestHistory(
        operation=np.zeros(1, np.int8),
        of=none,
        size=none + (1 << 30),
        stream=np.full(1, stream, np.int32),
        pool=np.full(1, pool, np.int32),
        event=none,
        line=none,
        address=np.zeros(1, np.uint64),
        block_bytes=none,
    )


def test_no_value_is_tried_that_does_not_go_with_how_the_run_was_set() -> None:
    own: Values = {"large_segment_size_mb": 100}
    tried = [one.get("max_split_size_mb") for one in CACHING.candidates(_history(), own)]
    assert {128, 256, 512} < {*tried}
    assert 64 not in tried


def test_more_streams_and_pools_than_can_be_are_refused_before_anything_is_made_of_them() -> None:
    with pytest.raises(UsageError, match="100,001 streams and 100,001 pools"):
        CACHING.rules(_history(stream=100_000, pool=100_000), {})
