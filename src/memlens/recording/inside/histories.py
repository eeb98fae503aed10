"""The memory history of PyTorch, or of Paddle, recorded and written as a snapshot.

Runs inside the program, whose Python may be an older one (3.8) and need not have memlens: the standard library alone.

**In a program that knows nothing of it** (:func:`start`, called before the program begins): once ``torch`` is imported, recording waits for
CUDA to be initialised, which it never does itself, for a process that initialised CUDA cannot fork others that use it.  The snapshot is written at exit, after an
uncaught exception too, and where SIGTERM would end the process; and beside it, when memory ran out, one of that moment: the exception that follows frees
what it unwinds.  Processes that never use CUDA (launchers, workers that load data) write nothing.  SIGKILL, ``os._exit`` and a crash leave nothing but that of the
moment when memory ran out.

**In one that asks for it**: ``memlens.record_torch`` uses :class:`History` alone.

torch's functions, from torch 2.1 on: ``torch.cuda.memory._record_memory_history``, which initialises CUDA, and clears the history when it is switched off,
not when it is switched on again; ``_snapshot``, to which the times are added at which memory ran out (``memlens``, ``failures``);
``torch._C._cuda_attach_out_of_memory_observer``, whose observers stay for ever and are called without the allocator's lock.

**Paddle's**, of ``paddle.device.cuda``: ``_record_memory_history``, which touches no device and so is called once ``paddle`` is imported, and ``_snapshot``.
It has no observers: of the moment when memory ran out there is what the snapshot of the end has.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Entries of the history that are kept, the latest ones; each takes about a kilobyte of host memory.
ENTRIES = 1_000_000
#: Whose frames a call stack has: Python's, those of C++ too, or there is none.
STACKS = ("python", "all", "none")
PADDLE_STACKS = ("all", "none")

#: Times at which memory ran out that are noted, the latest ones.
_MOST_FAILURES = 1000

_recording: list[History] = []
_observed: list[bool] = []  # torch has the observer of this module; it can be taken from it no more


def oom_path(path: str) -> str:
    """Where the snapshot of the moment goes at which memory ran out: ``run.oom.pickle`` beside ``run.pickle``."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}.oom{suffix}"


def missing(torch: Any) -> str:
    """Why nothing can be recorded with this torch, in words, without initialising CUDA; ``""`` where nothing speaks against it."""
    if not hasattr(torch._C, "_cuda_getDeviceCount"):
        return f"no CUDA device: this build of PyTorch, {torch.__version__}, is one without CUDA"
    if not hasattr(torch._C, "_cuda_record_memory_history"):
        return f"PyTorch {torch.__version__} records no memory history that can be limited; 2.1 is the first that does"
    if not torch.cuda._parse_visible_devices():
        return "no CUDA device: CUDA_VISIBLE_DEVICES hides them all"
    return no_device()


def no_device() -> str:
    """That this machine has no device, in words, as far as its files tell; ``""`` where it has one, or nobody knows.

    The driver is not asked: a process that initialised it cannot fork others that use it.
    """
    if sys.platform == "linux" and not any(map(_is_device, os.listdir("/dev"))):
        return "no CUDA device"
    return ""


def _is_device(name: str) -> bool:
    """Whether a file in ``/dev`` is of a GPU: of NVIDIA, of AMD, through WSL, or of Jetson."""
    return (name.startswith("nvidia") and name[6:].isdigit()) or name in ("kfd", "dxg", "nvmap")


def missing_of_paddle(paddle: Any) -> str:
    """The same of Paddle, which has looked for devices itself when it was imported."""
    version, cuda = paddle.__version__, paddle.device.cuda
    if not paddle.is_compiled_with_cuda() or paddle.is_compiled_with_rocm():
        return f"no CUDA device: this build of Paddle, {version}, is one without CUDA"
    if not hasattr(cuda, "_record_memory_history"):
        return f"Paddle {version} has no paddle.device.cuda._record_memory_history, which came in August 2026"
    return "" if cuda.device_count() else "no CUDA device"


