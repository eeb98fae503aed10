"""A log for each rank of a program that starts several: by a launcher of our own that sets what torchrun and Paddle's set."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest
from recorder import python, read_zst, recorder, started

import memlens
from memlens.recording.inside.ranks import MARKS
from memlens.recording.sink import rank_path

#: Starts workers as a launcher does: each with a rank, and its streams where they are told to go.
LAUNCHER = """
import json, os, subprocess, sys
name, ranks, to = json.loads(sys.argv[1])
print("launcher before", flush=True)
workers = []
for place, rank in enumerate(ranks):
    out = open(to % place, "w") if to else None
    environment = {**os.environ, name: rank, "LOCAL_RANK": str(place)}
    worker = [sys.executable, "-c", sys.argv[2]]
    workers.append(subprocess.Popen(worker, env=environment, stdout=out, stderr=subprocess.STDOUT if out else None))
codes = [worker.wait() for worker in workers]
print("launcher after", flush=True)
sys.exit(max(codes))
"""
WORKER = """
import os, subprocess, sys
rank = os.environ.get("RANK") or os.environ["PADDLE_TRAINER_ID"]
os.write(1, b"out %s\\n" % rank.encode())
os.write(2, b"error %s\\n" % rank.encode())
os.write(2, b"I1120 10:22:32.856307 13292 a.cc:270] logged by %s\\n" % rank.encode())
subprocess.run([sys.executable, "-c", "import os; os.write(1, b'child of %s\\\\n')" % rank])
"""


def launch(ranks: list[str], to: str = "", name: str = "RANK", worker: str = WORKER) -> list[str]:
    return [sys.executable, "-c", LAUNCHER, json.dumps([name, ranks, to]), worker]


@pytest.fixture(autouse=True)
def _in_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MARKS:
        monkeypatch.delenv(name, raising=False)


def of(rank: int | str) -> bytes:
    lines = f"out {rank}\nerror {rank}\nI1120 10:22:32.856307 13292 a.cc:270] logged by {rank}\nchild of {rank}\n"
    return lines.encode()


@pytest.mark.parametrize("name", ["RANK", "PADDLE_TRAINER_ID"])
def test_each_rank_has_a_log_and_the_launcher_one_of_its_own(tmp_path: Path, name: str) -> None:
    log = tmp_path / "run.log.zst"
    ran = started([*recorder(log), *launch(["0", "1", "10"], name=name)])
    out, error = ran.communicate(timeout=60)
    assert ran.returncode == 0, error
    assert read_zst(log) == b"launcher before\nlauncher after\n"
    for rank in (0, 1, 10):
        assert read_zst(tmp_path / f"run.rank{rank}.log.zst") == of(rank)
    # On the console stands what would have stood there, but for what glog wrote.
    shown = b"launcher before\nlauncher after\n" + b"".join(of(rank) for rank in (0, 1, 10))
    assert sorted(out.splitlines()) == sorted(line for line in shown.splitlines() if b"logged by" not in line)
    assert sorted(os.listdir(tmp_path)) == ["run.log.zst", *(f"run.rank{rank}.log.zst" for rank in (0, 1, 10))]


def test_what_is_passed_on_of_a_rank_goes_where_the_launcher_put_it(tmp_path: Path) -> None:
    ran = started([*recorder(tmp_path / "run.log"), *launch(["0", "1"], to=str(tmp_path / "worker.%d"))])
    out, _ = ran.communicate(timeout=60)
    assert out == b"launcher before\nlauncher after\n"
    for rank in (0, 1):
        assert (tmp_path / f"run.rank{rank}.log").read_bytes() == of(rank)
        kept = b"".join(line for line in of(rank).splitlines(keepends=True) if b"logged by" not in line)
        assert (tmp_path / f"worker.{rank}").read_bytes() == kept


def test_the_recording_lists_ranks_by_number_and_judges_them_alone(tmp_path: Path, examples: Path) -> None:
    example = examples / "case1_pir.log"
    worker = f"import sys; sys.stdout.buffer.write(open({str(example)!r}, 'rb').read())"
    recording = memlens.record(launch(["10", "2"], worker=worker), output=tmp_path / "run.log", passed="none")
    names = ["run.log", "run.rank2.log", "run.rank10.log"]
    assert [(Path(log.path).name, log.rank) for log in recording.logs] == list(
        zip(names, [None, "2", "10"], strict=True)
    )
    ranks = [str(tmp_path / name) for name in names[1:]]
    assert recording.verdict == memlens.analyze(ranks).verdict
    peak = memlens.analyze(example).logs[0].windows[0].results["peak"].peak_bytes
    assert memlens.format_bytes(peak) in recording.verdict


def test_a_program_that_calls_its_helpers_ranks_is_judged_by_its_own_log(tmp_path: Path, examples: Path) -> None:
    """As one does that sets ``RANK`` for itself, to be the only process of a distributed run, and starts others."""
    example = examples / "case1_pir.log"
    program = f"""
