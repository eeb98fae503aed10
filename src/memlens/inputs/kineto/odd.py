"""One event of a Kineto trace, read with the JSON parser: the definition of what :mod:`memlens.inputs.kineto.events` reads in bulk."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NamedTuple

from memlens.inputs.kineto.json_fields import MOST
from memlens.inputs.kineto.records import (
    ARGS,
    CATEGORIES,
    INSTANT,
    MEMORY,
    MOST_THREAD,
    MOST_TOTAL,
    OUT_OF_MEMORY,
    STACK,
    UNKNOWN,
    Failure,
    SpanKind,
    is_change,
    is_device,
)

if TYPE_CHECKING:
    from memlens.inputs.kineto.records import Names

__all__ = ["ChangeRow", "Malformed", "SpanRow", "read_odd"]

_THREAD = re.compile(r"-?[0-9]{1,15}")


class ChangeRow(NamedTuple):
    """One row of :class:`~memlens.inputs.kineto.records.Changes`."""

    values: tuple[int, ...]


class SpanRow(NamedTuple):
    """One row of :class:`~memlens.inputs.kineto.records.Spans`."""

    values: tuple[int, ...]


class Malformed:
    """Said of an event that looks like one of those wanted but cannot be read, or that is no JSON."""


def read_odd(text: bytes, place: int, names: Names) -> ChangeRow | SpanRow | Failure | Malformed | None:
    """Read one event.

    Args:
        text: The event, from brace to brace.
        place: Its byte offset in the input.
        names: Where names get their numbers.

    Returns:
        What it says; ``None`` for an event of no interest.
    """
    try:
        event = json.loads(
            text.decode("utf-8", "replace"), parse_int=_whole, parse_float=_decimal, parse_constant=lambda _: None
        )
    except (ValueError, RecursionError):
        return Malformed()
    name, phase, category = (event.get(key) for key in ("name", "ph", "cat"))
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    if not isinstance(name, str):
        return None
    if phase in INSTANT and name in {MEMORY, OUT_OF_MEMORY}:
        return (_failure if name == OUT_OF_MEMORY else _change)(event, args, place) or Malformed()
    if phase == "X" and isinstance(category, str) and category in CATEGORIES:
        return _span(event, args, CATEGORIES[category], place, names) or Malformed()
    return None


def _failure(event: dict[str, Any], args: dict[str, Any], place: int) -> Failure | None:
    time = _thousandths(event.get("ts"))
    kind, device, size = (_number(args.get(key)) for key in ("Device Type", "Device Id", "Bytes"))
    if time is None or kind is None or device is None or not is_device(kind, device):
        return None
    return Failure(place, time, kind, device, size if size is not None and 0 < size <= MOST_TOTAL else None)


def _change(event: dict[str, Any], args: dict[str, Any], place: int) -> ChangeRow | None:
    time = _thousandths(event.get("ts"))
    numbers = [_number(args[key]) if key in args else UNKNOWN for key in ARGS]
    known = [number for number in numbers if number is not None]
    if time is None or len(known) < len(numbers):
        return None
    kind, device, size, addr, allocated, reserved = known
    if addr >= 1 << 63:
        addr, checked = addr - (1 << 64), 0  # the same bits
    else:
        checked = addr
    if not is_change(kind, device, size, checked, allocated, reserved):
        return None
    has_addr = "Addr" in args
    row = (place, time, _thread(event.get("pid")), _thread(event.get("tid")), kind, device, size)
    return ChangeRow((*row, addr if has_addr else 0, int(has_addr), allocated, reserved))


def _span(event: dict[str, Any], args: dict[str, Any], kind: SpanKind, place: int, names: Names) -> SpanRow | None:
    time = _thousandths(event.get("ts"))
    lasts = 0 if kind == SpanKind.ANNOTATION else _thousandths(event.get("dur"))
    if time is None or lasts is None:
        return None
    stack = args.get(STACK) if kind == SpanKind.OP else None
    row = (place, int(kind), time, time + lasts, _thread(event.get("pid")), _thread(event.get("tid")))
    number = names.number(stack) if isinstance(stack, str) else -1
    return SpanRow((*row, names.number(event["name"]), number))


def _whole(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= 32 else Decimal("NaN")


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:  # an exponent beyond all bounds
        return Decimal("NaN")


def _number(value: Any) -> int | None:
    """A value as a whole number that fits 64 bits with room to spare, or as an address; ``None`` where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    if isinstance(value, Decimal):
        if not value.is_finite() or value.adjusted() > 20 or value != value.to_integral_value():
            return None
        value = int(value)
    return value if -(1 << 62) <= value < 1 << 64 else None


def _thousandths(value: Any) -> int | None:
    """A number, not negative, in thousandths, rounded down; ``None`` where it is none or too large."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    if isinstance(value, Decimal) and (not value.is_finite() or value.adjusted() > 20):
        return None
    if value < 0 or value > MOST:
        return None
    if isinstance(value, int):
        return value * 1000
    return int(value.scaleb(3)) if value.adjusted() > -20 else 0


def _thread(value: Any) -> int:
    """A process or thread as a number; -1 where it is none."""
    if isinstance(value, str):
        value = int(value) if _THREAD.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_THREAD:
        return -1
    return value
