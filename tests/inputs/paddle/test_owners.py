"""Owners: an event's owner is what the nearest earlier context line of its thread names, wherever blocks are cut."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from night import many
from paddle import read
from plain_paddle import read_plain
from texts import mutate, read_packed

from memlens.errors import UsageError
from memlens.inputs import blocks
from memlens.log import Log
from memlens.windows.patterns import Pattern

BANNER = "=" * 26
MARKS = (Pattern(r"LAYER (\w+)", regex=True), Pattern("MARK"))


def header(thread: int = 13292, file: str = "auto_growth_best_fit_allocator.cc:270") -> str:
    return f"I1120 10:22:32.856307 {thread:5d} {file}] "


def alloc(thread: int = 13292, size: int = 256) -> str:
    return f"{header(thread)}Alloc {size} bytes, ptr = 0x7f01\n"


def banner(name: str, thread: int = 13292, what: str = "Running_AD_API") -> str:
    """A call as 3.3 writes it: the message begins with a line break, so its header stands on the line above."""
    return f"{header(thread, 'dygraph_functions.cc:17205')}\n{BANNER}{what}: {name}{BANNER}\n"


def owners_of(log: Log) -> list[str | None]:
    return [log.owner_of(event) for event in range(len(log))]


def read_text(*parts: str, owners: tuple[Pattern, ...] = ()) -> Log:
    return read(io.BytesIO("".join(parts).encode()), owners=owners)


def test_a_log_that_names_no_owner_has_no_column() -> None:
    log = read_text(alloc(11), alloc(22))
    assert log.owner is None
    assert log.owner_names == ()
    assert log.owner_of(0) is None
    assert "owner" not in log.to_pandas()


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        (f"{BANNER}Running_AD_API_GRAD: reshape_grad{BANNER}", "reshape_grad"),
        (f"{BANNER}Running_AD_API_Grad: GradNodeAccumulation{BANNER}", "GradNodeAccumulation"),
        (f"{header()}Running AD API: full_", "full_"),
        (f"{header()}Running AD API GRAD: mean_all_grad", "mean_all_grad"),
        (f"{header()}Running Eager Backward Node: GradNodeRunProgram", "GradNodeRunProgram"),
        (f"{header()}RunInstruction OP id:12 name:conv2d type:kGpuAsync runs on MainThread", "conv2d"),
        (f"{header()}\nbegin: RunInstructionBase OP id:3 name:pd_op.add type:kGpuAsync runs on MainThread", "pd_op.add"),
        (f"{header()}Start run Place(hostdev:0) Op(matmul_v2_grad), inputs:{{}}", "matmul_v2_grad"),
        (f"{header()}Running AD API: {'x' * 70}", "x" * 64),
        (f"{header()}Running AD API: {'y' * 24}", "y" * 24),
        (f"69: {header()}\r\n69: {BANNER}Running_AD_API: conv2d{BANNER}", "conv2d"),
        (f"{BANNER}Finish_AD_API: conv2d{BANNER}", None),
        (f"{header()}Running C++ API: conv2d", None),
        (f"{header()}RunInstructionBase OP id:12 name:pd_op.add type:kGpuAsync runs on MainThread", None),
        (f"{header()}\ndone: RunInstructionBase OP id:3 name:pd_op.add type:kGpuAsync runs on MainThread", None),
        (f"{header()}End run Place(hostdev:0) Op(conv2d), inputs:{{}}", None),
        (f"{header()}Running AD API: ", None),
    ],
)  # fmt: skip
def test_lines_that_name_an_owner_and_lines_that_do_not(line: str, owner: str | None) -> None:
    assert owners_of(read_text(alloc(), line + "\n", alloc()))[1] == owner


def test_a_line_of_ones_own_names_an_owner_beside_the_built_in_ones() -> None:
    text = alloc(), "LAYER 7 forward\n", alloc(), banner("conv2d"), alloc(), "LAYER 8\n", alloc(22), alloc()
    assert owners_of(read_text(*text, owners=MARKS)) == [None, "7", "conv2d", None, "8"]
    assert owners_of(read_text(*text)) == [None, None, "conv2d", None, "conv2d"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        read_text(alloc(), owners=(Pattern("(", regex=True),))


threads = st.sampled_from([11, 22, 33333, 2569728960])
names = st.sampled_from(
    ["conv2d", "relu", "GradNodeAccumulation", "pd_op.add", "a<b>", "z" * 24, "z" * 64, "z" * 65, "", "-"]
)
files = st.sampled_from(
    ["a.cc:1", "dygraph_functions.cc:17205", "x" * 70 + ".cc:5", "b.cc:", ":1", "a b.cc:1", "\x01.cc:7"]
)
heads = st.one_of(
    st.builds(header, threads, files),
    st.sampled_from(["", "", "69: ", "\x1b[32m" + header() + "\x1b[0m", header()[:-2] + "\x1b[0m] ", header() + "  ", header()[:-1], "x] ",
                     "[1] ", "a.cc:1] "]),
)  # fmt: skip
calls = st.builds(
    "{}Running{}: {}{}".format,
    st.sampled_from([BANNER, "", "=" * 25, "=" * 60]),
    st.sampled_from(["_AD_API", "_AD_API_GRAD", "_AD_API_Grad", " AD API", " AD API GRAD", " AD API Grad", "_AD API", " AD_API",
                     "_C++_API", " AD API_GRAD"]),
    names,
    st.sampled_from([BANNER, ""]),
)  # fmt: skip
messages = st.one_of(
    calls,
    calls.map(lambda text: "\n" + text),
    calls.map(lambda text: "\r\n" + text),
    names.map("Running Eager Backward Node: {}".format),
    st.builds("{} OP id:{} name:{} type".format, st.sampled_from(["RunInstruction", "begin: RunInstructionBase", "done: RunInstructionBase"]),
              st.sampled_from(["0", "123456789012345", "1234567890123456", ""]), names),
    st.builds("{} run Place({}) Op({}), inputs".format, st.sampled_from(["Start", "End"]), st.sampled_from(["cpu", "hostdev:0", "", "p" * 25]), names),
    st.sampled_from(["Alloc 256 bytes, ptr = 0x7f01", "Free 256 bytes, ptr = 0x7f01", "Alloc 1 bytes, ptr = 0x1"]),
    st.sampled_from(["Not found and reallocate 512(0x7f00), and remaining 0", "Finish_AD_API: relu", "LAYER 7", "xLAYER b MARK", "MARK", ""]),
)  # fmt: skip
lines = st.builds("{}{}{}".format, heads, messages, st.sampled_from(["\n", "\n", "\n", "\r\n", "", " ", "]\n"]))
texts = st.lists(lines, max_size=25).map(lambda parts: "".join(parts).encode("latin-1"))
marks = st.sampled_from([(), MARKS, (Pattern("^", regex=True),)])


def assert_same(text: bytes, owners: tuple[Pattern, ...] = ()) -> None:
    """The reader gives the owners that the reference implementation gives; an event in front, so that there is a log."""
    text = b"Alloc 7 bytes, ptr = 0x7\n" + text
    assert owners_of(read(io.BytesIO(text), owners=owners)) == [
        event.owner for event in read_plain(text, owners).events
    ]


@given(texts, marks, st.sampled_from([150, 400, 1 << 20]))
@settings(max_examples=many(500))
@example(f"{header(22)}\n{BANNER}Running_AD_API: relu{BANNER}\n{alloc(22)}".encode(), (), 150)
@example(
    f"Running AD API: Running AD API: relu\nAlloc 1 bytes, ptr = 0x1\n{alloc(22)}LAYER 7\n{alloc(22)}".encode(),
    MARKS,
    150,
)
def test_owners_are_those_of_the_reference_implementation_wherever_blocks_are_cut(
    text: bytes, owners: tuple[Pattern, ...], size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", size)
        assert_same(text, owners)


@pytest.mark.parametrize("owners", [(), MARKS], ids=["built in", "patterns"])
def test_owners_with_hundreds_of_threads_are_those_of_the_reference_implementation(owners: tuple[Pattern, ...]) -> None:
    chance = random.Random(1)
    parts = [
        chance.choice([alloc(10_000 + k % 300), banner(f"op{k % 7}", 10_000 + k * 7 % 300), f"LAYER {k % 5}\n"])
        for k in range(2000)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", 30_000)
        assert_same("".join(parts).encode(), owners)


@pytest.mark.parametrize("name", ["10_v8_dygraph_331.log.gz", "10_v10_ast_pt_30.log.gz"])
def test_mutations_of_real_logs_have_the_owners_of_the_reference_implementation(shared: Path, name: str) -> None:
    text = read_packed(shared / "data/paddle" / name)
    chance = random.Random(name)
    for _ in range(6):
        at = chance.randrange(max(len(text) - 60_000, 1))
        assert_same(mutate(text[at : at + 60_000], chance), (Pattern(r"START (\w+)", regex=True),))


def test_owners_stand_in_a_data_frame() -> None:
    frame = read_text(alloc(), banner("conv2d"), alloc()).to_pandas()
    assert frame["owner"].dtype == "category"
    assert frame["owner"].isna().tolist() == [True, False]
    assert frame["owner"].tolist()[1] == "conv2d"
