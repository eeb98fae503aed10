"""Real PaddlePaddle in environments of their own, with a device whose memory is host memory."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from recorder import read_zst

import memlens

#: A training loop that prints Paddle's counters before each of its marks.
MARKED = Path(__file__).parents[1] / "recording" / "programs" / "paddle_marked.py"
TIMEOUT = 60.0
#: What a version needs to be built against, by the beginning of its number.
_ERAS = {"3.3": "331", "3.0": "30", "2.6": "26"}


def pythons() -> list[str]:
    """The interpreters that have paddlepaddle, as ``MEMLENS_PADDLE`` names them, separated as a PATH is."""
    return [one for one in os.environ.get("MEMLENS_PADDLE", "").split(os.pathsep) if one]


@dataclass(frozen=True)
class RealPaddle:
    """One version.

    Attributes:
        python: The interpreter of its environment.
        version: ``3.3.1``.
        device: The folder of the device's library.
        train: The training script that stands beside the device's source.
    """

    python: str
    version: str
    device: Path
    train: Path

    @classmethod
    def build(cls, python: str, shared: Path, device: Path) -> RealPaddle:
        """Build the device for the version that an interpreter has, into a folder."""
        prefix = Path(python).parents[1]
        (installed,) = prefix.glob("lib/python3*/site-packages/paddlepaddle-*.dist-info")
        version = installed.name.split("-")[1].removesuffix(".dist")
        source = shared / "data" / "paddle-hostdev"
        command = ["bash", str(source / "build.sh"), str(prefix), _ERAS[version[:3]], str(device)]
        made = cls(python, version, device, source / "train.py")
        with open(f"{device}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of workers that share the folder the first builds and compiles
            if not (device / "libhostdev.so").exists():
                subprocess.run(command, check=True, timeout=120)
                subprocess.run([python, "-c", "import paddle"], env=made.environment(), check=True, timeout=120)
        return made

    def environment(self) -> dict[str, str]:
        """The variables of this process without those that say what Paddle logs, and with the device."""
        ours = ("GLOG_", "FLAGS_", "PADDLE_", "HOSTDEV_", "PYTHONUNBUFFERED", "MEMLENS_", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        compiled = any(Path(self.python).parents[1].glob("lib/python3*/site-packages/paddle/__pycache__/*.pyc"))
        return kept | {
            "CUSTOM_DEVICE_ROOT": str(self.device),
            **({} if compiled else {"PYTHONPYCACHEPREFIX": f"{self.device}.bytecode"}),
            "PADDLE_XCCL_BACKEND": "hostdev",
            "OMP_NUM_THREADS": "1",  # threads that wait for one another burn what other tests need
        }


@dataclass(frozen=True)
class Recorded:
    """A program that was recorded: the recorder's exit code, what it wrote to stdout and stderr, and the log."""

    code: int
    out: str
    said: str
    log: Path

    @property
    def text(self) -> str:
        return text_of(self.log)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def text_of(log: Path) -> str:
    """A compressed log as far as it is there, by the decompressor itself."""
    return read_zst(log).decode()


def command(paddle: RealPaddle, log: Path | str, program: list[str], options: list[str]) -> list[str]:
    return [sys.executable, "-m", "memlens", "record", "-o", str(log), *options, "--", paddle.python, *program]


def environment(paddle: RealPaddle, folder: Path, **more: str) -> dict[str, str]:
    """That of the recorder: its program finds memlens, as a program in whose environment it is installed would."""
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    (packages / "memlens").symlink_to(Path(memlens.__file__).parent)
    return paddle.environment() | {"PYTHONPATH": str(packages), **more}


def record(paddle: RealPaddle, folder: Path, program: list[str], **more: str) -> Recorded:
    """Record a program to its end."""
    log = folder / "run.log.zst"
    return run(command(paddle, log, program, []), environment(paddle, folder, **more), folder, log)


def run(words: list[str], variables: dict[str, str], folder: Path, log: Path) -> Recorded:
    """Run a command to its end."""
    done = subprocess.run(
        words,
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Recorded(done.returncode, done.stdout, done.stderr, log)


def counted(line: str) -> tuple[int, ...]:
    """Allocated bytes now and at most since the mark before, and reserved ones, as Paddle counted them."""
    word, *numbers = line.split()
    assert word == "COUNTERS"
    return tuple(map(int, numbers))
