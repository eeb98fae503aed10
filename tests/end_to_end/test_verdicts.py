"""The first line alone is the right answer: verdicts of whole logs, against what the frameworks themselves said of the runs.

``benchmarks/verdicts.md`` quotes the verdicts; ``MEMLENS_APPROVE=1`` writes its tables anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from night import NIGHT

import memlens
from memlens.errors import NoEventsError
from memlens.reports.markdown import plain
from memlens.text import format_bytes, parse_bytes

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "benchmarks" / "verdicts.md"

#: Logs whose events come from several threads: the framework's counter misses their peaks.  These are those of an independent replay.
PEAKS = {
    "331_ast_pir_cnn": 4_578_560,
    "331_parts_pir_transformer": 8_942_336,
    "30_ast_transformer_pir": 12_054_784,
    "30_ast_transformer_pt": 12_054_784,
    "30b2_ast_transformer_pir": 12_576_512,
    "30b2_ast_transformer_pt": 11_790_080,
    "04_threads_30_ast_pt_transformer": 11_949_824,
}


def paddle_logs(shared: Path) -> list[Path]:
    return sorted((shared / "data/paddle").glob("*.log*")) + sorted((shared / "data/paddle").glob("*.workerlog.*"))


def name_of(log: Path) -> str:
    return log.name.partition(".")[0]


@cache
def verdict(log: Path) -> str:
    return memlens.analyze(log).verdict


def reserved_is_said(text: str, most: int) -> bool:
    """Whether a verdict says the most that is reserved: by a claim of its own, or at the peak, where that is less than a twentieth below."""
    said: list[str] = re.findall(r"he most reserved is (\S+ [KMG]?i?B)", text)
    if said:
        return said == [format_bytes(most)]
    (at_peak,) = re.findall(r"allocated, (\S+ \S+) reserved", text)
    return 0.95 * most < parse_bytes(at_peak.replace(" ", "")) <= 1.001 * most


@pytest.mark.parametrize(
    "name",
    [
        *(
            "01_first_venv_dygraph.log",
            "05_fixed_331.log.gz",
            "05_leak_activations_331.log.gz",
            "05_leak_graph_331.log.gz",
        ),
        *("05_grow_batch_331.log.gz", "06_dump_chunk_info.log.gz", "06_free_idle_chunk.log", "06_noprefix.log"),
        *("331_ast_pir_cnn.log", "331_ast_pt_cnn.log", "331_dygraph_cnn.log", "331_parts_pir_transformer.log"),
        *("331_sot_pir_cnnbreaks.log", "30_ast_transformer_pir.log", "30_ast_transformer_pt.log"),
        *("30_sot_cnn_breaks_pir.log", "30_sot_cnn_breaks_pt.log", "04_threads_30_ast_pt_transformer.log.gz"),
        "10_v8_dygraph_331.log.gz",
    ][:: 1 if NIGHT else 4],
)
def test_the_peak_of_a_verdict_is_the_frameworks(shared: Path, name: str) -> None:
    stats = json.loads((shared / "data/paddle" / f"{name_of(Path(name))}.stats.json").read_text())
    peak = PEAKS.get(name_of(Path(name)), stats["allocated_peak"])
    text = verdict(shared / "data/paddle" / name)
    assert f"eak: {format_bytes(peak)} allocated, " in text
    assert reserved_is_said(text, stats["reserved_peak"])
    assert "In doubt" not in text


def test_the_traps_are_answered_as_their_folder_says(shared: Path) -> None:
    traps = shared / "data/traps"
    leaking = verdict(traps / "leak900k.log.gz")
    # 200 steps, of which the last is open: 199 times 900 KiB.  The pool of 1 GiB that lies idle does not grow, and is said after the leak.
    assert leaking.startswith(
        f"Memory grows from STEP 0 on: 900.00 KiB a step, {format_bytes(199 * 900 * 1024)} in all over 199 steps."
    )
    assert " from STEP 50 on: 1.00 MiB a step" in verdict(traps / "late_leak.log.gz")
    for name in ("good", "five", "five_osexit", "seven", "sawtooth"):
        assert "does not grow" in verdict(traps / f"{name}.log.gz"), name


# -- the page ----------------------------------------------------------------------------------------------------------------


def rows_of(shared: Path, examples: Path, tmp: Path) -> Iterator[tuple[str, str]]:
    """What is asked, and the verdict."""
    for log in paddle_logs(shared):
        try:
            yield log.name, verdict(log)
        except NoEventsError:
            yield log.name, "(no allocator event: an error says how to get some)"
    for log in sorted((shared / "data/torch/snapshots").glob("*.pickle")):
        yield log.name, verdict(log)


def other_rows(examples: Path, tmp: Path) -> Iterator[tuple[str, str]]:
    pt, pir = examples / "case1_pt.log", examples / "case1_pir.log"
    anchors: dict[str, Any] = {"start": "START SOT_CALL_0", "end": "START SOT_CALL_1"}
    yield "analyze oom.log.gz", verdict(examples / "oom.log.gz")
    yield "diff case1_pt.log case1_pir.log", memlens.diff(pt, pir).verdict
    yield '… --start "START SOT_CALL_0" --end "START SOT_CALL_1"', memlens.diff(pt, pir, **anchors).verdict
    yield "diff case1_pt.log case1_pt.log", memlens.diff(pt, pt).verdict
    yield "compare case1_pt.log case1_pir.log", memlens.compare([pt, pir]).verdict
    baseline = tmp / "memory.json"
    memlens.accept(pt, baseline, by=r"START (SOT_CALL_\d+)")
    yield "gate case1_pir.log --baseline memory.json", memlens.gate(pir, baseline=baseline).explanation
    yield "gate case1_pt.log --baseline memory.json", memlens.gate(pt, baseline=baseline).explanation
    yield "block case1_pir.log 64", memlens.block(pir, 64).verdict


def table(head: str, rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join([f"| {head} | verdict |", "|---|---|", *(f"| `{name}` | {plain(text)} |" for name, text in rows)])


@pytest.mark.night
def test_the_page_quotes_every_verdict(shared: Path, examples: Path, tmp_path: Path) -> None:
    mark = "<!-- below this line the tables are written by a test -->\n"
    prose, found, _ = PAGE.read_text().partition(mark)
    tables = [
        "## The examples\n",
        table("command", [*other_rows(examples, tmp_path)]),
        "\n## Real logs and snapshots\n",
        table("log", [*rows_of(shared, examples, tmp_path)]),
    ]
    page = f"{prose}{mark}\n" + "\n".join(tables) + "\n"
    if os.environ.get("MEMLENS_APPROVE"):
        PAGE.write_text(page)
    assert found
    assert PAGE.read_text() == page, (
        "read the difference; if the verdicts are right, write the page anew with MEMLENS_APPROVE=1"
    )
