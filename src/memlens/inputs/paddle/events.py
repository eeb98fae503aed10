"""Paddle's auto-growth allocator, as line formats.  These regular expressions are the definition of what is read.

Seen in Paddle 2.3 to 3.3 (``auto_growth_best_fit_allocator.cc`` and ``…_v2.cc``); 2.2 and older print no addresses.  The
source line in the header changes with every release and is never looked at.
"""

from __future__ import annotations

from memlens.facts import Kind
from memlens.scanner.formats import LineFormat
from memlens.windows import glog

_GLOG = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "

BLOCK = LineFormat(
    name="block",
    layer="auto_growth",
    literal=b" bytes, ptr = 0x",
    regex=r"(?P<kind>Alloc|Free) (?P<size>[0-9]{1,15}) bytes, ptr = (?P<addr>0x[0-9a-f]{1,16})(?![0-9a-f])",
    means={"kind": "the event", "size": "bytes of the block, aligned", "addr": "its address"},
    kinds={"Alloc": Kind.ALLOC, "Free": Kind.FREE},
    samples=(
        f"{_GLOG}<kind=Alloc> <size=256> bytes, ptr = <addr=0x5606f8aeb000>",
        (
            "I1120 10:22:33.002323 13292 auto_growth_best_fit_allocator.cc:177] <kind=Free> <size=256> bytes, ptr ="
            " 0x5606f8aeb000"
        ),
        "Alloc <size=3538944> bytes, ptr = 0x7f2b4c000000",
        (
            "STEPI1120 10:54:13.799247 13318 auto_growth_best_fit_allocator.cc:279] <kind=Free> <size=768> bytes, ptr ="
            " 0x56434f47ac00"
        ),
        "Free <size=512> bytes, ptr = <addr=0x7f01>Free 256 bytes, ptr = 0x7f02",
    ),
    traps=(
        f"{_GLOG}Allocate 16 bytes, aligned to 256, extra size 0",
        f"{_GLOG}Allocate 1792 bytes from chunk size 4194304, remaining 4192512",
        f"{_GLOG}Free chunk with size 110592",
        "retry_allocator.cc:45] Free 256 bytes and notify all waited threads, where waited_allocate_size_ = 0",
        "naive_best_fit_allocator.cc:500] Free 256 bytes on Place(gpu_pinned)",
        "buddy_allocator.cc:300] Release 2 chunks, Free 512 bytes.",
        "stream_safe_cuda_allocator.cc:172] Thread 139 Allocate 256 bytes at address 0x7f01  , stream: 0x55",
        "op_info_impl.cc:76] Malloc 256 Bytes at 0x5606f8aeb000",
        "memcpy.cc:74] memory::Copy 64 Bytes from Place(cpu) to Place(gpu:0), stream=0",
        "Alloc 256 bytes, ptr = 0x",
        "Alloc 12345678901234567890 bytes, ptr = 0x7f01",
        "Alloc 256 bytes, ptr = 0x12345678901234567",
    ),
)

CHUNK_NEW = LineFormat(
    name="chunk_new",
    layer="auto_growth",
    literal=b"Not found and reallocate ",
    regex=(
        r"Not found and reallocate (?P<size>[0-9]{1,15})"
        r"(?:\((?P<addr>0x[0-9a-f]{1,16})\)|(?P<bare>, and remaining))"
    ),
    means={
        "size": "bytes of the chunk taken from the device",
        "addr": "its base address",
        "bare": "what follows instead of the address up to Paddle 2.2",
    },
    kinds={"": Kind.RESERVE},
    samples=(
        f"{_GLOG}Not found and reallocate <size=256>(<addr=0x5606f8aeb000>), and remaining 0",
        f"{_GLOG}Not found and reallocate <size=4194304>, and remaining 4192512<addr!>",
        (
            "auto_growth_best_fit_allocator_v2.cc:90] Not found and reallocate <size=512>(<addr=0x7f01>) by"
            " strict_matching_state."
        ),
    ),
    traps=(f"{_GLOG}Not found and reallocate ", f"{_GLOG}Not found and reallocate 25"),
)

