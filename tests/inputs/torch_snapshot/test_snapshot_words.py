"""Marks, owners and errors of memory snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from snapshots import entry, frame, pickled, read, read_file, segment

from memlens.errors import InputError, NoEventsError
from memlens.facts import Mark
from memlens.inputs.torch_snapshot.reader import SnapshotSource


def test_a_failed_allocation_is_told_with_what_was_free() -> None:
    trace = [{"action": "oom", "size": 4096, "stream": 0, "device_free": 77, "frames": []}, entry("oom", 0, 12)]
    (log,) = read({"segments": [segment(0, 512)], "device_traces": [trace]})
    first, second = log.facts.ooms
    assert (first.offset, first.line, first.device) == (0, 1, "GPU 0")
    assert (first.requested_bytes, first.free_bytes) == (4096, 77)
    assert (second.requested_bytes, second.free_bytes) == (12, None)
    assert log.marks == (Mark(0, 1, "OUT OF MEMORY"), Mark(1, 2, "OUT OF MEMORY"))


def annotation(stage: str, name: str, time: int, device: int = 0) -> dict[str, Any]:
    return {"stage": stage, "name": name, "device": device, "time_us": time}


def timed(times: Iterable[int]) -> list[dict[str, Any]]:
    return [entry("alloc", 512 * k, 10, time_us=time) for k, time in enumerate(times)]


def test_annotations_stand_among_the_entries_by_time() -> None:
    notes = [
        annotation("START", "over", 1),
        annotation("END", "over", 2),
        annotation("START", "early", 5),
        annotation("START", "tie", 20),
        annotation("END", "tie", 30),
        annotation("END", "early", 35),
        annotation("START", "other device", 20, 1),
        annotation("START", "late", 99),
    ]
    trace = timed((10, 20, 20, 15, 30, 30, 40))
    (log,) = read({"segments": [segment(0, 1 << 20)], "device_traces": [trace], "external_annotations": notes})
    assert log.marks == (
        Mark(0, 1, "START early"),
        Mark(1, 2, "START tie"),
        Mark(6, 7, "END tie"),
        Mark(6, 7, "END early"),
        Mark(7, 8, "START late"),
    )
    window = log.window("START tie", "END tie")
    assert (window.start_line, window.end_line, len(window)) == (2, 6, 5)


def test_metadata_marks_where_it_changes_and_windows_are_cut_there() -> None:
    texts = ("", "step 1", "step 1", "step 2", "", "step 3")
    trace = [entry("alloc", 512 * k, 10, user_metadata=text) for k, text in enumerate(texts)]
    (log,) = read({"segments": [segment(0, 1 << 20)], "device_traces": [trace]})
    assert log.marks is not None
    assert [mark.offset for mark in log.marks] == [1, 3, 3, 4, 5]
    assert [mark.text for mark in log.marks] == [
        *("START step 1", "END step 1", "START step 2", "END step 2", "START step 3")
    ]
    cut = log.windows("START (.*)", end_regex="^END")
    assert [window.name for window in cut] == ["(before)", "step 1", "step 2", "step 3"]
    assert [len(window) for window in cut] == [1, 2, 1, 1]
    assert cut[0].lo == log.facts.opening


CPP = [
    frame("??", 0, "torch::unwind::unwind()"),
    frame("CUDACachingAllocator.cpp", 0, "c10::cuda::CUDACachingAllocator::Native::malloc(void**)"),
    frame("??", 0, "at::_ops::empty_memory_format::call(c10::ArrayRef<long>)"),
    frame("??", 0, "at::_ops::mul_Tensor::redispatch(c10::DispatchKeySet, at::Tensor const&)"),
    frame("??", 0, "torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor>&&)"),
    frame("??", 0, "torch::autograd::Engine::thread_main(int)"),
]
PYTHON = [
    frame("/site-packages/torch/nn/modules/linear.py", 125, "forward"),
    frame("/site-packages/torch/nn/modules/module.py", 1790, "_call_impl"),
    frame("C:\\work\\model.py", 7, "forward"),
    frame("train.py", 3, "<module>"),
]


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([*CPP, *PYTHON], "torch/nn/modules/linear.py:125 forward < model.py:7 forward < train.py:3 <module>"),
        (CPP, "mul_Tensor < MulBackward0"),
        (CPP[:2] + CPP[5:], "torch::autograd::Engine::thread_main"),
        (CPP[:2], "torch::unwind::unwind < c10::cuda::CUDACachingAllocator::Native::malloc"),
        (PYTHON[1:2], "_call_impl"),
        # As torch.profiler has the files of libraries.
        ([frame("torch/nn/linear.py", 5, "forward"), PYTHON[2]], "torch/nn/linear.py:5 forward < model.py:7 forward"),
        ([frame("torch/nn/linear.py", 5, "forward")], "torch/nn/linear.py:5 forward"),
        ([frame("none", 0, "file.py(12): fn")], "file.py(12): fn"),
        ([7, {}, {"name": 5, "line": "x"}], "?"),
    ],
)
def test_an_owner_is_named_by_what_says_most_of_its_stack(frames: list[Any], name: str) -> None:
    trace = [entry("alloc", 0, 1, frames=frames), entry("alloc", 512, 1, frames=list(frames)), entry("alloc", 1024, 1)]
    (log,) = read({"segments": [segment(0, 2048)], "device_traces": [trace]})
    first = log.facts.opening
    assert log.owner_names == (name,)
    assert [log.owner_of(event) for event in range(first, first + 3)] == [name, name, None]
    assert isinstance(log.source, SnapshotSource)
    assert len(log.source.stack(0)) == len(frames)
    assert log.source.stack(2) == log.source.stack(-1) == log.source.stack(9) == ()


@pytest.mark.parametrize(
    ("file", "function"),
    [
        ("torch/nn/modules/module.py", "_call_impl"),
        ("torch/nn/modules/module.py", "_wrapped_call_impl"),
        ("torch/utils/_contextlib.py", "decorate_context"),
        ("torch/optim/optimizer.py", "wrapper"),
        ("torch/optim/optimizer.py", "_use_grad"),
        ("torch/optim/lr_scheduler.py", "wrapper"),
        ("torch/_tensor.py", "__torch_function__"),
        ("torch/autograd/graph.py", "_engine_run_backward"),
    ],
)
def test_a_frame_that_only_passes_a_call_on_is_no_part_of_a_name(file: str, function: str) -> None:
    """Frames of PyTorch that stand in the stacks of real snapshots; a user's function of that name is one like any other."""
    for path, name in (
        (f"/site-packages/{file}", "model.py:7 forward < train.py:3 <module>"),
        ("mine.py", f"model.py:7 forward < mine.py:9 {function} < train.py:3 <module>"),
    ):
        frames = [PYTHON[2], frame(path, 9, function), PYTHON[3]]
        (log,) = read(
            {
                "segments": [segment(0, 512)],
                "device_traces": [[entry("alloc", 0, 1, frames=frames), entry("alloc", 512, 1, frames=frames)]],
            }
        )
        assert log.owner_names == (name,)


