"""What diff, gate and compare claim is so: judges read it again from the lines of the logs, and of every kind there is one text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import permutations, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from compared_judge import JUDGES, RawPair, judge
from edited_runs import EDITS, Row, rows_of, write
from made_gates import FAILING
from made_gates import write as write_series
from made_results import MADE
from night import NIGHT, chance_of, some
from real_windows import RUNS

import memlens
from memlens.claims.claim import Claim, Weight
from memlens.claims.template import PAUSE, Words, names_in, parsed
from memlens.claims.words_compared import WORDS_COMPARED
from memlens.gating.verdict import claim_of
from memlens.results import Answered, to_builtins
from memlens.text import visible


def byte_names(words: Words) -> list[str]:
    """The sizes that a template writes."""
    parts = words.template if isinstance(words.template, str) else ""
    return [name for name in names_in(parsed(parts)) if name.endswith("_bytes")]


BY = r"^(STEP \d+) START"
ROUNDS = 1
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "claims.txt"
MIB = 1 << 20
#: Values for the kinds of which no made-up result has a claim.
_FAILURE = {"line": 9, "requested_bytes": MIB, "cause": "too much", "ended": True}
_NAMED = [{"run": "a.log", "path": "x/a.log"}, {"run": "b.log", "path": "x/b.log", "requested_bytes": MIB}]
_OF_KIND = {"largest_of_role": {"holder": "feats[*] (main, train.py)", "owner": "relu < train.py:10 main"}}
SAMPLES: dict[str, Any] = {
    "roles": {"saved": 2 << 20, "gradient": -512},
    **{name: MIB for words in WORDS_COMPARED.values() for name in byte_names(words)},
    "only_head_temporary_bytes": MIB,
    "only_base_temporary_bytes": 2 * MIB,
    "base": _FAILURE,
    "head": {**_FAILURE, "line": 11},
    "window": "STEP 2",
    "windows": 9,
    "base_lives": 8,
    "base_alloc_line": 70,
    "base_free_line": 90,
    "head_lives": 21,
    "head_alloc_line": 75,
    "head_free_line": 120,
    "needing": 4,
    "opposite": 3,
    "others": 2,
    "line": 17,
    "side": "head",
    "needs": "more",
    "finding": "missing_free",
    "blocks": 3,
    "base_blocks": 0,
    "head_blocks": 3,
    "at_peak": True,
    "explained_bytes": MIB,
    "base_allocs_after_peak": -3,
    "head_allocs_after_peak": 0,
    "metric": "peak",
    "figure": "peak",
    "highest": 1234,
    "run": "a.log",
    "runs": 4,
    "named": _NAMED,
    "count": 2,
    "more": 1,
    "field": "gbs",
    "off": -3,
    "peers": 8,
    "ranks": 3,
    "how": "death",
    "what": "SIGSEGV",
    "measured": 2,
    "groups": 2,
    "largest": [{"ranks": 4, "median": 5}, {"ranks": 3, "median": 9}],
    "moved": 3,
    "cancel_out": True,
    "although_less": True,
    "lasting": True,
    "compared": True,
}
TRAPS = ["five", "seven", "good", "leak900k", "late_leak", "sawtooth"]


def judged(base: Path, head: Path, by: str | None) -> set[str]:
    """Judge what diff, gate and compare claim of two logs; the kinds judged."""
    whole = by is None
    found = judge(memlens.diff(base, head, by=by, whole=whole).to_dict()["claims"], RawPair(base, head, by))
    gate = memlens.gate(head, base=base, by=by, trust=False, limits="growth=off")
    pair = RawPair(base, head, by)
    pair.steps_by = gate.steps_by
    found |= judge(gate.to_dict()["claims"], pair)
    return found | judge(memlens.compare([base, head], base=str(base)).to_dict()["claims"], RawPair(base, head))


@pytest.fixture(scope="module")
def run(examples: Path) -> list[Row]:
    return rows_of(examples / "cnn_5steps.log.gz")


@pytest.mark.parametrize("by", [None, BY], ids=["whole", "by step"])
@pytest.mark.parametrize("name", some(EDITS))
def test_what_is_claimed_of_edited_runs_is_so(
    run: list[Row], tmp_path: Path, rounds: Callable[[int], range], name: str, by: str | None
) -> None:
    chance = chance_of(f"{name} {by}")
    for _ in rounds(ROUNDS):
        seed = chance.getrandbits(32)
        edited = EDITS[name](EDITS[name](run, Random(seed)), Random(seed + 1))
        pair = write(run, tmp_path / "one.log"), write(edited, tmp_path / f"other {seed}.log")
        for base, head in (pair, pair[::-1]):
            assert judged(base, head, by), seed
            diff, raw = memlens.diff(base, head, by=by, whole=by is None), RawPair(base, head, by)
            # Where only windows differ, and both ways, neither run needs more.
            even = raw.base.peak == raw.head.peak and not sum(raw.left) and raw.needing(1) and raw.needing(-1)
            assert (diff.answer.tone == "bad") == (raw.sign > 0 and not even), seed


#: Where a Free in an open window was told as missing, and one of a block that lives longer in the other run as late.
LATE = [(f"{name}_pt.log", f"{name}_pir.log") for name in ("30b2_ast_transformer", "30_sot_cnn_breaks")]


@pytest.mark.parametrize(
    ("base", "head"), dict.fromkeys([*LATE, *some([(one, other) for _, one, other in RUNS if one != other], 48)])
)
def test_what_is_claimed_of_real_runs_is_so(shared: Path, base: str, head: str) -> None:
    logs = shared / "data/paddle"
    for by in (None, BY):
        assert judged(logs / base, logs / head, by)


def test_what_is_reserved_and_grew_is_as_claimed(shared: Path) -> None:
    base, head = (shared / "data/paddle" / f"05_{name}_331.log.gz" for name in ("fixed", "grow_batch"))
    gate = memlens.gate(head, base=base, limits=["peak=1GiB", "growth=1GiB"])
    claims = [claim for claim in gate.to_dict()["claims"] if claim["kind"] == "reserved_not_judged"]
    assert judge(claims, RawPair(base, head))


@pytest.mark.parametrize(("base", "head"), some(permutations(TRAPS, 2), 17))
def test_what_is_claimed_of_long_runs_is_so(shared: Path, base: str, head: str) -> None:
    paths = [shared / "data/traps" / f"{name}.log.gz" for name in (base, head)]
    assert judged(paths[0], paths[1], BY)


def test_of_a_run_that_failed_it_is_said_where_the_other_one_was(shared: Path) -> None:
    logs = shared / "data/paddle"
    for base, head in product([logs / "05_fixed_331.log.gz", logs / "05_oom_331.log"], repeat=2):
        found = judge(memlens.diff(base, head, whole=True).to_dict()["claims"], RawPair(base, head))
        assert base == head or found >= {"meanwhile", "run_out_of_memory"}
    assert "both_out_of_memory" in found


def test_what_is_claimed_of_one_window_of_real_runs_is_so(shared: Path) -> None:
    logs, seen, chance = shared / "data/paddle", set[str](), chance_of("windows")
    runs = ["05_fixed_331.log.gz", "05_leak_graph_331.log.gz", "05_grow_batch_331.log.gz"]
    for name, other in some(permutations(runs, 2)):
        step = chance.randrange(2, 28)
        diff = memlens.diff(logs / name, logs / other, start=f"STEP {step} START", end=f"STEP {step + 1} START")
        claims = [
            one for one in diff.to_dict()["claims"] if one["kind"] in ("carried_in", "left_behind", "older_freed")
        ]
        seen |= judge(claims, RawPair(logs / name, logs / other, BY, f"STEP {step}"))
    assert "carried_in" in seen


def gated(base: Path, head: Path, chance: Random) -> set[str]:
    """Judge what gate claims where growth is judged too, perhaps under a budget, and of each figure that fails."""
    pair, seen = RawPair(base, head, BY), set[str]()
    for budgets in some(((), f"peak={round(pair.head.peak * chance.uniform(0.9, 1.02))}B", "reserved=1GiB"), 2):
        gate = memlens.gate(head, base=base, by=BY, trust=False, budgets=budgets)
        seen |= judge([*gate.to_dict()["claims"], *(claim_of(row).to_dict() for row in gate.failing)], pair)
    return seen


def test_what_a_gate_claims_of_runs_that_grow_or_end_early_is_so(
    tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    fresh, seen = chance_of("gated"), set[str]()
    # Where blocks cross the ends of steps, one steady leak in a hundred does not grow steadily; of three, one does.
    for name in ("lost step", *["steady leak"] * (3 if NIGHT else 1), *(fresh.choice([*FAILING]) for _ in rounds(2))):
        seed = fresh.getrandbits(32)
        case = FAILING[name](Random(seed))
        cut = case.head[: fresh.randint(2, len(case.head) - 1)]
        base, head, shorter = (
            write_series(tmp_path / f"{name} {seed} {k}.log", one)
            for k, one in enumerate((case.base[0], case.head, cut))
        )
        for two in ((base, head), (head, base), (base, shorter)):
            seen |= gated(*two, Random(seed))
    assert {"grows", "piles_up", "over_budget", "missing_window", "ends_earlier"} <= seen


def test_of_batches_padded_to_another_length_the_largest_block_at_the_peak_is_named(
    tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    fresh = chance_of("padded")
    for _ in rounds(3):
        seed = fresh.getrandbits(32)
        chance = Random(seed)
        factors = [chance.randrange(3, 400) for _ in range(8)]

        def padded(name: str, lengths: list[int], factors: list[int] = factors) -> Path:
            blocks = [[(f"{step} {k}", 512 * n * m) for k, m in enumerate(factors)] for step, n in enumerate(lengths)]
            return write_series(tmp_path / name, [[*live, *((one, 0) for one, _ in live)] for live in blocks])

        base = padded(f"base {seed}.log", [chance.randrange(12, 50) for _ in range(9)])
        head = padded(f"head {seed}.log", [61] * 9)
        diff = memlens.diff(base, head, by=BY)
        found = judge(diff.to_dict()["claims"], RawPair(base, head, BY))
        assert diff.factor is not None or found >= {"shares_little", "largest_in_one", "first_in_one"}, seed


def test_what_is_in_doubt_and_what_differs_in_what_is_reserved_alone_is_as_claimed(
    run: list[Row], tmp_path: Path
) -> None:
    paths = write(run, tmp_path / "all.log"), write(run[40:], tmp_path / "end.log")
    for base, head in permutations(paths):
        assert "runs_in_doubt" in judged(base, head, None)
    one = write_series(tmp_path / "one.log", [[(f"{step}", 512), (f"{step}", 0)] for step in range(5)])
    other = tmp_path / "other.log"
    other.write_text(one.read_text().replace(f"reallocate {1 << 40}", f"reallocate {1 << 41}"))
    for by in (None, BY):
        assert "reserved_change" in judged(one, other, by)


def test_a_missing_window_is_named_beside_that_it_is_missing(tmp_path: Path) -> None:
    steps = [[(f"{step}", 512), (f"{step}", 0)] for step in range(9)]
    base = write_series(tmp_path / "base.log", steps)
    head = write_series(tmp_path / "head.log", [*steps[:3], [("", -1)], *steps[4:6]])  # without STEP 2, up to STEP 4
    gate = memlens.gate(head, base=base, by=BY)
    assert judge(gate.to_dict()["claims"], RawPair(base, head, BY)) >= {"windows_missing", "ends_earlier"}
    assert "1 window is missing, STEP 2; 4 of the base's 9 windows judged, because the run ends earlier." in str(
        gate.answer
    )


def test_a_wrong_figure_is_found(run: list[Row], tmp_path: Path) -> None:
    base, head = (
        write(run, tmp_path / "base.log"),
        write(EDITS["without a free"](run, Random(1)), tmp_path / "head.log"),
    )
    claims = memlens.diff(base, head, by=BY).to_dict()["claims"]
    for k, claim in enumerate(claims):
        for name, value in claim.items():
            if claim["kind"] in JUDGES and name.endswith(("_bytes", "_line", "line")):
                with pytest.raises((AssertionError, StopIteration, KeyError)):
                    judge([*claims[:k], {**claim, name: value + 1}, *claims[k + 1 :]], RawPair(base, head, BY))


# -- every kind ----------------------------------------------------------------------------------------------------------------


def claims_of_made() -> Iterator[tuple[Answered, Claim]]:
    for result in MADE:
        for claim in result.claims:
            yield result, claim


def test_claims_are_of_plain_types() -> None:
    for _, claim in claims_of_made():
        assert to_builtins(claim.to_dict()) == claim.to_dict()
        assert claim.text
        assert claim.weight >= 0


def test_the_weightiest_claims_come_first_and_the_verdict_is_made_of_their_texts() -> None:
    for result, claim in claims_of_made():
        weights = [one.weight for one in result.claims]
        assert weights == sorted(weights, reverse=True)
        if claim is result.claims[0]:
            assert all(part.removeprefix("; ")[1:] in str(result.answer) for part in claim.words.split(PAUSE))


def test_the_text_of_each_kind() -> None:
    """``MEMLENS_APPROVE=1`` writes the texts anew."""
    texts: dict[str, str] = {}
    for _, claim in claims_of_made():
        texts.setdefault(claim.kind, claim.text)
    for kind in WORDS_COMPARED.keys() - texts:
        texts[kind] = Claim(kind, Weight.DIFFERENCE, SAMPLES | _OF_KIND.get(kind, {})).text
    lines = [f"{kind}: {visible(text)}\n" for kind, text in sorted(texts.items())]
    if os.environ.get("MEMLENS_APPROVE"):
        GOLDEN.write_text("".join(lines))
    assert GOLDEN.read_text().splitlines(keepends=True) == lines
