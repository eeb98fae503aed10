"""When it is looked for who holds tensors, and what is noted of backward passes."""

from __future__ import annotations

import gc
import random
import sys
import threading
from contextvars import ContextVar, copy_context
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memlens.recording.inside import walks
from memlens.recording.inside.holders import Walk


def looking(
    monkeypatch: pytest.MonkeyPatch, *, taken: float, searching: float = 0, room: bool
) -> tuple[walks.Walks, list[float], list[Any]]:
    """Walks that take so many seconds, or so many where they look for garbage, which none does where that is 0; the clock, and what each was asked of garbage."""
    now, asked = [0.0], list[Any]()
    monkeypatch.setattr(walks, "time", SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: now[0]))

    class Slow:
        found, whole, named, reached = (), True, True, True

        def __init__(self, *_: Any, garbage: bool | None, **__: Any) -> None:
            asked.append(garbage)
            self.searched = garbage is True and searching > 0

        def run(self, *, short: bool) -> tuple[Any, ...]:
            now[0] += searching if self.searched else taken
            return ()

    monkeypatch.setattr(walks, "Walk", Slow)
    framework = SimpleNamespace(
        **dict.fromkeys(("is_tensor", "beyond"), None), level=lambda: 0, peak=lambda: 0, whole=True, graphs=lambda _: ()
    )
    rows: list[Any] = []
    return walks.Walks(framework, rows.extend, lambda: room), now, asked


def test_a_search_for_garbage_that_takes_long_leaves_time_for_other_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks that look for garbage have as much time as the others, and none of theirs; one that nobody waits to be due for always looks."""
    looks, _, asked = looking(monkeypatch, taken=0.1, searching=0.6, room=True)
    for _ in range(16):
        looks.look("backward")
    assert asked == [True, None, None, None, None]  # the first, second, fourth, eighth, and sixteenth
    looks.walk()
    assert asked[-1] is True


def test_passes_have_the_stacks_that_began_them_unless_several_threads_begin_some() -> None:
    passes = walks.Passes()

    def begin() -> None:
        passes.begins(sys._getframe())

    begin()
    begin()
    found = passes.found()
    one, other = found["stacks"]
    assert [frame["name"] for frame in one[:2]] == ["begin", sys._getframe().f_code.co_name]
    assert other[1]["line"] == one[1]["line"] + 1
    assert (found["stack"], sorted(found["time_us"])) == ([0, 1], found["time_us"])
    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    assert passes.found() == {}


def test_objects_in_an_array_of_numpy_and_those_whose_memory_it_shows_are_looked_at() -> None:
    class Tensor:
        __array_interface__ = np.zeros(8).__array_interface__

    def program() -> list[tuple[str, str]]:
        tree = np.zeros(4, dtype=object)
        tree[2] = Tensor()
        preview = np.asarray(Tensor())[:2]
        assert isinstance(preview.base, np.ndarray | Tensor)
        return [(role, path) for _, role, path, _ in walked(Tensor)]

    def walked(kind: type) -> list[tuple[Any, str, str, str]]:
        return Walk(lambda one: one is kind, lambda file: file if file == __file__ else None).run()

    assert program() == [("variable", "tree[*]"), ("variable", "preview")]


def test_what_runs_without_gradients_leaves_time_for_the_walks_of_backward_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a second is for all walks, of which these take a tenth each."""
    looks, now, asked = looking(monkeypatch, taken=0.1, room=False)
    moments = list[str]()
    for moment in ("inference",) * 64 + ("backward",) * 64:
        now[0] += 0.021
        before = len(asked)
        looks.look(moment)
        moments += [moment] * (len(asked) - before)
    assert moments == ["inference"] * 4 + ["backward"] * 2


def test_operators_are_moments_again_once_backward_passes_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 operators there is a pass; what runs for twice as long without one is an evaluation, whatever it keeps."""
    looks, _, asked = looking(monkeypatch, taken=0.001, room=False)
    for _ in range(4):
        for _ in range(20):
            looks.look("operator")
        looks.look("backward")
    walked = []
    for operator in range(1, 81):
        before = len(asked)
        looks.look("operator")
        walked += [operator] * (len(asked) > before)
    assert walked == [41, 42, 44, 48, 56, 72]


def test_operators_that_are_told_of_together_are_a_moment_where_one_of_them_is(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    for _ in range(50):
        one_by_one, together = (looking(monkeypatch, taken=0, room=False)[0] for _ in range(2))
        moments = 0
        for _ in range(60):
            times = chance.randint(1, 9)
            moment = sum(one_by_one.due("operator") for _ in range(times)) > 0  # each is told
            assert together.due("operator", times) == moment
            moments += moment
        assert moments >= 3


def test_a_short_run_is_looked_at_all_along_and_a_long_one_for_a_hundredth_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Walks of 5 ms: each takes a tenth of the time to the next, until an eighth of a second is spent."""
    looks, now, asked = looking(monkeypatch, taken=0.005, room=True)
    walked = []
    for _ in range(2000):
        now[0] += 0.056
        before = len(asked)
        looks.look("backward")
        walked.append(len(asked) > before)
    assert all(walked[:25])
    assert sum(walked[100:]) * 0.005 <= (now[0] - 100 * 0.056) / 100 + 0.05
    assert sum(walked[100:]) > 1500 // 10


