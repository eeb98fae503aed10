"""The baseline: what one run or several of a program once gave, as a small JSON file to commit.

The same figures give the same bytes, and a diff of it reads well: sorted keys, a value a line.  It is read with suspicion: what is not as it
was written is an error and never a verdict.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec

from memlens.errors import InputError, UsageError
from memlens.options import Cut
from memlens.trust import PEAK_MAY_BE_EARLIER
from memlens.trust.case import RESERVED_DOUBTS
from memlens.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memlens.analyzers.composition import Share
    from memlens.gating.limits import Metric
    from memlens.summarizing.figures import RunWindow, WindowTable
    from memlens.summarizing.summary import Run


SCHEMA = "memlens.baseline/3"

#: Larger than the baseline of a hundred thousand windows; whatever is larger is something else.
_LARGEST = 64 << 20
_ANEW = "Take it anew with memlens gate LOG --baseline FILE --accept, or get the file back as it was committed."

_Size = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Level = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Anchors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a log is cut, as :class:`memlens.options.Cut` has it."""

    by: str | None = None
    start: str | None = None
    start_regex: str | None = None
    end: tuple[str, ...] = ()
    end_regex: tuple[str, ...] = ()
    nth: Annotated[int, msgspec.Meta(ge=1)] = 1
    to_end: bool = False

    def __post_init__(self) -> None:
        _ = self.cut  # which refuses what exclude each other

    @property
    def cut(self) -> Cut:
        """The same as options."""
        return Cut(**msgspec.structs.asdict(self))

    @classmethod
    def of(cls, cut: Cut) -> Anchors:
        """Options, to be kept."""
        return cls(**cut.of(Cut))


class WindowFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of one window that can be gated, as the analyzers define them.

    Attributes:
        name: The window's name; text from the log.
        peak_bytes: The highest level of allocated bytes in it.
        rise_bytes: How far that is above what was carried in; at least 0.
        remaining_bytes: What it leaves behind; may be negative.
        open_end: It runs to the end of the log because no end line closed it, or the run died in it.
    """

    name: str
    peak_bytes: _Level
    rise_bytes: _Size
    remaining_bytes: _Level
    open_end: bool = False

    def of(self, metric: Metric) -> int:
        """The figure of a metric of windows, in bytes."""
        return int(getattr(self, f"{metric}_bytes"))


class RunFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of one run.

    Attributes:
        peak_bytes: The highest level of allocated bytes in the whole run; ``None`` where the log reports no block.
        reserved_peak_bytes: The highest level of what chunks hold; ``None`` where the log does not tell.
        windows: The windows that it was cut into, in file order.
        steps_by: The regular expression that cuts it into the steps over which growth is judged; ``""`` where there are none.
        step_levels: The allocated level at the end of each closed step.
        steps_begin_at_bytes: The level at which the first of them begins; ``None`` where the log begins with it.
        begins_at_bytes: The level that a recording begins at that may begin after the peak of its run; ``None`` where it does not.
        roles: The bytes of each role that are live at the peak; left out where nothing tells them, or nobody asked.
        told_by: What tells them, ``"holders"``, ``"stacks"`` or ``"steps"``; left out likewise.
    """

    peak_bytes: _Size | None
    reserved_peak_bytes: _Size | None
    windows: Annotated[tuple[WindowFigures, ...], msgspec.Meta(min_length=1)]
    steps_by: str = ""
    step_levels: tuple[_Level, ...] = ()
    steps_begin_at_bytes: _Level | None = None
    begins_at_bytes: _Level | None = None
    roles: dict[str, _Size] | msgspec.UnsetType = msgspec.UNSET
    told_by: str | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, run: Run, steps_by: str, *, trust: bool, shares: Sequence[Share] = ()) -> RunFigures:
        """The figures of a run; what its trust report doubts of them is not known.

        Args:
            run: The run, summed up with its steps.
            steps_by: What cuts it into them.
            trust: Believe its trust report; else the figures are taken as they are.
            shares: What is live at its peak, by role.
        """
        whole, windows = cast("RunWindow", run.whole), cast("WindowTable", run.windows)
        is_open = windows.column("open_end") > 0
        if trust and run.oom is not None:
            is_open |= windows.column("end_line") >= run.oom.line
        doubted = trust and not RESERVED_DOUBTS.isdisjoint(run.doubts)
        late = trust and PEAK_MAY_BE_EARLIER in run.remarks
        figures = [windows.column(f"{metric}_bytes").tolist() for metric in ("peak", "rise", "remaining")]
        return cls(
            whole.peak_bytes,
            None if doubted else whole.reserved_peak_bytes,
            tuple(map(WindowFigures, windows.names, *figures, is_open.tolist())),
            steps_by,
            run.step_levels,
            run.steps_begin_bytes,
            (whole.carried_in_bytes or 0) if late else None,
            {share.role: share.total_bytes for share in shares if share.role is not None} or msgspec.UNSET,
            shares[0].told_by if shares else msgspec.UNSET,
        )

    @property
    def step_series(self) -> tuple[int, ...]:
        """The levels over which growth is judged: those between steps."""
        return self.step_levels if self.steps_begin_at_bytes is None else (self.steps_begin_at_bytes, *self.step_levels)

    def role_bytes(self, role: str) -> int | None:
        """The bytes of a role that are live at the peak; ``None`` where nothing tells roles."""
        return self.roles.get(role, 0) if self.roles else None

    @property
    def of_levels(self) -> RunFigures:
        """The figures without the roles, which are not always asked for."""
        return msgspec.structs.replace(self, roles=msgspec.UNSET, told_by=msgspec.UNSET)

    def __post_init__(self) -> None:
        if len({window.name for window in self.windows}) < len(self.windows):
            raise ValueError("two windows have one name")


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of runs that were accepted.

    Attributes:
        anchors: Where their logs were cut.
        runs: The figures of each run, in the order in which they were given.
        memlens: The version that took it.
        schema: The name and version of the file.
    """

    anchors: Anchors
    runs: Annotated[tuple[RunFigures, ...], msgspec.Meta(min_length=1)]
    memlens: str = __version__
    schema: str = SCHEMA

    def render(self) -> str:
        """The file: JSON, ASCII, the same bytes for the same figures, with a check sum."""
        values = msgspec.to_builtins(self)
        return json.dumps({**values, "check_sha256": _check_sum(values)}, sort_keys=True, indent=1) + "\n"


def _check_sum(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_baseline(path: str | Path) -> Baseline:
    """Read a baseline file.

    Raises:
        InputError: It cannot be read, is none, was damaged or edited, or is of a schema that this memlens does not know.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        take = "Take one with memlens gate LOG --baseline FILE --accept."
        hint = take if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{name}: cannot read the baseline: {error.strerror or error}", hint) from error
    return parse_baseline(text, name)


