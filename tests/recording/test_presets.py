"""The environment of a recorded program: what the preset sets, what the user has set, and what of it spoils the log."""

from __future__ import annotations

import os

import pytest

import memlens
from memlens.recording.presets import STARTUP, Settings, settings

VMODULE = "GLOG_vmodule"


def paddle(*given: str, **own: str) -> Settings:
    return settings("paddle", given, own, "{}")


def test_the_preset_sets_what_is_not_set_and_says_why() -> None:
    made = paddle(PATH="/bin")
    ours = {VMODULE: "auto_g*=10", "FLAGS_new_executor_sequential_run": "true", "PYTHONUNBUFFERED": "1"}
    started = {"PYTHONPATH": str(STARTUP), "MEMLENS_RECORD": "{}"}
    assert made.changed == ours | started
    assert made.environment == {"PATH": "/bin"} | ours | started
    assert made.warnings == ()
    for name, value in ours.items():
        assert [line for line in made.shown if line.startswith(f"set {name}={value}: ")]


def test_what_the_user_has_set_is_kept_and_shown() -> None:
    made = paddle(**{VMODULE: "auto_*=11", "PYTHONUNBUFFERED": "1", "FLAGS_new_executor_sequential_run": ""})
    assert made.environment[VMODULE] == "auto_*=11"
    assert VMODULE not in made.changed
    assert made.shown[0] == (
        "kept GLOG_vmodule=auto_*=11 of your environment, not auto_g*=10: the allocator logs each Alloc and Free"
    )
    assert not [line for line in made.shown if "PYTHONUNBUFFERED" in line]
    assert made.changed["FLAGS_new_executor_sequential_run"] == "true"  # empty is not set


def test_the_allocator_that_the_user_chose_is_the_one_that_logs() -> None:
    for given, own in (
        (["FLAGS_allocator_strategy=naive_best_fit"], {}),
        ([], {"FLAGS_allocator_strategy": "naive_best_fit"}),
    ):
        made = paddle(*given, **own)
        assert made.environment[VMODULE] == "naive_*=10"
        assert made.warnings == ()
    assert paddle(FLAGS_allocator_strategy="auto_growth").environment[VMODULE] == "auto_g*=10"


def test_the_users_own_python_path_comes_after_ours() -> None:
    assert paddle(PYTHONPATH="/x").environment["PYTHONPATH"] == f"{STARTUP}{os.pathsep}/x"
    assert paddle("PYTHONPATH=/y", PYTHONPATH="/x").environment["PYTHONPATH"] == f"{STARTUP}{os.pathsep}/y"


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({VMODULE: "auto_grow*=10"}, []),  # 13
        ({VMODULE: "auto_growt*=010"}, []),  # 15
        ({VMODULE: "auto_growth*=010"}, ["16 characters"]),
        ({VMODULE: "a*=10,operator=5"}, ["16 characters"]),
        ({VMODULE: "a*=9"}, ["will be missing"]),
        ({VMODULE: "a*=9", "GLOG_v": "10"}, ["will be missing", "changes what it measures"]),  # the pattern goes first
        ({VMODULE: "oper*=4"}, ["will be missing"]),
        ({VMODULE: "oper*=4", "GLOG_v": "10"}, ["changes what it measures"]),
        ({VMODULE: "b*=1,a*=10"}, []),
        ({VMODULE: "a*=x"}, ["will be missing"]),
        ({VMODULE: "a*=10", "FLAGS_allocator_strategy": "naive_best_fit"}, ["will be missing"]),
        ({VMODULE: "na*=10", "FLAGS_allocator_strategy": "naive_best_fit"}, []),
        ({"GLOG_v": "5"}, []),
        ({"GLOG_v": "6"}, ["changes what it measures"]),
        ({"GLOG_minloglevel": "0"}, []),
        ({"GLOG_minloglevel": "1"}, ["GLOG_minloglevel=1 leaves"]),
    ],
)
def test_variables_that_spoil_the_log_are_told_of_and_others_are_not(own: dict[str, str], said: list[str]) -> None:
    warnings = paddle(**own).warnings
    assert len(warnings) == len(said)
    for warning in warnings:
        assert any(words in warning for words in said)


@pytest.mark.parametrize("given", ["NAME", "=x", "", "A=\0"])
def test_what_sets_no_variable_is_wrong_usage(given: str) -> None:
    with pytest.raises(memlens.UsageError, match="sets no variable"):
        paddle(given)