#: What stands between the code that torch.compile makes and the line that called it, innermost first.
COMPILER = [
    frame("/site-packages/torch/_inductor/output_code.py", 466, "__call__"),
    frame("/site-packages/torch/_functorch/_aot_autograd/runtime_wrappers.py", 338, "runtime_wrapper"),
    frame("/site-packages/torch/_functorch/_aot_autograd/utils.py", 126, "call_func_at_runtime_with_args"),
    frame("/site-packages/torch/_dynamo/eval_frame.py", 745, "_fn"),
    frame("/site-packages/torch/fx/graph_module.py", 822, "call_wrapped"),
]


@pytest.mark.parametrize(
    "file",
    [
        "/tmp/torchinductor_user/{k:03}/c{k:03}xyz.py",
        "/cache/ab/cab{k:03}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.py",
        "C:\\Temp\\torchinductor_user\\{k}\\c{k}.py",
        "/home/u/.triton/cache/{k}/kernel.py",
        "<eval_with_key>.{k}",
        "<eval_with_key>.{k} from /site-packages/torch/fx/x.py:3 in wrapped",
    ],
)
def test_generated_code_neither_hides_the_users_frame_nor_splits_its_owner(file: str) -> None:
    digits = str.maketrans("0189", "abcd")  # no name of a cached file has these
    trace = [
        entry(
            "alloc", 512 * k, 1, frames=[frame(file.format(k=k).translate(digits), k, "call"), *COMPILER, *PYTHON[2:]]
        )
        for k in range(300)
    ]
    (log,) = read({"segments": [segment(0, 1 << 20)], "device_traces": [trace]})
    assert log.owner_names == ("(generated code) < model.py:7 forward < train.py:3 <module>",)
    assert isinstance(log.source, SnapshotSource)
    assert log.source.stack(5)[0].endswith(":5 call")  # the whole stack tells all


def test_owner_names_are_of_bounded_length_and_whole_stacks_can_be_looked_up() -> None:
    frames = [frame("f.py", k, "n" * 500) for k in range(100)]
    (log,) = read({"segments": [segment(0, 512)], "device_traces": [[entry("alloc", 0, 1, frames=frames)]]})
    assert 80 <= len(log.owner_names[0]) <= 240
    assert isinstance(log.source, SnapshotSource)
    assert log.source.stack(0) == tuple(f"f.py:{k} {'n' * 500}" for k in range(100))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"segments": [], "device_traces": []}, "snapshot is empty"),
        ({"segments": [], "device_traces": [[], []]}, "snapshot is empty"),
        ({"segments": [], "device_traces": [[entry("snapshot", 0, 5)]]}, "no event among 1 entry, and no segments"),
    ],
)
def test_a_snapshot_of_nothing_says_how_to_record_one(made: Any, says: str) -> None:
    with pytest.raises(NoEventsError, match=says) as caught:
        read(made)
    assert "_record_memory_history" in caught.value.hint


@pytest.mark.parametrize(
    "made",
    [
        7,
        None,
        "text",
        [],
        [1, 2],
        {},
        {"a": 1},
        (1,),
        {"segments": 5},
        {"segments": {}, "device_traces": []},
        {"device_traces": 5},
        {"device_traces": [5]},
        {"device_traces": [[]] * 2000},
        {"segments": [], "device_traces": [[entry("alloc", 512 * k, 1 << 47) for k in range(40_000)]]},
    ],
    ids=repr,
)
def test_other_pickles_are_an_error_that_names_the_file(made: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.pickle"
    path.write_bytes(pickled(made))
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
