"""Paddle's other allocator layers, as line formats.  These regular expressions are the definition of what is read.

The stream-safe allocator stands above the auto-growth one and says the same again, less exactly: its free lines have no size.  Naive best
fit takes two lines to say an ALLOC.  Memory statistics tell no addresses.  The formats for CUDA and for VLOG-less chunk dumps are taken from
Paddle's source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from memlens.facts import MAX_SIZE, Kind
from memlens.inputs.paddle.events import alike
from memlens.inputs.paddle.layers import Layer, layer_named
from memlens.scanner.formats import LineFormat

if TYPE_CHECKING:
    import re

_SAFE = "I1120 10:54:49.758932 13917 stream_safe_custom_device_allocator.cc:162] "
_NAIVE = "I1120 10:41:08.438014 22600 naive_best_fit_allocator.cc:561] "
_ADDRESS = "(?P<addr>0x[0-9a-f]{1,16})(?![0-9a-f])"
#: Memory of the host; any other place is a device.
HOST_PLACES = (r"Place\(cpu", r"Place\(gpu_pinned", r"Place\(xpu_pinned", "CPUPlace", "CUDAPinnedPlace")
_PLACE = rf"(?=[A-Z])(?P<host>{'|'.join(HOST_PLACES)}|)"
_MEGABYTES = r"(?P<size>[0-9]{1,9}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,2})?)"
_HOST = "a place of the host; empty where the place is a device"

STREAM_ALLOC = LineFormat(
    name="stream_safe_alloc",
    layer="stream_safe",
    literal=b" bytes at address 0x",
    regex=(
        rf"(?:Thread [0-9]{{1,15}} )?Allocate (?P<size>[0-9]{{1,15}}) bytes at address {_ADDRESS}"
        r"(?:  , stream: (?P<stream>0x[0-9a-f]{1,15}|0)(?![0-9a-fx]))?"
    ),
    means={
        "size": "bytes of the block, aligned",
        "addr": "its address",
        "stream": "its stream; not printed before Paddle 3",
    },
    kinds={"": Kind.ALLOC},
    samples=(
        (
            f"{_SAFE}Thread 140461922327424 Allocate <size=1792> bytes at address <addr=0x55c0d7973000>  , stream:"
            " <stream=0x55c0d7969200>"
        ),
        "Thread 139 Allocate 256 bytes at address 0x7f01  , stream: <stream=0>",
        "stream_safe_cuda_allocator.cc:150] Allocate 256 bytes at address 0x7f01<stream!>",
    ),
    traps=(
        f"{_SAFE}Try allocate 1728 bytes",
        "auto_growth_best_fit_allocator.cc:204] Allocate 1792 bytes from chunk size 4194304, remaining 4192512",
        "op_info_impl.cc:76] Malloc 256 Bytes at 0x5606f8aeb000",
        "Allocate 256 bytes at address 0x",
    ),
)

STREAM_FREE = LineFormat(
    name="stream_safe_free",
    layer="stream_safe",
    literal=b"Try free allocation 0x",
    regex=rf"Try free allocation {_ADDRESS}",
    means={"addr": "the address of the block; its size is that of its ALLOC"},
    kinds={"": Kind.FREE},
    samples=(f"{_SAFE}Try free allocation <addr=0x55c0d7973000>",),
    traps=(f"{_SAFE}Directly delete allocation", "Try free allocation 0", "op_info_impl.cc:144] Free base_ptr 0x7f01"),
)

STREAM_REQUEST = LineFormat(
    name="stream_safe_request",
    layer="stream_safe",
    literal=b"Try allocate ",
    regex=r"Try allocate (?P<requested>[0-9]{1,15}) bytes",
    means={"requested": "bytes that the tensor asked for"},
    samples=(f"{_SAFE}Try allocate <requested=1728> bytes",),
    traps=("Try allocate bytes",),
)

STREAM_DEFERRED = LineFormat(
    name="stream_safe_deferred",
    layer="stream_safe",
    literal=b"Put into unfreed_allocation list",
    regex="Put into unfreed_allocation list",
    means={},
    samples=("stream_safe_cuda_allocator.cc:188] Put into unfreed_allocation list",),
    traps=(f"{_SAFE}Directly delete allocation",),
)

NAIVE_SIZE = LineFormat(
    name="naive_best_fit_size",
    layer="naive_best_fit",
    literal=b" bytes on ",
    regex=rf"Allocate (?P<size>[0-9]{{1,15}}) bytes on {_PLACE}",
    means={"size": "bytes that the tensor asked for", "host": _HOST},
    samples=(
        f"{_NAIVE}Allocate <size=256> bytes on <host=>Place(hostdev:0)",
        f"{_NAIVE}Allocate <size=64> bytes on <host=Place(cpu>)",
        "Allocate 64 bytes on <host=CUDAPinnedPlace>",
    ),
    traps=("naive_best_fit_allocator.cc:500] Free 256 bytes on Place(gpu_pinned)", "Allocate 64 bytes on demand"),
)

NAIVE_POINTER = LineFormat(
    name="naive_best_fit_pointer",
    layer="naive_best_fit",
    literal=b"  pointer=0x",
    regex=rf"  pointer={_ADDRESS}",
    means={"addr": "the address of the block whose size the thread's line before it gives"},
    kinds={"": Kind.ALLOC},
    samples=("I1120 10:41:08.438021 22600 naive_best_fit_allocator.cc:583]   pointer=<addr=0x7f9611826000>",),
    traps=("Free pointer=0x7f9611826000 on Place(hostdev:0)", "  pointer=0"),
)

NAIVE_FREE = LineFormat(
    name="naive_best_fit_free",
    layer="naive_best_fit",
    literal=b"Free pointer=0x",
    regex=rf"Free pointer={_ADDRESS} on {_PLACE}",
    means={"addr": "the address of the block; its size is that of its ALLOC", "host": _HOST},
    kinds={"": Kind.FREE},
    samples=(
        (
            "I1120 10:41:08.446169 22600 naive_best_fit_allocator.cc:596] Free pointer=<addr=0x7f96118c1800> on"
            " <host=>Place(hostdev:0)"
        ),
        "Free pointer=0x7f01 on <host=CPUPlace>",
    ),
    traps=("naive_best_fit_allocator.cc:583]   pointer=0x7f9611826000", "Free pointer=0x7f01"),
)

CUDA_MALLOC = LineFormat(
    name="cuda_malloc",
    layer="cuda_malloc",
    literal=b"[cudaMalloc] size=",
    regex=rf"\[cudaMalloc\] size={_MEGABYTES} MB, result=(?P<result>[0-9]{{1,4}})",
    means={"size": "MB of the chunk, with six digits", "result": "error code of the driver; 0 is success"},
    kinds={"": Kind.RESERVE},
    samples=(
        "gpu_info.cc:237] [cudaMalloc] size=<size=4> MB, result=<result=0>",
        "[cudaMalloc] size=<size=0.000244141> MB, result=<result=2>",
        "[cudaMalloc] size=<size=2.5e-05> MB, result=0",
    ),
    traps=("[cudaFree] size=4 MB", "[cudaMallocAsync] ptr = 0x7f01 size = 4 MB result = 0 stream = 0x55"),
)

CUDA_FREE = LineFormat(
    name="cuda_free",
    layer="cuda_malloc",
    literal=b"[cudaFree] size=",
    regex=rf"\[cudaFree\] size={_MEGABYTES} MB",
    means={"size": "MB of the chunk, with six digits"},
    kinds={"": Kind.RELEASE},
    samples=("gpu_info.cc:290] [cudaFree] size=<size=4.5> MB",),
    traps=("[cudaMalloc] size=4 MB, result=0",),
)

CUDA_ASYNC = LineFormat(
    name="cuda_malloc_async",
    layer="cuda_malloc_async",
    literal=b"Async] ptr = 0x",
    regex=(
        rf"\[cuda(?P<kind>Malloc|Free)Async\] ptr = {_ADDRESS} size = ?{_MEGABYTES} MB "
        r"result = (?P<result>[0-9]{1,4}) stream = (?P<stream>0x[0-9a-f]{1,15}|0)(?![0-9a-fx])"
    ),
    means={
        "kind": "the event",
        "addr": "the address of the block",
        "size": "its MB, with six digits",
        "result": "error code of the driver; 0 is success",
        "stream": "its stream",
    },
    kinds={"Malloc": Kind.ALLOC, "Free": Kind.FREE},
    samples=(
        (
            "gpu_info.cc:260] [cuda<kind=Malloc>Async] ptr = <addr=0x7f01> size = <size=4> MB result = 0 stream ="
            " <stream=0x55>"
        ),
        "[cuda<kind=Free>Async] ptr = 0x7f01 size =<size=4> MB result = 0 stream = <stream=0>",
    ),
    traps=("[cudaMalloc] size=4 MB, result=0",),
)

CHUNK_DUMPED = LineFormat(
    name="chunk_dumped",
    layer="chunk_dump",
    literal=b"MemDbg memory after growth chunk, realloc_size = ",
    regex=r"MemDbg memory after growth chunk, realloc_size = (?P<size>[0-9]{1,15})(?![0-9])",
    means={"size": "bytes of the chunk taken from the device"},
    kinds={"": Kind.RESERVE},
    samples=("MemDbg memory after growth chunk, realloc_size = <size=1792>",),
    traps=("MemDbg memory not enough growth chunk, need size = 1792",),
)

CHUNK_IDLE = LineFormat(
    name="chunk_idle",
    layer="chunk_dump",
    literal=b"FreeIdleChunks chunk is ",
    regex=rf"FreeIdleChunks chunk is (?P<size>[0-9]{{1,15}}), {_ADDRESS}",
    means={"size": "bytes of the chunk given back to the device", "addr": "its base address"},
    kinds={"": Kind.RELEASE},
    samples=("FreeIdleChunks chunk is <size=1792>, <addr=0x55c56ab2d000>",),
    traps=("FreeIdleChunks called",),
)

#: Paddle's own running totals: how many bytes, but not of which block.
STAT_LINE = LineFormat(
    name="stat_line",
    layer="stats",
    literal=b": Update current_value with ",
    regex=(
        r"(?P<where>Device|Host)MemoryStat(?P<what>Allocated|Reserved)(?P<device>[0-9]{1,4}): "
        r"Update current_value with (?P<change>-?[0-9]{1,15})(?P<after>, after update, "
        r"(?:peak_value = (?P<peak>[0-9]{1,15}) , )?current value = )(?P<current>-?[0-9]{1,15})(?![0-9])"
    ),
    means={
        "where": "memory of a device or of the host",
        "what": "what tensors hold, or what was taken from the device",
        "device": "device id",
        "change": "bytes, signed",
        "after": "what stands between the change and the total",
        "peak": "the framework's peak, on lines where it rose",
        "current": "the framework's running total",
    },
    samples=(
        (
            "I1120 10:54:59.653695 14969 stats.h:94] <where=Device>MemoryStat<what=Allocated><device=0>: Update"
            " current_value with <change=256>, after update, current value = <current=5108736><peak!>"
        ),
        (
            "stats.h:107] <where=Host>MemoryStat<what=Reserved>0: Update current_value with <change=-64>, after update,"
            " peak_value = <peak=1792> , current value = <current=1728>"
        ),
    ),
    traps=("stats.h:50] Reset peak_value to current_value = 5",),
)

#: The formats whose lines are few: each stands for a call to the driver, or for a dump of all chunks.
RARE = (CUDA_MALLOC, CUDA_FREE, CUDA_ASYNC, CHUNK_DUMPED, CHUNK_IDLE)
#: The lines of events.
EVENTS = (STREAM_ALLOC, STREAM_FREE, NAIVE_POINTER, NAIVE_FREE, STAT_LINE, *RARE)
#: Everything read of these layers.
FORMATS = (*EVENTS, STREAM_REQUEST, STREAM_DEFERRED, NAIVE_SIZE)

#: Text that looks like an event of these layers: where no event is read around it, its line counts as malformed.
LOOK_ALIKES = (
    alike(
        "stream_safe",
        "stream_safe_alloc",
        " bytes at address ",
        "Allocate 5 bytes at address 0",
        "Allocate 5 bytes",
        before="Allocate [0-9]{1,16}",
    ),
    alike("stream_safe", "stream_safe_free", "Try free allocation ", "Try free allocation 0", "Try free"),
    alike("naive_best_fit", "naive_best_fit_pointer", "  pointer=", "  pointer=0", " pointer=0"),
    alike("naive_best_fit", "naive_best_fit_free", "Free pointer=", "Free pointer=0", "Free pointer"),
)


class RareEvent(Struct, frozen=True):
    """The event of a line of :data:`RARE`; ``addr`` is 0 and ``stream`` -1 where it has none."""

    kind: Kind
    size: int
    addr: int
    layer: Layer
    stream: int


def read_rare(form: LineFormat, match: re.Match[bytes]) -> RareEvent | None:
    """The event of a match; ``None`` where the call failed, or its size is not to be believed."""
    groups = match.groupdict()
    if int(groups.get("result") or 0):
        return None
    layer = layer_named(form.layer)
    # Six digits of MB: up to 1 MB the bytes are exact, above that to a millionth.
    size = int(groups["size"]) if form.layer == "chunk_dump" else round(float(groups["size"]) * (1 << 20))
    kind = form.kinds[groups["kind"].decode() if "kind" in groups else ""]
    if size > MAX_SIZE:
        return None
    return RareEvent(kind, size, int(groups.get("addr") or b"0", 16), layer, int(groups.get("stream") or b"-1", 16))
