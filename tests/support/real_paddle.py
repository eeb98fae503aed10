"""Real PaddlePaddle in environments of their own, with a device whose memory is host memory."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RealPaddle", "pythons"]

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
        subprocess.run(command, check=True, timeout=120)
        return cls(python, version, device, source / "train.py")

    def environment(self) -> dict[str, str]:
        """The variables of this process without those that say what Paddle logs, and with the device."""
        ours = ("GLOG_", "FLAGS_", "PADDLE_", "HOSTDEV_", "PYTHONUNBUFFERED", "MEMLENS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {
            "CUSTOM_DEVICE_ROOT": str(self.device),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PADDLE_XCCL_BACKEND": "hostdev",
        }
