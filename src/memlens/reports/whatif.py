"""The screen of replays under other settings: the verdict, the proof, the settings, best first, and what none can beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memlens.reports.blocks import ALL_ROWS, Block, Column, Figure, Figures, Line, ListOptions, Toned, answered, apart
from memlens.reports.terminal import SCREEN, Part, Size, fitted
from memlens.text import NO_BREAK, format_bytes, format_count, plural, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.replaying.result import ReplayedLog, SettingTrial, WhatIf

_ROWS = (16, 12, 10, 8, 6, 5, 4, 3, 2, 1)
#: What no replay can know, in short; docs/whatif.md has it at length.
_UNKNOWN = (
    "what else uses the device (contexts, communication, other processes); workspaces that libraries choose by what is free; how the driver"
    " rounds; what a program asks for that looks at the memory left, or goes on behind a failure"
)


def whatif_blocks(whatif: WhatIf, size: Size = SCREEN, *, top: int | None = None, full: bool = False) -> list[Block]:
    """The verdict, and what it rests on: one screen, or all of it.

    Args:
        whatif: What to show.
        size: What one screen holds.
        top: Settings of each log; ``None`` for as many as fit.
        full: Show everything.
    """
    rows = (ALL_ROWS,) if full and top is None else _ROWS if top is None else (top,)
    parts = [Part((answered(whatif.answer),))]
    for log in whatif.logs:
        parts += _parts(log, rows, full=full, alone=len(whatif.logs) == 1)
    tried = any(log.trials for log in whatif.logs)
    if tried:
        parts.append(Part((apart(Line(_UNKNOWN, "quiet", label="Not known")), ()), 20, name="what no replay can know"))
    if full or top is not None or not tried:
        return [block for part in parts for block in part.versions[0]]
    return fitted(parts, size)


def _parts(log: ReplayedLog, rows: tuple[int, ...], *, full: bool, alone: bool) -> Iterator[Part]:
    head: list[Block] = [Line("" if alone else str(log.answer), "quiet" if alone else "plain", log.path)]
    head += _proof(log)
    if log.limit_bytes is not None:
        free = "" if log.device_free_bytes is None else f", with {format_bytes(log.device_free_bytes)} free then"
        refused = f"the most reserved until more was refused{free}; --memory SIZE says what there is"
        where = {"given": "given", "allowed": "allowed to this run"}.get(log.limit_from, refused)
        head.append(Line(f"{format_bytes(log.limit_bytes)}, {where}", label="Limit"))
    if log.best is not None:
        head.append(Line("", "good", log.best.line, label="Set"))
        if log.best.since:
            head.append(Line(f"{log.best.since} or later", label="Needs"))
    yield Part((apart(*head),))
    if not log.trials:
        return
    yield Part(tuple(apart(*_tables(log, many, full=full)) for many in rows), 5)
    yield Part((apart(Figures(tuple(_bounds(log)))),))


def _proof(log: ReplayedLog) -> Iterator[Line]:
    proof, terms = log.proof, terms_of(log.has_lines)
    words = f"{_of(proof.chunks_alike, proof.chunks, f'{terms.chunk}s')}"
    if proof.releases:
        words += f", {_of(proof.releases_alike, proof.releases, 'given back')}"
    words += f", {_of(proof.addresses_alike, proof.addresses, 'addresses')} as recorded"
    yield Line(words, "good" if proof.holds else "bad", label="Replayed")
    if proof.difference:
        where = "" if proof.line is None else f"{terms.at(proof.line)}: "
        yield Line(f"{where}{proof.difference}", "bad", label="Differs")
    settings = ", ".join(f"{name}={value}" for name, value in log.settings.items())
    yield Line(f"{log.model}, {settings or 'as it is by default'}", "quiet", label="As set")


def _of(alike: int, total: int, what: str) -> str:
    return f"{format_count(alike)} of {format_count(total)} {what}".replace(" of ", f"{NO_BREAK}of{NO_BREAK}")


def _tables(log: ReplayedLog, top: int, *, full: bool) -> Iterator[Block]:
    limited, scanned = log.limit_bytes is not None, any(one.completes for one in log.trials)
    columns = [
        Column("line", "Setting", "name", wraps=True),
        *([Column("within", f"In {format_bytes(log.limit_bytes or 0)}", "word", wraps=True)] if limited else []),
        *([Column("completes", "Completes within", "word", strong=True, wraps=True)] if scanned else []),
        *([] if scanned and not full else [Column("reserved_peak", "Reserved peak", "word", wraps=True)]),
        Column("taken", f"{terms_of(log.has_lines).chunk.capitalize()}s", "count", drop=1),
    ]
    listed = list(log.trials) if full else _without_repeats(log.trials)
    shown = [*listed[:top]]
    if log.own is not None and log.own not in shown:  # what all others are held against
        shown = [*shown[:-1], log.own]
    made = {"line": _name, "within": _within, "completes": _completes}
    peak = {"reserved_peak": lambda one: one.reserved_peak.text}
    table = ListOptions(len(shown)).table("", columns, shown, "setting", len(log.trials), **made, **peak)
    yield replace(table, says_hidden=full)
    if full and any(trial.line for trial in shown):
        yield None
        yield Line("The lines to set, in this order", "heading")
        yield from (Line("", name=trial.line) for trial in shown if trial.line)
    if log.left_out:
        yield Line(f"… and {plural(log.left_out, 'more combination')}, not tried", "hint")


def _without_repeats(trials: Sequence[SettingTrial]) -> list[SettingTrial]:
    """Trials without those that set more than another one and come to the same."""

    def figures(one: SettingTrial) -> tuple[object, ...]:
        return one.completes, one.reserved_peak, one.within_limit, one.completing, one.taken

    distinct: list[SettingTrial] = []
    for trial in sorted(trials, key=lambda one: len(one.values)):
        if not any(figures(one) == figures(trial) and one.values.items() <= trial.values.items() for one in distinct):
            distinct.append(trial)
    return [trial for trial in trials if trial in distinct]


def _name(trial: SettingTrial) -> str:
    values = {name: int(value) if isinstance(value, bool) else value for name, value in trial.values.items()}
    return ", ".join(f"{name.removeprefix('FLAGS_')}={value}" for name, value in values.items()) or "as it was set"


def _completes(trial: SettingTrial) -> str:
    text = "" if trial.completes is None else trial.completes.text
    return Toned(text, "good") if trial.better and text else text


def _within(trial: SettingTrial) -> str:
    if trial.within_limit == "completes":
        return Toned("completes", "good")
    if trial.within_limit == "depends":
        return f"{trial.completing} of {trial.replays}"
    at = trial.refused.line if trial.refused is not None else None
    return Toned("fails" if at is None else f"fails at {format_count(at)}", "bad")


def _bounds(log: ReplayedLog) -> Iterator[Figure]:
    if log.live_peak_bytes is not None:
        yield Figure(
            "Live", format_bytes(log.live_peak_bytes), "the most bytes live at once, as blocks: no setting needs less"
        )
    if log.opening_reserved_bytes:
        chunks = f"{terms_of(log.has_lines).chunk}s"
        words = f"in {chunks} that were there before its log begins, under any setting: with less none is tried"
        yield Figure("Begins", format_bytes(log.opening_reserved_bytes), words)
