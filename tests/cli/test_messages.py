"""What commands say on stderr beside their errors."""

from __future__ import annotations

import warnings

import pytest

from memlens.cli.messages import told
from memlens.errors import MemlensWarning


def test_what_several_logs_are_warned_of_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with told(None):
        warnings.simplefilter("always")  # each from a line of its own, as far as Python's filter can see
        for message in ("not kept", "not kept", "cut short", "not kept"):
            warnings.warn(message, MemlensWarning, stacklevel=1)
    assert capsys.readouterr().err == "memlens: not kept\nmemlens: cut short\n"
