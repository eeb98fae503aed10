"""Jobs by any executor: each comes back once, a lost worker is made up for, and what is bad costs itself alone."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from worker_jobs import die_once, no_pickle, square, square_or_die, square_or_fail, unreadable

import memlens
from memlens.errors import AnchorError, InputError, MemlensError, NoEventsError, OutputError, UsageError
from memlens.scheduling import jobs
from memlens.scheduling.executors import LocalProcesses
from memlens.scheduling.jobs import at_worker, run_jobs


class LostError(Exception):
    """A worker is gone."""


class Flaky(Executor):
    """Runs each job in a thread that ends by chance before it tells: the work was done and nobody knows."""

    def __init__(self, seed: int, share: float) -> None:
        self._chance, self._share = random.Random(seed), share
        self._pool = ThreadPoolExecutor(4)
        self.submitted = 0

    def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        self.submitted += 1
        lost = self._chance.random() < self._share

        def run() -> Any:
            found = work(*args, **keywords)
            if lost:
                raise LostError("a worker is gone")
            return found

        return self._pool.submit(run)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


class Scripted(Executor):
    """Ends each try as a script says: an exception, or ``None`` for what the work gives."""

    def __init__(self, *script: BaseException | None) -> None:
        self._script: Iterator[BaseException | None] = iter(script)
        self.futures: list[Future[Any]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        ends_in = next(self._script, None)
        if isinstance(ends_in, BrokenExecutor) and ends_in.args == ("now",):
            raise ends_in
        if ends_in is None:
            future.set_result(work(*args, **keywords))
        else:
            future.set_exception(ends_in)
        return future


@pytest.fixture(params=["threads", "processes", "ours"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    make: dict[str, Callable[[], Executor]] = {
        "threads": lambda: ThreadPoolExecutor(3),
        "processes": lambda: ProcessPoolExecutor(2, get_context("spawn")),
        "ours": lambda: LocalProcesses(2),
    }
    with make[request.param]() as made:
        yield made


def test_each_job_comes_back_once_with_its_result(executor: Executor) -> None:
    found = list(run_jobs(square, range(40), executor))
    assert sorted(found) == [(number, number * number) for number in range(40)]


def test_what_a_job_raises_is_its_own_error_in_words(executor: Executor) -> None:
    found = dict(run_jobs(square_or_fail, range(8), executor))
    assert [found.pop(number) for number in (0, 1, 2, 6, 7)] == [0, 1, 4, 36, 49]
    assert isinstance(found[3], InputError)
    assert (found[3].message, found[3].hint) == ("3 cannot be read", "Take 4.")
    assert str(found[4]) == "it failed in its worker: ZeroDivisionError: by nothing"
    assert "not enough memory" in str(found[5])


def test_what_cannot_be_sent_back_or_read_here_costs_its_job_alone(executor: Executor) -> None:
    (found,) = [result for _, result in run_jobs(no_pickle, [1], executor)]
    assert isinstance(found, MemlensError)
    assert found.message.startswith("it failed in its worker: TypeError")
    (found,) = [result for _, result in run_jobs(unreadable, [1], executor)]
    assert isinstance(found, MemlensError)
    assert found.message.startswith("what its worker found cannot be read here: ValueError")
    assert "same versions" in found.hint


class WordlessError(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_an_exception_that_has_no_words_is_named() -> None:
    ((_, found),) = run_jobs(square, [1], Scripted(WordlessError(), WordlessError(), WordlessError()))
    assert isinstance(found, MemlensError)
    assert found.message == "its worker was lost, 3 times: WordlessError"


def test_no_job_is_no_work() -> None:
    assert list(run_jobs(square, [], Scripted())) == []


@pytest.mark.parametrize("seed", range(5))
def test_lost_workers_are_made_up_for_and_nothing_comes_twice(seed: int) -> None:
    with Flaky(seed, 0.2) as flaky:
        found = list(run_jobs(square, range(100), flaky, retries=20))
        assert sorted(found) == [(number, number * number) for number in range(100)]
        assert flaky.submitted > 100


def test_a_job_whose_worker_is_always_lost_fails_alone_after_its_tries() -> None:
    executor = Scripted(None, LostError("gone"), None, LostError("gone"), LostError("gone\nfar away"))
    found = dict(run_jobs(square, [1, 2, 3], executor, retries=2))
    assert (found[0], found[2]) == (1, 9)
    assert str(found[1]).startswith("its worker was lost, 3 times: LostError: gone\n")
    assert "far away" not in str(found[1])
    assert len(executor.futures) == 5


def test_without_retries_a_lost_worker_is_an_error_at_once() -> None:
    found = dict(run_jobs(square, [1, 2], Scripted(LostError(), None), retries=0))
    assert str(found[0]).startswith("its worker was lost, once: LostError\n")
    assert found[1] == 4


def test_the_last_try_of_a_job_is_with_nothing_beside_it() -> None:
    class Watching(Scripted):
        beside: list[int]

        def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
            self.beside = [*getattr(self, "beside", []), sum(not future.done() for future in waiting)]
            future = super().submit(work, *args, **keywords)
            if not future.exception():
                waiting.append(held := Future[Any]())
                threading.Timer(0.05, lambda: held.set_result(future.result())).start()
                return held
            return future

    waiting: list[Future[Any]] = []
    executor = Watching(LostError(), None, None, LostError())
    assert sorted(run_jobs(square, [1, 2, 3], executor)) == [(0, 1), (1, 4), (2, 9)]
    assert executor.beside == [0, 0, 1, 2, 0]  # the first two jobs, the third, the first again, and it alone


def test_what_an_executor_has_tried_often_itself_is_tried_once_more_and_alone() -> None:
    killed = LostError("KilledWorker")
    killed.allowed_failures = 3  # type: ignore[attr-defined]
    executor = Scripted(killed, None, killed)
    found = dict(run_jobs(square, [1, 2], executor))
    assert "2 times" in str(found[0])
    assert len(executor.futures) == 3


def test_a_try_that_was_given_up_is_not_counted_when_its_result_comes_late() -> None:
    """Its executor says that a job is lost, and then gives its result all the same: what is counted is the second try."""

    class Late(Scripted):
        def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
            if self.futures:  # a job is handed over again: now the first try says that it has ended, once more
                for say in told:
                    say(self.futures[0])
            return super().submit(work, *args, **keywords)

    told: list[Any] = []
    original = Future.add_done_callback

    def keep(self: Future[Any], call: Any) -> None:
        told.append(call)
        original(self, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Future, "add_done_callback", keep)
        executor = Late(LostError())
        assert sorted(run_jobs(square, [5, 6, 7], executor)) == [(0, 25), (1, 36), (2, 49)]
    assert len(executor.futures) == 4


def test_a_pool_of_ours_that_breaks_is_made_anew_and_only_the_deadly_job_fails() -> None:
    with LocalProcesses(2) as pool:
        found = dict(run_jobs(square_or_die, range(12), pool))
        assert "lost, 3 times" in str(found.pop(3))
        assert found == {number: number * number for number in range(12) if number != 3}
        assert dict(run_jobs(square, range(3), pool)) == {0: 0, 1: 1, 2: 4}


def test_jobs_that_end_their_process_once_are_done_all_the_same(tmp_path: Path) -> None:
    with LocalProcesses(2) as pool:
        items = [(tmp_path, number) for number in range(10)]
        assert sorted(run_jobs(die_once, items, pool)) == [(number, number) for number in range(10)]


def test_of_a_broken_executor_of_somebody_else_the_rest_fails_in_words() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = dict(run_jobs(square_or_die, range(6), pool))
    assert sorted(found) == list(range(6))
    assert [found[number] for number in range(3)] == [0, 1, 4]
    for number in range(3, 6):
        assert str(found[number]).startswith("the executor broke before it was done: BrokenProcessPool")
    found = dict(run_jobs(square, range(3), Scripted(None, BrokenExecutor("now"), None)))
    assert found[0] == 0
    assert "broke" in str(found[1])
    assert "broke" in str(found[2])


def test_futures_of_a_client_that_has_lost_its_scheduler_are_not_waited_for() -> None:
    class Client:
        status = "running"

    class Lost(Scripted):
        _client = Client()

        def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
            if self.futures:
                self._client.status = "closed"
                return Future()
            return super().submit(work, *args, **keywords)

    found = dict(run_jobs(square, [2, 3, 4], Lost()))
    assert found[0] == 4
    assert str(found[1]).startswith(
        "the executor broke before it was done: BrokenExecutor: its client has lost the scheduler"
    )
    assert str(found[1]) == str(found[2])


def test_an_executor_that_is_shut_down_takes_nothing_and_says_so() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    found = dict(run_jobs(square, [1, 2], pool))
    assert [str(one).split(":")[0] for one in found.values()] == ["it was not taken by the executor"] * 2


def test_an_executor_that_cancels_is_asked_again() -> None:
    class Cancelling(Scripted):
        def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
            if self.futures:
                return super().submit(work, *args, **keywords)
            self.futures.append(future := Future[Any]())
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    assert dict(run_jobs(square, [7], Cancelling())) == {0: 49}


def test_a_worker_without_memlens_says_what_to_install() -> None:
    missing = ModuleNotFoundError("No module named 'memlens'")
    ((_, found),) = run_jobs(square, [1], Scripted(missing))
    assert isinstance(found, MemlensError)
    assert found.message == "its worker cannot load memlens: ModuleNotFoundError: No module named 'memlens'"
    assert f"pip install memlens=={memlens.__version__}" in found.hint


def test_a_worker_with_another_memlens_says_which_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = at_worker("99.1", b"no pickle of this version", "ticket")
    found = pickle.loads(answer)
    assert isinstance(found, MemlensError)
    assert f"has memlens {memlens.__version__}, and it is asked by 99.1" in found.message
    monkeypatch.setattr(jobs._Call, "__reduce__", lambda call: (at_worker, ("99.1", *call._args[1:])))
    ((_, found),) = run_jobs(square, [1], Scripted())
    assert isinstance(found, MemlensError)
    assert "99.1" in found.message


def test_equal_jobs_are_never_one_to_an_executor_that_remembers() -> None:
    asked: set[Any] = set()

    class Remembering(Scripted):
        def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
            assert args not in asked
            asked.add(args)
            return super().submit(work, *args, **keywords)

    for _ in range(2):
        assert len(list(run_jobs(square, [1, 1], Remembering(LostError(), None, LostError())))) == 2


def test_closing_early_cancels_what_has_not_begun() -> None:
    may_end = threading.Semaphore(1)
    done: list[int] = []

    class Slow:
        def submit(self, *_: Any) -> Future[Any]:
            return pool.submit(run)

    def run() -> bytes:
        may_end.acquire()
        done.append(1)
        return pickle.dumps(1)

    with ThreadPoolExecutor(1) as pool:
        results = run_jobs(square, range(5), Slow())  # type: ignore[arg-type]
        next(results)
        results.close()
        may_end.release(4)
    assert len(done) in (1, 2)  # the one that was done, and perhaps one that had begun


def test_somebody_may_look_on_while_jobs_run() -> None:
    looks: list[int] = []
    go = threading.Event()

    class Slow:
        def submit(self, *_: Any) -> Future[Any]:
            return pool.submit(lambda: (go.wait(), pickle.dumps(1))[1])

    with ThreadPoolExecutor(1) as pool:

        def look() -> None:
            looks.append(1)
            if len(looks) == 2:
                go.set()

        assert list(run_jobs(square, [1], Slow(), look=look)) == [(0, 1)]  # type: ignore[arg-type]
    assert len(looks) == 2


@pytest.mark.parametrize("kind", [AnchorError, InputError, MemlensError, NoEventsError, OutputError, UsageError])
def test_errors_survive_the_way_between_processes(kind: type[MemlensError]) -> None:
    back = pickle.loads(pickle.dumps(kind("what is wrong", "what to do")))
    assert type(back) is kind
    assert (back.message, back.hint, str(back)) == ("what is wrong", "what to do", "what is wrong\nwhat to do")
