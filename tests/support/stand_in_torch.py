"""A stand-in for a PyTorch with one or more CUDA devices: copied to ``torch/__init__.py`` in a folder, it is imported as torch.

It does what memlens relies on and no more, each after torch 2.13: what recording asks of it (``_record_memory_history`` neither clears the history
when it is switched on again nor keeps it when it is switched off; a ring of ``max_entries``; observers that stay, and that an allocator must be
there for; calls queued until CUDA is initialised), annotations of ``record_function``, and the statistics of the allocator.  ``alloc`` and ``free`` are its
tensors.  The machine has the files of its devices in ``/dev``.  It proves nothing of a real device.
"""

# mypy: ignore-errors
import os
import pickle
import sys
import time
import types

__version__ = "2.13.0+standin"
_CAPACITY = int(os.environ.get("STAND_IN_BYTES", "1000000"))
_ALLOWED = int(os.environ.get("STAND_IN_ALLOWED", "0")) or _CAPACITY  # by set_per_process_memory_fraction
_DEVICES = int(os.environ.get("STAND_IN_DEVICES", "1"))


def _module(name, **names):
    module = types.ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module
    return module


def _files(path=".", listed=os.listdir):
    return listed(path) + [f"nvidia{number}" for number in range(_DEVICES)] * (path == "/dev")


os.listdir = _files


class OutOfMemoryError(RuntimeError):
    pass


