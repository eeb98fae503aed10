"""The JSON Schemas that are shipped are those of the types, and what the verbs write is as they say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from schema_maker import schema_of

import memlens
from memlens.analyzing.block import BlockLife
from memlens.cli import main
from memlens.errors import UsageError
from memlens.gating.baseline import Baseline
from memlens.inputs.registry import Formats
from memlens.schemas import schema

jsonschema_rs = pytest.importorskip("jsonschema_rs")
ROOT = Path(__file__).resolve().parents[1]
KINDS: dict[str, Any] = {
    "analyze": memlens.Analysis,
    "baseline": Baseline,
    "block": BlockLife,
    "compare": memlens.Comparison,
    "diff": memlens.Diff,
    "formats": Formats,
    "gate": memlens.Verdict,
    "watch": memlens.Watched,
    "whatif": memlens.WhatIf,
}
PT, PIR, CUT = "case1_pt.log", "case1_pir.log", ["--by", r"START (SOT_CALL_\d+)"]
COMMANDS = [
    ["analyze", PIR],
    ["analyze", PIR, PT, "oom.log.gz", "leak.log.gz", "torch_leak.json.gz", "torn_4procs.log.gz"],
    ["analyze", PIR, *CUT, "--top", "3"],
    ["block", PIR, "69"],
    ["compare", PT, PIR],
    ["compare", PT, PIR, "oom.log.gz", "cnn_5steps.log.gz", "missing.log"],
    ["diff", PT, PIR],
    ["diff", PT, PIR, *CUT],
    ["diff", PT, PIR, "--start", "START SOT_CALL_0"],
    ["formats"],
    ["formats", PIR, "torch_leak.json.gz"],
    ["gate", PIR, "--base", PT],
    ["gate", PIR, "--base", PT, *CUT],
    ["gate", "leak.log.gz", "--base", "leak.log.gz"],
    ["watch", PIR, "--idle", "0"],
    ["whatif", "oom.log.gz"],
]


def strict(found: Any) -> Any:
    """The schema without room for what it does not name."""
    if isinstance(found, dict):
        closed = {"additionalProperties": False} if "properties" in found else {}
        return closed | {name: strict(value) for name, value in found.items()}
    return [strict(value) for value in found] if isinstance(found, list) else found


def documents(text: str) -> Iterator[Any]:
    """One JSON document, or one a line."""
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        yield from map(json.loads, text.splitlines())


@pytest.mark.parametrize("verb", KINDS)
def test_a_schema_is_that_of_the_types(verb: str) -> None:
    made = schema_of(KINDS[verb])
    if os.environ.get("MEMLENS_APPROVE"):
        path = ROOT / "src" / "memlens" / "schemas" / f"{verb}.json"
        path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    assert schema(verb) == json.loads(json.dumps(made)), "if the types are right, write it anew with MEMLENS_APPROVE=1"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_a_verb_writes_is_as_its_schema_says(
    command: list[str], examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(examples)
    main([*command, "--format", "jsonl" if command[0] == "watch" else "json"])
    found = list(documents(capsys.readouterr().out))
    assert found
    for document in found:
        jsonschema_rs.validate(strict(schema(command[0])), document)


def test_a_baseline_is_as_its_schema_says(examples: Path, tmp_path: Path) -> None:
    memlens.accept(examples / PT, tmp_path / "memory.json")
    document = json.loads((tmp_path / "memory.json").read_text())
    assert len(document.pop("check_sha256")) == 64
    jsonschema_rs.validate(strict(schema("baseline")), document)


def test_a_verb_without_json_is_named_with_those_that_have_it() -> None:
    with pytest.raises(UsageError, match="no JSON is written by 'record'") as caught:
        schema("record")
    assert all(verb in caught.value.hint for verb in KINDS)
