"""Formats that users describe in TOML, and those of installed packages."""

import gzip
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlens
from memlens.errors import InputError, MemlensError, NoEventsError, UsageError
from memlens.events import EventLog, Kind
from memlens.inputs import read_all, registry
from memlens.inputs.custom.formats import user_formats
from memlens.inputs.custom.lines import TextError, bytes_in
from memlens.inputs.registry import InputFormat
from memlens.options import ReadAs

POOL = r"""
[[format]]
name = "pool"
summary = "the pool of our renderer"
literal = "pool: "
regex = 'pool: (?P<kind>take|give|grow|shrink) (?:(?P<size>[0-9.]+) ?(?P<unit>[KM]iB|B) )?at (?P<addr>0x[0-9a-f]+)(?: gpu(?P<device>\d+))?(?: by (?P<thread>\w+))?(?: t=(?P<time>[0-9.]+))?(?: for (?P<owner>.+))?'
alloc = ["take"]
free = ["give"]
reserve = ["grow"]
release = ["shrink"]
ignore = "pool: stats"
samples = [
    { line = "pool: take 4KiB at 0x7f01 t=0.5", kind = "ALLOC", size = 4096, addr = 0x7f01, time_us = 500000 },
    "pool: give at 0x7f01",
]
traps = ["pool: takes its time", "pool: stats 5"]
"""


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "formats.toml"
    path.write_text(POOL)
    return path


def read(tmp_path: Path, formats: Path, text: str) -> EventLog:
    path = tmp_path / "run.log"
    path.write_text(text)
    return memlens.read(path, formats=formats)


def test_lines_become_events_by_what_the_groups_mean(tmp_path: Path, pool: Path) -> None:
    log = read(
        tmp_path,
        pool,
        "hello\n"
        "pool: grow 1MiB at 0x1000\n"
        "pool: take 1.5KiB at 0x1000 by loader t=2 for conv 1\n"
        "between\n"
        "pool: give 1.5KiB at 0x1000 by 77 t=2.25\n"
        "pool: shrink at 0x1000\n",
    )
    assert log.kind.tolist() == [Kind.RESERVE, Kind.ALLOC, Kind.FREE, Kind.RELEASE]
    assert log.size.tolist() == [1 << 20, 1536, 1536, 1 << 20]
    assert log.addr.tolist() == [0x1000] * 4
    assert log.time_us is not None
    assert log.time_us.tolist() == [-1, 2_000_000, 2_250_000, -1]
    assert log.thread is not None
    assert log.thread.tolist() == [-1, 1, 77, -1]
    assert log.owner_of(1) == "conv 1"
    assert log.source.line_numbers(log.offset.tolist()) == [2, 3, 5, 6]
    assert log.trust.ok
    assert log.trust.layer == "format:pool"


def test_a_free_without_a_size_has_that_of_its_alloc(tmp_path: Path, pool: Path) -> None:
    log = read(tmp_path, pool, "pool: take 7B at 0x1\npool: take 9B at 0x2\npool: give at 0x2\npool: give at 0x1\n")
    assert log.size.tolist() == [7, 9, 9, 7]


def test_a_free_without_a_size_and_without_an_alloc_counts_as_malformed(tmp_path: Path, pool: Path) -> None:
    log = read(tmp_path, pool, "pool: give at 0x9\npool: take 7B at 0x1\n")
    assert log.size.tolist() == [7]
    assert log.facts.malformed == 1
    assert log.facts.malformed_samples[0].line == 1


def test_a_line_with_the_literal_that_cannot_be_read_is_told_of_unless_it_is_ignored(
    tmp_path: Path, pool: Path
) -> None:
    log = read(tmp_path, pool, "pool: stats 4\npool: take 7B at 0x1\npool: take 7B at 0xfffffffffffffffff\npool: tak\n")
    assert log.size.tolist() == [7]
    assert log.facts.malformed == 2
    assert [sample.line for sample in log.facts.malformed_samples] == [3, 4]
    assert [doubt.code for doubt in log.trust.doubts] == ["malformed"]


