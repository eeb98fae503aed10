"""Line formats as data: every sample matches, no trap does."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import memlens.inputs
from memlens.scanner.formats import LineFormat


def all_formats() -> list[LineFormat]:
    """The formats of every module that reads an input."""
    names = [module.name for module in pkgutil.walk_packages(memlens.inputs.__path__, "memlens.inputs.")]
    return [line for name in names for line in getattr(importlib.import_module(name), "FORMATS", ())]


FORMATS = all_formats()


def problems(form: LineFormat) -> list[str]:
    """What is wrong with a format by its own samples and traps."""
    found = []
    if set(form.means) != set(form.pattern.groupindex):
        found.append(
            f"{form.name}: the groups {sorted(form.pattern.groupindex)} are not those explained, {sorted(form.means)}"
        )
    if not form.samples:
        found.append(f"{form.name}: no sample")
    for sample in form.examples:
        match = form.search(sample.line.encode())
        if match is None:
            found.append(f"{form.name}: does not match its sample {sample.line!r}")
            continue
        for group, value in sample.values.items():
            text = match[group]
            if (None if text is None else text.decode()) != value:
                found.append(f"{form.name}: {group} is {text!r} and not {value!r} in {sample.line!r}")
        if form.kinds and "" not in form.kinds and match["kind"].decode() not in form.kinds:
            found.append(f"{form.name}: no event kind for {match['kind']!r}")
    found += [f"{form.name}: matches its trap {line!r}" for line in form.traps if form.search(line.encode())]
    return found


def test_no_two_formats_share_a_name() -> None:
    names = [line.name for line in FORMATS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("line", FORMATS, ids=lambda line: line.name)
def test_every_sample_of_a_format_matches_and_no_trap_does(line: LineFormat) -> None:
    assert problems(line) == []


@pytest.mark.parametrize("line", FORMATS, ids=lambda line: line.name)
def test_a_format_stands_after_any_prefix_on_its_line(line: LineFormat) -> None:
    for sample in line.examples:
        match = line.search(b"\x1b[32m69: \xff\xfe " + sample.line.encode() + b"\r")
        assert match is not None
        for group, value in sample.values.items():
            assert match[group] == (value if value is None else value.encode())


def test_a_format_that_does_not_match_its_sample_says_so() -> None:
    line = LineFormat("x", "y", b"size ", r"size (?P<size>\d+)", {"size": "bytes"}, samples=("size none",))
    assert problems(line) == ["x: does not match its sample 'size none'"]


def test_a_format_that_matches_its_trap_or_gets_a_value_wrong_says_so() -> None:
    line = LineFormat(
        "x", "y", b"size ", r"size (?P<size>\d)", {"size": "bytes"}, samples=("size <size=12>",), traps=("size 1",)
    )
    assert len(problems(line)) == 2
