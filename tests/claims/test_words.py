"""One text of each kind of claim on one run, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from memlens.claims.claim import Claim, Weight, answer_of
from memlens.claims.words import WORDS

KIB, MIB = 1 << 10, 1 << 20
STEPS = {"windows": 19, "unit": "step"}
NEEDS = {"needs_bytes": 7 * MIB, "needs_most_bytes": 8 * MIB, "reserves": False}
WITHIN = {"limit_bytes": 8 * MIB, "refused": True, "refused_line": 9}
SETTING = "export FLAGS_x=1"
TEXTS: list[tuple[str, dict[str, Any], str]] = [
    ("in_doubt", {"doubts": ["half_line", "no_such"]}, "in doubt (the last line is cut, no such)"),
    ("run_ended", {"how": "cut", "unit": "step", "window": "17", "line": 6940}, "the log stops inside window 17, at line 6,940"),
    ("run_ended", {"how": "cut", "unit": "step", "after": "STEP 16", "line": 9},
     "the log stops inside the step after STEP 16, at line 9"),
    ("run_ended", {"how": "death", "what": "SIGSEGV", "at_exit": True, "line": 9}, "the run died of SIGSEGV at exit, at line 9"),
    ("run_ended", {"how": "exception", "line": 9}, "the run ended with a Python exception, at line 9"),
    ("peak_may_come_later", {"entries": True}, "the recording ends near its peak, so the true peak may come later"),
    ("peak_may_come_later", {"inside": True, "unit": "step"},
     "the log ends inside this step, so the true peak may come later"),
    ("growing", {**STEPS, "since": "7", "gained_each_bytes": 1536, "gained_bytes": MIB, "last_windows": 12},
     "memory grows from window 7 on: 1.50 KiB a step, 1.00 MiB in all over the last 12 of 19 steps"),
    ("growing", {**STEPS, "since": "STEP 7", "gained_each_bytes": 1536, "every": 5, "gained_bytes": MIB},
     "memory grows from STEP 7 on: 1.50 KiB every 5 steps, 1.00 MiB in all over 19 steps"),
    ("piling_up", {"blocks": 1, "block_bytes": KIB, "total_bytes": KIB, "gained_bytes": 4 * KIB, "owner": "f < g"},
     "above all 1 block of 1.00 KiB (25%) by f"),
    ("piling_up", {"blocks": 2, "block_bytes": KIB, "most": True, "phase": "FORWARD", "owner": "f", "ties": 1},
     "most of it in 2 blocks of 1.00 KiB by f allocated in FORWARD, and as many bytes in 1 other group"),
    ("piling_up", {"blocks": 2, "block_bytes": KIB, "beyond": True, "before_phases": True},
     "2 blocks of 1.00 KiB allocated before the first phase pile up"),
    ("no_size_piles_up", {}, "and no blocks of one size pile up"),
    ("live_not_growing", {**STEPS, "rose": True}, "what is live after each step does not keep growing over 19 steps"),
    ("level_growing", {"level": "peak", "unit": "step", "since": "(before)", "from_bytes": KIB, "to_bytes": MIB},
     "the peak of a step does from the part before the first step on, from 1.00 KiB to 1.00 MiB"),
    ("level_growing", {"level": "reserved", "since": "STEP 1", "from_bytes": 0, "to_bytes": MIB, "live_growing": True},
     "reserved grows from STEP 1 on, from 0 B to 1.00 MiB"),
    ("peak", {"peak_bytes": MIB, "reserved_bytes": 2 * MIB, "line": 1942, "window": "STEP 1", "rise_bytes": 512},
     "peak in STEP 1: 1.00 MiB allocated, 2.00 MiB reserved, at line 1,942, 512 B above what was carried in"),
    ("reserved_idle", {"reserved_peak_bytes": 3 * MIB, "peak_bytes": MIB, "line": 7},
     "up to 3.00 MiB is reserved (at line 7) for at most 1.00 MiB allocated; memlens whatif tries settings that reserve less"),
    ("reserved_idle", {"reserved_peak_bytes": 9 * MIB, "peak_bytes": MIB, "setting": SETTING, "chunks": 3, "chunks_as_set": 2, **NEEDS},
     "up to 9.00 MiB is reserved for at most 1.00 MiB allocated; with export FLAGS_x=1 the run reserves 7.00 MiB to 8.00 MiB (3 chunks, not 2)"),
    ("reserved_peak", {"reserved_peak_bytes": 2 * MIB, "line": 7, "window": "STEP 1"}, "the most reserved is 2.00 MiB in STEP 1, at line 7"),
    ("peak", {"reserved_bytes": MIB, "series": True, "since_recording": True, "at_start": True},
     "the highest peak since recording began: 1.00 MiB reserved, all of it there from the start"),
    ("peak", {"peak_bytes": MIB, "snapshot": True, "at_start": True}, "live when the snapshot was taken: 1.00 MiB allocated"),
    ("peak", {"peak_bytes": MIB, "earlier_unknown": True, "line": 3, "entries": True},
     "peak without what was there before the log: 1.00 MiB allocated, at entry 3"),
    ("largest_at_peak", {"total_bytes": KIB, "peak_bytes": MIB, "blocks": 2, "block_bytes": 512},
     "1.00 KiB (<1%) of it in 2 blocks of 512 B"),
    ("largest_at_peak", {"total_bytes": KIB, "peak_bytes": MIB, "blocks": 2, "before_input": True, "no_stack": True, "ties": 2},
     "1.00 KiB (<1%) of it in 2 blocks without a stack, allocated before recording began, and as many bytes in 2 other groups"),
    ("no_event", {"windows": 9}, "no event lies in any of the 9 windows, so nothing can be said of it"),
    ("no_event", {}, "no event lies in this window, so nothing can be said of it"),
    ("shrinking", STEPS, "memory shrinks over 19 steps"),
    ("rose_late", {**STEPS, "rose_bytes": MIB, "rose_windows": 1},
     "memory rises by 1.00 MiB in the last of 19 steps, too few to judge"),
    ("rose", {**STEPS, "times": 1, "rises_bytes": {"STEP 7": 394 * KIB}, "stays": True},
     "over 19 steps memory rises once and stays there: by 394.00 KiB in STEP 7"),
    ("rose", {**STEPS, "times": 2, "rises_bytes": {"STEP 7": KIB, "8": MIB}},
     "over 19 steps memory rises 2 times: by 1.00 KiB in STEP 7, by 1.00 MiB in window 8"),
    ("rose", {**STEPS, "from_bytes": KIB, "to_bytes": MIB, "rising_windows": 3, "rose_from": "STEP 1", "rose_until": "STEP 3", "warm_up": True, "stays": True},
     "memory rises from 1.00 KiB to 1.00 MiB in 3 of 19 steps (STEP 1 to STEP 3, warm-up) and stays there"),
    ("rose", {**STEPS, "from_bytes": KIB, "to_bytes": MIB, "rising_windows": 16, "rose_from": "STEP 1", "rose_until": "STEP 16"},
     "memory rises from 1.00 KiB to 1.00 MiB in 16 of 19 steps (STEP 1 to STEP 16), not steadily"),
    ("not_growing", {**STEPS, "lowest_bytes": 512, "highest_bytes": KIB}, "memory does not grow over 19 steps: it swings between 512 B and 1.00 KiB"),
    ("uneven", {**STEPS, "lowest_bytes": 512, "highest_bytes": KIB},
     "memory swings between 512 B and 1.00 KiB over 19 steps, too unevenly to tell whether it grows"),
    ("sawtooth", {**STEPS, "lowest_bytes": 512, "highest_bytes": KIB, "period": 5},
     "memory does not grow over 19 steps: it rises and falls between 512 B and 1.00 KiB every 5 steps"),
    ("live_at_end", {"live_bytes": MIB, "blocks": 2}, "1.00 MiB in 2 blocks is live at the end"),
    ("nothing_live_at_end", {"grows": True}, "the leaked memory is freed only at exit"),
    ("nothing_live_at_end", {"grows": False}, "everything is freed at the end"),
    ("nothing_live_at_end", {"exit_bytes": KIB}, "everything is freed at the end, 1.00 KiB of it after the last allocation"),
    ("held_in_window", {"held_bytes": MIB, "blocks": 1}, "1.00 MiB allocated in it is not freed in it: 1 block"),
    ("nothing_held_in_window", {}, "every block allocated in it is freed in it"),
    ("growth_not_judged", {"steps": 3}, "growth is not judged: 3 complete steps tell too little"),
    ("growth_not_judged", {"parts": True, "by": True}, "only parts of steps found; growth not checked (use --by)"),
    ("growth_not_judged", {"by": True}, "no step lines found; growth not checked (use --by)"),
    ("growth_not_judged", {"by": False, "entries": True}, "no annotated steps found; growth not checked"),
    ("growth_not_judged", {"whole": True}, "growth not checked (--whole)"),
    ("events", {"events": 1942}, "1,942 events analyzed"),
    ("budget_exceeded", {"metric": "growth", "budget_bytes": MIB, "reached_bytes": 2 * MIB, "since": "3", "more": 1, "passed": True},
     "what the windows gain exceeds 1.00 MiB: 2.00 MiB, from window 3 on, for a time and not at the end (1 more budget exceeded)"),
    ("budget_exceeded", {"metric": "peak", "budget_bytes": MIB, "reached_bytes": 2 * MIB, "line": 7, "log": "a.log"},
     "a.log: the peak exceeds 1.00 MiB: 2.00 MiB, at line 7"),
    ("oom_messages", {"messages": 2}, "2 out-of-memory messages"),
    ("nothing_read", {}, "nothing was read: nothing is written yet"),
    ("no_events_yet", {"lines": 1}, "no event of an allocator in 1 line"),
    ("no_blocks_yet", {"count": 2}, "of 2 logs none has told of a block"),
    ("log_replaced", {"times": 1}, "the file was replaced by that of another run 1 time; this is of the last one"),
    ("log_rotated", {"times": 2},
     "the log went on in a new file 2 times, so that earlier parts may be gone; this is of all that was read"),
    ("block", {"size_bytes": KIB, "alloc_line": 3, "owner": "f", "free_line": 9, "freed_by": "g"},
     "1.00 KiB, allocated at line 3 by f, freed at line 9 after g"),
    ("block", {"size_bytes": KIB, "freed": False}, "1.00 KiB, live before the input begins, never freed"),
    ("lifetime", {"life_events": 9, "life_us": 250}, "it lives for 9 events to the end of the log (0.25 ms)"),
    ("allocated_meanwhile", {"meanwhile_bytes": KIB}, "1.00 KiB in other blocks are allocated meanwhile"),
    ("allocated_meanwhile", {"meanwhile_bytes": 0}, "nothing else is allocated meanwhile"),
    ("live_at_peak", {"at_peak": False}, "it is not live at the peak"),
    ("replay_differs", {"line": 7, "difference": "a in the log, b in the replay"},
     "nothing can be said of other settings: replayed as it was set, this run differs from its log at line 7: a in the log, b in the replay"),
    ("log_cut_short", {}, "the log is cut short: what the run did later is not known"),
    ("needs_as_set", {**NEEDS, "others": 3},
     "as it was set this run completes within 7.00 MiB to 8.00 MiB; of 3 other settings none surely needs less"),
    ("setting_needs_less", {**NEEDS, "setting": SETTING, "saved_bytes": MIB, "as_set_bytes": MIB, "as_set_most_bytes": MIB, "chunks": 3, "chunks_as_set": 2},
     (f"with {SETTING} this run completes within 7.00 MiB to 8.00 MiB, at least 1.00 MiB less than as it was set (1.00 MiB), taking 3 chunks"
     " from the device and not 2")),
    ("fewer_chunks", {**NEEDS, "setting": SETTING, "chunks": 2, "reserves": True},
     f"with {SETTING} it takes 2 and reserves 7.00 MiB to 8.00 MiB"),
    ("no_setting_needs_less", {"live_peak_bytes": MIB + 1, "limit_bytes": MIB, "exact": True},
     "no setting needs less than 1,048,577 bytes, the most bytes live at once"),
    ("completes_as_set", {**WITHIN, **NEEDS, "within": True},
     "as it was set this run gets past its failure at line 9 within 8.00 MiB: up to there it needs 7.00 MiB to 8.00 MiB"),
    ("ran_out", {"line": 9}, "this run ran out of memory at line 9"),
    ("depends_as_set", {"limit_bytes": MIB, "completing": 3, "replays": 8},
     "as it was set this run completes within 1.00 MiB only where addresses are kind (3 of 8 replays)"),
    ("fails_as_set", {**NEEDS, "limit_bytes": MIB, "line": 9, "requested_bytes": KIB, "free_bytes": MIB, "largest_free_bytes": 512},
     ("as it was set this run fails within 1.00 MiB (it needs 7.00 MiB to 8.00 MiB) at line 9, where 1.00 KiB are asked for and 1.00 MiB"
     " are free, at most 512 B in one piece")),
    ("fails_as_set", {"limit_bytes": MIB}, "as it was set this run fails within 1.00 MiB: as much is reserved before its log begins"),
    ("setting_helps", {**WITHIN, **NEEDS, "setting": SETTING, "told": True},
     f"with {SETTING} it gets past that within 8.00 MiB, though not within all limits from there to 8.00 MiB"),
    ("others_help", {"others": 2, "chunks": 3, "setting": SETTING},
     f"so it does with 2 other settings, and takes 3 with {SETTING}"),
    ("no_setting_helps", {"live_peak_bytes": MIB, "over_bytes": KIB},
     "no setting can help: 1.00 MiB are live at once, 1.00 KiB more than the limit"),
    ("no_setting_surely_helps", {"others": 3, "setting": SETTING, "completing": 1, "replays": 8, "limit_bytes": MIB, "limit_most_bytes": 2 * MIB},
     (f"of 3 other settings none surely completes; with {SETTING} 1 of 8 replays do; the device had 1.00 MiB to 2.00 MiB, and --memory SIZE"
     " says how much")),
    ("others_need_less", {"better": 1, "others": 2, "processes": True},
     "1 of 2 other processes would need less with another setting too"),
    ("remedy", {"setting": SETTING, "limit_bytes": MIB}, f"{SETTING} would have carried it on within 1.00 MiB"),
    ("no_remedy", {"live_peak_bytes": MIB}, "no setting would have carried it on: 1.00 MiB live at once were refused"),
    ("no_sure_remedy", {"others": 3, "limit_bytes": MIB},
     "of 3 settings of the allocator none would surely have carried it on within 1.00 MiB"),
    ("device", {"device": "device 1"}, "device 1"),
    ("peaks_of_others", {"peaks_bytes": {"device 0": 512, "CPU": MIB}, "more": 1},
     "peaks of the others: device 0 512 B, CPU 1.00 MiB and 1 more device"),
    ("logs_out_of_memory", {"count": 2, "logs": ["a", "b"]}, "2 logs ran out of memory: a, b"),
    ("logs_growing", {"logs": ["a"]}, "memory grows in a"),
    ("logs_peaks", {"count": 3, "known": 3, "peak_bytes": MIB, "log": "a", "lowest_bytes": KIB, "lowest": "b"},
     "of 3 logs the highest peak is 1.00 MiB in a, the lowest 1.00 KiB in b"),
    ("logs_peaks", {"count": 2, "known": 2, "peak_bytes": MIB, "log": "a"}, "all of 2 logs have the same peak, 1.00 MiB"),
    ("logs_peaks", {"count": 2, "known": 1, "peak_bytes": MIB, "log": "a"}, "peak 1.00 MiB in a"),
    ("logs_analyzed", {"count": 2}, "2 logs analyzed"),
    ("logs_not_analyzed", {"count": 1}, "1 log could not be analyzed"),
    ("logs_in_doubt", {"count": 2}, "2 logs are in doubt"),
]  # fmt: skip

ASKED = {"line": 9, "ended": True, "requested_bytes": 64 * MIB}
#: Sentences of a failure by what is known of it.
FAILURES: list[tuple[dict[str, Any], str]] = [
    ({"line": 9, "cause": "unknown", "owner": "conv < f"}, " at line 9 in conv, and went on (how much was asked for is not in the log)"),
    ({**ASKED, "allocated_bytes": MIB, "device_free_bytes": KIB, "cause": "too much", "alone": True},
     " at line 9: 64.00 MiB were asked for, and 1.00 MiB were allocated, with 1.00 KiB left on the device (too much asked for)"),
    ({**ASKED, "allocated_bytes": MIB, "reserved_bytes": 2 * MIB, "free_bytes": MIB, "gaps": 2, "largest_gap_bytes": 512, "cause": "fragmented"},
     (" at line 9: 64.00 MiB were asked for, and 1.00 MiB of the 2.00 MiB reserved were in use; 1.00 MiB were free inside chunks, but in"
     " pieces of at most 512 B (fragmented)")),
    ({**ASKED, "device_free_bytes": 0, "limit_bytes": MIB, "cause": "too much", "never_fits": True, "device": "GPU 1", "failures": 3, "place": "one"},
     (" on GPU 1 at line 9: 64.00 MiB were asked for, and there were 0 B left of the 1.00 MiB that FLAGS_gpu_memory_limit_mb allows (more than"
     " the limit of the process; one of 3 failures)")),
    ({**ASKED, "device_free_bytes": 0, "device_total_bytes": 8 * MIB, "elsewhere_bytes": MIB, "cause": "another process"},
     (" at line 9: 64.00 MiB were asked for, and there were 0 B left on the device; 1.00 MiB of the device's 8.00 MiB were neither free nor"
     " reserved by this run (another process)")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "text"), TEXTS, ids=[f"{kind}-{k}" for k, (kind, *_) in enumerate(TEXTS)])
def test_the_text_of_a_claim(kind: str, values: dict[str, Any], text: str) -> None:
    assert Claim(kind, Weight.PEAK, values).text == text


@pytest.mark.parametrize(("values", "text"), FAILURES)
def test_the_sentence_of_a_failure(values: dict[str, Any], text: str) -> None:
    assert str(answer_of([Claim("out_of_memory", Weight.FAILURE, values)])) == f"Ran out of memory{text}."
    named = Claim("out_of_memory", Weight.FAILURE, {**values, "run": "run.log"})
    assert str(answer_of([named])) == f"run.log ran out of memory{text}."


def test_every_kind_has_a_text_here() -> None:
    assert sorted({kind for kind, *_ in TEXTS} | {"out_of_memory"}) == sorted(WORDS)
