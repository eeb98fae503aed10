"""Templates write values and nothing else, and claims are ranked and joined by their weights and their words."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memlens.claims.claim import WORDS, Claim, Weight, answer_of, claim, joined, ranked
from memlens.claims.template import Words, names_in, parsed, write
from memlens.claims.words import WORDS as OF_LOGS
from memlens.claims.words_compared import WORDS_COMPARED

KINDS = [*OF_LOGS, *WORDS_COMPARED]

any_text = st.text(max_size=20)
plain_text = st.text(st.characters(exclude_characters="[]{}|;"), max_size=10)  # a pause stands before a semicolon
sizes = st.integers(0, 1 << 50)


@given(any_text, plain_text)
def test_a_value_is_text_whatever_it_holds(value: str, around: str) -> None:
    assert write(f"{around}{{name}}{around}", {"name": value}) == f"{around}{value}{around}"
    assert write("[{name}|none]", {"name": value}) == value
    assert write("{name?{name}|none}", {"name": value}) == (value or "none")


@given(plain_text)
def test_text_without_marks_is_written_as_it_is(text: str) -> None:
    assert write(text, {}) == text
    assert write(f"[{text}]{{flag?|{text}}}", {}) == 2 * text


@given(st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(-9, 9)), max_size=3))
def test_the_first_alternative_that_is_known_is_taken(values: dict[str, int | None]) -> None:
    known = [name for name in "abc" if values.get(name) is not None]
    assert write("[a={a}|b={b}|c={c}]", values) == (f"{known[0]}={values[known[0]]}" if known else "")
    assert write("[one[ {a}][ {b}]|{c}]", values) == "one" + "".join(
        f" {values[name]}" for name in known if name != "c"
    )
    chosen = "b" if values.get("a") else "c"
    if values.get(chosen) is not None:
        assert write("{a?{b}|{c}}", values) == str(values[chosen])
    else:
        with pytest.raises(KeyError, match=chosen):
            write("{a?{b}|{c}}", values)


@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from(["one", "two"]))
def test_a_choice_compares_with_a_word_a_number_or_another_value(a: int, b: int, word: str) -> None:
    values = {"a": a, "b": b, "word": word}
    assert write("{word=one?yes|no}", values) == ("yes" if word == "one" else "no")
    assert write("{a=3?yes|no}{a<b?yes|no}{a>0?yes|no}", values) == "".join(
        "yes" if holds else "no" for holds in (a == 3, a < b, a > 0)
    )


@pytest.mark.parametrize("template", ["{a", "[a", "a]", "a}", "a|b", "{a?b", "{a?b|c|d}", "[{a?b]}", "{}"])
def test_what_has_no_partner_is_no_template(template: str) -> None:
    with pytest.raises(ValueError, match=r"partner|missing|texts"):
        parsed(template)


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_of_each_kind_can_be_read(kind: str) -> None:
    words = WORDS[kind]
    for text in (words.template, words.joined):
        if isinstance(text, str):
            assert all(name.isidentifier() for name in names_in(parsed(text)))
    assert not isinstance(words.template, str) or words.template[:1] != " "


def test_values_are_written_as_their_writers_say() -> None:
    values = {
        "size": 1536,
        "count": 1942,
        "part": 512,
        "line": 7,
        "name": "x" * 300,
        "names": ["a", "b"],
        "unit": "step",
    }
    template = "{size:bytes}, {count:plural block}, {part:share size}, {line:at}, {names:names}, {count:units}"
    assert write(template, values) == "1.50 KiB, 1,942 blocks, 33%, line 7, a, b, 1,942 steps"
    assert write("{line:at}", {"line": 7, "entries": True}) == "entry 7"
    assert len(write("{name:name}", values)) == 40


# -- ranked, joined --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        **{name: Words(f"{name} {{at}}") for name in "abcd"},
        "more": Words("more {at}", joined="{semicolon?; |, }", again=", and "),
        "head": Words("device {at}", place="heads"),
        "always": Words("always {at}", place="always"),
        "besides": Words("besides {at}", place="besides"),
        "called": Words("[{who} ]did {at}", named="who"),
    }
    for kind, one in made.items():
        monkeypatch.setitem(WORDS, kind, one)


def said(*claims: tuple[str, int], most: int = 3, **values: object) -> str:
    return str(
        answer_of([Claim(kind, Weight(weight), {"at": k, **values}) for k, (kind, weight) in enumerate(claims)], most)
    )


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ([("a", 40), ("b", 90), ("c", 40)], "B 1. A 0. C 2."),
        ([("a", 40), ("b", 40), ("c", 40), ("d", 90)], "D 3. A 0. B 1."),
        ([("a", 40), ("more", 40), ("b", 40)], "A 0, more 1. B 2."),
        ([("a", 40), ("more", 40), ("more", 40), ("b", 90)], "B 3. A 0, more 1, and more 2."),
        ([("a", 90), ("more", 40)], "A 0. More 1."),
        ([("more", 40)], "More 0."),
        ([("a", 40), ("head", 95), ("b", 90)], "Device 1: B 2. A 0."),
        ([("head", 95), ("besides", 95), ("a", 40)], "Device 0: Besides 1. A 2."),
        ([("a", 90), ("b", 80), ("c", 70), ("always", 20)], "A 0. B 1. Always 3."),
        ([("besides", 95), ("a", 90), ("b", 80), ("c", 70), ("d", 60)], "Besides 0. A 1. B 2. C 3."),
        ([], ""),
    ],
)
def test_sentences_are_ranked_joined_and_few(claims: list[tuple[str, int]], text: str) -> None:
    assert said(*claims) == text


def test_no_sentence_ends_within_brackets() -> None:
    """A long claim is parted at its semicolons, but for those in brackets."""
    values: dict[str, Any] = {"line": 7, "owner": "matmul", "requested_bytes": 1 << 20, "allocated_bytes": 1 << 20}
    values |= {
        "reserved_bytes": 1 << 20,
        "device_free_bytes": 1,
        "cause": "too much",
        "place": "the last",
        "failures": 2,
    }
    (first, second) = answer_of([claim("out_of_memory", Weight.FAILURE, **values)]).sentences
    assert first.endswith("asked for 1.00 MiB.")
    assert second.endswith("(too much in use; the last of 2 failures).")


@pytest.mark.usefixtures("words")
def test_a_name_gets_no_capital_and_values_say_how_a_claim_goes_on() -> None:
    assert said(("called", 40), who="run.log") == "run.log did 0."
    assert said(("called", 40)) == "Did 0."
    assert said(("a", 40), ("more", 40), semicolon=True) == "A 0; more 1."
    assert joined([Claim("a", Weight.PEAK, {"at": 1}), Claim("more", Weight.PEAK, {"at": 2})]) == "a 1, more 2"


@given(st.lists(st.sampled_from(sorted(Weight)), max_size=8), st.integers(0, 5))
def test_heavier_claims_come_first_and_those_of_one_weight_as_they_were_made(weights: list[Weight], most: int) -> None:
    claims = [Claim("events", weight, {"events": k}) for k, weight in enumerate(weights)]
    in_order = ranked(claims)
    order = [(-one.weight, one.values["events"]) for one in in_order]
    assert order == sorted(order)
    assert len(answer_of(claims, most).sentences) == min(most, len(claims))


def test_the_tone_is_that_of_the_weightiest_claim_that_has_one() -> None:
    events = {"events": 1}
    claims = [
        Claim("events", Weight.LEFT, events, "good"),
        Claim("events", Weight.PEAK, events),
        Claim("events", Weight.STEADY, events, "bad"),
    ]
    assert answer_of(claims).tone == "bad"
    assert answer_of(claims[:2]).tone == "good"
    assert answer_of(claims[1:2]).tone == "plain"


@given(sizes, st.one_of(st.none(), sizes))
def test_a_claim_is_plain_data(peak: int, reserved: int | None) -> None:
    assume(peak != reserved)
    made = claim("peak", Weight.PEAK, peak_bytes=peak, reserved_bytes=reserved)
    found = made.to_dict()
    assert json.loads(json.dumps(found)) == found
    assert {"kind": "peak", "weight": 60, "peak_bytes": peak} == {
        name: found[name] for name in ("kind", "weight", "peak_bytes")
    }
    assert ("reserved_bytes" in found) == (reserved is not None)
    assert pickle.loads(pickle.dumps(made)) == made


def test_values_that_the_words_name_are_taken_from_results() -> None:
    class Result:
        peak_bytes, line, other = 4096, 7, 1

    assert claim("peak", Weight.PEAK, Result(), line=9).values == {"peak_bytes": 4096, "line": 9}
