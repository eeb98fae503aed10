"""``memlens.whatif`` on runs of a made-up allocator: figures by single replays or by arithmetic, claims held against unseen worlds."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from made_allocator import DEFAULTS, MODEL, history_of, made_log, program_of, random_program, recorded, run_made
from msgspec import structs
from night import chance_of
from whatif_worlds import judge_case

import memlens
from memlens.allocators import engine, registry
from memlens.allocators.history import NotReplayable, RequestHistory
from memlens.allocators.models import AllocatorRules, Values
from memlens.allocators.placing import Addresses
from memlens.errors import InputError, UsageError
from memlens.replaying import run, trials
from memlens.replaying.result import MemoryRange, ReplayedLog
from memlens.replaying.trials import PLACEMENTS
from memlens.text import format_bytes, parse_bytes

KIB = 1024


def only(log: memlens.EventLog, **options: object) -> ReplayedLog:
    (found,) = memlens.whatif(log, **options).logs  # type: ignore[arg-type]
    return found


#: 3 and 5 KiB are freed, then 8 KiB are asked for: chunks do not join, so 16 KiB are reserved where 8 live at once.
SPLIT = program_of([3 * KIB, 5 * KIB, "#0", "#1", 8 * KIB])


def test_a_setting_that_joins_what_is_free_needs_less_by_as_much() -> None:
    found = only(made_log(recorded(SPLIT)))
    by_values = {repr(dict(trial.values)): trial for trial in found.trials}
    assert found.proof.holds
    assert (found.proof.chunks, found.proof.chunks_alike, found.proof.addresses) == (3, 3, 3)
    assert found.live_peak_bytes == 8 * KIB
    assert by_values["{}"].reserved_peak.high_bytes == 16 * KIB
    # Given back at once, or when the device refuses: 8 KiB at a time.
    assert by_values["{'free_idle': True}"].reserved_peak.high_bytes == 8 * KIB
    assert by_values["{'relief': True}"].reserved_peak.high_bytes == 16 * KIB
    assert by_values["{'relief': True}"].completes == MemoryRange(8 * KIB, 8 * KIB)
    # One chunk of 16 KiB holds all of it, and one of 64 KiB too.
    assert by_values["{'chunk_kib': 16}"].reserved_peak.high_bytes == 16 * KIB
    assert by_values["{'chunk_kib': 64}"].reserved_peak.high_bytes == 64 * KIB
    assert by_values["{'free_idle': True}"].better
    assert by_values["{'relief': True}"].better
    assert not by_values["{'chunk_kib': 16}"].better
    assert found.verdict == (
        "With MADE_free_idle=True this run completes within 8.00 KiB, 8.00 KiB less than as configured (16.00 KiB)."
        " No setting needs less than 8.00 KiB, the most bytes live at once."
    )
    assert (by_values["{'free_idle': True}"].taken, by_values["{'free_idle': True}"].given_back) == (3, 2)


def test_a_setting_that_takes_many_more_chunks_is_said_to_and_one_that_does_not_is_named() -> None:
    # Ten times 3 KiB, given back each time: one chunk serves them all, but where idle ones go at once each takes its own.
    program = program_of(
        [*(part for k in range(10) for part in (3 * KIB, f"#{k}")), 3 * KIB, 5 * KIB, "#10", "#11", 8 * KIB]
    )
    found = only(made_log(recorded(program)))
    assert found.own is not None
    assert found.best is not None
    assert (found.own.taken, found.best.taken) == (3, 13)
    assert found.verdict.startswith(
        "With MADE_free_idle=True this run completes within 8.00 KiB, 8.00 KiB less than as configured (16.00 KiB);"
        " it makes 13 device allocations instead of 3 (slower). With MADE_relief=True it makes 3 device allocations and completes within 8.00 KiB. "
    )
    limited = only(made_log(recorded(program)), memory=12 * KIB)
    assert "it completes within 12.00 KiB: it needs 8.00 KiB; it makes 13 device allocations" in limited.verdict
    assert "1 other setting helps too" in limited.verdict


def test_a_limit_says_where_the_run_fails_and_with_what_free() -> None:
    found = only(made_log(recorded(SPLIT)), memory=12 * KIB)
    own = found.own
    assert own is not None
    assert own.within_limit == "fails"
    assert own.refused is not None
    assert structs.astuple(own.refused) == (5, 8 * KIB, 8 * KIB, 8 * KIB, 5 * KIB)
    assert found.verdict.startswith(
        "As configured this run fails within 12.00 KiB at line 5. It requests 8.00 KiB there, and 8.00 KiB are free, at most 5.00 KiB in one piece."
        " With MADE_free_idle=True it completes within 12.00 KiB: it needs 8.00 KiB; 1 other setting helps too."
    )
    assert [trial.within_limit for trial in found.trials[:2]] == ["completes", "completes"]


def test_settings_of_a_log_that_the_allocator_refuses_are_an_error_of_that_log(monkeypatch: pytest.MonkeyPatch) -> None:
    model = structs.replace(MODEL, rules=refusing)
    monkeypatch.setattr(registry, "built_in", lambda: (model,))
    log = made_log(recorded(SPLIT, chunk_kib=16))
    with pytest.raises(InputError) as caught:
        memlens.whatif(log)
    assert caught.value.message == "made.log: cannot be replayed: not 16"
    with pytest.raises(UsageError, match=r"^made\.log: cannot be replayed: "):
        memlens.whatif(log, own="free_idle=on")


def refusing(history: RequestHistory, values: Values) -> AllocatorRules:
    if values["chunk_kib"] == 16:
        raise UsageError("not 16")
    return MODEL.rules(history, values)


def test_what_no_setting_can_beat_is_of_those_too_that_were_not_tried() -> None:
    # 512 bytes behind each block are what this run had set: without them 8 KiB live at once, and 8.5 would do.
    found = only(made_log(recorded(SPLIT, padding=512)), settings="relief=on", memory=8 * KIB + 100)
    assert found.live_peak_bytes == 8 * KIB
    assert found.beyond_bytes == 0
    assert "No setting can help" not in found.verdict


def test_of_a_run_that_ended_in_a_failure_nothing_is_said_to_complete() -> None:
    # What it would have asked for next is in no log.
    history = recorded(SPLIT, limit=12 * KIB)
    enough = only(made_log(history), memory=16 * KIB).verdict
    assert enough.startswith(
        "As configured this run gets past its failure at line 5 within 16.00 KiB: up to there it needs 16.00 KiB."
    )
    fails = only(made_log(history), memory=15 * KIB).verdict
    assert "With MADE_free_idle=True it gets past its failure at line 5 within 15.00 KiB: up to there it" in fails
    assert not [text for text in (enough, fails) if "complete" in text]


def test_figures_that_read_alike_and_are_not_are_written_to_the_byte() -> None:
    # 10,000 KiB need 9.77 MiB, which is less when it is read from the screen.
    program = program_of([4000 * KIB, 6000 * KIB])
    limit = parse_bytes("9.77MiB")
    assert limit == 10_244_588  # 9.77 * 1048576, and 10,240,000 bytes are needed: enough
    found = only(made_log(recorded(program)), memory=10_239_999)
    assert found.verdict == (
        "As configured this run fails within 10,239,999 bytes (it needs 10,240,000 bytes) at line 2. It requests 5.86 MiB there, and nothing is free in"
        " chunks. No setting can help: 10,240,000 bytes are live at once, 1 B more than the limit."
    )
    enough = only(made_log(recorded(program)), memory=limit).verdict
    assert enough.startswith("As configured this run completes within 10,244,588 bytes: it needs 10,240,000 bytes.")


def test_a_limit_within_the_range_of_what_a_run_needs_is_not_said_to_be_above_it() -> None:
    """Of random runs those that complete within a limit in all replays, and within a larger one do not."""
    said = 0
    for seed in (35, 36):
        log = made_log(recorded(random_program(seed, 120), seed, relief=True))
        own = only(log).own
        assert own is not None
        assert own.completes is not None
        low, high = own.completes.low_bytes, own.completes.high_bytes
        for limit in range(low, high, max((high - low) // 6, 1)):
            found = only(log, memory=limit)
            assert found.own is not None
            if found.own.within_limit == "completes":
                said += 1
                more = f", though not within all limits from there to {format_bytes(high)}."
                assert found.verdict.startswith(f"As configured this run completes within {format_bytes(limit)}{more}")
    assert said


def test_a_run_that_ran_out_of_memory_is_held_against_what_it_had() -> None:
    history = recorded(SPLIT, limit=12 * KIB)
    assert history.failed.tolist() == [4]
    found = only(made_log(history))
    # Chunks of 3 and 5 KiB are reserved then; of the 12 KiB that the device has 4 are free beside them.
    assert (found.limit_bytes, found.limit_from, found.refused_line) == (8 * KIB, "log", 5)
    assert (found.device_free_bytes, found.limit_most_bytes) == (4 * KIB, 12 * KIB)
    assert found.verdict.startswith(
        "This run ran out of memory at line 5. With MADE_free_idle=True it gets past that within 8.00 KiB: up to there it needs 8.00 KiB"
    )
    unknown = only(made_log(structs.replace(history, limit_bytes=None)))
    # Without the limit the proof cannot see the refusal: it differs there, and nothing is said.
    assert not unknown.proof.holds
    assert not unknown.trials


def test_a_replay_that_differs_names_the_first_difference_and_promises_nothing() -> None:
    history = recorded(SPLIT)
    address = history.address.copy()
    address[1] += np.uint64(256)
    whatif = memlens.whatif(made_log(structs.replace(history, address=address)))
    (found,) = whatif.logs
    assert not whatif.proved
    assert (found.proof.addresses, found.proof.addresses_alike, found.proof.line) == (3, 2, 2)
    assert found.verdict.startswith(
        "Nothing is known of other settings. Replayed as configured, this run differs from its log at line 2: its block at 0x"
    )
    assert found.trials == ()
    assert found.live_peak_bytes is None
    assert whatif.rows() == []


def test_a_log_that_cannot_be_replayed_says_why() -> None:
    log = made_log(NotReplayable("it begins late", "Record it from its start."))
    with pytest.raises(InputError) as caught:
        memlens.whatif(log)
    assert caught.value.message == "made.log: cannot be replayed: it begins late"
    assert caught.value.hint == "Record it from its start."


@pytest.mark.parametrize("seed", range(5))
def test_peaks_and_limits_are_those_of_single_replays(seed: int) -> None:
    history = recorded(random_program(seed, 100), seed, relief=True)
    found = only(made_log(history))
    asked = history_of(random_program(seed, 100))
    asked = structs.replace(asked, changes=history.changes)
    for trial in found.trials:
        values = {**DEFAULTS, "relief": True, **trial.values}
        peaks = [run_made(asked, values, addresses).reserved_peak for addresses in PLACEMENTS]
        assert (trial.reserved_peak.low_bytes, trial.reserved_peak.high_bytes) == (min(peaks), max(peaks))
        assert trial.completes is not None
        for addresses in PLACEMENTS:
            for limit in (trial.completes.high_bytes, trial.completes.high_bytes + KIB, max(peaks)):
                assert run_made(asked, values, addresses, limit).completed
        least = trial.completes.low_bytes
        assert any(run_made(asked, values, addresses, least).completed for addresses in PLACEMENTS)


@pytest.mark.parametrize("seed", range(5))
def test_limits_of_a_long_history_go_on_from_the_replays_that_found_its_peaks(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_OPERATIONS", 0)
    log = made_log(recorded(random_program(seed, 100), seed, relief=True))
    begun: list[object] = []

    def counted(history: RequestHistory, rules: AllocatorRules, addresses: Addresses, lowest: int) -> object:
        begun.append((rules.growth.tobytes(), rules.idle, addresses))
        return engine.replays_within(history, rules, addresses, lowest)

    monkeypatch.setattr(trials, "replays_within", counted)
    found = only(log)
    assert 0 < len(begun) == len(set(begun))  # none is begun once more to look at its limits

    def anew(history: RequestHistory, rules: AllocatorRules, addresses: Addresses, _: int) -> object:
        return lambda limit: engine.replay(history, rules, addresses=addresses, limit=limit)

    monkeypatch.setattr(trials, "replays_within", anew)
    assert only(log) == found


@pytest.mark.parametrize("seed", range(20))
def test_the_most_bytes_live_at_once_are_those_of_adding_up_at_each_moment(seed: int) -> None:
    program = random_program(seed)
    history, live, highest = history_of(program), dict[int, int](), 0
    for at, (size, of) in enumerate(zip(program.size, program.of, strict=True)):
        if of < 0:
            live[at] = -(-size // 256) * 256
        else:
            del live[of]
        highest = max(highest, sum(live.values()))
    assert trials.live_peak(history, -(-history.size // 256) * 256) == highest


def test_claims_hold_in_worlds_that_the_verb_has_not_seen() -> None:
    """With fresh seeds: what is said to complete, to fail or to be better does so, but for few replays in a hundred; and such claims are made."""
    counts: Counter[str] = Counter()
    first = chance_of("worlds").randrange(1 << 20)
    for seed in range(first, first + 10):
        judge_case(seed, 4, counts)
    for claim in ("would have completes", "would have fails", "completes from there on", "better"):
        assert counts[claim] > 20, (first, claim)
        assert counts[f"{claim}: wrong"] <= 0.05 * counts[claim], (first, claim, counts)


def test_an_interrupt_ends_the_work_with_the_next_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    replays = 0
    original = engine.replay

    def interrupted(*given: object, **more: object) -> object:
        nonlocal replays
        replays += 1
        if replays == 10:
            raise KeyboardInterrupt
        return original(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(trials, "replay", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memlens.whatif(made_log(recorded(random_program(1, 60))))
    assert replays < 40  # of several hundred


def test_an_error_in_one_thread_is_the_one_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    original = engine.replay

    def failing(history: object, rules: AllocatorRules, **more: object) -> object:
        if rules.growth.min() >= 64 * KIB:
            raise UsageError("too large")
        return original(history, rules, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(trials, "replay", failing)
    with pytest.raises(UsageError, match="too large"):
        memlens.whatif(made_log(recorded(random_program(1, 60))))


def test_each_device_of_an_input_gets_its_answer_and_one_that_cannot_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = NotReplayable("it begins late", "Record it whole.")
    histories: tuple[RequestHistory | NotReplayable, ...] = (recorded(SPLIT), recorded(SPLIT, limit=12 * KIB), late)
    logs = [
        structs.replace(made_log(history, f"{device}.made"), device=device) for device, history in enumerate(histories)
    ]
    monkeypatch.setattr("memlens.replaying.run.Reading.read_all", lambda *_: tuple(logs))
    whatif = memlens.whatif("two.pickle")
    assert [log.path for log in whatif.logs] == ["two.pickle [device 0]", "two.pickle [device 1]"]
    assert [failure.path for failure in whatif.failures] == ["two.pickle [device 2]"]
    assert not whatif.proved
    # The one that ran out of memory comes first.
    assert whatif.verdict.startswith("Device 1: This run ran out of memory at line 5.")
    assert whatif.verdict.endswith("1 of 1 other device would need less with another setting too.")
    assert {row["path"] for row in whatif.rows()} == {"two.pickle [device 0]", "two.pickle [device 1]"}
    assert whatif.to_dict()["failures"][0]["hint"] == "Record it whole."
    assert "two.pickle [device 1]" in str(whatif._repr_html_())


def test_that_nothing_helps_is_not_said_of_what_the_device_may_have_had() -> None:
    # A chunk of 16 KiB is there, all of it in use but 1 KiB, and another one is refused: the device had 16 KiB to less than 32, and 18 are live at once.
    history = recorded(program_of([15 * KIB, 3 * KIB]), limit=20 * KIB, chunk_kib=16)
    found = only(made_log(structs.replace(history, limit_bytes=16 * KIB)))  # what was reserved, as its log tells
    assert (found.limit_bytes, found.limit_most_bytes, found.live_peak_bytes) == (16 * KIB, 32 * KIB - 1, 18 * KIB)
    assert "No setting can help" not in found.verdict
    assert "it could have had 16.00 KiB to 32.00 KiB, and --memory SIZE says how much." in found.verdict
    # Within what it really had the run completes.
    (best, *_) = only(made_log(history), memory=20 * KIB).trials
    assert (best.within_limit, best.values) == ("completes", {"chunk_kib": 4})


def test_that_nothing_helps_is_said_where_all_that_is_live_was_refused() -> None:
    history = recorded(program_of([15 * KIB, 3 * KIB]), limit=17 * KIB)
    found = only(made_log(structs.replace(history, limit_bytes=15 * KIB)))
    assert (found.limit_most_bytes, found.beyond_bytes) == (18 * KIB - 1, 1)
    assert "No setting can help: with what was refused 18.00 KiB are live at once." in found.verdict


def test_a_run_that_ran_out_is_said_to_have_where_its_lines_are_not_known() -> None:
    with mock.patch.object(run, "_line_at", return_value=None):
        found = only(made_log(recorded(SPLIT, limit=12 * KIB)))
    assert (found.refused, found.refused_line) == (True, None)
    assert found.verdict.startswith("This run ran out of memory. With MADE_free_idle=True it gets past that")


def test_what_was_refused_counts_from_what_was_reserved_then() -> None:
    # Idle chunks go at once: at most 15 KiB were reserved, and 6 when 12 more were refused.  All the 18 that are live then are too much.
    history = recorded(program_of([6 * KIB, 9 * KIB, "#1", 12 * KIB]), limit=17 * KIB, free_idle=True)
    found = only(made_log(structs.replace(history, limit_bytes=15 * KIB)))
    assert (found.limit_bytes, found.limit_most_bytes, found.beyond_bytes) == (15 * KIB, 18 * KIB - 1, 1)


@pytest.mark.parametrize("limit", [0, -1, "7.5GiB", float("nan")])
def test_a_limit_that_is_none_is_refused(limit: object) -> None:
    with pytest.raises(UsageError, match="no limit: "):
        only(made_log(recorded(SPLIT)), memory=limit)


def test_of_a_log_that_is_cut_short_the_verdict_says_so() -> None:
    log = made_log(recorded(SPLIT))
    cut = log.without_cache(facts=structs.replace(log.facts, cut_short="its last frame is incomplete"))
    assert only(cut).verdict.endswith(" The log is cut short: what the run did later is not known.")
    assert only(cut).to_dict()["cut_short"]
    assert "cut short" not in only(log).verdict


def test_a_limit_that_is_enough_is_said_to_be() -> None:
    found = only(made_log(recorded(SPLIT)), memory=16 * KIB)
    assert found.verdict.startswith("As configured this run completes within 16.00 KiB")
