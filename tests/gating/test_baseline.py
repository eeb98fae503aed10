"""The baseline file: the same bytes for the same figures, a readable difference, and nothing but what was written is believed."""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlens.errors import InputError
from memlens.gating.baseline import Baseline, parse_baseline, read_baseline
from memlens.gating.figures import RunFigures, WindowFigures
from memlens.options import Cut

WINDOWS = (
    WindowFigures("(before)", 395_008, 395_008, 395_008),
    WindowFigures("0", 3_250_176, 891_648, 1_286_656),
    WindowFigures("1", 3_181_312, -1_286_656, 0, open_end=True),
)
RUNS = (RunFigures(4_467_968, 6_403_840, WINDOWS), RunFigures(4_468_224, None, WINDOWS[:2]))
BASELINE = Baseline(Cut(by=r"STEP (\d+) START", end=("EPOCH END",)), RUNS, "0.1.0")
TEXT = BASELINE.render()


def with_check(values: Any) -> bytes:
    """A baseline with a right check sum, whatever stands in it: damage that the check sum does not show."""
    plain = {key: value for key, value in values.items() if key != "check_sha256"}
    text = json.dumps(plain, sort_keys=True)
    return json.dumps({**plain, "check_sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


any_text = st.text(st.characters(codec=None), max_size=30)
big = st.integers(0, 2**63 - 1)
signed = st.integers(-(2**63), 2**63 - 1)
window = st.builds(WindowFigures, any_text, big, signed, signed, st.booleans())
run = st.builds(
    RunFigures,
    st.none() | big,
    st.none() | big,
    st.lists(window, min_size=1, max_size=5, unique_by=lambda one: one.name).map(tuple),
)
cuts = st.one_of(
    st.builds(
        Cut, start=any_text, end=st.tuples(any_text), end_regex=st.tuples(any_text, any_text), nth=st.integers(1, 99)
    ),
    st.builds(Cut, by=any_text, end=st.tuples(any_text)),
    st.just(Cut()),
)
baselines = st.builds(
    Baseline,
    cuts,
    st.lists(run, min_size=1, max_size=3).map(tuple),
    any_text,
    st.none() | any_text,
)


# --- what is written ---


@settings(deadline=None)
@given(baselines)
def test_a_baseline_survives_a_round_trip_and_comes_out_byte_for_byte(baseline: Baseline) -> None:
    text = baseline.render()
    assert text.isascii()
    read = parse_baseline(text.encode())
    assert read == baseline
    assert read.render() == text


def test_a_window_is_a_line_and_keys_are_sorted() -> None:
    lines = TEXT.splitlines()
    assert [json.loads(line.strip().rstrip(","))["name"] for line in lines if '"name"' in line] == [
        "(before)",
        "0",
        "1",
        "(before)",
        "0",
    ]
    values = json.loads(TEXT)
    assert list(values) == sorted(values)
    assert all(list(one) == sorted(one) for run in values["runs"] for one in (run, *run["windows"]))
    assert (values["schema"], values["memlens"], values["events_sha256"]) == ("memlens.baseline/2", "0.1.0", None)
    assert values["anchors"]["by"] == r"STEP (\d+) START"
    assert TEXT.endswith("}\n")


def test_a_difference_of_two_baselines_is_the_window_that_changed_and_the_check_sum() -> None:
    windows = (WINDOWS[0], WindowFigures("0", 1, 2, 3), WINDOWS[2])
    changed = Baseline(BASELINE.anchors, (replace(RUNS[0], windows=windows), RUNS[1]), "0.1.0")
    lines = difflib.unified_diff(TEXT.splitlines(), changed.render().splitlines(), n=0, lineterm="")
    added = [line for line in lines if line.startswith("+ ")]
    assert len(added) == 2
    assert '"check_sha256"' in added[0]
    assert '"name": "0", "open_end": false, "remaining_bytes": 2, "rise_bytes": 1' in added[1]


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ((), "no window"),
        ((RunFigures(0, 0, ()),), "no window"),
        ((RunFigures(0, 0, (WINDOWS[0], WINDOWS[0])),), "one name"),
        ((RunFigures(-1, 0, WINDOWS),), "peak_bytes"),
        ((RUNS[0], RunFigures(0, -1, WINDOWS)), "reserved_peak_bytes"),
        ((RunFigures(0, 0, (WindowFigures("w", -1, 0, 0),)),), "rise_bytes"),
        ((RunFigures(0, 0, (WindowFigures("w", 0, 2**63, 0),)),), "remaining_bytes"),
        ((RunFigures(0, 0, (WindowFigures("w", 0, 0, -(2**63) - 1),)),), "live_bytes"),
    ],
)
def test_what_no_log_gives_is_no_baseline(runs: tuple[RunFigures, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Baseline(Cut(), runs)


# --- what is read ---


@settings(deadline=None)
@given(st.data())
def test_no_damaged_byte_is_ever_believed(data: st.DataObject) -> None:
    text = TEXT.encode()
    place = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 40))
    piece = data.draw(
        st.binary(max_size=8) | st.sampled_from([b"0", b"9", b"-", b".0", b"e9", b"\n", b"<<<<<<<", b"null", text[:99]])
    )
    damaged = text[:place] + piece + text[place + length :]
    try:
        read = parse_baseline(damaged)
    except InputError as error:
        assert error.exit_code == 1
        assert error.hint
        return
    assert read == BASELINE  # blanks between two fields


