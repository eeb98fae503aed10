"""When what was read is kept, when it is taken, and what goes wrong without costing a result."""

from __future__ import annotations

import fcntl
import gzip
import http.server
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memlens
from memlens.caching import digests, keeping, logs, places
from memlens.caching.entries import read_entry, write_entry
from memlens.errors import InputError, MemlensWarning, UsageError
from memlens.events import EventLog
from memlens.facts import Facts
from memlens.inputs import Reading, paddle, read_all, registry
from memlens.options import ReadAs

pytest.importorskip("xxhash", reason="sums up what is kept")

HEADER = "I0712 10:54:13.{:06d}  1120 auto_growth_best_fit_allocator.cc:169] "


def text_of(*sizes: int) -> bytes:
    """A log of an ALLOC of each size, between lines that count steps."""
    lines = [
        f"STEP {k} START\n{HEADER.format(k)}Alloc {size} bytes, ptr = {0x1000 + k:#x}\n" for k, size in enumerate(sizes)
    ]
    return "".join(lines).encode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_bytes(text_of(1024, 2048, 4096))
    return path


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The inputs that were read, and not taken from a cache."""
    seen: list[str] = []
    form = paddle.FORMAT

    def read(source: Any, request: Any) -> Any:
        seen.append(os.path.basename(source.name))
        return form.read(source, request)

    counting = replace(form, read=read)
    for module in ("memlens.inputs", "memlens.inputs.registry"):
        monkeypatch.setattr(f"{module}.PADDLE", counting)
    monkeypatch.setattr("memlens.inputs.registry.BUILT_IN", (counting, *registry.BUILT_IN[1:]))
    return seen


def sizes(path: Path | str, cache: Path | str | None, **more: Any) -> list[int]:
    (found,) = Reading(how=ReadAs(cache=cache, **more)).read_all(path)
    values: list[int] = found.size.tolist()
    return values


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(".memlens"))


def test_a_second_look_reads_nothing(log: Path, tmp_path: Path, readings: list[str]) -> None:
    for _ in range(3):
        assert sizes(log, tmp_path / "c") == [1024, 2048, 4096]
    assert readings == ["run.log"]


def test_without_being_asked_nothing_is_kept(log: Path, tmp_path: Path, readings: list[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    for cache in (None, "off", ""):
        sizes(log, cache)
    assert (len(readings), os.listdir(tmp_path)) == (3, ["run.log"])


def test_the_variable_says_where_and_the_option_goes_before_it(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMLENS_CACHE", str(tmp_path / "named"))
    sizes(log, "off")
    assert not (tmp_path / "named").exists()
    sizes(log, None)
    sizes(log, "user")
    assert len(entries(tmp_path / "named")) == len(entries(tmp_path / "home/memlens")) == 1
    assert (tmp_path / "home/memlens").stat().st_mode & 0o777 == 0o700


def test_a_log_edited_in_place_with_its_times_put_back_is_read_again(log: Path, tmp_path: Path) -> None:
    assert sizes(log, tmp_path / "c") == [1024, 2048, 4096]
    before = log.stat()
    with log.open("r+b") as file:
        file.write(log.read_bytes().replace(b"Alloc 2048", b"Alloc 9048"))
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = log.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    assert sizes(log, tmp_path / "c") == [1024, 9048, 4096]


def test_a_copy_elsewhere_is_known_by_what_it_holds(log: Path, tmp_path: Path, readings: list[str]) -> None:
    sizes(log, tmp_path / "c")
    other = tmp_path / "other.log"
    other.write_bytes(log.read_bytes())
    (found,) = Reading(how=ReadAs(cache=tmp_path / "c")).read_all(other)
    assert (readings, found.source.name, found.trust.path) == (["run.log"], str(other), str(other))
    assert found.source.lines(found.offset[:1].tolist())[0] is not None


def test_another_version_of_the_code_reads_again(
    log: Path, tmp_path: Path, readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes(log, tmp_path / "c")
    monkeypatch.setattr(digests, "_version", lambda: "another")
    sizes(log, tmp_path / "c")
    assert len(readings) == 2


def test_the_version_is_that_of_every_line_of_code_that_reads(tmp_path: Path) -> None:
    """A copy of the package has the version of the original, until a byte of a module that reads is another one."""
    import shutil

    package = Path(memlens.__file__).parent
    shutil.copytree(package, tmp_path / "memlens", ignore=shutil.ignore_patterns("__pycache__"))

    def version(folder: Path) -> str:
        code = "import memlens.caching.digests as d; print(d.version_of_formats(None))"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
        ran = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return ran.stdout

    same = version(package.parent)
    assert version(tmp_path) == same
    for name in (
        *("inputs/paddle/events.py", "scanner/programs.py", "facts.py", "windows/landmarks.py"),
        *("folding/condenser.py", "folding/levels.py"),  # which events of a log are kept, with which figures
    ):
        path = tmp_path / "memlens" / name
        text = path.read_bytes()
        path.write_bytes(text + b"#\n")
        assert version(tmp_path) != same, name
        path.write_bytes(text)
    (tmp_path / "memlens/reports/gate.py").write_bytes(b"# it shows results, and reads nothing\n")
    assert version(tmp_path) == same


def test_changed_formats_of_users_read_again(tmp_path: Path) -> None:
    formats, log = tmp_path / "own.toml", tmp_path / "run.log"
    log.write_text("got 100 at 0x10\ngot 50 at 0x20\nleft 3 at 0x30\n")

    def allow(words: str) -> None:
        formats.write_text(
            "[[format]]\nname = 'own'\nliteral = ' at '\n"
            "regex = '(?P<kind>got|left) (?P<size>[0-9]+) at (?P<addr>0x[0-9a-f]+)'\n"
            f"alloc = {words}\nfree = ['gave']\nsamples = ['got 12 at 0xff']\n"
        )

    allow("['got', 'left']")
    assert sizes(log, tmp_path / "c", formats=formats) == sizes(log, tmp_path / "c", formats=formats) == [100, 50, 3]
    formats.write_text(formats.read_text().replace("got|left", "got|lost").replace("'left'", "'lost'"))
    assert sizes(log, tmp_path / "c", formats=formats) == [100, 50]


def test_what_is_asked_otherwise_is_another_entry(log: Path, tmp_path: Path, readings: list[str]) -> None:
    folder = tmp_path / "c"
    for _ in range(2):
        plain = Reading(how=ReadAs(cache=folder)).read(log)
        timed = Reading(how=ReadAs(cache=folder), times=True).read(log)
        assert (plain.time_us, timed.thread) == (None, None)
        assert timed.time_us is not None
        memlens.read(log, cache=folder, owners=[memlens.Pattern(r"STEP (\d)", regex=True)])
        assert memlens.read(log, cache=folder, layer="auto_growth").facts.layer == "auto_growth"
        memlens.read(log, cache=folder, input_format="paddle")
    assert (len(readings), len(entries(folder))) == (5, 5)


def test_anchors_are_kept_once_whatever_else_is_asked(log: Path, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "c"
    step = memlens.Pattern(r"STEP (\d)", regex=True)
    memlens.read(log, cache=folder)
    first = memlens.read(log, cache=folder, patterns=[step])
    monkeypatch.setattr(keeping, "Matcher", lambda pattern: pytest.fail("looked for"))
    memlens.read(log, cache=folder, patterns=[step], columns=["thread"])
    again = memlens.read(log, cache=folder, patterns=[step, step])
    assert again.anchors == (first.anchors[0],) * 2
    assert list(first.anchors[0].names) == ["0", "1", "2"]
    assert list(first.anchors[0].lines) == [1, 3, 5]
    monkeypatch.undo()
    with pytest.raises(UsageError, match="not a regular expression"):
        memlens.read(log, cache=folder, patterns=[memlens.Pattern("(", regex=True)])


def test_anchors_of_many_blocks_are_those_of_a_line_by_line_look(tmp_path: Path) -> None:
    """Against the definition of a pattern, over a text of several blocks with a line longer than a block and one without an end."""
    text = (
        text_of(*range(1, 30_000))
        + b"STEP "
        + b"x" * (5 << 20)
        + b"\r\nnothing\n"
        + text_of(*range(9))
        + b"STEP 3 last"
    )
    log, pattern = tmp_path / "long.log", memlens.Pattern(r"STEP (\w*3)\b", regex=True)
    log.write_bytes(text)
    lines = text.split(b"\n")
    names = {number: pattern.match_line(line) for number, line in enumerate(lines, 1)}
    expected = {number: name for number, name in names.items() if name is not None}
    starts = np.cumsum([0, *(len(line) + 1 for line in lines)])
    memlens.read(log, cache=tmp_path / "c")
    for _ in range(2):
        (anchor,) = memlens.read(log, cache=tmp_path / "c", patterns=[pattern]).anchors
        assert dict(zip(anchor.lines, anchor.names, strict=True)) == expected
        assert list(anchor.offsets) == [int(starts[number - 1]) for number in expected]


def test_streams_are_never_kept(log: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(log.read_bytes()), daemon=True).start()
    assert sizes(pipe, tmp_path / "c") == [1024, 2048, 4096]
    with log.open("rb") as file:
        assert len(memlens.read(file, cache=tmp_path / "c")) == 3
    assert not (tmp_path / "c").exists()


def test_a_log_that_is_written_to_while_it_is_read_is_not_kept(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = paddle.FORMAT

    def meanwhile(change: Callable[[], None]) -> Any:
        def read(source: Any, request: Any) -> Any:
            change()
            return form.read(source, request)

        return replace(form, read=read)

    def append() -> None:
        with log.open("ab") as file:
            file.write(text_of(512))

    def put_back() -> None:
        text, state = log.read_bytes(), log.stat()
        log.write_bytes(text.replace(b"1024", b"1025"))
        log.write_bytes(text)
        os.utime(log, ns=(state.st_atime_ns, state.st_mtime_ns))

    for change in (append, put_back):
        monkeypatch.setattr("memlens.inputs.registry.PADDLE", meanwhile(change))
        sizes(log, tmp_path / "c")
        assert not (tmp_path / "c").exists()


def test_strict_is_as_strict_with_a_log_that_was_kept(log: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(gzip.compress(log.read_bytes() * 200)[:-20])
    for cache in ("off", tmp_path / "c", tmp_path / "c"):
        kept = memlens.analyze(cut, cache=cache).logs[0]
        assert kept.trust.cut_short
        with pytest.raises(InputError, match="ends in the middle"):
            memlens.analyze(cut, cache=cache, strict=True)


def test_a_compressed_log_is_known_by_its_bytes_on_disk(log: Path, tmp_path: Path, readings: list[str]) -> None:
    packed = tmp_path / "run.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    found = [Reading(how=ReadAs(cache=tmp_path / "c")).read(packed) for _ in range(2)]
    assert readings == ["run.log.gz"]
    assert [one.line_numbers([0, 1, 2]) for one in found] == [[2, 4, 6]] * 2
    assert found[0].source.lines([0, 60]) == found[1].source.lines([0, 60])


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "pickle", "folder", "others"])
def test_a_damaged_entry_is_as_if_it_were_not_there(
    log: Path, tmp_path: Path, readings: list[str], damage: str
) -> None:
    folder = tmp_path / "c"
    sizes(log, folder)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    if damage == "folder":
        entry.unlink()
        entry.mkdir()
        with pytest.warns(MemlensWarning, match="not kept"):
            assert sizes(log, folder) == [1024, 2048, 4096]
        return
    if damage == "others":
        entry.chmod(0o666)
    elif damage == "flip":
        at = whole.index(b'"lifetimes"')
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    else:
        entry.write_bytes({"cut": whole[:-1], "empty": b"", "pickle": b"\x80\x04K\x01."}[damage])
    assert sizes(log, folder) == [1024, 2048, 4096]
    assert len(readings) == 2
    assert sizes(log, folder) == [1024, 2048, 4096]  # a sound one took its place
    assert len(readings) == 2
    assert entry.stat().st_mode & 0o777 == 0o600


WRONG: dict[str, Callable[[dict[str, Any], list[Any]], Any]] = {
    "a kind that there is not": lambda log, arrays: put(arrays, log["log"]["kind"], [0, 9, 0]),
    "a partner beyond the log": lambda log, arrays: put(arrays, log["lifetimes"]["partner"], [1 << 30, -1, -1]),
    "a partner below nothing": lambda log, arrays: put(arrays, log["lifetimes"]["partner"], [-2, -1, -1]),
    "a double alloc beyond the log": lambda log, arrays: put(arrays, log["lifetimes"]["double_allocs"], [77]),
    "an unknown free beyond the log": lambda log, arrays: put(arrays, log["odd"]["unknown"], [-1]),
    "a size below nothing": lambda log, arrays: put(arrays, log["log"]["size"], [-1, 1, 1]),
    "columns of two lengths": lambda log, arrays: put(arrays, log["log"]["addr"], [1, 2]),
    "a column of another type": lambda log, arrays: log["log"].update(size=log["log"]["kind"]),
    "a column that there is not": lambda log, arrays: log["log"].update(size=1000),
    "a column of no number": lambda log, arrays: log["log"].update(size="1"),
    "the texts as a column": lambda log, arrays: log["log"].update(size=0),
    "facts that are none": lambda log, arrays: log["log"]["facts"].update(lines="many"),
    "facts missing": lambda log, arrays: log["log"].pop("facts"),
    "more opening events than events": lambda log, arrays: log["log"]["facts"].update(opening=4),
    "a source that there is not": lambda log, arrays: log["source"].update(kind="snapshot"),
    "no landmarks": lambda log, arrays: log.update(landmarks=[]),
}


def put(arrays: list[Any], number: int, values: list[int]) -> None:
    arrays[number] = np.array(values, arrays[number].dtype)


@pytest.mark.parametrize("name", WRONG)
def test_an_entry_whose_sums_are_right_and_whose_values_are_not_is_refused(
    log: Path, tmp_path: Path, readings: list[str], name: str
) -> None:
    folder = tmp_path / "c"
    sizes(log, folder)
    (entry,) = entries(folder)
    found = read_entry(str(entry), [os.geteuid()])
    arrays, facts = [*found.arrays], {key: value for key, value in found.facts.items() if key != "arrays"}
    plain = json.loads(bytes(arrays[0]))
    WRONG[name](plain[0], arrays)
    arrays[0] = np.frombuffer(json.dumps(plain).encode(), np.uint8)
    write_entry(str(entry), facts, arrays, 0o600, 1 << 30)
    assert sizes(log, folder) == [1024, 2048, 4096]
    assert len(readings) == 2, "it was believed"


def test_an_entry_of_another_user_is_neither_believed_nor_removed(log: Path, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "c"
    sizes(log, folder)
    (entry,) = entries(folder)
    before = entry.stat()
    monkeypatch.setattr(os, "geteuid", lambda: before.st_uid + 1)
    monkeypatch.setattr(keeping._Cache, "keep", lambda *_: None)
    assert sizes(log, folder) == [1024, 2048, 4096]
    assert entry.stat().st_mtime_ns == before.st_mtime_ns


def test_a_folder_that_cannot_be_written_costs_a_line_and_no_result(log: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    for place in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.warns(MemlensWarning, match="what is read is not kept for the next time: ") as seen:
            assert sizes(log, place) == [1024, 2048, 4096]
        assert len(seen) == 1


def test_what_all_logs_have_in_common_is_said_once(log: Path, tmp_path: Path) -> None:
    for k in range(5):
        (tmp_path / f"{k}.log").write_bytes(text_of(k + 1))
    ran = run("analyze", *sorted(tmp_path.glob("*.log")), "--cache", log)
    assert (ran.returncode, ran.stderr.count("\n")) == (0, 1)
    assert ran.stderr.endswith(": File exists\n")


def test_what_cannot_be_read_is_said_as_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "text.log").write_text("nothing\n" * 100)
    for name in ("none.log", "empty.log", "text.log"):
        said = [run("analyze", tmp_path / name, "--cache", cache) for cache in ("off", tmp_path / "c")]
        assert (said[0].returncode, said[0].stderr) == (said[1].returncode, said[1].stderr) == (1, said[0].stderr)


def test_anchors_of_another_text_than_that_of_the_events_are_not_taken(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is written anew right after its sum was made."""
    folder, step = tmp_path / "c", memlens.Pattern(r"STEP (\d)", regex=True)
    memlens.read(log, cache=folder)
    found = keeping._Cache._found

    def later(cache: Any, patterns: Any) -> Any:
        log.write_bytes(b"one line more\n" + log.read_bytes())
        return found(cache, patterns)

    monkeypatch.setattr(keeping._Cache, "_found", later)
    taken = memlens.read(log, cache=folder, patterns=[step])
    assert tuple(taken.anchors[0].lines) == (2, 4, 6)
    assert taken.line_numbers([0, 1, 2]) == [3, 5, 7]


