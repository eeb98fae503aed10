"""What ``memlens record`` leaves of programs that end in every way there is: their exit code, and a log that can be read."""

from __future__ import annotations

import gzip
import hashlib
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from night import NIGHT, some
from recorder import python, read_zst, recorder, started, until
from texts import read_packed

import memlens
from memlens.inputs.streams import open_bytes
from memlens.recording.sink import LogFile

SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]
#: Counts a signal for half a second after the first one, and ends with 100 and how often it came.
COUNTS = """
import signal, sys, time
got = []
signal.signal(signal.{name}, lambda *_: got.append(1))
print("ready", flush=True)
while not got:
    time.sleep(0.01)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.01)
sys.exit(100 + len(got))
"""


def test_both_streams_are_one_log_in_their_order_and_are_passed_on(tmp_path: Path) -> None:
    log = tmp_path / "run.log.zst"
    program = python("import os\nfor i in range(300): os.write(1 + i % 2, b'line %d\\n' % i)")
    ran = started(recorder(log) + program)
    out, error = ran.communicate(timeout=60)
    expected = b"".join(b"line %d\n" % i for i in range(300))
    assert ran.returncode == 0
    assert out == expected
    assert read_zst(log) == expected
    assert b"set GLOG_vmodule=auto_g*=10" in error
    assert b"no allocator event in 300 lines" in error


def test_the_program_has_as_many_threads_for_linear_algebra_as_without_the_recorder(tmp_path: Path) -> None:
    ran = started(
        recorder(tmp_path / "run.log", "-q") + python("import os; print('OPENBLAS_NUM_THREADS' in os.environ)")
    )
    out, _ = ran.communicate(timeout=60)
    assert out == (b"True\n" if "OPENBLAS_NUM_THREADS" in os.environ else b"False\n")


@pytest.mark.parametrize("code", some([0, 1, 3, 126, 255], 2))
def test_the_exit_code_is_the_programs_own(tmp_path: Path, code: int) -> None:
    ran = started(recorder(tmp_path / "run.log", "-q") + python(f"print('x'); raise SystemExit({code})"))
    out, error = ran.communicate(timeout=60)
    assert (ran.returncode, out, error) == (code, b"x\n", b"")
    assert (tmp_path / "run.log").read_bytes() == b"x\n"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT"])
def test_a_program_that_a_signal_ends_gives_128_and_its_number_and_its_log(tmp_path: Path, name: str) -> None:
    log = tmp_path / "run.log.zst"
    program = python(f"import os, signal\nos.write(1, b'last words'); os.kill(os.getpid(), signal.{name})")
    ran = started(recorder(log) + program)
    out, error = ran.communicate(timeout=60)
    assert ran.returncode == 128 + signal.Signals[name]
    assert out == b"last words"
    assert read_zst(log) == b"last words"
    assert f"{name} ended it".encode() in error


#: The recorder where nothing tells who sent a signal (macOS).
WITHOUT_SENDERS = (
    "import signal, sys; del signal.sigwaitinfo; from memlens.cli import main; sys.exit(main(sys.argv[1:]))"
)


def without_senders(command: list[str]) -> list[str]:
    assert command[1:3] == ["-m", "memlens"]
    return [command[0], "-c", WITHOUT_SENDERS, *command[3:]]


@pytest.mark.parametrize("way", [list, without_senders])
@pytest.mark.parametrize("name", some(SIGNALS, 2))
def test_a_signal_to_the_recorder_reaches_the_program_once(
    tmp_path: Path, name: str, way: Callable[[list[str]], list[str]]
) -> None:
    ran = started(way(recorder(tmp_path / "run.log")) + python(COUNTS.format(name=name)))
    assert ran.stdout is not None
    assert ran.stdout.readline() == b"ready\n"
    ran.send_signal(signal.Signals[name])
    ran.communicate(timeout=60)
    assert ran.returncode == 101


@pytest.mark.parametrize("way", [list, without_senders])
@pytest.mark.parametrize("key", [b"\x03", b"\x1c"])
def test_a_key_of_the_terminal_reaches_the_program_once(
    tmp_path: Path, key: bytes, way: Callable[[list[str]], list[str]]
) -> None:
    name = {b"\x03": "SIGINT", b"\x1c": "SIGQUIT"}[key]
    leader, ran = in_own_terminal(way(recorder(tmp_path / "run.log", "-q")) + python(COUNTS.format(name=name)))
    try:
        assert os.read(leader, 5) == b"ready"
        os.write(leader, key)
        assert ran.wait(60) == 101
    finally:
        os.close(leader)


def in_own_terminal(command: list[str]) -> tuple[int, subprocess.Popen[bytes]]:
    """A process that is the first one of a session with a terminal of its own, and the other side of that."""
    leader, follower = pty.openpty()
    settings = termios.tcgetattr(follower)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(follower, termios.TCSANOW, settings)
    takes = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    streams = {"stdin": follower, "stdout": follower, "stderr": follower}
    ran = started([sys.executable, "-c", takes, *command], start_new_session=True, **streams)
    os.close(follower)
    return leader, ran


