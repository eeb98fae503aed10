"""Every kind of claim stands on its page, with its values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_results import MADE

import memlens
from memlens.claims.claim import WORDS, Claim
from memlens.claims.template import names_in, parsed
from memlens.claims.words import WORDS as OF_LOGS
from memlens.claims.words_compared import WORDS_COMPARED

KINDS = [*OF_LOGS, *WORDS_COMPARED]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
ENTRIES = re.findall(r"^- (\*\*.*(?:\n  .*)*)", PAGE.read_text(), re.MULTILINE)
#: The kinds of one entry share its values.
ROWS = [(kind, entry) for entry in ENTRIES for kind in re.findall(r"\*\*`(\w+)`\*\*", entry)]
VALUES = {kind: set(re.findall(r"`(\w+)`", values)) | {"entries", "unit"} for kind, values in ROWS}


def test_every_kind_stands_there_and_no_other() -> None:
    assert sorted(kind for kind, _ in ROWS) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_that_a_template_writes_stand_there(kind: str) -> None:
    words = WORDS[kind]
    templates = [text for text in (words.template, words.joined) if isinstance(text, str)]
    assert {name for text in templates for name in names_in(parsed(text))} <= VALUES[kind]


def claims_of_examples(examples: Path) -> Iterator[Claim]:
    for path in sorted(examples.iterdir()):
        yield from memlens.analyze(path).claims
    for result in MADE:
        yield from result.claims


def test_the_values_that_claims_have_stand_there(examples: Path) -> None:
    for claim in claims_of_examples(examples):
        assert set(claim.values) <= VALUES[claim.kind], claim.kind