def test_very_many_logs_do_not_look_through_the_folder_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    every = places.entries_in

    def counted(folder: str) -> Any:
        looks.append(folder)
        return every(folder)

    monkeypatch.setattr(places, "entries_in", counted)
    for k in range(250):
        path = tmp_path / f"{k}.log"
        path.write_bytes(text_of(k + 1))
        sizes(path, tmp_path / "c")
    assert len(entries(tmp_path / "c")) == 250
    assert len(looks) <= 5


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "memlens", *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=120, check=False, **options,
    )  # fmt: skip


def test_a_full_disk_costs_a_line_and_no_result(log: Path, tmp_path: Path) -> None:
    """A limit on the size of files fails like a full disk: in the middle of a write."""
    plain = run("analyze", log)
    full = run(
        *("analyze", log, "--cache", tmp_path / "c"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)),
    )
    assert (full.returncode, full.stdout) == (0, plain.stdout)
    assert full.stderr == f"memlens: what is read is not kept for the next time: {tmp_path / 'c'}: File too large\n"
    assert not list((tmp_path / "c").iterdir())
    quiet = run("analyze", log, "--cache", log, "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, plain.stdout, "")


def test_processes_that_keep_the_same_at_once_do_not_disturb_each_other(log: Path, tmp_path: Path) -> None:
    log.write_bytes(text_of(*range(512, 512 * 20_000, 512)))
    plain = run("analyze", log).stdout
    command = [sys.executable, "-m", "memlens", "analyze", str(log), "--cache", str(tmp_path / "c")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    assert [one.communicate(timeout=120) for one in running] == [(plain, "")] * 6
    assert len(os.listdir(tmp_path / "c")) == 1
    assert run("analyze", log, "--cache", tmp_path / "c").stdout == plain


def test_what_killed_writers_left_is_removed_and_what_living_ones_hold_stays(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    name = f".{'0' * 32}-{'1' * 16}.memlens"
    left, held, foreign = (
        folder / f"{name}.01234567.part",
        folder / f"{name}.76543210.part",
        folder / ".x.01234567.part",
    )
    for path in (left, held, foreign):
        path.write_bytes(b"half")
    with held.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sizes(log, folder)
    assert (left.exists(), held.exists(), foreign.exists()) == (False, True, True)


def test_what_was_of_no_use_for_longest_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, logs = tmp_path / "c", [tmp_path / f"{k}.log" for k in range(4)]
    for k, path in enumerate(logs):
        path.write_bytes(text_of(512 + k))
    of_log: dict[int, Path] = {}
    for k in range(3):
        sizes(logs[k], folder)
        (of_log[k],) = set(entries(folder)) - set(of_log.values())
        os.utime(of_log[k], (1000 + k, 1000 + k))
    size = of_log[0].stat().st_size
    monkeypatch.setenv("MEMLENS_CACHE_LIMIT", f"{size * 3 + size // 2}B")
    sizes(logs[0], folder)  # of use now: 1 is the oldest
    sizes(logs[3], folder)
    assert (of_log[0].exists(), of_log[1].exists(), of_log[2].exists()) == (True, False, True)
    assert sum(path.stat().st_size for path in entries(folder)) <= size * 3.5
    monkeypatch.setenv("MEMLENS_CACHE_LIMIT", f"{size // 2}B")
    logs[3].write_bytes(text_of(7))
    assert sizes(logs[3], folder) == [7]  # too large to be kept at all: nothing is left
    assert not entries(folder)
    monkeypatch.setenv("MEMLENS_CACHE_LIMIT", "much")
    with pytest.raises(UsageError, match="MEMLENS_CACHE_LIMIT: "):
        sizes(logs[3], folder)


def test_beside_a_log_lies_what_it_holds_now_alone(log: Path, readings: list[str]) -> None:
    log.chmod(0o640)
    sizes(log, "beside")
    sizes(log, "beside", layer="auto_growth")
    hidden = entries(log.parent)
    assert len(hidden) == 2
    assert all(path.name.startswith(".run.log.") and path.stat().st_mode & 0o777 == 0o640 for path in hidden)
    assert sizes(log, "beside") == [1024, 2048, 4096]
    assert len(readings) == 2
    log.write_bytes(text_of(1))
    assert sizes(log, "beside") == [1]
    (new,) = entries(log.parent)
    assert new not in hidden
    link = log.parent / "sub"
    link.mkdir()
    (link / "latest.log").symlink_to(log)
    assert sizes(link / "latest.log", "beside") == [1]
    assert (len(readings), os.listdir(link)) == (3, ["latest.log"])


def test_long_names_of_logs_that_begin_alike_do_not_drive_each_other_out(tmp_path: Path, readings: list[str]) -> None:
    logs = [tmp_path / f"{'r' * 150}{k}.log" for k in range(2)]
    for k, path in enumerate(logs):
        path.write_bytes(text_of(k + 1))
    for _ in range(2):
        assert [sizes(path, "beside") for path in logs] == [[1], [2]]
    assert len(readings) == 2


def test_a_folder_of_logs_does_not_take_entries_for_logs(log: Path) -> None:
    first = memlens.analyze(log.parent, cache="beside").to_dict()
    assert len(entries(log.parent)) == 1
    assert memlens.analyze(log.parent, cache="beside").to_dict() == first
    assert len(first["logs"]) == 1


def test_without_the_package_that_sums_up_a_line_says_so(log: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.warns(
        MemlensWarning, match=r"time: needs the package xxhash\. Install it with: pip install 'memlens\[cache\]'"
    ):
        assert sizes(log, tmp_path / "c") == [1024, 2048, 4096]


def test_text_of_any_kind_and_numbers_of_any_size_come_back(log: Path, tmp_path: Path) -> None:
    """Lone surrogates, as in traces; bytes that are no UTF-8; figures beyond 32 bits."""
    facts = Facts(bytes=1 << 60, hints={"\ud800": 3}, cut_short="\x1b[31m\udcff", threads=(1 << 62,))
    odd = EventLog.from_rows([(memlens.Kind.ALLOC, 1 << 46, (1 << 64) - 1)], facts=facts, owner_names=("\udcfe", "é"))
    (plain,) = read_all(log)
    stored = logs.stored_logs([replace(odd, source=plain.source)])
    (back,) = logs.restored_logs(stored, plain.source)  # type: ignore[arg-type]
    assert (back.facts, back.owner_names) == (facts, ("\udcfe", "é"))
    assert (back.size.tolist(), back.addr.tolist()) == ([1 << 46], [(1 << 64) - 1])


# Over the network.


class Server(http.server.BaseHTTPRequestHandler):
    text, tag, asked = b"", '"one"', 0

    def do_HEAD(self) -> None:
        self.answer(with_text=False)

    def do_GET(self) -> None:
        type(self).asked += 1
        self.answer(with_text=True)

    def answer(self, *, with_text: bool) -> None:
        text, (start, end) = self.text, (0, len(self.text))
        if (span := self.headers.get("Range")) is not None:
            first, _, last = span.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or end) + 1, end)
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(text)}")
        self.send_header("Content-Length", str(end - start))
        self.send_header("Accept-Ranges", "bytes")
        if self.tag:
            self.send_header("ETag", self.tag)
        self.end_headers()
        if with_text:
            self.wfile.write(text[start:end])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(log: Path) -> Iterator[tuple[str, type[Server]]]:
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    own = type("Own", (Server,), {"text": log.read_bytes()})
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), own)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_port}/run.log", own
    serving.shutdown()
    serving.server_close()