def test_a_program_gets_the_signal_mask_of_the_recorder_and_pipes_break_as_ever(tmp_path: Path) -> None:
    program = python(
        "import signal\n"
        "print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))\n"
        "status = open('/proc/self/status').read()\n"
        # But for two that the C library keeps for itself.
        "print([int(line.split()[1], 16) & ~(3 << 31) for line in status.splitlines() if line.startswith('SigIgn')])"
    )
    bare = subprocess.run(program, capture_output=True, check=True).stdout
    ran = started(recorder(tmp_path / "run.log", "-q") + program)
    assert ran.communicate(timeout=60)[0] == bare


def test_what_a_killed_recorder_leaves_can_be_read_and_the_program_finds_a_broken_pipe(tmp_path: Path) -> None:
    log, said = tmp_path / "run.log.zst", tmp_path / "said"
    program = python(
        "import os, sys, time\n"
        "for i in range(1000): os.write(1, b'line %d\\n' % i)\n"
        "while os.getppid() == int(os.environ['RECORDER']): time.sleep(0.01)\n"
        # Its parent is another as soon as the recorder's first thread has ended; the last one closes the pipe.
        "try:\n"
        " for _ in range(3000): os.write(1, b'more'), time.sleep(0.01)\n"
        f"except BrokenPipeError: open({str(said)!r}, 'w').write('broken')"
    )
    # The shell becomes the recorder, so that the program knows who its parent is.  What that cannot remove any more goes with the test.
    shell = ["sh", "-c", f'RECORDER=$$ TMPDIR={tmp_path} exec "$@"', "sh"]
    ran = started([*shell, *recorder(log), *program], stdout=subprocess.DEVNULL)
    until(lambda: log.exists() and read_zst(log).count(b"\n") == 1000)
    ran.kill()
    ran.communicate(timeout=60)
    assert read_zst(log) == b"".join(b"line %d\n" % i for i in range(1000))
    until(lambda: said.exists() and said.read_text() == "broken")


@pytest.mark.parametrize(
    ("name", "options"), [("run.log", []), ("run.log.gz", []), ("run.log.zst", []), ("run.log", ["-q"])]
)
def test_a_full_disk_does_not_harm_the_program_and_is_said_once(tmp_path: Path, name: str, options: list[str]) -> None:
    log = tmp_path / name
    # Random bytes, which do not compress: ten times what the file may hold.
    program = python(
        "import os\nfor i in range(100): os.write(1, os.urandom(6553).hex().encode() + b'\\n')\nraise SystemExit(5)"
    )
    limited = ["sh", "-c", 'ulimit -f 512; exec "$@"', "sh"]
    ran = started([*limited, *recorder(log, *options), *program])
    out, error = ran.communicate(timeout=60)
    assert ran.returncode == 5
    assert len(out) == 100 * 13107
    assert error.count(b"the log ends early") == 1
    assert 200_000 < log.stat().st_size <= 512 << 10
    if name == "run.log.zst":
        assert out.startswith(read_zst(log))
        assert len(read_zst(log)) > 300_000