class _Device:
    def __init__(self):
        self.entries, self.live, self.next, self.made_by = [], {}, 0x7F0000000000, {}
        self.level = self.peak = 0

    def frames(self):
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        line = frame.f_lineno if frame else 1
        return [{"filename": "train.py", "line": line, "name": "train"}] if _state["context"] else []

    def record(self, **entry):
        if _state["max"]:
            frames = self.frames()
            if entry["action"] == "alloc":
                self.made_by[entry["addr"]] = frames
            elif _state["context"] == "alloc" and "free" in entry["action"]:
                frames = self.made_by.get(entry["addr"], [])
            self.entries.append({"stream": 0, "time_us": time.time_ns() // 1000, "frames": frames, **entry})
            del self.entries[: -_state["max"]]


_state = {"initialised": False, "max": 0, "context": None}
_devices = []
_observers = []
_annotations = []
_queue = []
calls = []  #: what was asked of the stand-in, in order


def _there():
    assert _devices, "the real one reads beyond an empty vector here"
    return _devices


# --- torch.cuda -------------------------------------------------------------------------------------------------------


def init():
    if _state["initialised"]:
        return
    if not _DEVICES:
        raise RuntimeError("No CUDA GPUs are available")
    if not _devices:
        calls.append("init")
        _devices.extend(_Device() for _ in range(_DEVICES))
        for call in _queue:
            call()
        _state["initialised"] = True


def _lazy_call(call):
    call() if _state["initialised"] else _queue.append(call)


def _record_memory_history(
    enabled="all",
    context="all",
    stacks="all",
    max_entries=sys.maxsize,
    device=None,
    clear_history=False,
    compile_context=False,
    global_record_annotations=False,
):
    init()
    calls.append(("record", enabled, context, stacks, max_entries, global_record_annotations))
    _state.update(max=max_entries if enabled else 0, context=context)
    if not enabled:
        for one in _devices:
            one.entries.clear()
        _annotations.clear()


def _snapshot(device=None):
    segments = []
    for number, one in enumerate(_there()):
        for address, size in one.live.items():
            block = {
                "address": address,
                "size": size,
                "requested_size": size,
                "state": "active_allocated",
                "frames": [],
            }
            segments.append(
                {
                    "device": number, "address": address, "total_size": size, "allocated_size": size, "active_size": size,
                    "requested_size": size, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
                    "is_expandable": False, "frames": [], "blocks": [block],
                }
            )  # fmt: skip
    return {
        "segments": segments,
        "device_traces": [list(one.entries) for one in _devices],
        "allocator_settings": {},
        "external_annotations": list(_annotations),
    }


def _dump_snapshot(filename="dump_snapshot.pickle"):
    with open(filename, "wb") as out:
        pickle.dump(memory._snapshot(), out)


def is_available():
    return _DEVICES > 0


def _of(statistic):
    def read(device=None):
        number = 0 if device is None else int(device)
        return getattr(_devices[number], statistic) if _devices else 0

    return read


def reset_peak_memory_stats(device=None):
    init()
    one = _there()[0 if device is None else int(device)]
    one.peak = one.level


memory = _module(
    "torch.cuda.memory",
    _record_memory_history=_record_memory_history,
    _dump_snapshot=_dump_snapshot,
    _snapshot=_snapshot,
)
cuda = _module(
    "torch.cuda",
    memory=memory,
    init=init,
    is_initialized=lambda: _state["initialised"],
    is_available=is_available,
    device_count=lambda: _DEVICES,
    current_device=lambda: 0,
    _lazy_call=_lazy_call,
    _parse_visible_devices=lambda: list(range(_DEVICES)),
    get_device_properties=lambda _: types.SimpleNamespace(total_memory=_CAPACITY),
    memory_allocated=_of("level"),
    memory_reserved=_of("level"),
    max_memory_allocated=_of("peak"),
    reset_peak_memory_stats=reset_peak_memory_stats,
    OutOfMemoryError=OutOfMemoryError,
)
_C = _module(
    "torch._C",
    _cuda_getDeviceCount=lambda: _DEVICES,
    _cuda_record_memory_history=lambda *_: None,
    _cuda_isHistoryEnabled=lambda: bool(_there() and _state["max"]),
    _cuda_attach_out_of_memory_observer=lambda observer: _there() and _observers.append(observer),
)
version = _module("torch.version", cuda="13.0", hip=None)


class record_function:  # noqa: N801  torch's name
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.note("START")

    def __exit__(self, *_):
        self.note("END")

    def note(self, stage):
        if _state["max"]:
            _annotations.append({"stage": stage, "name": self.name, "device": 0, "time_us": time.time_ns() // 1000})
            time.sleep(0.00001)


profiler = _module("torch.profiler", record_function=record_function)


# --- what holders are looked for by -----------------------------------------------------------------------------------


class _Plainly:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class UntypedStorage:
    def __init__(self, address):
        self.address = address

    def data_ptr(self):
        return self.address


class _recomputation_hook:  # noqa: N801  torch's name
    """Made right before layers are computed anew."""


_module("torch.utils.checkpoint", _recomputation_hook=_recomputation_hook)


class Tensor:
    """Has a block while it is not freed, and no graph."""

    __slots__ = ("address", "grad", "grad_fn", "is_leaf", "retains_grad")

    def untyped_storage(self):
        return UntypedStorage(self.address)


def _tensor_or_tensors_to_tuple(tensors, length):
    return (None,) * length if tensors is None else (tensors,)


def backward(tensor):
    del tensor  # this is no file of torch's that is installed
    sys.modules["torch.autograd"]._tensor_or_tensors_to_tuple(None, 1)


class _Optimizer:
    def zero_grad(self):
        pass


class no_grad:  # noqa: N801  as torch's
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class _Profile:
    def __exit__(self, *_):
        pass


_C.DisableTorchFunctionSubclass = _Plainly
nn = _module("torch.nn", Parameter=type("Parameter", (Tensor,), {"__module__": "torch.nn"}))
optim = _module("torch.optim", Optimizer=_Optimizer)
autograd = _module(
    "torch.autograd",
    __file__=__file__,
    backward=backward,
    _tensor_or_tensors_to_tuple=_tensor_or_tensors_to_tuple,
    profiler=types.SimpleNamespace(_is_profiler_enabled=False, profile=_Profile),
)


# --- tensors ----------------------------------------------------------------------------------------------------------


class alloc(Tensor):  # noqa: N801  used as a function
    """A block of so many bytes; raises as torch does where the device is full."""

    __slots__ = ("device", "size")

    def __init__(self, size, device=0):
        self.grad, self.grad_fn, self.is_leaf, self.retains_grad = None, None, True, False
        init()
        self.device, self.size = _devices[device], size
        if self.device.level + size > _ALLOWED:
            self.device.record(action="oom", device_free=_CAPACITY - self.device.level, size=size)
            for observer in _observers:
                observer(device, size, _ALLOWED, _CAPACITY - self.device.level)
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
        self.address = self.device.next
        self.device.next += size
        self.device.live[self.address] = size
        self.device.level += size
        self.device.peak = max(self.device.peak, self.device.level)
        self.device.record(action="segment_alloc", addr=self.address, size=size)
        self.device.record(action="alloc", addr=self.address, size=size)

    def free(self):
        del self.device.live[self.address]
        self.device.level -= self.size
        for action in ("free_requested", "free_completed", "segment_free"):
            self.device.record(action=action, addr=self.address, size=self.size)
