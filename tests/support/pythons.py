"""The other Pythons of this machine, which programs that are recorded may run in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

#: Versions in which what memlens loads into programs runs.
VERSIONS = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]


def python_of(version: str) -> str:
    """A Python of a version, on the PATH or among those of pyenv; skips where there is none."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python{version}"))]
    for python in filter(None, [*found, shutil.which(f"python{version}")]):  # on the PATH there may be a stand-in
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip(f"needs Python {version}: there is no python{version} on the PATH, and none of pyenv's")
