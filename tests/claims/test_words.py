"""The words of each kind of claim on one run, as approved; no sentence is too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlens.claims.claim import MOST_WORDS, Claim, Weight, answer_of
from memlens.claims.words import WORDS

KIB, MIB = 1 << 10, 1 << 20
STEPS = {"windows": 19, "unit": "step"}
NEEDS = {"needs_bytes": 7 * MIB, "needs_most_bytes": 8 * MIB, "reserves": False}
WITHIN = {"limit_bytes": 8 * MIB, "refused": True, "refused_line": 9}
SETTING = "export FLAGS_x=1"
TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("in_doubt", {"doubts": ["half_line", "no_such"]}),
    ("run_ended", {"how": "cut", "unit": "step", "window": "17", "line": 6940}),
    ("run_ended", {"how": "cut", "unit": "step", "after": "STEP 16", "line": 9}),
    ("run_ended", {"how": "death", "what": "SIGSEGV", "at_exit": True, "line": 9}),
    ("run_ended", {"how": "exception", "line": 9}),
    ("peak_may_come_later", {"entries": True}),
    ("peak_may_come_later", {"inside": True, "unit": "step"}),
    ("growing", {**STEPS, "since": "7", "gained_each_bytes": 1536, "gained_bytes": MIB, "last_windows": 12}),
    ("growing", {**STEPS, "since": "STEP 7", "gained_each_bytes": 1536, "every": 5, "gained_bytes": MIB}),
    ("growing", {**STEPS, "since": "1", "until": "7", "gained_each_bytes": 1536, "gained_bytes": MIB}),
    ("piling_up", {"blocks": 1, "block_bytes": KIB, "total_bytes": KIB, "gained_bytes": 4 * KIB, "owner": "f < g"}),
    ("piling_up", {"blocks": 2, "block_bytes": KIB, "most": True, "phase": "FORWARD", "owner": "f", "ties": 1}),
    ("piling_up", {"blocks": 2, "block_bytes": KIB, "beyond": True, "before_phases": True, "unit": "step"}),
    ("piling_up", {"blocks": 2, "block_bytes": KIB, "beyond": True, "phase": "after STEP END", "holder": "feats[*] (main, train.py)"}),
    ("piling_up", {"blocks": 2, "block_bytes": KIB, "beyond": True, "holder": "feats[*] (main, train.py)", "held_in_part": True}),
    ("grown_by", {"owner": "concat < train.py:102 main", "holder": "cache (main, train.py)", "held_in_part": True}),
    ("hidden_growth", {**STEPS, "since": "STEP 3", "gained_bytes_per_window": KIB, "gained_bytes": 17 * KIB}),
    ("no_size_piles_up", {}),
    ("live_not_growing", {**STEPS, "rose": True}),
    ("live_not_growing", {**STEPS, "lowest_bytes": KIB, "highest_bytes": MIB}),
    ("level_growing", {"level": "peak", "unit": "step", "since": "(before)", "from_bytes": KIB, "to_bytes": MIB}),
    ("level_growing", {"level": "reserved", "since": "STEP 1", "from_bytes": 0, "to_bytes": MIB, "live_growing": True}),
    ("peak", {"peak_bytes": MIB, "reserved_bytes": 2 * MIB, "line": 1942, "window": "STEP 1", "rise_bytes": 512}),
    ("reserved_idle", {"reserved_peak_bytes": 3 * MIB, "peak_bytes": MIB, "line": 7}),
    ("reserved_idle", {"reserved_peak_bytes": 9 * MIB, "peak_bytes": MIB, "setting": SETTING, "chunks": 3, "chunks_as_set": 2, **NEEDS}),
    ("reserved_peak", {"reserved_peak_bytes": 2 * MIB, "line": 7, "window": "STEP 1"}),
    ("peak", {"reserved_bytes": MIB, "series": True, "since_recording": True, "at_start": True}),
    ("peak", {"peak_bytes": MIB, "snapshot": True, "at_start": True}),
    ("peak", {"peak_bytes": MIB, "earlier_unknown": True, "line": 3, "entries": True}),
    ("largest_at_peak", {"total_bytes": KIB, "peak_bytes": MIB, "blocks": 2, "block_bytes": 512}),
    ("largest_at_peak", {"total_bytes": KIB, "peak_bytes": MIB, "blocks": 2, "before_input": True, "no_stack": True, "ties": 2}),
    ("exists_twice", {"what": "gradients", "total_bytes": MIB, "peak_without_bytes": 9 * MIB, "peak_bytes": 10 * MIB}),
    ("exists_twice", {"what": "weights", "total_bytes": MIB, "peak_without_bytes": 9 * MIB, "peak_bytes": 10 * MIB, "holder": "ema (main, train.py)", "of": "net"}),
    ("exists_twice", {"what": "half_weights", "total_bytes": MIB, "peak_without_bytes": 9 * MIB, "peak_bytes": 10 * MIB, "at_most": True}),
    ("by_role", {"roles": {"saved": MIB // 2, "optimizer": MIB // 3, "nobody": MIB // 9}, "peak_bytes": MIB, "told_by": "holders"}),
    ("activations", {"saved_bytes": MIB, "total_bytes": MIB // 2, "owner": "net.py:5 forward", "peak_bytes": 2 * MIB}),
    ("activations", {"saved_bytes": MIB, "total_bytes": KIB, "owner": "net.py:5 forward", "layers": 24, "recomputed_peak_bytes": MIB, "peak_bytes": 2 * MIB}),
    ("activations", {"layers": 6, "recomputed_peak_bytes": MIB, "peak_bytes": 2 * MIB}),
    ("no_event", {"windows": 9}),
    ("no_event", {}),
    ("shrinking", STEPS),
    ("rose_late", {**STEPS, "rose_bytes": MIB, "rose_windows": 1}),
    ("higher_after", {"peak_bytes": MIB}),
    ("rose", {**STEPS, "times": 1, "rises_bytes": {"STEP 7": 394 * KIB}, "stays": True}),
    ("rose", {**STEPS, "times": 2, "rises_bytes": {"STEP 7": KIB, "8": MIB}}),
    ("rose", {**STEPS, "from_bytes": KIB, "to_bytes": MIB, "rising_windows": 3, "rose_from": "STEP 1", "rose_until": "STEP 3", "warm_up": True, "stays": True}),
    ("rose", {**STEPS, "from_bytes": KIB, "to_bytes": MIB, "rising_windows": 16, "rose_from": "STEP 1", "rose_until": "STEP 16"}),
    ("not_growing", {**STEPS, "lowest_bytes": 512, "highest_bytes": KIB}),
    ("not_growing", {**STEPS, "lowest_bytes": 512, "highest_bytes": KIB, "from_bytes": KIB}),
    ("uneven", {**STEPS, "lowest_bytes": 512, "highest_bytes": KIB}),
    ("sawtooth", {**STEPS, "lowest_bytes": 512, "highest_bytes": KIB, "period": 5}),
    ("live_at_end", {"live_bytes": MIB, "blocks": 2}),
    ("nothing_live_at_end", {"grows": True}),
    ("nothing_live_at_end", {"grows": False}),
    ("nothing_live_at_end", {"exit_bytes": KIB}),
    ("held_in_window", {"held_bytes": MIB, "blocks": 1}),
    ("nothing_held_in_window", {}),
    ("growth_not_judged", {"steps": 3}),
    ("growth_not_judged", {"parts": True, "by": True}),
    ("growth_not_judged", {"by": True}),
    ("growth_not_judged", {"by": False, "entries": True}),
    ("growth_not_judged", {"whole": True}),
    ("events", {"events": 1942}),
    ("budget_exceeded", {"metric": "growth", "budget_bytes": MIB, "reached_bytes": 2 * MIB, "since": "3", "more": 1, "passed": True}),
    ("judged_before", {"later": 56, "window": "41"}),
    ("budget_exceeded", {"metric": "reserved", "budget_bytes": MIB, "reached_bytes": 2 * MIB, "line": 7, "passed": True}),
    ("budget_exceeded", {"metric": "peak", "budget_bytes": MIB, "reached_bytes": 2 * MIB, "line": 7, "log": "a.log"}),
    ("held_then", {"line": 7, "holder": "feats[*] (main, train.py)", "held_bytes": MIB, "live_bytes": 4 * MIB, "blocks": 4, "more_bytes": KIB, "since_line": 3}),
    ("held_then", {"line": 7, "holder": "optimizer adam (main, train.py)", "held_bytes": MIB, "blocks": 1}),
    ("oom_messages", {"messages": 2}),
    ("nothing_read", {}),
    ("no_events_yet", {"lines": 1}),
    ("no_blocks_yet", {"count": 2}),
    ("log_replaced", {"times": 1}),
    ("log_rotated", {"times": 2}),
    ("block", {"size_bytes": KIB, "alloc_line": 3, "owner": "f", "free_line": 9, "freed_by": "g"}),
    ("block", {"size_bytes": KIB, "freed": False}),
    ("lifetime", {"life_events": 9, "life_us": 250}),
    ("allocated_meanwhile", {"meanwhile_bytes": KIB}),
    ("allocated_meanwhile", {"meanwhile_bytes": 0}),
    ("live_at_peak", {"at_peak": False}),
    ("replay_differs", {"line": 7, "difference": "a in the log, b in the replay"}),
    ("log_cut_short", {}),
    ("needs_as_set", {**NEEDS, "others": 3}),
    ("setting_needs_less", {**NEEDS, "setting": SETTING, "saved_bytes": MIB, "as_set_bytes": MIB, "as_set_most_bytes": MIB, "chunks": 3, "chunks_as_set": 2}),
    ("fewer_chunks", {**NEEDS, "setting": SETTING, "chunks": 2, "reserves": True}),
    ("no_setting_needs_less", {"live_peak_bytes": MIB + 1, "limit_bytes": MIB, "exact": True}),
    ("completes_as_set", {**WITHIN, **NEEDS, "within": True}),
    ("ran_out", {"line": 9}),
    ("depends_as_set", {"limit_bytes": MIB, "completing": 3, "replays": 8}),
    ("fails_as_set", {**NEEDS, "limit_bytes": MIB, "line": 9, "requested_bytes": KIB, "free_bytes": MIB, "largest_free_bytes": 512}),
    ("fails_as_set", {"limit_bytes": MIB}),
    ("setting_helps", {**WITHIN, **NEEDS, "setting": SETTING, "told": True}),
    ("others_help", {"others": 2, "chunks": 3, "setting": SETTING}),
    ("no_setting_helps", {"live_peak_bytes": MIB, "over_bytes": KIB}),
    ("no_setting_surely_helps", {"others": 3, "setting": SETTING, "completing": 1, "replays": 8, "limit_bytes": MIB, "limit_most_bytes": 2 * MIB}),
    ("others_need_less", {"better": 1, "others": 2, "processes": True}),
    ("remedy", {"setting": SETTING, "limit_bytes": MIB}),
    ("no_remedy", {"live_peak_bytes": MIB}),
    ("no_sure_remedy", {"others": 3, "limit_bytes": MIB}),
    ("device", {"device": "device 1"}),
    ("peaks_of_others", {"peaks_bytes": {"device 0": 512, "CPU": MIB}, "more": 1}),
    ("logs_out_of_memory", {"count": 2, "logs": ["a", "b"]}),
    ("logs_growing", {"logs": ["a"]}),
    ("logs_peaks", {"count": 3, "known": 3, "peak_bytes": MIB, "log": "a", "lowest_bytes": KIB, "lowest": "b"}),
    ("logs_peaks", {"count": 3, "peak_bytes": MIB, "log": "a", "lowest_bytes": KIB, "lowest": "b", "as_low": 2}),
    ("logs_peaks", {"count": 2, "known": 2, "peak_bytes": MIB, "log": "a"}),
    ("logs_peaks", {"count": 2, "known": 1, "peak_bytes": MIB, "log": "a"}),
    ("logs_analyzed", {"count": 2}),
    ("logs_not_analyzed", {"count": 1}),
    ("logs_in_doubt", {"count": 2}),
]  # fmt: skip
#: Of two runs: blocks that both have.
OF_BOTH: list[tuple[str, dict[str, Any]]] = [
    ("explains_most", {"finding": "elsewhere", "size_bytes": MIB, "blocks": 1, "owner": "f < g", "d_bytes": -3 * MIB, "explained_bytes": -2 * MIB}),
    ("explains_most", {"finding": "elsewhere", "size_bytes": KIB, "blocks": 2, "d_bytes": 3 * KIB, "explained_bytes": 2 * KIB, "at_peak": True, "base_blocks": 1, "head_blocks": 3}),
]  # fmt: skip

ASKED = {"line": 9, "ended": True, "requested_bytes": 64 * MIB}
#: Sentences of a failure by what is known of it.
FAILURES: list[dict[str, Any]] = [
    {"line": 9, "cause": "unknown", "owner": "conv < f"},
    {**ASKED, "allocated_bytes": MIB, "device_free_bytes": KIB, "cause": "too much", "alone": True},
    {**ASKED, "allocated_bytes": MIB, "reserved_bytes": 2 * MIB, "free_bytes": MIB, "gaps": 2, "largest_gap_bytes": 512, "cause": "fragmented"},
    {**ASKED, "device_free_bytes": 0, "limit_bytes": MIB, "cause": "too much", "never_fits": True, "device": "GPU 1", "failures": 3, "place": "one"},
    {**ASKED, "device_free_bytes": 0, "device_total_bytes": 8 * MIB, "elsewhere_bytes": MIB, "cause": "another process"},
]  # fmt: skip


def test_the_words_of_each_kind_read_as_approved(golden: Callable[[str, str], None]) -> None:
    texts = [(kind, Claim(kind, Weight.PEAK, values).text) for kind, values in (*TEXTS, *OF_BOTH)]
    failures = [str(answer_of([Claim("out_of_memory", Weight.FAILURE, values)])) for values in FAILURES]
    texts += [("out_of_memory", text) for text in failures]
    golden("words.txt", "".join(f"{kind}: {text}\n" for kind, text in texts))


def test_no_sentence_on_one_log_is_too_long_to_be_read_at_once() -> None:
    """Names of four words, two flags of a setting, and figures of eight characters."""
    claims = [Claim(kind, Weight.PEAK, values) for kind, values in TEXTS]
    claims += [Claim("out_of_memory", Weight.FAILURE, values) for values in FAILURES]
    for claim in claims:
        for sentence in answer_of([claim]).sentences:
            assert len(sentence.split()) <= MOST_WORDS, sentence


def test_a_run_is_named_first() -> None:
    named = Claim("out_of_memory", Weight.FAILURE, {**FAILURES[0], "run": "run.log"})
    assert str(answer_of([named])).startswith("run.log ran out of memory at line 9")


def test_every_kind_has_a_text_here() -> None:
    assert sorted({kind for kind, _ in TEXTS} | {"out_of_memory"}) == sorted(WORDS)