def parse_baseline(text: bytes, name: str = "<baseline>") -> Baseline:
    """Read the text of a baseline file.

    Args:
        text: What stands in it.
        name: What to call it in errors.

    Raises:
        InputError: See :func:`read_baseline`.
    """
    if len(text) > _LARGEST:
        raise InputError(f"{name}: no baseline of memlens: it is larger than 64 MiB")
    try:
        values = json.loads(text.decode())
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a thousand brackets
        raise InputError(f"{name}: no baseline of memlens: this is no JSON that can be read", _ANEW) from error
    schema = values.get("schema") if isinstance(values, dict) else None
    if not isinstance(schema, str) or not schema.startswith("memlens.baseline/"):
        raise InputError(f"{name}: no baseline of memlens: it does not say that it is one", _ANEW)
    if schema != SCHEMA:
        raise InputError(
            f"{name}: a baseline of the schema {schema[:60]!r}, while memlens {__version__} knows {SCHEMA!r} only",
            _accept_again(values),
        )
    why, check = "its check sum is not that of its figures", values.pop("check_sha256", "")
    try:
        baseline = msgspec.convert(values, Baseline)
        if check == _check_sum(msgspec.to_builtins(baseline)):
            return baseline
    except (ValueError, RecursionError, UsageError) as error:  # msgspec.ValidationError is a ValueError
        why = str(error)
    raise InputError(f"{name}: this baseline was damaged or edited: {why}", _ANEW)


def _accept_again(values: dict[str, Any]) -> str:
    """How to accept a baseline of another schema again, with its anchors where they can be read."""
    try:
        cut = anchor_options(msgspec.convert(values.get("anchors"), Anchors).cut)
    except (ValueError, UsageError):
        cut = ""
    command = f"memlens gate LOG --baseline FILE{f' {cut}' if cut else ''} --accept"
    return f"Remove the file and accept again a run that is known to be good: {command}"


def anchor_options(cut: Cut) -> str:
    """Where to cut, as options of the command line; ``""`` where nothing is cut."""
    options = [("--by", cut.by), ("--start", cut.start), ("--start-regex", cut.start_regex)]
    options += [("--end", end) for end in cut.end] + [("--end-regex", end) for end in cut.end_regex]
    given = [f"{name} {shlex.quote(text)}" for name, text in options if text is not None]
    return " ".join([*given, *([f"--nth {cut.nth}"] if cut.nth != 1 else []), *["--to-end"] * cut.to_end])


def anchors_for(given: Cut, baseline: Baseline | None, path: str | Path | None) -> Cut:
    """Where to cut: as the baseline was; anchors that are given must be the same.  An end that is missing now is no slip: the run was cut short."""
    if baseline is None:
        return given
    taken = baseline.anchors.cut
    if given.given and _plain(given) != _plain(taken):
        raise UsageError(
            f"these are not the anchors that {path} was taken with: {anchor_options(taken) or 'none, the whole log'}",
            "Leave the anchors out to cut the log as the baseline was, or take the baseline anew with these (--accept).",
        )
    return taken.replace(to_end=True)


def _plain(cut: Cut) -> Cut:
    """The same cut with its ends in one order: any of them ends a window, if one comes at all."""
    return cut.replace(to_end=False, end=tuple(sorted(set(cut.end))), end_regex=tuple(sorted(set(cut.end_regex))))
