"""Programs that use PyTorch, run with and without the recorder's start-up folder: with the real one, or with a stand-in for one with a device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distribution, files
from pathlib import Path

import pytest

import memlens

STARTUP = Path(memlens.__file__).parent / "recording" / "startup"
STAND_IN = Path(__file__).parent / "stand_in_torch.py"
LIMIT_S = 120


def real_torch() -> str:
    """A Python that has PyTorch, CPU build or not; skips where none is named."""
    python = os.environ.get("MEMLENS_TORCH_PYTHON", "")
    if not python:
        pytest.skip("needs a Python with PyTorch: MEMLENS_TORCH_PYTHON names none")
    return python


@dataclass
class Programs:
    """Runs programs in a folder; each is its text."""

    folder: Path

    def run(
        self, text: str, *arguments: str, python: str = sys.executable, path: tuple[Path, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "program.py").write_text(text)
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RANK", "CI")}
        environment |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "NO_COLOR": "1", **variables}
        return subprocess.run(
            [python, *arguments, "program.py"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    @property
    def source(self) -> Path:
        """A folder that has memlens and nothing else: what else stands beside it may not fit another Python."""
        folder = self.folder / "source"
        if not folder.is_dir():
            folder.mkdir()
            (folder / "memlens").symlink_to(Path(memlens.__file__).parent)
        return folder

    def packages(self) -> Path:
        """A folder that has pytest and what it needs, for a Python that may not have it."""
        folder = self.folder / "packages"
        folder.mkdir()
        for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
            for top in {file.parts[0] for file in files(name) or () if ".." not in file.parts}:
                (folder / top).symlink_to(str(distribution(name).locate_file(top)))
        return folder

    def stand_in(self, name: str = "torch") -> Path:
        """A folder whose torch, or paddle, is the stand-in."""
        package = self.folder / "stand_in" / name
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(STAND_IN.with_name(f"stand_in_{name}.py").read_text())
        return package.parent

    def recorded(
        self, text: str, python: str = sys.executable, of: str = "torch", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program that knows nothing of memlens with its memory history recorded into ``run.pickle``."""
        request = {"output": str(self.folder / "run.pickle"), **({} if of == "torch" else {"of": of})}
        asked = json.dumps({"socket": None, of: request, **({"holders": {}} if of == "torch" else {})})
        path = (STARTUP,) if python != sys.executable else (STARTUP, self.stand_in(of))
        return self.run(text, python=python, path=path, MEMLENS_RECORD=asked, **variables)

    @property
    def files(self) -> list[str]:
        """The snapshots, and whatever stands beside them."""
        return sorted(path.name for path in self.folder.iterdir() if "pickle" in path.name)


def ended_by(signal_number: signal.Signals) -> int:
    """What ``subprocess`` says of a process that a signal ended."""
    return -signal_number
