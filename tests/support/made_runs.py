"""Logs of made-up runs whose peaks are exact numbers of MiB, and the eight-card matrix of case 3 from such logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from logs import LogText

MIB = 1 << 20
GBS = (32, 64, 256, 1024, 2048, 3072)
CARDS = tuple(range(8))
OOM_BYTES = 256 * MIB

#: The published figures of case 3, in MiB, by global batch size and card; ``None`` ran out of memory.
_DEVELOP: Mapping[int, Mapping[int, int] | None] = {
    32: {0: 24402, 1: 21376, 7: 7830},
    64: {0: 24660, 1: 21634, 7: 7834},
    256: {0: 24660, 1: 22408, 7: 8168},
    1024: {0: 24660, 1: 25504, 7: 11770},
    2048: {0: 24600, 1: 29632, 7: 15710},
    3072: None,
}
_PR_FIRST = {0: 24406, 1: 21380, 7: 7834}
_PR = {0: 24664, 1: 21380, 7: 7834}


def expected_mib(gbs: int, branch: str, card: int) -> int | None:
    """The peak of one run in MiB, ``None`` where it ran out of memory; cards 2 to 6, of which nothing is published, lie between 1 and 7."""
    figures = _DEVELOP[gbs] if branch == "develop" else _PR_FIRST if gbs == 32 else _PR
    if figures is None:
        return None
    if card in figures:
        return figures[card]
    return figures[1] - (figures[1] - figures[7]) * (card - 1) // 6


def case_3() -> Iterator[tuple[int, str, int, int | None]]:
    """Global batch size, branch, card and peak in MiB of every run of the matrix."""
    for gbs in GBS:
        for branch in ("develop", "PR"):
            for card in CARDS:
                yield gbs, branch, card, expected_mib(gbs, branch, card)


def write_case_3(folder: Path) -> str:
    """Write the logs of the matrix below a folder and give the template that finds them."""
    for gbs, branch, card, mib in case_3():
        log = folder / f"gbs{gbs}" / branch / f"workerlog.{card}"
        log.parent.mkdir(parents=True, exist_ok=True)
        text = log_text((31 << 10) * MIB, oom_bytes=OOM_BYTES) if mib is None else log_text(mib * MIB)
        log.write_text(text)
    return f"{folder}/gbs{{gbs}}/{{branch}}/workerlog.{{rank}}"


def log_text(
    peak: int, *, reserved: int | None = None, blocks: int = 4, step_us: int = 1000, oom_bytes: int = 0, steps: int = 1
) -> str:
    """A log whose allocated bytes rise to ``peak`` in each step and fall to nothing again.

    Args:
        peak: Bytes at the peak.
        reserved: Bytes of the one chunk behind them; as many as the peak by default.
        blocks: Into how many blocks the peak is divided.
        step_us: Microseconds from each event to the next one.
        oom_bytes: At its last peak the run asks for so many bytes more, and ends out of memory.
        steps: How often it does all that, with an anchor ``STEP n START`` before each.
    """
    log = LogText(line_us=step_us, date="0712")
    sizes = [peak // blocks] * (blocks - 1)
    sizes.append(peak - sum(sizes))
    for step in range(steps):
        log.lines.append(f"STEP {step} START")
        if step == 0:
            log.chunk(peak if reserved is None else reserved, 0x7F0000000000)
        addresses = [0x7F0000000000 + sum(sizes[:place]) for place in range(blocks)]
        for size, address in zip(sizes, addresses, strict=True):
            log.alloc(size, address)
        if oom_bytes and step == steps - 1:
            log.lines.append("Traceback (most recent call last):")
            log.lines.append(
                f"Out of memory error on GPU 0. Cannot allocate {oom_bytes / MIB:.6f}MB memory on GPU 0, {peak / MIB / 1024:.6f}GB "
                "memory has been allocated and available memory is only 117.750000MB."
            )
        for size, address in zip(sizes, addresses, strict=True):
            log.free(size, address)
    return log.text
