"""Lines of Paddle's other allocator layers: the reader gives what the regular expressions give, whichever layer is believed."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from in_threads import in_small_blocks
from night import many, some
from paddle import read
from plain_paddle import choose_plain, rows, rows_of
from texts import mutate, read_packed

from memlens.errors import NoEventsError
from memlens.inputs.paddle.layers import Layer


def assert_same(text: bytes, wanted: Layer | None = None, size: int = 1 << 20, threads: int = 1) -> None:
    expected, malformed = choose_plain(text, wanted)
    label = None if wanted is None else wanted.label
    with in_small_blocks(size, threads):
        if not expected:
            with pytest.raises(NoEventsError):
                read(io.BytesIO(text), layer=label)
            return
        log = read(io.BytesIO(text), layer=label, columns=("thread", "time_us"))
    assert rows(log) == rows_of(expected)
    assert [log.owner_of(event) for event in range(len(log))] == [e.owner for e in expected]
    assert log.facts.malformed == malformed
    if b"  pointer=" not in text:  # an ALLOC whose size nobody says is counted, and no more
        assert len(log.facts.malformed_samples) == min(malformed, 5)
        assert log.facts.threads == tuple(sorted({e.thread for e in expected} - {-1}))
        assert log.facts.unstamped == sum(e.thread == -1 for e in expected)
    if log.facts.layer == "stream_safe" and (deferred := text.find(b"Put into unfreed_allocation list")) >= 0:
        assert log.facts.hints["deferred_frees"] == text.count(b"\n", 0, deferred) + 1


HEADER = "I1120 10:22:32.856307 13292 stream_safe_cuda_allocator.cc:270] "
headers = st.sampled_from([HEADER, HEADER, HEADER.replace("13292", "   42"), HEADER.replace("cc:270", "cc:9"), "", HEADER[:-1], "x" + HEADER,
                           "I1120 10:22:32.856307 13292 naive_best_fit_allocator.cc:583] "])  # fmt: skip
sizes = st.one_of(
    st.sampled_from(["256", "0", "140737488355328", "140737488355329", "999999999999999", "1234567890123456", "12345678901234567", "", "x"]),
    st.integers(0, 1 << 40).map(str),
)  # fmt: skip
addresses = st.one_of(
    st.sampled_from(["0x7f01", "0x0", "0xffffffffffffffff", "0x1ffffffffffffffff", "0x", "0xG", "0", "(nil)", "0x7F01", "7f01"]),
    st.integers(0, 1 << 64).map(hex),
)  # fmt: skip
streams = st.sampled_from(["", "  , stream: 0", "  , stream: 0x55c0d7969200", ", stream: 0x55", "  , stream: 0x", "  , stream: 0x123456789012345",
                           "  , stream: 0x1234567890123456", "  , stream: 00", "  , stream: 0g", "  , stream: ", "  , stream: 0x1x"])  # fmt: skip
places = st.sampled_from(["Place(hostdev:0)", "Place(cpu)", "Place(gpu_pinned)", "Place(gpu:1)", "Place(xpu_pinned)", "Place(xpu_pinn",
                          "CPUPlace", "CUDAPlace(0)", "CUDAPinnedPlace", "", "demand", "Place(cp"])  # fmt: skip
megabytes = st.sampled_from(["4", "0.000244141", "1.5e-05", "1e+09", "4.", ".5", "-4", "1e99", "123456", "", "4e"])
results = st.sampled_from(["0", "2", "", "12345"])
stats = st.builds(
    "{}MemoryStat{}{}: Update current_value with {}, after update, {}current value = {}".format,
    st.sampled_from(["Device", "Host", "Gpu"]),
    st.sampled_from(["Allocated", "Reserved"]),
    st.sampled_from(["0", "1", ""]),
    st.one_of(sizes, sizes.map("-{}".format)),
    st.sampled_from(["", "", "peak_value = 512 , "]),
    sizes,
)
messages = st.one_of(
    st.builds("Thread 139 Allocate {} bytes at address {}{}".format, sizes, addresses, streams),
    st.builds("Allocate {} bytes at address {}{}".format, sizes, addresses, streams),
    st.builds("Try free allocation {}".format, addresses),
    st.builds("Try allocate {}{}".format, sizes, st.sampled_from([" bytes", " byte", ""])),
    st.builds("Allocate {} bytes on {}".format, sizes, places),
    st.builds("{}pointer={}".format, st.sampled_from(["  ", "   ", " ", "Free ", ""]), addresses),
    st.builds("Free pointer={} on {}".format, addresses, places),
    st.builds("[cudaMalloc] size={} MB, result={}".format, megabytes, results),
    st.builds("[cudaFree] size={} MB".format, megabytes),
    st.builds(
        "[cuda{}Async] ptr = {} size ={}{} MB result = {} stream = {}".format,
        st.sampled_from(["Malloc", "Free"]), addresses, st.sampled_from(["", " "]), megabytes, results, addresses,
    ),
    st.builds("MemDbg memory after growth chunk, realloc_size = {}".format, sizes),
    st.builds("FreeIdleChunks chunk is {}, {}".format, sizes, addresses),
    st.builds("Not found and reallocate {}({}), and remaining 0".format, sizes, addresses),
    stats,
    st.sampled_from(["Put into unfreed_allocation list", "Directly delete allocation", "Allocate", "Try free", "pointer=", "[cudaMalloc",
                     "memory::Copy 64 Bytes from Place(cpu) to Place(gpu:0), stream=0", "FreeIdleChunks called", "PTPTPT AAA ppp [[[ MMM"]),
)  # fmt: skip
blocks = st.builds("{} {} bytes, ptr = {}".format, st.sampled_from(["Alloc", "Free"]), sizes, addresses)
#: Texts with events of the auto-growth layer are rare here: with them nothing else counts.
lines = st.builds("{}{}{}".format, headers, st.one_of(*[messages] * 12, blocks), st.sampled_from(["", "", "\r", " x"]))
pieces = st.one_of(
    lines.map(lambda line: line + "\n"), lines, st.builds(lambda line, n: line[:n] + "\n", lines, st.integers(0, 140))
)
texts = st.lists(pieces, max_size=20).map(lambda parts: "".join(parts).encode())


@given(texts, st.sampled_from([None, None, *Layer]), st.sampled_from([(150, 1), (400, 3), (1 << 20, 1)]))
@settings(max_examples=many(600))
@example(b"", None, (400, 1))
@example(
    b"Allocate 8 bytes on Place(cpu)\n  pointer=0x1\nFree pointer=0x1 on Place(cpu)\n",
    Layer.HOST_NAIVE_BEST_FIT,
    (30, 1),
)
@example(b"Try free allocation 0x1Try free allocation 0x2", None, (400, 1))
@example(
    b"Allocate 256 bytes at address 0x1  , stream: 0x5Allocate 256 bytes at address 0x1Try free allocation 0x1\n",
    None,
    (400, 1),
)
def test_layers_are_read_as_the_regular_expressions_read_them(
    text: bytes, wanted: Layer | None, how: tuple[int, int]
) -> None:
    assert_same(text, wanted, *how)


@pytest.mark.parametrize("wanted", some([None, Layer.STREAM_SAFE, Layer.STATS, Layer.HOST_STATS, Layer.NAIVE_BEST_FIT]))
@pytest.mark.parametrize(
    "name",
    ["06_naive_best_fit_customdev.log", "08_cpu_stats_331.log", "10_v8_dygraph_331.log.gz", "10_v10_ast_pt_30.log.gz"],
)
def test_layers_of_real_logs_and_of_damaged_ones_are_read_the_same(
    shared: Path, name: str, wanted: Layer | None
) -> None:
    text = read_packed(shared / "data/paddle" / name)
    chance = random.Random(name)
    for _ in range(3):
        at = chance.randrange(max(len(text) - 30_000, 1))
        assert_same(text[at : at + 30_000], wanted)
        assert_same(mutate(text[at : at + 30_000], chance), wanted, 4096, 2)
