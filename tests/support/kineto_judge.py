"""Holds the Kineto reader to its reference implementation."""

from __future__ import annotations

import io

import numpy as np
from plain_kineto import Event, PlainLog, read_plain

from memlens.events import Kind
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import Request
from memlens.inputs.kineto.reader import read_kineto
from memlens.log import Log


def read_bytes(text: bytes) -> list[Log]:
    return read_kineto(FileSource(io.BytesIO(text)), Request())


def assert_as_plain(text: bytes, logs: list[Log]) -> None:
    """The logs are what the reference implementation says of the text."""
    plain = read_plain(text)
    assert len(logs) == len(plain)
    numbers = sorted((-1 if kind == 0 else device, kind) for kind, device in plain)
    if len({number for number, _ in numbers}) < len(numbers):
        return  # devices of one number are told apart in a way that this judge does not know
    for log, (number, kind) in zip(logs, numbers, strict=True):
        assert log.device == number
        device = next(key for key in plain if key[0] == kind and (kind == 0 or key[1] == number))
        _assert_log(log, plain[device])
        # There are stacks where any of the trace has a frame of Python.
        framed = any(event.framed for of_device in plain.values() for event in of_device.events)
        for event in plain[device].events:
            if event.kind in {"alloc", "free"}:
                assert log.source.stack(event.index) == (event.stack if framed else ())


def _assert_log(log: Log, plain: PlainLog) -> None:
    opening = log.facts.opening
    real = "no_addresses" not in log.facts.hints
    names = [Kind(kind).name.lower() for kind in log.kind.tolist()]
    addresses = log.addr.tolist() if real else [0] * len(log)
    before = sorted(zip(names[:opening], log.size[:opening].tolist(), addresses[:opening], strict=True))
    assert before == (plain.opening if real else sorted((kind, size, 0) for kind, size, _ in plain.opening))
    assert (log.offset[:opening] == -1).all()
    assert log.time_us is not None
    assert log.thread is not None
    rows = zip(
        names[opening:],
        log.size[opening:].tolist(),
        addresses[opening:],
        log.time_us[opening:].tolist(),
        log.thread[opening:].tolist(),
        [log.owner_of(event) for event in range(opening, len(log))],
        log.offset[opening:].tolist(),
        strict=True,
    )
    wanted = [(e.kind, e.size, e.addr if real else 0, e.time_us, e.thread, e.owner, e.index) for e in plain.events]
    assert list(rows) == wanted
    if not real:
        pairs = log.lifetimes.partner[opening:]
        assert [p - opening if p >= opening else -1 for p in pairs.tolist()] == _partners(plain.events)
    assert [(mark.offset, mark.text, mark.end) for mark in log.marks or ()] == plain.marks
    assert [(oom.offset, oom.requested_bytes) for oom in log.facts.ooms] == plain.ooms
    assert log.facts.malformed == plain.malformed
    assert (np.diff(log.offset) >= 0).all()
    totals = [total for total in plain.totals if total is not None]
    assert (0 if log.facts.stat_lines is None else len(log.facts.stat_lines)) == len(totals)


def _partners(events: list[Event]) -> list[int]:
    """The other event of the same made-up address; -1 for none."""
    where: dict[int, list[int]] = {}
    for k, event in enumerate(events):
        if event.kind in {"alloc", "free"}:
            where.setdefault(event.addr, []).append(k)
    partner = [-1] * len(events)
    for pair in where.values():
        if len(pair) == 2:
            partner[pair[0]], partner[pair[1]] = pair[1], pair[0]
    return partner
