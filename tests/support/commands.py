"""``memlens`` and other programs of Python as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

#: Where programs find what this process has imported.
HERE = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def process(*arguments: object, python: str = "-m memlens", **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run ``python -m memlens``; ``env`` is what the program gets beside the environment of this process."""
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "CI", "NO_COLOR")}
    environment |= HERE | options.pop("env", {})
    command = [sys.executable, *python.split(), *map(str, arguments)]
    settings = {"capture_output": True, "timeout": 120, "encoding": "utf-8", **options}
    return subprocess.run(command, env=environment, check=False, **settings)
