"""Parts of the program whose dearest tests wait for the night where neither the part nor its tests have changed since all of them passed.

    python tests/support/changed.py drawing      # runs all tests of the part, and writes down that they passed

What a page does when it is used depends on its scripts alone, what a recorded program does on what runs in it: what both take from the rest of
memlens is looked at in each run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

import memlens

TESTS = Path(__file__).resolve().parents[1]
PASSED = Path(__file__).with_name("passed.json")
#: The folders of each part, whose tests are in one of its name.
PARTS = {
    "allocators": ("allocators",),
    "drawing": ("drawing",),
    "exporting": ("exporting",),
    "inputs": ("inputs", "scanner"),
    "recording": ("recording",),
    "summarizing": ("summarizing",),
}
#: What is part of an installed package, too.
_KINDS = {".py", ".js", ".css", ".j2"}


@cache
def state_of(part: str) -> str:
    """A checksum of a part and its tests."""
    found = sha256()
    for folder in (*(Path(memlens.__file__).parent / name for name in PARTS[part]), TESTS / part):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in _KINDS):
            found.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def has_changed(part: str) -> bool:
    """Whether a part, or one of its tests, is another one than when all of them passed."""
    return "MEMLENS_CHANGED" in os.environ or json.loads(PASSED.read_text()).get(part) != state_of(part)


def main(part: str) -> int:
    """Run all tests of a part, and write down its state if they pass."""
    if part == "recording" and not os.environ.get("MEMLENS_PADDLE"):
        sys.exit("its tests record Paddle: MEMLENS_PADDLE=PYTHON names an interpreter that has it")
    words = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", str(TESTS / part)]
    code = subprocess.run(words, env={**os.environ, "MEMLENS_CHANGED": "1"}, check=False).returncode
    if code == 0:
        PASSED.write_text(json.dumps({**json.loads(PASSED.read_text()), part: state_of(part)}, indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