def test_a_short_program_is_looked_at_where_memory_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks of 10 ms, of which six are at most an eighth of half a second."""
    looks, _, asked = looking(monkeypatch, taken=0.01, room=True)
    walked = []
    for level in (100, 150, 200, 201, 402, 403, 900, 2000, 5000, 11_000, 30_000, 70_000):
        monkeypatch.setattr(looks._framework, "level", lambda level=level: level)
        before = len(asked)
        looks.look("operator")
        walked += [level] * (len(asked) - before)
    assert walked == [100, 201, 403, 900, 2000, 5000, 11_000]


def test_a_model_that_is_built_leaves_time_for_the_walks_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of half a second in walks of 3 ms is 41 of them; 100 parameters are built within 0.2 s, and what steps take is thrice that, and twice that."""
    looks, now, asked = looking(monkeypatch, taken=0.003, room=True)
    levels = [*range(100, 10_100, 100), 15_000, 30_000, 60_000]
    looks.walk()
    walked = []
    for level in levels:
        now[0] += 0.001
        monkeypatch.setattr(looks, "peak", lambda level=level: level)
        monkeypatch.setattr(looks._framework, "peak", looks.peak)
        if looks.peak() > looks.above_peak:
            before = len(asked)
            looks.ran("relu", ())
            walked += [level] * (len(asked) - before)
    assert walked[-2:] == [30_000, 60_000], walked
    assert len(walked) > 25  # and what is built is looked at


def test_a_context_variable_is_one() -> None:
    class Tensor: ...

    def walked() -> list[tuple[str, str]]:
        ContextVar[Any]("current").set([Tensor()])
        found = Walk(lambda one: one is Tensor, lambda file: file if file == __file__ else None).run()
        return [(path, where) for _, _, path, where in found]

    assert copy_context().run(walked) == [("current[*]", "a context variable")]


def test_what_a_walk_does_not_find_again_is_held_by_no_variable_though_such_are_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """States of an optimizer: of one that is replaced, the walk after that says so, if it has seen all."""
    framework = SimpleNamespace(
        is_tensor=lambda kind: issubclass(kind, Tensor),
        beyond=lambda *_: iter(()),
        level=lambda: 0,
        peak=lambda: 0,
        whole=True,
        graphs=lambda _: (),
        address=lambda tensor: tensor.address,
    )
    rows: list[tuple[int, str]] = []
    looks = walks.Walks(framework, rows.extend, lambda: True)

    class Tensor:
        def __init__(self, address: int) -> None:
            self.address = address

    def walked(**short: Any) -> list[tuple[int, str]]:
        rows.clear()
        looks.walk(**short)
        return [(address, text.partition(" (")[0]) for address, text in rows]

    kind = type("Optimizer", (), {"__module__": "torch.optim.optimizer"})
    mine = [kind(), kind()]
    for number, one in enumerate(mine):
        vars(one).update(state={number: {"mean": Tensor(number + 1)}})
    del one
    monkeypatch.setattr(walks, "own_name_of", lambda file: "test_walks.py" if file == __file__ else None)
    path = "optimizer mine[*].mean[*]"
    assert walked() == [(1, path), (2, path), (0, "-")]
    assert walked() == [(0, "-")]
    framework.whole = False
    del mine[0]
    assert walked() == []
    framework.whole = True
    assert walked() == [(1, "no variable"), (0, "-")]
    mine.clear()
    assert walked() == [(2, "no variable"), (0, "-")]
    # What goes on to another variable is said to be there by the next walk that sees all, though a short one saw it there first and says nothing of it.
    mine[:] = [kind()]
    vars(mine[0]).update(state={0: {"mean": Tensor(3)}})
    assert walked() == [(3, path), (0, "-")]
    kept = [mine.pop()]
    assert walked(passed=("relu", ())) == [(0, "some")]
    assert walked() == [(3, "optimizer kept[*].mean[*]"), (0, "-")]
    kept.clear()
    walked()
    # What a cycle holds, too, before it is looked for garbage.
    gc.disable()
    try:
        mine[:] = [kind()]
        vars(mine[0]).update(state={0: {"mean": Tensor(4)}}, me=mine[0])
        assert walked() == [(4, path), (0, "-")]
        mine.clear()
        assert walked(after=True) == [(4, "no variable")]
        assert walked() == [(4, "garbage Optimizer.mean[*]"), (0, "-")]
    finally:
        gc.enable()
    gc.collect()
    # Where no walk sees all, as many are known as there are addresses, and not as many as there ever were tensors.
    framework.whole = False
    for _ in range(8):
        mine[:] = [kind()]
        vars(mine[0]).update(state={0: {"mean": Tensor(1)}})
        walked()
    assert len(looks._written) == 1
