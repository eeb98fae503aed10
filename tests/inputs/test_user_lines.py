"""Blocks of lines of users' formats, held against the definition, a line at a time; and what the scanner is given of them."""

from __future__ import annotations

import io
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many

from memlens.errors import InputError, NoEventsError
from memlens.events import Kind
from memlens.inputs import blocks
from memlens.inputs.custom import user_formats
from memlens.inputs.custom.lines import LONGEST, TextError, UserLine
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import InputFormat, Request
from memlens.native import load
from memlens.scanner.plain import PlainScanner

if TYPE_CHECKING:
    from memlens.facts import Facts
    from memlens.log import Log

#: Formats with the groups that users write, and lines of each: good ones, and some that are nearly so.
FORMATS = {
    "pool": (
        r"""
literal = "pool: "
regex = 'pool: (?P<kind>take|give|grow|shrink) (?:(?P<size>[0-9.]+) ?(?P<unit>[KM]iB|B) )?at (?P<addr>0x[0-9a-f]+)(?: gpu(?P<device>\d+))?(?: by (?P<thread>\w+))?(?: t=(?P<time>[0-9.]+))?(?: for (?P<owner>.+))?'
alloc = ["take"]
free = ["give"]
reserve = ["grow"]
release = ["shrink"]
ignore = "pool: stats"
samples = ["pool: take 4KiB at 0x7f01 t=0.5"]
""",
        [
            *("pool: take 4KiB at 0x10 gpu1 by loader t=0.5 for conv 1", "pool: give at 0x10", "pool: stats 5"),
            *("pool: give at 0x10 gpu1", "pool: take 1.5 MiB at 0x20 gpu0 by 77", "pool: take ..B at 0x1", "pool: tak"),
            *("pool: take 7B at 0xfffffffffffffffff", "pool: grow 1MiB at 0xffffffffffffffff", "pool: shrink at 0x20"),
            *("pool: take 99999999999999999999KiB at 0x1", "pool: take 7B at 0x10 by 007 t=1.2.3 for \u00e9\0"),
            *("pool: take 3B at 0x30 gpu99999", "pool: give 3B at 0x0000000000000000000030", "pool: take at 0x30"),
            *("pool: take 7B at 0x10 by 99999999999999999999 t=99999999999", "\x1b[32mpool: \x1b[0mtake 7B at 0x10\x1b[0m"),
        ],
    ),
    "decimal": (
        r"""
literal = "#"
regex = '#(?P<stream>\d+) (?P<kind>\w) (?P<size>\d+)(?:/(?P<requested>\d+))? @(?P<addr>\d+) T(?P<thread>\d+) (?P<time>\d+)$'
alloc = "a"
free = "f"
size_unit = "KiB"
addr_base = 10
time = "ns"
samples = ["#1 a 5/4 @16 T7 12345"]
""",
        [
            *("#1 a 5/4 @16 T7 12345", "#2 f 5 @16 T8 99999", "#2 x 5 @16 T8 99999", "#1 a 5/4 @16 T7 12345 "),
            *("#9223372036854775808 a 5 @16 T7 1", "#9223372036854775807 a 5 @18446744073709551615 T7 1"),
            *("#1 a 137438953472 @16 T7 1", "#1 a 137438953473 @16 T7 1", "#1 a 5/999999999999999 @16 T7 1"),
            *("#1 a 5 @16 T9223372036854775807 9223372036854775807", "#1 a 5 @16 T000000000000000000000000000001 9007199254740993"),
        ],
    ),
    "clock": (
        r"""
literal = "mem"
regex = '(?P<time>\S+) mem(?P<kind>[+-]) ?(?P<size>0x[0-9a-f]{1,16}|-?[0-9,]+)(?:@(?P<addr>[0-9a-f]{1,16}))?(?: (?P<thread>0x[0-9a-f]{1,16}))?'
alloc = "+"
free = "-"
time = "clock"
samples = ["01:02:03 mem+1"]
""",
        [
            *("01:02:03.5 mem+16@ff 0x7f", "23:59:59,999999 mem-0x10@ff 0x80", "1:02:03 mem+1@0", "noon mem+1,000@ffffffffffffffff"),
            *("01:02:60 mem+1@0", "99:99:99 mem- -1@1", "01:02:03. mem+5@1", "01:02:03.1234567 mem-5@1", "mem+5@1", "x mem"),
            *("01:02:03\u00e9 mem+5@1", "12:30:00 mem-7", "12:30:00.000001 mem+0xffffffffffffffff"),
        ],
    ),
    "iso": (
        r"""
literal = "=>"
regex = '\[(?P<time>[^]]+)\] (?P<owner>[a-z/]*) => (?P<kind>[A-Z]*) (?P<size>[0-9]+)(?P<unit>[a-zA-Z]*) (?P<addr>\w+)'
alloc = ["NEW", "GET"]
free = ["DEL"]
time = "iso"
samples = ["[2026-01-02T03:04:05] a => NEW 1kb ff"]
""",
        [
            *("[2026-01-02T03:04:05] a/b => NEW 1kb ff", "[2026-01-02 03:04:05.25] a => GET 2B 0xFE", "[now] b => DEL 1KB ff"),
            *("[2026-01-02T03:04:05Z] a/a/a/a/a/a/b => NEW 1kb fd", "[2026-02-30T03:04:05] a => DEL 2 fe", "[] a => NEW 1 f"),
            *("[2026-01-02T03:04:05.123456] a => NEW 1 xyz", "[1960-01-02T03:04:05.1] a => NEW 1 1_0", "[2026-01-02] a =>  1 f"),
            *("[2026-01-02T03:04:05+01:00] c => NEW 12boxes f", "[2026-01-02T03:04:05.] c => NEW 12 f", "=> => => NEW 5 f"),
        ],
    ),
    "kinds": (
        r"""
literal = "new "
regex = 'new (?P<addr>\w+) (?P<size>\d+)'
kind = "ALLOC"
size_base = 16
samples = ["new ff 1"]

[[format]]
name = "kinds"
literal = "old"
regex = '(?i)OLD (?P<addr>\w+)\Z'
kind = "FREE"
samples = ["old ff"]

[[format]]
name = "kinds"
literal = "new"
regex = 'new (?P<addr>[a-f]+)'
kind = "FREE"
samples = ["new ff"]
""",
        ["new ff 10", "old ff", "new ff", "old ff ", "new old ff", "new 1 old ff", "new ff 1old ff", "new zz 5", "newer"],
    ),
    "empty": (
        "literal = \"+\"\nregex = '(?P<size>[0-9]*)'\nkind = \"ALLOC\"\nsamples = [\"7+\"]\n",
        ["7+", "+7", "+", "x7+", "12"],
    ),
}  # fmt: skip


