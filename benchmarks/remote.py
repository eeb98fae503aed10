#!/usr/bin/env python3
"""Time ``memlens analyze`` of a log on a web server with a delay before each answer, and of compressed logs; and what libraries take to decompress them.

See README.md beside this file.  Prints; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import zstandard

ROOT = Path(__file__).resolve().parents[1]
SERVER = ROOT / "tests" / "support" / "range_server.py"
MB = 1_000_000


def packed(log: Path, folder: Path) -> list[Path]:
    """A log compressed in the ways that there are."""
    paths = {name: folder / f"{log.stem}.{name}" for name in ("one.zst", "frames.zst", "bgzf.gz", "one.gz")}
    if all(path.exists() for path in paths.values()):
        return list(paths.values())
    data = log.read_bytes()
    paths["one.zst"].write_bytes(zstandard.ZstdCompressor().compress(data))
    frames = (data[at : at + (64 << 20)] for at in range(0, len(data), 64 << 20))
    paths["frames.zst"].write_bytes(b"".join(map(zstandard.ZstdCompressor().compress, frames)))
    blocks = (data[at : at + 65_280] for at in range(0, len(data), 65_280))
    paths["bgzf.gz"].write_bytes(b"".join(map(bgzf, (*blocks, b""))))
    member = zlib.compressobj(6, zlib.DEFLATED, 31)
    paths["one.gz"].write_bytes(member.compress(data) + member.flush())
    return list(paths.values())


def bgzf(text: bytes) -> bytes:
    """One block of a BGZF file: a gzip member that says how long it is."""
    member = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = member.compress(text) + member.flush()
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + struct.pack("<H", len(body) + 25)
    return head + body + struct.pack("<II", zlib.crc32(text), len(text))


def timed(command: list[str], rounds: int) -> tuple[float, float, float]:
    """The least seconds on the clock and on the processors, and the peak memory in megabytes, of some runs of a command.

    A process starts with the memory of this one, which is small where the logs were there already.
    """
    best = []
    for _ in range(rounds):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)} ended with {process.returncode}")
        best.append((time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MB))
    return min(one[0] for one in best), min(one[1] for one in best), max(one[2] for one in best)


def libraries(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What reads a compressed file, of what is installed."""
    from memlens.inputs.streams import Decompressor

    def pieces(compression: str) -> Any:
        members = Decompressor(compression)
        with path.open("rb") as file:
            while chunk := file.read(1 << 16):
                yield from members.feed(chunk)

    ways = ["zstd"] if path.suffix == ".zst" else ["gzip", "igzip"]
    for way in ways:
        yield f"memlens: {way}", partial(pieces, way)
    others = {
        ".zst": (("pyzstd", "ZstdFile", {}), ("indexed_zstd", "IndexedZstdFile", {})),
        ".gz": (
            *(("rapidgzip", "open", {"parallelization": threads}) for threads in (1, 2)),
            ("zlib_ng.gzip_ng_threaded", "open", {}),
            ("isal.igzip_threaded", "open", {}),
        ),
    }
    for module, name, how in others[path.suffix]:
        try:
            opened = getattr(import_module(module), name)
        except ImportError:
            continue
        yield f"{module} {' '.join(map(str, how.values()))}", partial(whole, partial(opened, str(path), **how))


def whole(opened: Callable[[], Any]) -> Iterator[bytes]:
    """All of a file."""
    with opened() as file:
        while piece := file.read(1 << 21):
            yield piece


def decompressed(pieces: Callable[[], Any], rounds: int) -> tuple[float, float, int]:
    """The least seconds on the clock and on the processors that all pieces take, and their bytes."""
    best, size = [], 0
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        size = sum(map(len, pieces()))
        best.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(one[0] for one in best), min(one[1] for one in best), size


def main() -> None:
    """Measure."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--megabytes", type=int, default=500)
    words.add_argument("--noise", type=float, default=0.0, help="share of lines without an event")
    words.add_argument("--delay", type=float, default=0.03, help="seconds before each answer of the server")
    words.add_argument("--rate", type=int, default=0, help="bytes a second of each connection")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument(
        "--bench", type=Path, default=Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared")) / "bench"
    )
    words.add_argument("--beside", type=Path, help="another memlens to run as well")
    words.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "memlens-bench-remote")
    words.add_argument(
        "--what", choices=("remote", "packed", "libraries"), nargs="*", default=["remote", "packed", "libraries"]
    )
    given = words.parse_args()
    given.cache.mkdir(exist_ok=True)
    log = given.cache / f"dense{given.megabytes}-{given.noise}.log"
    if not log.exists():
        make = [
            sys.executable,
            str(given.bench / "make_log.py"),
            str(log),
            str(given.megabytes),
            "--noise",
            str(given.noise),
        ]
        subprocess.run(make, check=True)
    files = packed(log, given.cache)
    tools = {"memlens": [sys.executable, "-m", "memlens"]} | ({"beside": [str(given.beside)]} if given.beside else {})

    def show(what: str, where: str) -> None:
        for name, tool in tools.items():
            wall, cpu, peak = timed([*tool, "analyze", where], given.rounds)
            print(f"{what:36} {name:8} {wall:6.2f} s {cpu:6.2f} s of processors {peak:5.0f} MB", flush=True)

    if "packed" in given.what:
        for path in (log, *files):
            show(f"{path.name}, {path.stat().st_size / MB:.0f} MB", str(path))
    if "remote" in given.what:
        command = [
            sys.executable,
            str(SERVER),
            str(given.cache),
            "--delay",
            str(given.delay),
            "--rate",
            str(given.rate),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            for path in (log, *files):
                show(f"http: {path.name}", f"{url}/{path.name}")
            server.stdin.close()
    if "libraries" in given.what:
        for path in files:
            for name, pieces in libraries(path):
                wall, cpu, size = decompressed(pieces, given.rounds)
                print(
                    f"{path.name:32} {name:28} {wall:6.2f} s {cpu:6.2f} s of processors {size / wall / MB:6.0f} MB/s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