CHUNK_BACK = LineFormat(
    name="chunk_back",
    layer="auto_growth",
    literal=b"Free chunk with size ",
    regex=r"Free chunk with size (?P<size>[0-9]{1,15})(?![0-9])",
    means={"size": "bytes of the chunk given back to the device"},
    kinds={"": Kind.RELEASE},
    samples=(f"{_GLOG}Free chunk with size <size=110592>",),
    traps=(f"{_GLOG}Free chunk with size ", "Free chunk with size 1234567890123456"),
)

REQUEST = LineFormat(
    name="request",
    layer="auto_growth",
    literal=b" bytes, aligned to ",
    regex=r"Allocate (?P<requested>[0-9]{1,15}) bytes, aligned to (?P<aligned>[0-9]{1,15})(?![0-9])",
    means={"requested": "bytes that the tensor asked for", "aligned": "bytes of the block that it will get"},
    samples=(
        f"{_GLOG}Allocate <requested=16> bytes, aligned to <aligned=256>, extra size 0",
        "auto_growth_best_fit_allocator.cc:70] Allocate <requested=1728> bytes, aligned to 1792",
    ),
    traps=(f"{_GLOG}Allocate 1792 bytes from chunk size 4194304, remaining 4192512",),
)

HEADER = LineFormat(
    name="glog_header",
    layer="glog",
    literal=b"] ",
    # The thread id is padded to a width of five.
    regex=(
        f"(?P<level>{glog.LEVEL})(?P<year>{glog.YEAR})?(?P<date>{glog.DAY}) (?P<time>{glog.CLOCK}) +"
        rf"(?P<thread>[0-9]{{1,15}}) (?P<file>{glog.FILE}):(?P<line>[0-9]+)\][ \t]*"
    ),
    means={
        "level": "INFO, WARNING, ERROR or FATAL",
        "year": "yyyy, stamped by glog 0.5 and later",
        "date": "mmdd",
        "time": "hh:mm:ss.uuuuuu, local time",
        "thread": "id of the thread in the operating system",
        "file": "name of the source file",
        "line": "line of the source file",
    },
    samples=(
        "I<date=1120> <time=10:22:32.856307> <thread=13292> auto_growth_best_fit_allocator.cc:<line=270>] Alloc",
        "I0910 10:19:39.953390  <thread=7128> dygraph_functions.cc:94539]  xxxx",
        "I1207 23:45:28.132959 <thread=2778380> auto_growth_best_fit_allocator.cc:258] x",
        "I<year=2022><date=0507> 18:09:32.480209 <thread=1870746> nn_graph.cpp:286] Graph name",
        "69: I0712 20:44:41.779470 <thread=2569728960> buddy_allocator.cc:55] x",
    ),
    traps=("2024-10-10 23:55:07] ppocr INFO: epoch", "I1120 10:22:32 13292 a.cc:1] x"),
)

#: The lines of events.
EVENTS = (BLOCK, CHUNK_NEW, CHUNK_BACK)
#: What stands in every release's log of the auto-growth layer.
FORMATS = (*EVENTS, REQUEST, HEADER)


def alike(
    layer: str, name: str, literal: str, sample: str, *traps: str, before: str = "", rest: str = ""
) -> LineFormat:
    """A format of text that looks like an event: its literal, with expressions around it."""
    regex = before + literal + rest
    return LineFormat(f"like_{name}", layer, literal.encode(), regex, {}, {}, (sample,), traps)


#: Lines of other allocators begin like an event and are none: retries, pinned memory, the buddy allocator.
_NUMBER = r"(?![0-9]{1,15} bytes(?: a| o|\.))[0-9]"
#: Text that looks like an event: where no event is read around it, its line counts as malformed.
LOOK_ALIKES = tuple(
    alike("auto_growth", name, literal, sample, *traps, before="(?<= )" if name == "pointer" else "", rest=rest)
    for name, literal, rest, sample, *traps in (
        ("alloc", "Alloc ", _NUMBER, "Alloc 12345678901234567890 bytes", "Allocate 1 bytes", "Alloc 5 bytes on x"),
        ("free", "Free ", _NUMBER, "Free 25", "Free 256 bytes and notify all", "Free 512 bytes.", "Free chunk"),
        ("pointer", "bytes, ptr = 0x", "", "6 bytes, ptr = 0x7f01", "6 bytes, ptr = 7f01", "bytes, ptr = 0x"),
        ("chunk_new", "Not found and reallocate ", "", "Not found and reallocate 25", "Not found and reallocate"),
        ("chunk_back", "Free chunk with size ", "", "Free chunk with size ", "Free chunk with siz"),
    )
)