def test_a_closed_stdout_does_not_harm_the_program(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    ran = started(
        recorder(log) + python("import os\nfor i in range(500): os.write(1, b'x' * 999 + b'\\n')\nraise SystemExit(3)")
    )
    assert ran.stdout is not None
    assert ran.stderr is not None
    ran.stdout.close()
    error = ran.stderr.read()
    assert ran.wait(60) == 3
    assert log.stat().st_size == 500_000
    assert b"no longer passed on" not in error
    ran.stderr.close()
    assert ran.stdin is not None
    ran.stdin.close()


@pytest.mark.parametrize("name", ["run.log.zst", "run.log.gz", "run.log"])
def test_a_log_that_ends_with_a_frame_is_whole(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlens.recording.sink._FRAME_BYTES", 8)
    log = LogFile(tmp_path / name)
    log.begin()
    for text in (b"0123456", b"7", b"89"):
        log.write(text)
        log.flush()
    log.write(b"abcdef")
    log.flush()
    log.close()
    read: Callable[[Path], bytes] = {
        ".zst": read_zst,
        ".gz": lambda path: gzip.decompress(path.read_bytes()),  # raises where it is cut
    }.get(log.path.suffix, Path.read_bytes)
    assert read(log.path) == b"0123456789abcdef"


@pytest.mark.parametrize("name", some(["run.log.zst", "run.log.gz", "run.log"], 2))
def test_many_megabytes_come_through_whole(tmp_path: Path, name: str) -> None:
    log, piece = tmp_path / name, b"".join(b"line %07d\n" % i for i in range(1 << 16))
    times = ((200 if NIGHT else 50) << 20) // len(piece) // (1 if name.endswith("zst") else 4)
    program = python(
        "import os\npiece = b''.join(b'line %07d\\n' % i for i in range(1 << 16))\n"
        f"for _ in range({times}):\n rest = memoryview(piece)\n while rest: rest = rest[os.write(1, rest):]"
    )
    ran = started([*recorder(log, "-q", "--pass", "all"), *program])
    assert ran.stdout is not None
    passed, expected = hashlib.sha256(), hashlib.sha256()
    while part := ran.stdout.read(1 << 20):
        passed.update(part)
    ran.communicate(timeout=60)
    for _ in range(times):
        expected.update(piece)
    assert passed.hexdigest() == expected.hexdigest()
    recorded = hashlib.sha256()
    with open_bytes(log) as text:
        while part := text.read(1 << 20):
            recorded.update(part)
        assert text.problem == ""
    assert recorded.hexdigest() == expected.hexdigest()


def test_half_a_line_is_passed_on_at_once_and_stdin_is_the_programs(tmp_path: Path) -> None:
    ran = started(
        recorder(tmp_path / "run.log", "-q") + python("print('Name? I', end='', flush=True); print('am', input())")
    )
    assert ran.stdout is not None
    assert ran.stdout.read(7) == b"Name? I"
    out, _ = ran.communicate(b"well\n", timeout=60)
    assert out == b"am well\n"
    assert (tmp_path / "run.log").read_bytes() == b"Name? Iam well\n"


def test_a_process_that_the_program_left_behind_is_not_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "run.log.zst"
    sleeping = "import subprocess, sys\nprint(subprocess.Popen(['sleep', '60']).pid)"
    began = time.monotonic()
    ran = started(recorder(log) + python(sleeping))
    out, error = ran.communicate(timeout=50)
    try:
        assert 2 < time.monotonic() - began < 30
        assert ran.returncode == 0
        assert read_zst(log) == out
        assert b"the log ends here" in error
    finally:
        os.kill(int(out), signal.SIGKILL)


@pytest.mark.parametrize(("what", "code"), [("nosuch-command", 127), ("./nosuch", 127), ("./plain", 126), (".", 126)])
def test_a_program_that_cannot_be_started_gives_the_code_of_shells_and_leaves_the_old_log(
    tmp_path: Path, what: str, code: int
) -> None:
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "old.log").write_text("old")
    for name in ("old.log", "new.log"):
        ran = started([*recorder(name, "-f"), what], cwd=tmp_path)
        _, error = ran.communicate(timeout=60)
        assert ran.returncode == code
        assert f"memlens: error: {what}: ".encode() in error
    assert (tmp_path / "old.log").read_text() == "old"
    assert not (tmp_path / "new.log").exists()


@pytest.mark.parametrize("name", ["-", "run.log.xz", "run.bz2"])
def test_a_log_that_cannot_be_written_so_is_refused_before_the_program_runs(tmp_path: Path, name: str) -> None:
    with pytest.raises(memlens.UsageError, match=r"the log cannot go to stdout|a log cannot be written as"):
        memlens.record(python("raise SystemExit(1)"), output=name)


def test_no_command_is_wrong_usage_with_an_example() -> None:
    ran = started([sys.executable, "-m", "memlens", "record"])
    out, error = ran.communicate(timeout=60)
    assert (ran.returncode, out) == (2, b"")
    assert b"memlens record -o run.log.zst -- python train.py" in error
    with pytest.raises(memlens.UsageError, match="no program"):
        memlens.record([])


def test_recorders_that_are_started_together_choose_different_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one time, when neither sees the other's log yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-000000")
    names = set()
    for process in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        (log,) = memlens.record("true").logs
        names.add(log.path)
        Path(log.path).unlink()
    assert len(names) == 2


def test_the_verdict_is_that_of_analyze(tmp_path: Path, examples: Path) -> None:
    whole = min(examples.glob("*.log*"))
    log = tmp_path / "run.log.gz"
    recording = memlens.record(python(_copies(whole)), output=log, passed="none")
    assert read_packed(log) == read_packed(whole)
    assert recording.verdict == memlens.analyze(str(log)).verdict != ""
    ran = started(recorder(tmp_path / "again.log.gz", "--pass", "none") + python(_copies(whole)))
    _, error = ran.communicate(timeout=60)
    assert recording.answer is not None
    for sentence in recording.answer.sentences:
        assert sentence in error.decode()
    assert f"memlens analyze {tmp_path / 'again.log.gz'}" in error.decode()


def _copies(path: Path) -> str:
    opened = "gzip.open" if path.suffix == ".gz" else "open"
    return f"import gzip, sys; sys.stdout.buffer.write({opened}({str(path)!r}, 'rb').read())"


def test_a_recording_in_a_thread_is_whole_and_leaves_signals_alone(tmp_path: Path) -> None:
    before, found = signal.getsignal(signal.SIGINT), []
    options = {"output": tmp_path / "run.log", "passed": "none"}
    thread = threading.Thread(target=lambda: found.append(memlens.record(["sh", "-c", "exit 4"], **options)))  # type: ignore[arg-type]
    thread.start()
    thread.join()
    assert found[0].exit_code == 4
    assert signal.getsignal(signal.SIGINT) is before