import os, subprocess, sys
os.environ["RANK"] = "0"
sys.stdout.buffer.write(open({str(example)!r}, "rb").read())
subprocess.run([sys.executable, "-c", "print('helper')"], check=True)
"""
    recording = memlens.record(python(program), output=tmp_path / "run.log", passed="none")
    assert [Path(log.path).name for log in recording.logs] == ["run.log", "run.rank0.log"]
    assert recording.verdict == memlens.analyze(tmp_path / "run.log").verdict
    assert [log.rank for log in recording.judged] == [None]
    assert recording.failures == ()


def test_two_ranks_of_one_number_and_logs_of_earlier_runs_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "run.rank0.log").write_text("earlier")
    recording = memlens.record(launch(["0", "0"]), output=tmp_path / "run.log", passed="none")
    assert recording.exit_code == 0
    assert (tmp_path / "run.rank0.log").read_text() == "earlier"
    assert (tmp_path / "run.rank0-2.log").read_bytes() == of(0)
    assert (tmp_path / "run.rank0-3.log").read_bytes() == of(0)
    again = memlens.record(launch(["0", "0"]), output=tmp_path / "run.log", passed="none", force=True)
    assert [Path(log.path).name for log in again.logs] == ["run.log", "run.rank0-2.log", "run.rank0.log"]
    assert (tmp_path / "run.rank0.log").read_bytes() == of(0)


def test_a_log_of_a_rank_that_cannot_be_written_is_said_and_the_rank_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    # The folder goes before the rank comes.
    starts = f"import shutil; shutil.rmtree({str(folder)!r})\n" + LAUNCHER
    command = [sys.executable, "-c", starts, json.dumps(["RANK", ["0"], ""]), WORKER]
    recording = memlens.record(command, output=folder / "run.log", passed="none")
    assert recording.exit_code == 0
    assert [log.rank for log in recording.logs] == [None]
    assert recording.problems == (f"cannot write {folder}/run.rank0.log: No such file or directory",)
    folder.mkdir()
    ran = started([*recorder(folder / "run.log", "--pass", "none"), *command])
    _, error = ran.communicate(timeout=60)
    assert ran.returncode == 0
    assert f"{folder}/run.log: ".encode() in error


def test_a_rank_after_the_recorder_has_gone_says_so_and_runs(tmp_path: Path) -> None:
    environment = {
        "MEMLENS_RECORD": json.dumps({"socket": {"path": str(tmp_path / "gone"), "marks": {}}, "torch": None})
    }
    startup = str(Path(memlens.__file__).parent / "recording" / "startup")
    ran = started(
        [sys.executable, "-c", "print('runs')"], env={**os.environ, **environment, "PYTHONPATH": startup, "RANK": "0"}
    )
    out, error = ran.communicate(timeout=60)
    assert (ran.returncode, out) == (0, b"runs\n")
    assert error.startswith(b"memlens: not recording in this process: ")
    assert error.count(b"\n") == 1


def test_what_is_no_rank_that_speaks_on_the_socket_harms_nothing(tmp_path: Path) -> None:
    worker = textwrap.dedent("""
        import json, os, socket
        path = json.loads(os.environ["MEMLENS_RECORD"])["socket"]["path"]
        for said in (b"", b"{", b'{"rank": 0}', b"[]"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(said)
        print(oct(os.stat(os.path.dirname(path)).st_mode & 0o777), flush=True)
    """)
    recording = memlens.record([sys.executable, "-c", worker + "\n"], output=tmp_path / "run.log", passed="none")
    assert recording.exit_code == 0
    assert (tmp_path / "run.log").read_bytes() == b"0o700\n"
    assert len(recording.logs) == 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/run.log.zst", "a/run.rank7.log.zst"),
        ("run.gz", "run.rank7.gz"),
        ("run.log", "run.rank7.log"),
        ("run", "run.rank7"),
        ("run.v2.txt.gz", "run.v2.rank7.txt.gz"),
        ("run.{rank}.log", "run.7.log"),
    ],
)
def test_the_name_of_a_ranks_log(path: str, expected: str) -> None:
    assert rank_path(Path(path), "7") == Path(expected)


def test_what_calls_itself_a_rank_names_no_other_folder() -> None:
    assert rank_path(Path("a/run.log"), "../x/\n") == Path("a/run.rank.._x__.log")