def test_a_remote_log_is_known_by_its_strong_tag(server: tuple[str, type[Server]], tmp_path: Path) -> None:
    url, serving = server
    assert sizes(url, tmp_path / "c") == [1024, 2048, 4096]
    assert len(entries(tmp_path / "c")) == 1
    read = serving.asked
    assert sizes(url, tmp_path / "c") == [1024, 2048, 4096]
    assert serving.asked - read <= 1, "its text was asked for"
    serving.text, serving.tag = text_of(5, 6), '"two"'
    assert sizes(url, tmp_path / "c") == [5, 6]
    assert len(entries(tmp_path / "c")) == 2
    assert sizes(f"{url}?other=1", tmp_path / "c") == [5, 6]  # another URL with the same tag is another object
    assert len(entries(tmp_path / "c")) == 3


@pytest.mark.parametrize("tag", ["", 'W/"one"'])
def test_a_remote_log_of_which_nobody_says_whether_it_changed_is_not_kept(
    server: tuple[str, type[Server]], tmp_path: Path, tag: str
) -> None:
    url, serving = server
    serving.tag = tag
    assert sizes(url, tmp_path / "c") == [1024, 2048, 4096]
    serving.text = text_of(5, 6)
    assert sizes(url, tmp_path / "c") == [5, 6]
    assert not (tmp_path / "c").exists()