class History:
    """The memory history of this process while it is recorded.

    Args:
        torch: The module.
        path: Where :meth:`dump` writes.
        entries: Entries to keep.
        stacks: One of :data:`STACKS`.
        force: Write over files that exist; else what would takes the number of the process into its name.

    Attributes:
        ooms: How often memory ran out; only the first time is written at once.
        failures: The latest of these times: the device, its bytes, how many of them this process may have, and how many it has.
        written: The files that were written.
        joined: It was being recorded already; then it is not switched off either.
    """

    def __init__(self, torch: Any, path: str, entries: int, stacks: str, force: bool = False) -> None:
        self.torch, self.path, self.entries, self.stacks, self.force = torch, path, entries, stacks, force
        self.ooms = 0
        self.failures: list[tuple[int, int, int, int]] = []
        self.written: list[str] = []
        self.joined = False

    def start(self) -> None:
        """Initialise CUDA and start recording."""
        torch = self.torch
        if (names := sys.modules.get("_memlens.torch_names")) is not None:
            names.recording()
        torch.cuda.init()  # returns at once while CUDA is being initialised
        enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        self.joined = enabled is not None and bool(enabled())
        if not self.joined:
            self._record("all")
            self._watch_recomputing()
        if not _observed:
            torch._C._cuda_attach_out_of_memory_observer(_out_of_memory)
            _observed.append(True)
        _recording.append(self)

    def _record(self, context: str) -> None:
        """Record from here on, with the call stacks of all entries, or of those that allocate (alloc)."""
        import inspect

        record = self.torch.cuda.memory._record_memory_history
        # Annotations of all threads, where this torch can.
        known = "global_record_annotations" in inspect.signature(record).parameters
        record(
            context=None if self.stacks == "none" else context,
            stacks="all" if self.stacks == "all" else "python",
            max_entries=self.entries,
            **({"global_record_annotations": True} if known else {}),
        )

    def _watch_recomputing(self) -> None:
        """Take no stacks of what is freed once layers are computed anew for their backward pass.

        ``torch.utils.checkpoint`` stops that by an exception.  PyTorch 2.11 loses it where the stack of what is freed meanwhile is taken, and the
        program fails: ``run_backward returned NULL without setting an exception``.
        """
        hook: Any = getattr(sys.modules.get("torch.utils.checkpoint"), "_recomputation_hook", None)
        if hook is None or self.stacks == "none":
            return
        first = hook.__init__

        def begins(*args: Any, **kwargs: Any) -> None:
            hook.__init__ = first
            if self in _recording:
                self._record("alloc")
            first(*args, **kwargs)

        hook.__init__ = begins

    def dump(self) -> None:
        """Write the snapshot, whole or not at all."""
        self._write(self.path)

    def stop(self) -> None:
        """End recording, which clears the history."""
        _recording.remove(self)
        if not self.joined:
            self.torch.cuda.memory._record_memory_history(enabled=None)

    def ran_out(self, device: int, allowed: int) -> None:
        """Memory of a device ran out just now, of which this process may have so many bytes; what failed is still to be raised."""
        self.ooms += 1
        cuda = self.torch.cuda
        self.failures.append(
            (device, cuda.get_device_properties(device).total_memory, allowed, cuda.memory_reserved(device))
        )
        del self.failures[:-_MOST_FAILURES]
        if self.ooms == 1:
            where = self._write(oom_path(self.path))
            _say(f"out of memory: the snapshot of this moment is {where}")
        elif (names := sys.modules.get("_memlens.torch_names")) is not None:
            names.failed()

    def _write(self, path: str) -> str:
        part = f"{path}.{os.urandom(4).hex()}.part"
        try:
            self._save(part)
            return self._put(part, path)
        finally:
            if os.path.lexists(part):
                os.unlink(part)

    def _save(self, part: str) -> None:
        import pickle

        snapshot = self._snapshot()
        if self.failures:
            snapshot.setdefault("memlens", {})["failures"] = [*map(list, self.failures)]
        with open(part, "wb") as file:
            pickle.dump(snapshot, file, 4)

    def _snapshot(self) -> dict[str, Any]:
        found: dict[str, Any] = self.torch.cuda.memory._snapshot()
        return found

    def _put(self, part: str, path: str) -> str:
        if not self.force:
            stem, suffix = os.path.splitext(path)
            for target in (path, f"{stem}.pid{os.getpid()}{suffix}"):
                try:
                    os.link(part, target)  # fails where another process was first
                except FileExistsError:
                    continue
                except OSError:  # a file system without links
                    if os.path.lexists(target):
                        continue
                    os.replace(part, target)
                self.written.append(target)
                return target
            path = target
        os.replace(part, path)
        self.written.append(path)
        return path


class PaddleHistory(History):
    """The same of Paddle."""

    def start(self) -> None:
        """Start recording, which clears what was recorded."""
        self.torch.device.cuda._record_memory_history(enabled="all", stacks=self.stacks, max_entries=self.entries)

    def dump(self) -> None:
        """Write the snapshot, unless nothing was allocated on a device."""
        self._taken: dict[str, Any] = self.torch.device.cuda._snapshot()
        if any(self._taken["device_traces"]):
            super().dump()

    def _snapshot(self) -> dict[str, Any]:
        return self._taken