def test_devices_are_logs_of_their_own_and_frees_without_one_follow_their_alloc(tmp_path: Path, pool: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("pool: take 7B at 0x1 gpu1\npool: take 8B at 0x2 gpu0\npool: give at 0x1\n")
    logs = read_all(path, None, ReadAs(formats=pool))
    assert [log.device for log in logs] == [0, 1]
    assert [log.size.tolist() for log in logs] == [[8], [7, 7]]
    with pytest.raises(UsageError, match="has 2 devices: 0, 1"):
        memlens.read(path, formats=pool)
    assert memlens.read(path, formats=pool, device=1).size.tolist() == [7, 7]
    with pytest.raises(InputError, match="has no device 5") as refused:
        memlens.read(path, formats=pool, device=5)
    assert refused.value.hint == "It has: 0, 1."


def test_every_verb_reads_such_a_log(tmp_path: Path, pool: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("STEP 1\npool: take 7B at 0x1\nSTEP 2\npool: take 9B at 0x2\npool: give at 0x2\n")
    analysis = memlens.analyze(path, by=r"STEP (\d)", formats=pool)
    remaining = [window.results["remaining"].remaining_bytes for window in analysis.logs[0].windows]
    assert remaining == [7, 0]
    compared = memlens.diff(path, path, by=r"STEP (\d)", formats=pool)
    assert all(window.same for window in compared.windows)
    assert memlens.compare([path, path], formats=pool).runs[0].windows[0].allocs == 2
    assert memlens.gate(path, budgets="peak=16B", formats=pool).verdict == "pass"
    assert memlens.gate(path, budgets="peak=15B", formats=pool).verdict == "regression"


def test_compressed_logs_keep_their_line_numbers(tmp_path: Path, pool: Path) -> None:
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(b"x\npool: take 7B at 0x1\n"))
    log = memlens.read(path, formats=pool)
    assert log.line is not None
    assert log.line.tolist() == [2]


def test_hostile_text_of_a_log_ends_in_no_traceback(tmp_path: Path, pool: Path) -> None:
    text = (
        b"pool: take 99999999999999999999999KiB at 0x1\npool: take ...B at 0x1\n\xff\0pool: take 7B at 0x1 by \xff\n"
        + b"a" * 200_000
    )
    path = tmp_path / "run.log"
    path.write_bytes(text)
    log = memlens.read(path, formats=pool)
    assert log.size.tolist() == [7]
    assert log.facts.malformed == 2


def test_lines_without_addresses_give_levels_and_no_lifetimes(tmp_path: Path) -> None:
    formats = tmp_path / "plain.toml"
    formats.write_text(
        '[[format]]\nname = "plain"\nliteral = "mem "\nregex = \'mem (?P<kind>[+-])(?P<size>[0-9]+)\'\nalloc = "+"\nfree = "-"\nsamples = ["mem +1"]\n'
    )
    log = read(tmp_path, formats, "mem +10\nmem +20\nmem -20\n")
    assert log.level_before(3) == (10, 0)
    assert [doubt.code for doubt in log.trust.doubts] == ["no_lifetimes"]
    assert "a group addr" in log.trust.doubts[0].hint


def test_the_nearest_pyproject_is_looked_at(tmp_path: Path, pool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(POOL.replace("[[format]]", "[[tool.memlens.format]]"))
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    (form,) = user_formats()
    assert (form.name, form.summary, form.origin) == (
        "pool",
        "the pool of our renderer",
        str(tmp_path / "pyproject.toml"),
    )
    (deep / "run.log").write_text("pool: take 7B at 0x1\n")
    assert memlens.read("run.log").size.tolist() == [7]
    (deep / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert user_formats() == ()


def test_several_tables_of_one_name_are_lines_of_one_format(tmp_path: Path) -> None:
    formats = tmp_path / "two.toml"
    formats.write_text(
        """
[[format]]
name = "two"
literal = "new "
regex = 'new (?P<addr>\\w+) (?P<size>\\d+)'
kind = "ALLOC"
size_unit = "KiB"
samples = ["new ff 1"]

[[format]]
name = "two"
literal = "old "
regex = 'old (?P<addr>\\w+)'
kind = "FREE"
samples = ["old ff"]
"""
    )
    log = read(tmp_path, formats, "new a 2\nold a\n")
    assert log.kind.tolist() == [Kind.ALLOC, Kind.FREE]
    assert log.size.tolist() == [2048, 2048]
    assert log.addr.tolist() == [10, 10]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("size = 4096", "size = 4095"), "sample 'pool: take 4KiB at 0x7f01 t=0.5': size is 4096 and not 4095"),
        (('"pool: give at 0x7f01"', '"pool: gives"'), "sample 'pool: gives' is not matched by the regex"),
        (('"pool: give at 0x7f01"', '"give"'), "sample 'give' does not hold the literal"),
        (("size = 4096", "length = 4096"), "there is no 'length' to check"),
        (('"pool: takes its time"', '"pool: take 1B at 0x1"'), "reads its trap 'pool: take 1B at 0x1'"),
        (("(?P<size>", "(?P<sice>"), "no meaning is known of the group sice"),
        ((r"(?P<device>\d+)", r"(?P<device>\d+"), "regex is no regular expression"),
        (('alloc = ["take"]', 'alloc = ["take", "give"]'), "one of them stands for two kinds"),
        (('alloc = ["take"]', 'allocs = ["take"]'), "there is no key allocs"),
        (('literal = "pool: "', ""), "literal is missing"),
        (('name = "pool"', 'name = "paddle"'), "'paddle' cannot be the name of a format"),
        (('name = "pool"', "name = 5"), "format number 1 has no name"),
        (('name = "pool"', "name ="), "is no TOML"),
        (("[[format]]", "[[other]]"), "there is no format in it"),
        (("[[format]]", "[format]"), "format is no list of tables"),
    ],
)
def test_what_is_wrong_with_a_format_is_said_with_its_file_and_its_name(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    assert change[0] in POOL
    path = tmp_path / "formats.toml"
    path.write_text(POOL.replace(*change))
    with pytest.raises(UsageError) as error:
        memlens.formats(formats=path)
    assert error.value.message.startswith(f"{path}: ")
    assert says in error.value.message


def test_kinds_of_lines_are_as_many_as_the_scanner_takes(tmp_path: Path) -> None:
    def table(number: int) -> str:
        line = f'literal = "l{number:02}"\nregex = "l{number:02} (?P<size>[0-9]+)"\nkind = "ALLOC"\nsamples = ["l{number:02} 7"]\n'
        return '[[format]]\nname = "many"\n' + line

    path = tmp_path / "many.toml"
    path.write_text("".join(map(table, range(50))))
    log = read(tmp_path, path, "".join(f"l{number:02} {number}\n" for number in range(60)))
    assert log.size.tolist() == list(range(50))
    path.write_text("".join(map(table, range(51))))
    with pytest.raises(UsageError, match="more than 50 kinds"):
        memlens.formats(formats=path)


def test_a_file_of_formats_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        user_formats(tmp_path / "none.toml")


def test_a_log_without_an_event_of_the_format_names_its_literal(tmp_path: Path, pool: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("nothing\n")
    with pytest.raises(NoEventsError, match="no event of the format 'pool' in 1 lines") as error:
        memlens.read(path, formats=pool, input_format="pool")
    assert error.value.hint == "Looked for 'pool: '."


def test_a_pyproject_that_may_not_be_read_has_no_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(POOL)
    monkeypatch.chdir(tmp_path)

    def refused(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refused)
    assert user_formats() == ()
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        user_formats("pyproject.toml")


def test_events_that_come_late_are_found_where_paddle_has_none(tmp_path: Path, pool: Path) -> None:
    log = read(tmp_path, pool, "noise\n" * 20_000 + "pool: take 7B at 0x1\n")
    assert log.trust.layer == "format:pool"
    assert log.source.line_numbers(log.offset.tolist()) == [20_001]


@pytest.mark.parametrize(
    ("unit", "count"), [("B", 1), ("", 1), ("KiB", 1024), ("kb", 1000), ("G", 1 << 30), ("MB", 10**6), ("TiB", 1 << 40)]
)
def test_units_are_what_people_mean_by_them(unit: str, count: int) -> None:
    assert bytes_in(unit) == count


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(TextError, match="is no unit"):
        bytes_in("blocks")


def test_times_of_day_and_dates_are_read(tmp_path: Path) -> None:
    table = '[[format]]\nname = "t"\nliteral = "+"\nregex = \'(?P<time>\\S+) \\+(?P<size>\\d+)\'\nkind = "ALLOC"\n'
    for unit, text, time_us in (
        ("clock", "01:02:03.5", 3_723_500_000),
        ("iso", "1970-01-02T00:00:00.25Z".replace("Z", "+00:00").replace(".25", ".250000"), 86_400_250_000),
        ("ms", "1.5", 1500),
        ("ns", "2000", 2),
        ("clock", "noon", -1),
    ):
        formats = tmp_path / f"{unit}.toml"
        formats.write_text(f'{table}time = "{unit}"\nsamples = ["x +1"]\n')
        log = read(tmp_path, formats, f"{text} +1\n9 +1\n" if unit in ("ms", "ns") else f"{text} +1\n")
        assert (-1 if log.time_us is None else log.time_us[0]) == time_us


EVENTS = st.lists(
    st.tuples(st.sampled_from(["take", "give"]), st.integers(0, 9), st.integers(1, 99), st.booleans(), st.booleans())
)


@given(EVENTS)
def test_reading_by_blocks_gives_what_reading_line_by_line_gives(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int, int, bool, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("pool")
    (folder / "formats.toml").write_text(POOL)
    text = "pool: take 1B at 0xff\n"
    wanted, live = [(Kind.ALLOC, 1, 0xFF)], {0xFF: 1}
    for word, addr, size, sized, noise in events:
        text += "noise\n" * noise + f"pool: {word} " + f"{size}B " * (sized or word == "take") + f"at {addr:#x}\n"
        if word == "take":
            live[addr] = size
            wanted.append((Kind.ALLOC, size, addr))
        else:
            known = live.pop(addr, None)
            if sized or known is not None:
                wanted.append((Kind.FREE, size if sized else known or 0, addr))
    log = read(folder, folder / "formats.toml", text)
    assert list(zip(log.kind.tolist(), log.size.tolist(), log.addr.tolist(), strict=True)) == wanted


PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def docs_block(language: str, number: int = 0) -> str:
    """A piece of code of the docs page."""
    return str(re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)[number])


def test_the_format_on_the_docs_page_holds_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(docs_block("toml"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text("pool: take 4KiB at 0x7f01 t=0.5\npool: give at 0x7f01 t=0.75\n")
    assert memlens.read("run.log").size.tolist() == [4096, 4096]


def test_the_format_of_a_package_on_the_docs_page_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    exec(docs_block("python"), names)
    installed(monkeypatch, names["marks"])
    path = tmp_path / "marks"
    path.write_bytes(b"MARKS 512 1024")
    assert memlens.read(path).size.tolist() == [512, 1024]


def test_the_groups_are_explained_on_the_docs_page() -> None:
    page = PAGE.read_text()
    from memlens.inputs.custom.lines import GROUPS, TIME_UNITS
    from memlens.inputs.custom.tables import KEYS

    for name in (*GROUPS, *TIME_UNITS, *KEYS):
        assert f"`{name}`" in page, name


# Formats of packages.


def installed(monkeypatch: pytest.MonkeyPatch, form: object) -> None:
    class Point(metadata.EntryPoint):
        def load(self) -> object:
            if isinstance(form, Exception):
                raise form
            return form

    point = Point("marks", "marks_package.formats:marks", "memlens.formats")
    monkeypatch.setattr(registry, "entry_points", lambda _: [point])


def one_alloc(source: Any, request: object) -> list[EventLog]:
    return [EventLog.from_rows([(Kind.ALLOC, 5, 1)], source=source)]


def marks(read: Callable[[Any, Any], Any] = one_alloc) -> InputFormat:
    def recognise(head: bytes) -> str:
        return "it begins with MARKS" if head.startswith(b"MARKS") else ""

    return InputFormat("ignored", "a log of marks", "marks of a package", "MARKS 5", recognise, read)


def test_a_format_of_a_package_is_recognised_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, marks())
    path = tmp_path / "marks"
    path.write_bytes(b"MARKS 5\n")
    assert memlens.read(path).size.tolist() == [5]
    assert [form.name for form in memlens.formats().known][-1] == "marks"
    assert memlens.formats(path).inputs[0].why == "it begins with MARKS"


@pytest.mark.parametrize(
    ("form", "says"),
    [
        (ImportError("no cuda"), "cannot be loaded: ImportError: no cuda"),
        ("text", "is no InputFormat but str"),
        (marks(lambda source, request: 1 / 0), "failed on .*: ZeroDivisionError"),
        (marks(lambda source, request: []), "gave no log of"),
    ],
)
def test_a_package_whose_format_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: object, says: str
) -> None:
    installed(monkeypatch, form)
    path = tmp_path / "marks"
    path.write_bytes(b"MARKS 5\n")
    with pytest.raises(MemlensError, match=says) as error:
        memlens.read(path)
    assert re.search("input format 'marks' of package 'marks_package", error.value.message)
