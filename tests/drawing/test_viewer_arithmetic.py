"""The arithmetic of the page's scripts, tested by Node: ``tests/viewer/*.test.js`` with the modules of the installed package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1] / "viewer"


def test_the_arithmetic_of_the_page(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        words = "needs node on the PATH (the dev environment has it)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    viewer, tests = tmp_path / "src/memlens/drawing/viewer", tmp_path / "tests/viewer"
    (tmp_path / "package.json").write_text(json.dumps({"type": "module"}))
    with resources.as_file(resources.files("memlens.drawing") / "viewer") as folder:
        shutil.copytree(folder, viewer)
    shutil.copytree(TESTS, tests)
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tests.glob("*.test.js"))
    assert names
    done = subprocess.run([node, "--test", *names], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