def _out_of_memory(device: int, _asked: int, allowed: int, _free: int) -> None:
    """The observer that torch calls, with what the device has, or the process may have of it: an exception here would take the place of torch's own."""
    for history in _recording:
        try:
            history.ran_out(device, allowed)
        except Exception as error:  # noqa: BLE001
            _say(f"no snapshot of the moment when memory ran out: {_words(error)}")


def start(request: dict[str, Any], when_imported: Callable[[str, Callable[[Any], None]], None]) -> None:
    """Record this process once it uses CUDA by torch, which it may not have imported yet, or imports Paddle.

    The variables ``MEMLENS_TORCH_ENTRIES`` and ``MEMLENS_TORCH_STACKS``, or ``MEMLENS_PADDLE_…``, say how much.

    Args:
        request: ``output``, the path of the snapshot, ``of``, which is ``paddle`` or left out, and ``said`` where it was said already that there is no device.
        when_imported: Calls a function with a module once it is imported.
    """
    process = (_PaddleProcess if request.get("of") == "paddle" else _Process)(request)
    when_imported(process.module, process.imported)


class _Process:
    """Records once torch is imported, and writes when the process ends."""

    module = "torch"
    stacks: tuple[str, ...] = STACKS
    ranks: tuple[str, ...] = ("RANK",)

    def __init__(self, request: dict[str, Any]) -> None:
        self.output = os.path.abspath(request["output"])
        self.said = bool(request.get("said"))
        name = f"MEMLENS_{self.module.upper()}"
        self.entries = int(os.environ.get(f"{name}_ENTRIES") or ENTRIES)
        self.frames = os.environ.get(f"{name}_STACKS") or self.stacks[0]
        if self.entries < 1 or self.frames not in self.stacks:
            raise ValueError(f"{name}_ENTRIES is at least 1, and {name}_STACKS one of {', '.join(self.stacks)}")
        self.history: History | None = None
        self.process = 0
        self.writing = False
        self.terminated = False

    def imported(self, torch: Any) -> None:
        """The module is there: record as soon as can be."""
        try:
            if why := self.missing(torch):
                self._nothing(why)
            else:
                self.when_used(torch)
        except Exception as error:  # noqa: BLE001  the program goes on
            _say(f"the memory history is not recorded: {_words(error)}")

    def _nothing(self, why: str) -> None:
        if not self.said:
            _say(f"{why}; no memory history is recorded")
            import json

            request = json.loads(os.environ.get("MEMLENS_RECORD", "{}"))
            if request.get(self.module):  # once for all processes that this one starts
                request[self.module]["said"] = True
                os.environ["MEMLENS_RECORD"] = json.dumps(request)

    def missing(self, torch: Any) -> str:
        """Why nothing can be recorded, in words."""
        return missing(torch)

    def when_used(self, torch: Any) -> None:
        """Record once CUDA is initialised in this process, which may be a fork of the one that imported torch."""
        torch.cuda._lazy_call(lambda: self.record(History(torch, self._path(), self.entries, self.frames)))

    def record(self, history: History) -> None:
        """Start recording, and see that it is written."""
        try:
            history.start()
        except Exception as error:  # noqa: BLE001
            _say(f"the memory history is not recorded: {_words(error)}")
            return
        self.history, self.process = history, os.getpid()
        atexit.register(self.finish)
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            from multiprocessing.util import Finalize

            Finalize(None, self.finish, exitpriority=0)  # a forked child ends without what atexit has
        try:
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._terminate)
        except ValueError:  # not the main thread
            return

    def _path(self) -> str:
        rank = next((os.environ[name] for name in self.ranks if name in os.environ), "")
        stem, suffix = os.path.splitext(self.output)
        return f"{stem}.rank{rank}{suffix}" if rank.isdigit() else self.output

    def _terminate(self, _number: int, _frame: Any) -> None:
        self.terminated = True
        if not self.writing:
            self.finish()

    def finish(self) -> None:
        """Write the snapshot, once, in the process that recorded it."""
        history, self.history = self.history, None
        if history is not None and self.process == os.getpid():
            self.writing = True
            try:
                history.dump()
            except Exception as error:  # noqa: BLE001
                _say(f"the memory history is not written: {_words(error)}")
            self.writing = False
        if self.terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)


class _PaddleProcess(_Process):
    """The same of Paddle."""

    module = "paddle"
    stacks = PADDLE_STACKS
    ranks = ("PADDLE_TRAINER_ID", "RANK")

    def missing(self, torch: Any) -> str:
        """Why nothing can be recorded, in words."""
        return missing_of_paddle(torch)

    def when_used(self, torch: Any) -> None:
        """Record at once, which touches no device."""
        self.record(PaddleHistory(torch, self._path(), self.entries, self.frames))


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"memlens: {text}\n")
        sys.stderr.flush()
    except Exception:  # noqa: BLE001  closed, or none
        return


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