@lru_cache
def form_of(folder: Path, name: str) -> InputFormat:
    path = folder / f"{name}.toml"
    path.write_text(f'[[format]]\nname = "{name}"\n{FORMATS[name][0]}')
    return user_formats(path)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


def lines_of(form: InputFormat) -> tuple[UserLine, ...]:
    found: tuple[UserLine, ...] = form.lines.keywords["lines"]  # type: ignore[union-attr]
    return found


def read_plain(form: InputFormat, text: bytes) -> tuple[list[dict[str, Any]], list[int]]:
    """Line by line: events, and the numbers of the lines that cannot be read."""
    kinds = lines_of(form)
    events: list[dict[str, Any]] = []
    malformed: list[int] = []
    names: dict[str, int] = {}
    sizes: dict[tuple[bool, int, int | None], int] = {}
    devices: dict[tuple[bool, int], int | None] = {}
    for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), 1):
        if not any(kind.format.literal in line for kind in kinds):
            continue
        line = line[:LONGEST]  # noqa: PLW2901
        try:
            said = next((said for kind in kinds if (said := kind.find(line)) is not None), None)
        except TextError:
            malformed.append(number)
            continue
        if said is None:
            if not any(kind.ignored(line) for kind in kinds):
                malformed.append(number)
            continue
        size, device = said.size, said.device
        chunk = said.kind in (Kind.RESERVE, Kind.RELEASE)
        if said.kind in (Kind.ALLOC, Kind.RESERVE):
            sizes[chunk, said.addr, device] = size
            devices[chunk, said.addr] = device
        else:
            device = devices.get((chunk, said.addr)) if device is None else device
            known = sizes.pop((chunk, said.addr, device), -1)
            size = known if size < 0 else size
            if size < 0:
                malformed.append(number)
                continue
        thread = -1
        if said.thread is not None:
            is_number = said.thread.isascii() and said.thread.isdigit() and int(said.thread) < 10**18
            thread = int(said.thread) if is_number else names.setdefault(said.thread, len(names) + 1)
        events.append(
            {
                "kind": said.kind,
                "size": size,
                "addr": said.addr,
                "time_us": said.time_us,
                "thread": thread,
                "requested": said.requested,
                "stream": said.stream,
                "owner": said.owner,
                "line": number,
                "device": device,
            }
        )
    return events, malformed


