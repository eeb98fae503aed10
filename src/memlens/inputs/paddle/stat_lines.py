"""Paddle's own running totals, ``DeviceMemoryStatAllocated0: Update current_value with …``, read for all lines together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import StatLines
from memlens.inputs.paddle.swar import as_word, decimal_after, decimal_before, gather
from memlens.scanner.formats import LineFormat, Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["STAT_LINE", "read_stat_lines"]

STAT_LINE = LineFormat(
    name="stat_line",
    layer="stats",
    literal=b": Update current_value with ",
    regex=(
        r"(?P<where>Device|Host)MemoryStat(?P<what>Allocated|Reserved)(?P<device>[0-9]{1,4}): "
        r"Update current_value with (?P<change>-?[0-9]{1,15}), after update, "
        r"(?:peak_value = (?P<peak>[0-9]{1,15}) , )?current value = (?P<current>-?[0-9]{1,15})(?![0-9])"
    ),
    means={
        "where": "memory of a device or of the host",
        "what": "what tensors hold, or what was taken from the device",
        "device": "device id",
        "change": "bytes, signed",
        "peak": "the framework's peak, on lines where it rose",
        "current": "the framework's running total",
    },
    samples=(
        Sample(
            "I1120 10:54:59.653695 14969 stats.h:94] DeviceMemoryStatAllocated0: Update current_value with 256, "
            "after update, current value = 5108736",
            {
                "where": "Device",
                "what": "Allocated",
                "device": "0",
                "change": "256",
                "peak": None,
                "current": "5108736",
            },
        ),
        Sample(
            "stats.h:107] HostMemoryStatReserved0: Update current_value with -64, "
            "after update, peak_value = 1792 , current value = 1728",
            {"where": "Host", "what": "Reserved", "change": "-64", "peak": "1792", "current": "1728"},
        ),
    ),
    traps=("stats.h:50] Reset peak_value to current_value = 5",),
)

_MASK6 = np.uint64((1 << 48) - 1)


def read_stat_lines(
    block: NDArray[np.uint8], commas: NDArray[np.int64], to_input: int
) -> tuple[StatLines | None, NDArray[np.int64]]:
    """The stat lines whose ``, after update`` stands at ``commas``, ``None`` where there is none; and where their texts start.

    Offsets in the result are those of the comma (on the line, not at its start), plus ``to_input``.
    """
    if not len(commas):
        return None, commas
    words = gather(block, commas, 16)
    commas = commas.compress((words[:, 0] == as_word(b", after ")) & (words[:, 1] == as_word(b"update, ")))
    change, digits = decimal_before(block, commas)
    minus = block[commas - digits - 1] == ord("-")
    text_end = commas - digits - minus
    fine = _digits_fine(digits) & (gather(block, text_end - 8) == as_word(b"ue with "))
    fine &= gather(block, text_end - 16) == as_word(b"rent_val")
    fine &= gather(block, text_end - 24) == as_word(b"date cur")
    fine &= (gather(block, text_end - 32) >> np.uint64(32)) == as_word(b": Up")
    device, device_digits = decimal_before(block, text_end - 28)
    fine &= (device_digits >= 1) & (device_digits <= 4)
    name_end = text_end - 28 - np.minimum(device_digits, 4)
    last = gather(block, name_end - 8)
    reserved = last == as_word(b"Reserved")
    allocated = (last == as_word(b"llocated")) & (block[name_end - 9] == ord("A"))
    stem = name_end - np.where(reserved, 8, 9)
    fine &= (reserved | allocated) & (gather(block, stem - 8) == as_word(b"moryStat"))
    of_device = gather(block, stem - 16) == as_word(b"DeviceMe")
    of_host = (gather(block, stem - 14) & _MASK6) == as_word(b"HostMe")
    fine &= of_device | of_host
    peak, current, values_fine = _read_values(block, commas + 16)
    fine &= values_fine
    if not fine.any():
        return None, commas[:0]
    lines = StatLines(
        offset=commas[fine] + to_input,
        device=np.where(of_device, device, -1)[fine].astype(np.int16),
        reserved=reserved[fine],
        change=np.where(minus, -change, change)[fine],
        current=current[fine],
        peak=peak[fine],
    )
    return lines, (stem - np.where(of_device, 16, 14))[fine]


def _read_values(
    block: NDArray[np.uint8], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The optional peak and the current value that begin at ``at``, and whether both are well formed."""
    says_peak = (gather(block, at) == as_word(b"peak_val")) & (
        (gather(block, at + 8) & np.uint64((1 << 40) - 1)) == as_word(b"ue = ")
    )
    peak, peak_digits = decimal_after(block, at + 13)
    after = at + 13 + np.minimum(peak_digits, 15)
    fine = ~says_peak | (
        _digits_fine(peak_digits) & ((gather(block, after) & np.uint64((1 << 24) - 1)) == as_word(b" , "))
    )
    at = np.where(says_peak, after + 3, at)
    fine &= (gather(block, at) == as_word(b"current ")) & (gather(block, at + 8) == as_word(b"value = "))
    minus = block[at + 16] == ord("-")
    current, digits = decimal_after(block, at + 16 + minus)
    fine &= _digits_fine(digits)
    return np.where(says_peak, peak, -1), np.where(minus, -current, current), fine


def _digits_fine(digits: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (digits >= 1) & (digits <= 15)
