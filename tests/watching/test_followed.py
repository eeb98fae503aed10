"""A log that is read while it grows has the figures of the finished file, whatever the pieces in which it comes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from following import analyzed, feed, pieces, said, summed, without_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import in_small_blocks
from night import NIGHT, many, some
from plain_paddle import choose_plain
from texts import mutate, read_packed

import memlens
from memlens.options import ReadAs
from memlens.watching.followed import Followed
from memlens.watching.result import LogState

HEADER = "I1120 10:22:32.856307 {} auto_growth_best_fit_allocator.cc:270] "


def event(kind: str, size: int, addr: int, thread: int = 7) -> str:
    return f"{HEADER.format(thread)}{kind} {size} bytes, ptr = {addr:#x}\n"


def followed(
    path: Path, text: bytes, chance: random.Random, count: int = 6, by: str | None = None, **how: str | Path
) -> tuple[LogState, ...]:
    """The states of a log that came in pieces."""
    log = Followed(path, by=by, how=ReadAs(**how))  # type: ignore[arg-type]
    assert not log.poll()
    for _ in feed(path, pieces(text, chance, count), log):
        log.states()
    log.flush()
    states = log.states()
    log.close()
    return states


def real_logs(shared: Path) -> list[Path]:
    folders = [shared / "data" / name for name in ("paddle", "rmm", "traps")]
    return [
        path
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.is_file() and ".stats." not in path.name and path.suffix != ".md" and "shapes" not in path.name
    ]


def assert_as_analyzed(path: Path, states: tuple[LogState, ...], by: str | None = None, **how: str | Path) -> None:
    wanted = analyzed(path, by, **how)
    found = [said(state) for state in states]
    if not wanted:
        assert all(state["allocs"] == state["frees"] == state["peak_bytes"] == 0 for state in found)
        return
    if by is None:
        found = [without_counts(state) for state in found]
    if by is not None and not wanted[0]["window_count"]:
        assert all(state.pop("by") == by for state in found)
        for state in wanted:
            del state["by"]
    assert found == wanted


def test_real_logs_in_pieces_have_the_figures_of_the_whole_file(shared: Path, tmp_path: Path) -> None:
    seen = set()
    for path in some(real_logs(shared), 8):
        chance = random.Random(path.name)
        log = tmp_path / path.name.replace(".gz", "").replace(".zst", "")
        by = chance.choice([None, r"^\[?(?:STEP|EPOCH|START)\D*(\d+)"])
        states = followed(log, read_packed(path), chance, chance.choice([2, 9]), by)
        assert_as_analyzed(log, states, by)
        seen.add(states[0].layer)
        log.unlink()
    assert seen >= ({"auto_growth", "stream_safe", "naive_best_fit", "host_stats", "rmm"} if NIGHT else {"auto_growth"})


def test_damaged_logs_in_pieces_have_the_figures_of_the_whole_file(
    shared: Path, tmp_path: Path, rounds: Callable[[int], range]
) -> None:
    small = [path for path in real_logs(shared) if path.stat().st_size < 200_000]
    for seed in rounds(8 if NIGHT else 3):
        chance = random.Random(seed)
        text = mutate(read_packed(chance.choice(small))[: chance.choice([5_000, 200_000])], chance)
        log = tmp_path / f"{seed}.log"
        with in_small_blocks(chance.choice([300, 20_000, 1 << 21]), chance.choice([1, 3])):
            states = followed(log, text, chance, chance.randint(1, 12))
        assert_as_analyzed(log, states)


def test_lines_that_come_before_what_they_name_begin_it_though_they_give_figures(tmp_path: Path) -> None:
    """The first one stands before anything is allocated: it cannot be of work that is done."""
    block = event("Alloc", 512, 0x10, 7) + event("Free", 512, 0x10, 7)
    text = "".join(f"the loss now: 0.{k}5\n" + 4 * block for k in range(9)).encode()
    chance = random.Random(7)
    states = followed(tmp_path / "run.log", text, chance, 5)
    assert [window.name for window in states[0].windows][-1] != "(after)"
    assert_as_analyzed(tmp_path / "run.log", states)


BLOCKS = st.builds(
    event,
    st.sampled_from(["Alloc", "Alloc", "Free"]),
    st.sampled_from([256, 512, 1 << 20]),
    st.sampled_from([0x10, 0x20, 0x30]),
    st.sampled_from([7, 8]),
)
NOISE = st.sampled_from(
    ["STEP 1\n", "STEP 2\n", "STEP 2 #2\n", "STEP é\n", "noise\n", "\n", "Alloc 25\n", "\r\n", "\x00\n"]
)
CHUNKS = st.sampled_from(
    [
        HEADER.format(7) + "Not found and reallocate 1024(0x7f00), and remaining 0\n",
        HEADER.format(7) + "Free chunk with size 1024\n",
    ]
)
#: Of layers whose FREEs have no size, or whose ALLOCs have it in a line before.
STREAM_SAFE = st.sampled_from(
    [
        "I1120 10:22:32.856307 7 a.cc:1] Thread 139 Allocate 512 bytes at address 0x50  , stream: 0x55\n",
        "I1120 10:22:32.856307 7 a.cc:1] Thread 139 Allocate 256 bytes at address 0x60  , stream: 0x55\n",
        "I1120 10:22:32.856307 7 a.cc:1] Try free allocation 0x50\n",
        "I1120 10:22:32.856307 7 a.cc:1] Try free allocation 0x60\n",
    ]
)
NAIVE = st.sampled_from(
    [
        "I1120 10:22:32.856307 7 naive.cc:1] Allocate 768 bytes on Place(gpu:0)\n",
        "I1120 10:22:32.856307 7 naive.cc:1]   pointer=0x60\n",
        "I1120 10:22:32.856307 7 naive.cc:1] Free pointer=0x60 on Place(gpu:0)\n",
    ]
)
TEXTS = st.sampled_from(
    [
        st.one_of(NOISE, BLOCKS),
        st.one_of(NOISE, CHUNKS, STREAM_SAFE),
        st.one_of(CHUNKS, NAIVE),
        st.one_of(NOISE, STREAM_SAFE, NAIVE),
        st.one_of(NOISE, BLOCKS, CHUNKS, STREAM_SAFE, NAIVE),
    ]
).flatmap(lambda lines: st.lists(lines, max_size=30).map("".join))


@given(TEXTS, st.randoms(use_true_random=False), st.sampled_from([1 << 21, 120]), st.booleans())
@settings(max_examples=many(250))
def test_any_log_has_the_figures_of_its_lines_at_every_look(
    tmp_path_factory: pytest.TempPathFactory, text: str, chance: random.Random, block: int, whole: bool
) -> None:
    written = (text + "x" * (not whole)).encode()
    path = tmp_path_factory.mktemp("log") / "run.log"
    log = Followed(path, by=r"STEP \S+")
    with in_small_blocks(block, 2):
        for so_far in feed(path, pieces(written, chance, chance.randint(1, 5)), log):
            lines = so_far[: so_far.rfind(b"\n") + 1]
            events, malformed = choose_plain(lines, None)
            (state,) = log.states()
            wanted = {**summed(events), "malformed": malformed, "lines": lines.count(b"\n"), "bytes": len(so_far)}
            assert {name: getattr(state, name) for name in wanted} == wanted
    log.flush()
    states = log.states()
    log.close()
    by = r"STEP \S+"
    if analyzed(path, by) and "STEP 2 #2" not in text:  # what comes later may not name what came before
        assert_as_analyzed(path, states, by)


def test_the_timeline_has_the_highest_level_of_equally_many_events(tmp_path: Path) -> None:
    chance = random.Random(3)
    path = tmp_path / "run.log"
    level, levels = 0, []
    lines = []
    for number in range(5000):
        size = 256 * chance.randint(1, 99)
        kind = "Free" if level > 1 << 20 else "Alloc"
        level += size if kind == "Alloc" else -size
        levels.append(level)
        lines.append(event(kind, size, number))
    log = Followed(path)
    for _ in feed(path, pieces("".join(lines).encode(), chance, 30), log):
        (state,) = log.states()
        width, count = state.timeline.events, state.events
        # A stretch begins at the level before it.
        wanted = [
            max([*levels[max(k - 1, 0) : k + width][: count - max(k - 1, 0)], *([0] if k == 0 else [])])
            for k in range(0, count, width)
        ]
        assert state.timeline.allocated_bytes.tolist() == wanted
        assert len(wanted) <= 512
        assert state.timeline.reserved_bytes is None
    assert width == 16  # 5000 events in 512 stretches of a power of two
    log.close()


@pytest.mark.parametrize("most", [10, 40])
def test_after_many_lines_that_may_mark_steps_what_was_found_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("memlens.watching.runs._MOST_LANDMARKS", most)
    chance = random.Random(most)
    text = event("Alloc", 256, 1)
    for k in range(300):
        text += f"STEP {k}\n" + "".join(event(kind, 256 * chance.randint(1, 9), 2) for kind in ("Alloc", "Free"))
        text += "the end\n" * chance.randint(0, 1)
    path = tmp_path / "run.log"
    assert_as_analyzed(path, followed(path, text.encode(), chance, 70))


def test_what_is_no_log_of_lines_is_refused(shared: Path, tmp_path: Path) -> None:
    snapshot = next((shared / "data" / "torch" / "snapshots").glob("*.pickle"), None)
    assert snapshot is not None
    path = tmp_path / "run.pickle"
    path.write_bytes(snapshot.read_bytes())
    log = Followed(path)
    with pytest.raises(memlens.InputError, match="cannot be followed"):
        log.flush()
    log.close()
    with pytest.raises(memlens.UsageError, match="regular expression"):
        Followed(path, by="(")
    with pytest.raises(memlens.InputError, match="cannot be followed"):
        Followed("https://example.org/run.log")
    with pytest.raises(memlens.InputError, match="is a directory"):
        Followed(tmp_path).poll()


def test_what_begins_as_no_log_of_lines_is_refused_when_that_is_certain(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [\n' * 3)
    log = Followed(path)
    assert log.poll()
    assert log.states()[0].events == 0
    with pytest.raises(memlens.InputError, match="Kineto trace"):
        log.flush()
    log.close()