def of_log(log: Log) -> list[dict[str, Any]]:
    columns = {}
    for name in ("kind", "size", "addr", "time_us", "thread", "requested", "stream", "line"):
        column = getattr(log, name)
        columns[name] = [-1] * len(log) if column is None else column.tolist()
    columns["owner"] = [log.owner_of(event) for event in range(len(log))]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def assert_as_plain(form: InputFormat, text: bytes) -> None:
    events, malformed = read_plain(form, text)
    source = FileSource(io.BytesIO(text))
    if not events:
        with pytest.raises(NoEventsError):
            form.read(source, Request())
        return
    numbers = sorted({event["device"] for event in events} - {None})
    logs = form.read(source, Request())
    assert [log.device for log in logs] == (numbers or [None])
    for log in logs:
        mine = [log.device, *([None] if log.device in (None, *numbers[:1]) else [])]
        of_device = [event for event in events if event["device"] in mine]
        assert of_log(log) == [
            {name: value for name, value in event.items() if name != "device"} for event in of_device
        ]
        assert log.facts.malformed == len(malformed)
        assert [sample.line for sample in log.facts.malformed_samples] == malformed[:5]
        shown = text.split(b"\n")
        for sample in log.facts.malformed_samples:
            assert sample.text == shown[sample.line - 1][:200].rstrip(b"\r").decode("utf-8", "replace")
        assert log.facts.threads == tuple(sorted({event["thread"] for event in of_device} - {-1}))
        starts = [0, *(match.end() for match in re.finditer(rb"\n", text))]
        assert log.offset.tolist() == [starts[event["line"] - 1] for event in of_device]


@st.composite
def texts(draw: st.DrawFn, name: str) -> bytes:
    """Lines of a format: whole, torn, joined, changed in a byte or two, amid others."""
    lines = [line.encode() for line in FORMATS[name][1]]
    text = bytearray()
    for _ in range(draw(st.integers(1, 25))):
        line = draw(st.sampled_from(lines))
        how = draw(st.integers(0, 9))
        if how == 0:
            line = line[: draw(st.integers(0, len(line)))]
        elif how == 1:
            line += draw(st.sampled_from(lines))
        elif how == 2:
            at = draw(st.integers(0, len(line) - 1))
            line = (
                line[:at]
                + draw(st.sampled_from([b"", b"0", b"9", b"-", b",", b".", b"f", b"\0", b"\x1b[0m", b"\r"]))
                + line[at + 1 :]
            )
        elif how == 3:
            line = b"noise"
        text += line + draw(st.sampled_from([b"\n", b"\n", b"\n", b"\n", b"\r\n", b"", b"\n\n"]))
    return bytes(text)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=many(60))
@given(data=st.data())
def test_blocks_are_read_as_line_by_line(folder: Path, name: str, data: st.DataObject) -> None:
    assert_as_plain(form_of(folder, name), data.draw(texts(name)))


@pytest.mark.parametrize("name", FORMATS)
def test_it_does_not_matter_where_blocks_end(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 8)
    lines = FORMATS[name][1]
    text = "\n".join(lines[(k * k) % len(lines)] for k in range(200)).encode()
    assert_as_plain(form_of(folder, name), text)


def test_addresses_of_64_bits_find_their_allocs(folder: Path) -> None:
    text = "".join(f"pool: take {k + 1}B at {(k * 0x9E3779B97F4A7C15) % (1 << 64):#x}\n" for k in range(50))
    text += "".join(f"pool: give at {(k * 0x9E3779B97F4A7C15) % (1 << 64):#x}\n" for k in range(60))
    assert_as_plain(form_of(folder, "pool"), text.encode())


def test_sums_that_no_run_has_are_an_error(folder: Path) -> None:
    text = b"#1 a 137438953472 @16 T7 1\n" * 40_000
    with pytest.raises(InputError, match="4 EiB"):
        form_of(folder, "decimal").read(FileSource(io.BytesIO(text)), Request())


def repeated(name: str) -> bytes:
    lines = FORMATS[name][1]
    return "\n".join(lines[(k * k) % len(lines)] for k in range(500)).encode()


@pytest.mark.skipif(load("memlens.scanner._scan") is None, reason="the compiled scanner was not built")
@pytest.mark.parametrize("name", ["pool", "decimal", "clock", "iso"])
def test_a_format_of_a_user_runs_compiled_and_gives_the_same_through_re(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, text = form_of(folder, name), repeated(name).replace(b"\x1b", b"")

    def read() -> list[tuple[int | None, list[dict[str, Any]], Facts]]:
        logs = form.read(FileSource(io.BytesIO(text)), Request())
        return [(log.device, of_log(log), log.facts) for log in logs]

    def never(*_: object) -> None:
        raise AssertionError("the expression was run by re")

    # WHEN nothing may be looked for through re, and when all is
    with monkeypatch.context() as without_re:
        without_re.setattr(PlainScanner, "rows_of", never)
        compiled = read()
    monkeypatch.setattr("memlens.scanner.native.load", lambda _: None)
    # THEN the same is found
    assert compiled == read()
