"""Path templates: what a field stands for, what it does not, and that what fills a template is found again."""

from __future__ import annotations

import os
import sys
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many

from memlens.comparing.templates import Template, natural, number
from memlens.errors import InputError, UsageError


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")


def found(folder: Path, template: str) -> list[dict[str, str]]:
    return [dict(match.fields) for match in Template(f"{folder}/{template}").find()]


# --- fields ---


def test_fields_are_captured_and_sorted_as_numbers(tmp_path: Path) -> None:
    for gbs, branch, rank in product((32, 256, 64), "ab", (10, 9)):
        write(tmp_path, f"gbs{gbs}/{branch}/workerlog.{rank}")
    values = found(tmp_path, "gbs{gbs}/{branch}/workerlog.{rank}")
    assert [match["gbs"] for match in values] == ["32"] * 4 + ["64"] * 4 + ["256"] * 4
    assert [(match["branch"], match["rank"]) for match in values[:4]] == [*product("ab", ("9", "10"))]


def test_a_path_begins_as_its_template_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "runs/a.log")
    monkeypatch.chdir(tmp_path / "runs")
    assert [match.path for match in Template("../runs/{x}.log").find()] == ["../runs/a.log"]
    assert [match.path for match in Template("{x}.log").find()] == ["a.log"]
    assert [match.path for match in Template(f"{tmp_path}//runs/{{x}}.log").find()] == [f"{tmp_path}//runs/a.log"]


def test_hidden_names_are_found_only_where_asked_for(tmp_path: Path) -> None:
    write(tmp_path, ".hidden.log", "seen.log", ".git/log.1")
    assert found(tmp_path, "{x}.log") == [{"x": "seen"}]
    assert found(tmp_path, ".{x}.log") == [{"x": "hidden"}]


def test_a_link_that_leads_nowhere_is_found_so_that_it_can_be_called_missing(tmp_path: Path) -> None:
    (tmp_path / "log.1").symlink_to(tmp_path / "gone")
    assert found(tmp_path, "log.{n}") == [{"n": "1"}]


def test_a_folder_that_cannot_be_looked_into_is_said_and_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a/log.1", "b/log.1")
    scandir = os.scandir

    def refusing(folder: str) -> object:
        if folder.endswith("/b/"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    good, bad = Template(f"{tmp_path}/{{x}}/log.{{n}}").find()
    assert (dict(good.fields), good.problem) == ({"x": "a", "n": "1"}, "")
    assert bad.problem.endswith("/b/: cannot be looked into: Permission denied")


def test_backslashes_separate_on_windows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Template(r"a\{x}").fill({"x": "1"}) == r"a\1"
    monkeypatch.setattr(os, "sep", "\\")
    assert Template(r"C:\runs\{x}\log.{n}").fill({"x": "1", "n": "2"}) == "C:/runs/1/log.2"


# --- errors ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run.log", "has no field"),
        ("{{x}}", "has no field"),
        ("{}", r"\{\} in the template"),
        ("{0}", r"\{0\} in the template"),
        ("{a b}", r"\{a b\} in the template"),
        ("{rank:d}", r"\{rank:d\} in the template"),
        ("{a", "belongs to no field"),
        ("a}{b}", "belongs to no field"),
        ("{a{b}}", "belongs to no field"),
        ("{a}{b}", "stand side by side"),
    ],
)
def test_a_template_that_makes_no_sense_is_wrong_usage(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Template(text)


def test_finding_nothing_says_how_far_the_path_could_be_followed(tmp_path: Path) -> None:
    write(tmp_path, "runs/pt/other.log")
    with pytest.raises(InputError) as raised:
        Template(f"{tmp_path}/runs/{{mode}}/workerlog.{{rank}}").find()
    assert f"{tmp_path}/runs/pt/ has no file 'workerlog.{{rank}}'" in raised.value.hint
    with pytest.raises(InputError) as raised:
        Template(f"{tmp_path}/gone/{{x}}").find()
    assert "gone/ has no such folder" in raised.value.hint


# --- order ---


@given(st.lists(st.text(), min_size=2))
def test_any_values_can_be_ordered(values: list[str]) -> None:
    ordered = sorted(values, key=natural)
    assert all(natural(a) <= natural(b) for a, b in pairwise(ordered))
    values.reverse()
    assert sorted(values, key=natural) == ordered


@pytest.mark.parametrize(
    ("text", "value"), [("32", 32.0), ("-0.5", -0.5), ("1e3", None), ("", None), ("3x", None), ("٣", None)]
)
def test_a_number_is_digits_with_a_sign_and_a_point(text: str, value: float | None) -> None:
    assert number(text) == value


# --- there and back ---

#: Names that hold anything but a separator and what stands between the fields below, and that are not hidden.
values = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="/-"), min_size=1, max_size=8
).filter(lambda text: not text.startswith("."))


@settings(max_examples=many(60))
@given(runs=st.sets(st.tuples(values, values, values), min_size=1, max_size=5))
def test_what_fills_a_template_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, runs: set[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    template = Template(str(folder).replace("{", "{{").replace("}", "}}") + "/gbs{gbs}/{branch}-[log].{rank}")
    for gbs, branch, rank in runs:
        path = Path(template.fill({"gbs": gbs, "branch": branch, "rank": rank}))
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    matches = template.find()
    assert {(match.fields["gbs"], match.fields["branch"], match.fields["rank"]) for match in matches} == runs
    assert all(template.fill(match.fields) == match.path for match in matches)


def test_a_field_does_not_take_the_dot_that_stands_before_it(tmp_path: Path) -> None:
    write(tmp_path, "workerlog.0", "workerlog.1")
    with pytest.raises(InputError, match="no file matches the template") as error:
        Template(f"{tmp_path}/workerlog{{rank}}").find()
    assert "workerlog.0 and 1 more: no field begins with a dot; write 'workerlog.{rank}'" in error.value.hint
    found = Template(f"{tmp_path}/workerlog.{{rank}}").find()
    assert [match.fields["rank"] for match in found] == ["0", "1"]


def test_names_that_nearly_match_beside_such_that_do_are_not_dropped_in_silence(tmp_path: Path) -> None:
    write(tmp_path, "log.7", "log3", "log4", "other")
    found = Template(f"{tmp_path}/log{{rank}}").find()
    assert [match.fields["rank"] for match in found if not match.problem] == ["3", "4"]
    (problem,) = [match.problem for match in found if match.problem]
    assert problem == f"{tmp_path}/log.7: no field begins with a dot; write 'log.{{rank}}'"


def test_what_is_not_installed_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InputError) as caught:
        Template("s3://bucket/{rank}.log").find()
    assert str(caught.value.hint).startswith("s3://bucket/: a package is missing: ")
    assert "pip install 'memlens[remote]'" in str(caught.value.hint)


def test_a_field_that_comes_twice_has_one_value(tmp_path: Path) -> None:
    write(tmp_path, "r1/log.1", "r1/log.2", "r2/log.2", "r10/log.10")
    assert found(tmp_path, "r{rank}/log.{rank}") == [{"rank": "1"}, {"rank": "2"}, {"rank": "10"}]
    write(tmp_path, "a-a", "a-b")
    assert found(tmp_path, "{x}-{x}") == [{"x": "a"}]


def test_a_value_with_metacharacters_binds_what_comes_later(tmp_path: Path) -> None:
    write(tmp_path, "a.b/a.b.log", "a.b/aXb.log")
    assert found(tmp_path, "{x}/{x}.log") == [{"x": "a.b"}]
