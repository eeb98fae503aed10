"""The baseline file: the same bytes for the same figures, a readable difference, and nothing but what was written is believed."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.errors import InputError
from memlens.gating.baseline import SCHEMA, Anchors, Baseline, RunFigures, WindowFigures, parse_baseline, read_baseline

WINDOWS = (
    WindowFigures("(before)", 395_008, 395_008, 395_008),
    WindowFigures("0", 3_250_176, 3_250_176, 891_648),
    WindowFigures("1", 3_181_312, 1_895_000, -1_286_656, open_end=True),
)
RUNS = (
    RunFigures(4_467_968, 6_403_840, WINDOWS, "STEP", (395_008, 1_286_656)),
    RunFigures(4_468_224, None, WINDOWS[:2], begins_at_bytes=5),
)
BASELINE = Baseline(Anchors(by=r"STEP (\d+) START", end=("EPOCH END",)), RUNS, "0.1.0")
TEXT = BASELINE.render()


def with_check(values: Any) -> bytes:
    """A baseline with a right check sum, whatever stands in it: damage that the check sum does not show."""
    plain = {key: value for key, value in values.items() if key != "check_sha256"}
    text = json.dumps(plain, sort_keys=True)
    return json.dumps({**plain, "check_sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


any_text = st.text(st.characters(codec=None), max_size=30)
big = st.integers(0, 2**63 - 1)
signed = st.integers(-(2**63), 2**63 - 1)
window = st.builds(WindowFigures, any_text, signed, big, signed, st.booleans())
run = st.builds(
    RunFigures,
    st.none() | big,
    st.none() | big,
    st.lists(window, min_size=1, max_size=5, unique_by=lambda one: one.name).map(tuple),
    any_text,
    st.lists(signed, max_size=9).map(tuple),
    st.none() | signed,
)
cuts = st.one_of(
    st.builds(
        Anchors,
        start=any_text,
        end=st.tuples(any_text),
        end_regex=st.tuples(any_text, any_text),
        nth=st.integers(1, 99),
    ),
    st.builds(Anchors, by=any_text, end=st.tuples(any_text)),
    st.just(Anchors()),
)
baselines = st.builds(Baseline, cuts, st.lists(run, min_size=1, max_size=3).map(tuple), any_text)


# --- what is written ---


@given(baselines)
def test_a_baseline_survives_a_round_trip_and_comes_out_byte_for_byte(baseline: Baseline) -> None:
    text = baseline.render()
    assert text.isascii()
    read = parse_baseline(text.encode())
    assert read == baseline
    assert read.render() == text


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (RunFigures(0, 0, ()),),
        (RunFigures(-1, 0, WINDOWS),),
        (RUNS[0], RunFigures(0, -1, WINDOWS)),
        (RunFigures(0, 0, (WindowFigures("w", 0, -1, 0),)),),
        (RunFigures(0, 0, (WindowFigures("w", 0, 0, 2**63),)),),
        (RunFigures(0, 0, WINDOWS, "", (2**63,)),),
    ],
)
def test_what_no_log_gives_is_no_baseline(runs: tuple[RunFigures, ...]) -> None:
    with pytest.raises(InputError, match="damaged or edited"):
        parse_baseline(Baseline(Anchors(), runs).render().encode())


# --- what is read ---


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


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested lists and dictionaries."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*here, key) for key, _ in inner] + [path for key, one in inner for path in paths(one, (*here, key))]


def put(values: Any, path: tuple[Any, ...], value: Any) -> Any:
    values = copy.deepcopy(values)
    holder = values
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return values


@pytest.mark.parametrize(
    "strange", [None, True, -1, 1.5, 2**63, 10**19, "", "1", [], {}, [1], {"a": 1}, -0.0], ids=repr
)
def test_a_field_of_another_kind_is_refused_even_where_the_check_sum_is_right(strange: Any) -> None:
    values = json.loads(TEXT)
    for path in paths(values):
        if path[0] == "check_sha256":
            continue
        changed = put(values, path, strange)
        try:
            read = parse_baseline(with_check(changed))
        except InputError:
            continue
        # Only another sound value of the very same kind is left, such as a text for a text.
        assert json.loads(with_check(json.loads(read.render()))) == json.loads(with_check(changed)), path
        assert type(strange) is not float
        assert not (
            path[-1] in ("peak_bytes", "reserved_peak_bytes", "rise_bytes")
            and path[-2] != 1
            and isinstance(strange, bool)
        )
    assert parse_baseline(with_check(values)) == BASELINE


@pytest.mark.parametrize("field", ["anchors", "runs"])
def test_a_field_that_is_missing_or_not_known_is_refused_even_where_the_check_sum_is_right(field: str) -> None:
    values = json.loads(TEXT)
    with pytest.raises(InputError, match="damaged or edited"):
        parse_baseline(with_check({key: value for key, value in values.items() if key != field}))
    with pytest.raises(InputError, match="damaged or edited"):
        parse_baseline(with_check({**values, "more": 1}))


@pytest.mark.parametrize(
    "schema", ["memlens.baseline/1", "memlens.baseline/2", "memlens.baseline/3.1", "memlens.baseline/"]
)
def test_a_schema_of_another_version_is_refused_and_told_how_to_be_accepted_again(schema: str) -> None:
    values = json.loads(TEXT)
    for anchors in (values["anchors"], None, {"by": 1}):
        with pytest.raises(InputError) as caught:
            parse_baseline(json.dumps({"schema": schema, "anchors": anchors, "runs": []}).encode())
        assert schema in caught.value.message
        assert SCHEMA in caught.value.message
        # With the anchors that it was taken with.
        cut = r" --by 'STEP (\d+) START' --end 'EPOCH END'" if anchors and "end" in anchors else ""
        assert f"memlens gate LOG --baseline FILE{cut} --accept" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[]", b"null", b"1", b'"memlens.baseline/3"', b'{"schema": "memlens.analyze/1"}', b"\xff\xfe", b"\x00" * 99, b"[" * 100_000,
     b'{"a":' * 100_000, b"9" * 100_000, b'{"schema": "memlens.baseline/3"}', b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> b\n"],
    ids=range(14),
)  # fmt: skip
def test_another_file_is_no_baseline(text: bytes) -> None:
    with pytest.raises(InputError, match="baseline"):
        parse_baseline(text, "other.json")


def test_a_file_that_is_too_large_or_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(InputError, match="cannot read the baseline"):
            read_baseline(path)
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(InputError, match="64 MiB"):
        read_baseline(large)
