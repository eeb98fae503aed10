"""Which settings to try: a short list of the model, all combinations, or those that were named."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from itertools import combinations, islice, product
from math import prod
from typing import TYPE_CHECKING

from memlens.errors import UsageError
from memlens.text import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.models import AllocatorModel, AllocatorSetting, Value, Values


#: Combinations that are tried at most.
MOST_COMBINED = 256
#: No block, chunk or device has so many.
_MOST_MEBIBYTES = 1 << 27
_SWITCH = {"true": True, "1": True, "on": True, "yes": True, "false": False, "0": False, "off": False, "no": False}


def named_values(model: AllocatorModel, given: Sequence[str], *, tried: bool = False) -> dict[str, list[Value]]:
    """The values given for each setting, ``NAME=VALUE``; a name may be in any case and without ``FLAGS_``.

    Args:
        model: The model of the allocator.
        given: What the user wrote.
        tried: It is to be tried, and so must be something that can be set.

    Raises:
        UsageError: No value, one that makes no sense, or no such setting; the message names those that are alike.
    """
    known = {_plain(setting.name): setting for setting in model.settings}
    found: dict[str, list[Value]] = {}
    for text in given:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not value:
            raise UsageError(f"{text!r} sets nothing", "Write NAME=VALUE.")
        plain = _plain(name)
        if plain not in known:
            alike = [known[one].name for one in get_close_matches(plain, known, 3)]
            names = ", ".join(setting.name for setting in model.settings)
            hint = f"Did you mean: {', '.join(alike)}?" if alike else f"It has: {names}."
            raise UsageError(f"{model.name} has no setting {short_name(name)!r}", hint)
        if tried and not known[plain].settable:
            name = known[plain].name
            raise UsageError(f"{name} cannot be set", f"--was {name}={value} says that the run had it.")
        found.setdefault(known[plain].name, []).append(_value(known[plain], value))
    return found


def _plain(name: str) -> str:
    return name.lower().removeprefix("flags_")


def _value(setting: AllocatorSetting, text: str) -> Value:
    """Return the value that a text sets.

    Raises:
        UsageError: Nothing that the setting takes.
    """
    with suppress(KeyError, ValueError):
        if setting.kind == "word":
            return text
        if setting.kind == "switch":
            return _SWITCH[text.lower()]
        number = float(text) if setting.kind == "number" else int(text)
        if 0 <= number < (_MOST_MEBIBYTES if setting.kind == "mebibytes" else 1 << 40):
            return number
    whole = "a whole number"
    kinds = {"switch": "true or false", "number": "a number", "count": whole, "mebibytes": f"MiB, {whole}"}
    raise UsageError(f"{setting.name} cannot be {short_name(text)!r}", f"It takes {kinds[setting.kind]}.")


def own_settings(model: AllocatorModel, recorded: Values, given: Sequence[str]) -> dict[str, Value]:
    """How the run was set: as its user says, else as its input tells, else as it is by default.

    Args:
        model: The model of its allocator.
        recorded: The values that its input tells.
        given: What its user says, ``NAME=VALUE``.

    Raises:
        UsageError: A setting that the model does not have, or of which two values are given.
    """
    named = named_values(model, given)
    for name, values in named.items():
        if len(values) > 1:
            raise UsageError(f"{name} cannot have been {' and '.join(map(str, values))}", "Give the value that it had.")
    return {**model.defaults, **recorded, **model.apart({name: values[0] for name, values in named.items()})}


def chosen_settings(
    model: AllocatorModel, history: RequestHistory, own: Values, named: Mapping[str, Sequence[Value]], *, every: bool
) -> tuple[list[dict[str, Value]], int]:
    """Return the changes to try, each alike once; and how many combinations are left out.

    Raises:
        UsageError: A setting that holds others cannot be read.
    """
    left = 0
    if named:
        wanted: Sequence[Values] = [model.apart(one) for one in islice(_combined(named), MOST_COMBINED)]
        left = prod(map(len, named.values())) - len(wanted)
    elif every:
        settable = [one for one in model.settings if one.settable]
        offered = {one.name: [value for value in one.tried if value != own.get(one.name)] for one in settable}
        wanted = [*islice(_changes(offered), MOST_COMBINED)]
        left = prod(len(values) + 1 for values in offered.values()) - 1 - len(wanted)
    else:
        wanted = model.candidates(history, own)
    changes = ({name: value for name, value in one.items() if own.get(name) != value} for one in wanted)
    alike = {repr(sorted(one.items())): one for one in changes if one}
    return list(alike.values()), left


def _changes(offered: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    """All combinations of changes, those of fewer settings first."""
    for count in range(1, len(offered) + 1):
        for names in combinations(offered, count):
            yield from _combined({name: offered[name] for name in names})


def _combined(values: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    return (dict(zip(values, one, strict=True)) for one in product(*values.values()))