@given(st.integers(0, len(TEXT) - 1))
def test_a_baseline_cut_short_is_refused(length: int) -> None:
    if TEXT[:length].strip() != TEXT.strip():
        with pytest.raises(InputError):
            parse_baseline(TEXT[:length].encode())


def test_every_digit_of_a_figure_counts() -> None:
    for place, character in enumerate(TEXT):
        if character.isdigit():
            other = str((int(character) + 1) % 10)
            with pytest.raises(InputError):
                parse_baseline((TEXT[:place] + other + TEXT[place + 1 :]).encode())


def test_a_formatter_may_move_blanks() -> None:
    for indent in (None, 2, 8):
        assert parse_baseline(json.dumps(json.loads(TEXT), indent=indent).encode()) == BASELINE


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested lists and dictionaries."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*here, key) for key, _ in inner] + [path for key, one in inner for path in paths(one, (*here, key))]


PLACES = [path for path in paths(json.loads(TEXT)) if path[0] != "check_sha256"]
STRANGE: list[Any] = [None, True, False, -1, 1.5, 2**63, 10**19, "", "1", [], {}, [1], {"a": 1}, -0.0]


def put(values: Any, path: tuple[Any, ...], value: Any) -> Any:
    values = copy.deepcopy(values)
    holder = values
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return values


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_field_that_is_missing_or_of_another_kind_is_refused_even_where_the_check_sum_is_right(
    path: tuple[Any, ...],
) -> None:
    values = json.loads(TEXT)
    without = copy.deepcopy(values)
    holder = without
    for key in path[:-1]:
        holder = holder[key]
    if isinstance(holder, dict):
        del holder[path[-1]]
        with pytest.raises(InputError):
            parse_baseline(with_check(without))
    for strange in STRANGE:
        changed = put(values, path, strange)
        try:
            read = parse_baseline(with_check(changed))
        except InputError:
            continue
        # Only another sound value of the very same kind is left, such as a text for a text.
        assert json.loads(read.render()).keys() == values.keys()
        assert json.loads(with_check(json.loads(read.render()))) == json.loads(with_check(changed))
        assert type(strange) is not float
        assert not (
            path[-1] in ("peak_bytes", "reserved_peak_bytes", "rise_bytes") and strange is not None and strange < 0
        )


@pytest.mark.parametrize(
    "literal",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e3",
        "1.0",
        "3181312.0",
        "9" * 30,
        "9" * 5000,
        '"3181312"',
        "true",
        "null",
        "-1",
    ],
)
def test_a_figure_is_a_whole_number_of_bytes(literal: str) -> None:
    assert '"rise_bytes": 3181312' in TEXT
    with pytest.raises(InputError):
        parse_baseline(TEXT.replace('"rise_bytes": 3181312', f'"rise_bytes": {literal}').encode())


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        parse_baseline(TEXT.replace('"rise_bytes": 3181312', '"rise_bytes": 3181312, "rise_bytes": 3181312').encode())


def test_a_window_that_stands_twice_is_refused() -> None:
    values = json.loads(TEXT)
    values["runs"][0]["windows"].append(values["runs"][0]["windows"][-1])
    with pytest.raises(InputError, match="one name"):
        parse_baseline(with_check(values))


@pytest.mark.parametrize(
    "schema", ["memlens.baseline/1", "memlens.baseline/3", "memlens.baseline/2.1", "memlens.baseline/"]
)
def test_a_schema_of_another_version_is_refused_by_its_name_and_told_how_to_be_taken_anew(schema: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_baseline(with_check({**json.loads(TEXT), "schema": schema}))
    assert schema in caught.value.message
    assert "memlens.baseline/2" in caught.value.message
    # With the anchors that it was taken with.
    assert r"--by 'STEP (\d+) START' --end 'EPOCH END' --accept" in caught.value.hint


def test_a_baseline_of_the_first_schema_is_refused_with_the_way_to_take_it_anew() -> None:
    anchors = {"by": "STEP", "end": [], "end_regex": [], "nth": 1, "start": None, "start_regex": None}
    for one in (anchors, None, {"by": 1}):
        with pytest.raises(InputError, match=r"memlens\.baseline/1") as caught:
            parse_baseline(json.dumps({"schema": "memlens.baseline/1", "anchors": one, "windows": []}).encode())
        cut = " --by STEP" if one is anchors else ""
        assert f"memlens gate LOG --baseline FILE{cut} --accept" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[]", b"null", b"1", b'"memlens.baseline/2"', b'{"schema": "memlens.analyze/1"}', b"\xff\xfe", b"\x00" * 99, b"[" * 100_000,
     b'{"a":' * 100_000, b"9" * 100_000, b'{"schema": "memlens.baseline/2"}', b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> b\n"],
    ids=range(14),
)  # fmt: skip
def test_another_file_is_no_baseline(text: bytes) -> None:
    with pytest.raises(InputError, match="baseline"):
        parse_baseline(text, "other.json")


def test_a_file_that_is_too_large_or_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the baseline"):
        read_baseline(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="cannot read the baseline"):
        read_baseline(tmp_path)
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(InputError, match="64 MiB"):
        read_baseline(large)