#: Chunks that are made in advance, each one free block; no other line tells of them.
PREALLOC = LineFormat(
    name="prealloc",
    layer="auto_growth",
    literal=b"_pool_pre_alloc_in_mb = ",
    regex=r"PreAlloc (?P<pool>small|large)_pool_pre_alloc_in_mb = (?P<megabytes>[0-9]{1,9})(?![0-9])",
    means={"pool": "the pool that it belongs to", "megabytes": "its size in MiB"},
    samples=(
        f"{_GLOG}PreAlloc <pool=small>_pool_pre_alloc_in_mb = <megabytes=2>",
        "PreAlloc <pool=large>_pool_pre_alloc_in_mb = <megabytes=16>",
    ),
    traps=("PreAlloc large_pool", "FLAGS_small_pool_pre_alloc_in_mb = 4"),
)

SERVED = LineFormat(
    name="served",
    layer="auto_growth",
    literal=b" bytes from chunk size ",
    regex=r"Allocate (?P<size>[0-9]{1,15}) bytes from chunk size (?P<free>[0-9]{1,15}), remaining [0-9]",
    means={"size": "bytes of the block that is cut", "free": "bytes of the free block that it is cut from"},
    samples=(f"{_GLOG}Allocate <size=1792> bytes from chunk size <free=4194304>, remaining 4192512",),
    traps=(
        "buddy_allocator.cc:120] Allocate 1792 bytes from chunk size 4194304",
        "auto_growth_best_fit_allocator_v2.cc:77] Allocate 512 bytes from chunk size 512 by strict_matching_state.",
        f"{_GLOG}Allocate 16 bytes, aligned to 256, extra size 0",
    ),
)

CHUNK_SIZE = LineFormat(
    name="chunk_size",
    layer="auto_growth",
    literal=b"chunk_size_:",
    regex=r"\bchunk_size_:(?P<size>[0-9]{1,15})(?![0-9])",
    means={"size": "the least bytes of a chunk"},
    samples=(f"{_GLOG}chunk_size_:<size=256>",),
    traps=("buddy_allocator.cc:60] min_chunk_size_: 256, max_chunk_size_:4096, extra_padding_size_: 0",),
)

PADDED = LineFormat(
    name="padded",
    layer="auto_growth",
    literal=b", extra size ",
    regex=r", extra size (?!0(?![0-9]))(?P<extra>[0-9]{1,15})(?![0-9])",
    means={"extra": "bytes that the device wants behind each tensor"},
    samples=(f"{_GLOG}Allocate 16 bytes, aligned to 256, extra size <extra=32>",),
    traps=(f"{_GLOG}Allocate 16 bytes, aligned to 256, extra size 0",),
)

STRICT = LineFormat(
    name="strict",
    layer="auto_growth",
    literal=b" by strict_matching_state.",
    regex=r" by strict_matching_state\.",
    means={},
    samples=(
        "auto_growth_best_fit_allocator_v2.cc:90] Not found and reallocate 512(0x7f01) by strict_matching_state.",
    ),
    traps=("strict_matching_state",),
)

CUSTOM_DEVICE = LineFormat(
    name="custom_device",
    layer="auto_growth",
    literal=b"CUSTOM_DEVICE_ROOT]=",
    regex=r"ENV \[CUSTOM_DEVICE_ROOT\]=",
    means={},
    samples=("I1120 10:40:54.334872 22168 init.cc:238] ENV [CUSTOM_DEVICE_ROOT]=/opt/hostdev",),
    traps=("[CUSTOM_DEVICE_ROOT]=/opt",),
)

#: What else a replay of the allocator needs: looked for only where requests are asked for.
OF_REPLAYS = (SERVED, CHUNK_SIZE, PADDED, CUSTOM_DEVICE, STRICT)
