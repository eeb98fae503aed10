"""Which settings are tried, and what is said of names and values that there are not."""

from __future__ import annotations

import pytest
from made_allocator import DEFAULTS, MODEL, history_of, program_of

from memlens.allocators.paddle.auto_growth import AUTO_GROWTH
from memlens.allocators.torch.caching import CACHING
from memlens.allocators.torch.settings import Configuration
from memlens.errors import UsageError
from memlens.replaying.choosing import MOST_COMBINED, chosen_settings, named_values, own_settings

HISTORY = history_of(program_of([256]))


def test_values_are_what_their_setting_takes() -> None:
    found = named_values(MODEL, ["chunk_kib=8", "FREE_IDLE=on", "FLAGS_relief=0", "chunk_kib = 16"])
    assert found == {"chunk_kib": [8, 16], "free_idle": [True], "relief": [False]}


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ("chunk_kb=4", "made-allocator has no setting 'chunk_kb'", "Did you mean: chunk_kib?"),
        ("zzz=4", "made-allocator has no setting 'zzz'", "It has: chunk_kib, free_idle, relief, padding, high."),
        ("chunk_kib", "'chunk_kib' sets nothing", "Write NAME=VALUE."),
        ("chunk_kib=", "'chunk_kib=' sets nothing", "Write NAME=VALUE."),
        ("chunk_kib=many", "chunk_kib cannot be 'many'", "It takes a whole number."),
        ("chunk_kib=-1", "chunk_kib cannot be '-1'", "It takes a whole number."),
        ("chunk_kib=99999999999999999999", "chunk_kib cannot be '99999999999999999999'", "It takes a whole number."),
        ("free_idle=maybe", "free_idle cannot be 'maybe'", "It takes true or false."),
    ],
)
def test_what_cannot_be_set_is_refused_with_what_can(given: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        named_values(MODEL, [given])
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    "text", ["expandable_segments:True,max_split_size_mb:64", "max_split_size_mb:64,expandable_segments:True"]
)
def test_a_setting_that_holds_others_sets_them(text: str) -> None:
    whole = f"PYTORCH_CUDA_ALLOC_CONF={text}"
    one_by_one = ["expandable_segments=True", "max_split_size_mb=64"]
    own = own_settings(CACHING, {}, [whole])
    assert own == own_settings(CACHING, {}, one_by_one)
    assert Configuration.of(own).expandable
    found = [
        chosen_settings(CACHING, HISTORY, CACHING.defaults, named_values(CACHING, given, tried=True), every=False)
        for given in ([whole], one_by_one)
    ]
    assert found == [([{"expandable_segments": True, "max_split_size_mb": 64}], 0)] * 2
    # What the run had is no change.
    assert chosen_settings(CACHING, HISTORY, own, named_values(CACHING, [whole]), every=False) == ([], 0)


@pytest.mark.parametrize(
    "value", ["expandable_segments:Maybe", "max_split_size_mb:-64", "garbage_collection_threshold:x"]
)
def test_what_a_setting_holds_is_refused_like_the_settings_themselves(value: str) -> None:
    own = own_settings(CACHING, {}, [f"PYTORCH_CUDA_ALLOC_CONF={value}"])
    with pytest.raises(UsageError, match=value.partition(":")[0]):
        Configuration.of(own)


def test_of_very_many_values_so_many_combinations_are_tried_and_the_others_counted() -> None:
    named = {name: [*range(1, 11)] for name in ("chunk_kib", "padding", "free_idle", "relief", "high")}
    changes, left = chosen_settings(MODEL, HISTORY, dict.fromkeys(DEFAULTS, 0), named, every=False)
    assert len(changes) == MOST_COMBINED
    assert left == 10**5 - MOST_COMBINED


def test_a_run_was_set_as_its_user_says_else_as_its_log_tells_else_as_it_is_by_default() -> None:
    assert own_settings(MODEL, {"relief": True, "chunk_kib": 4}, ["chunk_kib=16"]) == {
        **DEFAULTS,
        "relief": True,
        "chunk_kib": 16,
    }
    with pytest.raises(UsageError, match="chunk_kib cannot have been 4 and 16"):
        own_settings(MODEL, {}, ["chunk_kib=4", "chunk_kib=16"])


def test_values_that_were_named_are_set_together_and_several_of_one_name_one_by_one() -> None:
    changes, _ = chosen_settings(MODEL, HISTORY, DEFAULTS, {"chunk_kib": [4, 16], "relief": [True]}, every=True)
    assert changes == [{"chunk_kib": 4, "relief": True}, {"chunk_kib": 16, "relief": True}]


def test_more_mebibytes_than_a_chunk_may_have_are_no_value() -> None:
    name = AUTO_GROWTH.settings[0].name
    assert named_values(AUTO_GROWTH, [f"{name}={(1 << 27) - 1}"]) == {name: [(1 << 27) - 1]}  # 2^47 bytes are one
    with pytest.raises(UsageError, match="cannot be '134217728'"):
        named_values(AUTO_GROWTH, [f"{name}={1 << 27}"])
