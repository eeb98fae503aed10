"""Formats that users describe in TOML, and those of installed packages."""

import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import memlens
from memlens.errors import MemlensError, NoEventsError, UsageError
from memlens.events import Kind
from memlens.inputs.custom import user_formats
from memlens.inputs.custom.lines import TextError, bytes_in
from memlens.inputs.input_format import InputFormat
from memlens.log import Log

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


def read(tmp_path: Path, formats: Path, text: str) -> Log:
    path = tmp_path / "run.log"
    path.write_text(text)
    return memlens.read(path, formats=formats)


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


def test_the_nearest_pyproject_is_looked_at(tmp_path: Path, pool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(POOL.replace("[[format]]", "[[tool.memlens.format]]"))
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    (form,) = user_formats()
    assert (form.name, form.summary) == ("pool", "the pool of our renderer")
    assert form.origin == str(tmp_path / "pyproject.toml")
    (deep / "run.log").write_text("pool: take 7B at 0x1\n")
    assert memlens.read("run.log").size.tolist() == [7]
    (deep / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert user_formats() == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("size = 4096", "size = 4095"), "sample 'pool: take 4KiB at 0x7f01 t=0.5': size is 4096 and not 4095"),
        (('"pool: give at 0x7f01"', '"pool: gives"'), "sample 'pool: gives' is not matched by the regex"),
        (('"pool: give at 0x7f01"', '"give"'), "sample 'give' does not hold the literal"),
        (("size = 4096", "length = 4096"), "there is no 'length' to check"),
        (('"pool: takes its time"', '"pool: take 1B at 0x1"'), "reads its trap 'pool: take 1B at 0x1'"),
        (("(?P<size>", "(?P<sice>"), "no meaning is known of the group sice"),
        ((r"(?P<device>\d+)", r"(?P<device>\d+"), "no regular expression"),
        (('alloc = ["take"]', 'alloc = ["take", "give"]'), "one of them stands for two kinds"),
        (('alloc = ["take"]', 'allocs = ["take"]'), "unknown field `allocs`"),
        (('literal = "pool: "', ""), "missing required field `literal`"),
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


def test_a_log_without_an_event_of_the_format_names_its_literal(tmp_path: Path, pool: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("nothing\n")
    with pytest.raises(NoEventsError, match="no event of the format 'pool' in 1 lines") as error:
        memlens.read(path, formats=pool, read_as="pool")
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


@pytest.mark.parametrize(
    ("unit", "count"), [("B", 1), ("", 1), ("KiB", 1024), ("kb", 1000), ("G", 1 << 30), ("MB", 10**6), ("TiB", 1 << 40)]
)
def test_units_are_what_people_mean_by_them(unit: str, count: int) -> None:
    assert bytes_in(unit) == count


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


# Formats of packages.


def installed(monkeypatch: pytest.MonkeyPatch, form: object) -> None:
    class Point(metadata.EntryPoint):
        def load(self) -> object:
            if isinstance(form, Exception):
                raise form
            return form

    point = Point("marks", "marks_package.formats:marks", "memlens.formats")
    monkeypatch.setattr("memlens.plugins.entry_points", lambda _: [point])


def one_alloc(source: Any, request: object) -> list[Log]:
    return [Log.from_rows([(Kind.ALLOC, 5, 1)], source=source)]


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


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(TextError, match="is no unit"):
        bytes_in("blocks")
