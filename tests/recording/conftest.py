"""Real PaddlePaddle, for the tests that record it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from real_paddle import RealPaddle, pythons
from torch_programs import Programs


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


@pytest.fixture(
    scope="session", params=pythons() or [""], ids=lambda python: Path(python).parents[1].name if python else "none"
)
def paddle(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> RealPaddle:
    """Each version, with the device built for it."""
    if not request.param:
        pytest.skip("needs PaddlePaddle: MEMLENS_PADDLE names no interpreter that has it")
    if not shutil.which("g++"):
        if os.environ.get("CI"):
            pytest.fail("no g++ to build Paddle's host-memory device: CI must have it")
        pytest.skip("needs g++ to build Paddle's host-memory device")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers: the device is built, and Paddle's modules are compiled, once
    return RealPaddle.build(request.param, shared, folder / f"device{pythons().index(request.param)}")


@pytest.fixture
def counting(paddle: RealPaddle) -> RealPaddle:
    """Each version that counts what is allocated on such a device."""
    if paddle.version.startswith("2."):
        pytest.skip("the program prints Paddle's counters, and Paddle 2.6 has none of a custom device")
    return paddle
