"""``PYTORCH_CUDA_ALLOC_CONF``: what it sets, as text and as numbers; and how large blocks and segments are by it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from msgspec import Meta, Struct, ValidationError, convert, defstruct

from memlens.allocators.models import NO_LIMIT, AllocatorSetting, Value, Values
from memlens.errors import UsageError
from memlens.folding import power_of_two

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from memlens.columns import Ints


#: The variable that holds the others, as ``expandable_segments:True,max_split_size_mb:128``.
CONF = "PYTORCH_CUDA_ALLOC_CONF"
MEBIBYTE = 1 << 20
#: Sizes of 1 MiB … 32 GiB and above may be divided differently, each power of two by itself.
INTERVALS = 16

SETTINGS = (
    AllocatorSetting(
        "expandable_segments",
        "switch",
        False,
        "segments grow page by page instead of being asked for one by one",
        (True,),
    ),
    AllocatorSetting(
        "roundup_power2_divisions",
        "word",
        "",
        "sizes are rounded up to a power of two, or to one of so many steps between two of them: 4, or [256:1,512:2,>:4]",
        ("2", "4", "8"),
    ),
    AllocatorSetting(
        "max_split_size_mb", "mebibytes", 0, "larger blocks are never split; 0: all may be", (64, 128, 256, 512)
    ),
    AllocatorSetting(
        "max_non_split_rounding_mb",
        "mebibytes",
        20,
        "how much larger than the request a block that is not split may be",
    ),
    AllocatorSetting(
        "large_segment_size_mb",
        "mebibytes",
        20,
        "the segment for requests of 1 to 10 MiB, and the page of large expandable ones",
        since="PyTorch 2.11",
    ),
    AllocatorSetting(
        "garbage_collection_threshold",
        "number",
        0.0,
        "above this share of the device's memory old free segments are given back; needs a memory fraction",
    ),
    AllocatorSetting(
        "per_process_memory_fraction", "number", 1.0, "the share of the device's memory that the process may reserve"
    ),
    AllocatorSetting(
        "device_total_mb",
        "mebibytes",
        0,
        "what the device has, for the two shares of it; no setting of PyTorch's",
        settable=False,
    ),
    AllocatorSetting(
        "oldest_segment_first",
        "switch",
        False,
        "among free blocks of one size that of the oldest segment serves (from 2.13 on, found from a trace), not the one at the lowest address; no setting of PyTorch's",
        settable=False,
    ),
    AllocatorSetting(CONF, "word", "", "several of these at once, as PyTorch reads them"),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
#: Settings that no line of PyTorch's sets.
_OUTSIDE = ("device_total_mb", "oldest_segment_first", CONF)
_NAMES = [name for name in _BY_NAME if name not in _OUTSIDE]
#: Keys of the variable that change nothing of where blocks and segments lie.
_WITHOUT_EFFECT = (
    "backend",
    "graph_capture_record_stream_reuse",
    "pinned_free_catch_all",
    "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "throw_on_cudamalloc_oom",
)
_MEBIBYTES = Annotated[int, Meta(ge=0, lt=10**9)]
#: What the values of settings may be, where that is not all that their kind has.
_BOUNDS = {
    "large_segment_size_mb": Annotated[int, Meta(gt=10, lt=10**9)],
    "garbage_collection_threshold": Annotated[float, Meta(ge=0, lt=1)],
    "per_process_memory_fraction": Annotated[float, Meta(ge=0, le=1)],
}
_TYPES = {"switch": bool, "mebibytes": _MEBIBYTES, "word": str}
_Checked: Any = defstruct(
    "_Checked", [(one.name, _BOUNDS.get(one.name) or _TYPES[one.kind], one.default) for one in SETTINGS]
)
_PAIR = re.compile(r"\s*([^:,\[\]]+?)\s*:\s*(\[[^\[\]]*\]|[^:,\[\]]*?)\s*(?:,|$)")
_HINT = f"Write it as {CONF} is written: expandable_segments:True,max_split_size_mb:128."


class Configuration(Struct, frozen=True, eq=False):
    """The settings as numbers; sizes in bytes.

    Attributes:
        expandable: Segments are expandable.
        divisions: Steps from one power of two to the next, by interval, 0 and 1 for none, int64.
        max_split: Blocks of so much and more are not split.
        max_rounding: How much larger than such a request a block may be.
        large_segment: The segment for requests of 1 to 10 MiB, and the page of large expandable segments.
        collect_share: The share of the device above which old segments are given back, 0 for never.
        share: The share of the device that may be reserved, 1 for no such limit.
        total: What the device has, 0 where that is not known.
        oldest_first: Of free blocks of one size that of the oldest segment serves.
    """

    expandable: bool
    divisions: NDArray[np.int64]
    max_split: int
    max_rounding: int
    large_segment: int
    collect_share: float
    share: float
    total: int
    oldest_first: bool

    @classmethod
    def of(cls, values: Values) -> Configuration:
        """The settings, by name; those that are missing have their defaults.

        Raises:
            UsageError: PyTorch would not take them.
        """
        try:
            whole = convert(whole_values(values), _Checked)
        except ValidationError as error:
            raise UsageError(f"the settings make no sense: {error}", _HINT) from None
        large, max_split = whole.large_segment_size_mb, whole.max_split_size_mb
        if max_split and max_split < large:
            raise UsageError(f"max_split_size_mb has to be at least {large}, or 0 for no limit")
        return cls(
            whole.expandable_segments,
            divisions_of(whole.roundup_power2_divisions),
            max_split * MEBIBYTE or NO_LIMIT,
            whole.max_non_split_rounding_mb * MEBIBYTE,
            large * MEBIBYTE,
            whole.garbage_collection_threshold,
            whole.per_process_memory_fraction,
            whole.device_total_mb * MEBIBYTE,
            whole.oldest_segment_first,
        )


def whole_values(values: Values) -> dict[str, Value]:
    """Settings by name, with those that :data:`CONF` holds; a setting that is given by its own name wins.

    Raises:
        UsageError: One is unknown, or the text cannot be read.
    """
    unknown = sorted(values.keys() - _BY_NAME.keys())
    if unknown:
        raise UsageError(f"no setting is called {unknown[0]!r}", f"There are: {', '.join(_BY_NAME)}.")
    held = dict(_pairs(f"{values.get(CONF, '')}".removeprefix(f"{CONF}=").strip("'")))
    return held | {name: value for name, value in values.items() if name != CONF}


def _pairs(text: str) -> Iterator[tuple[str, Value]]:
    at = 0
    while text[at:].strip(" ,"):
        match = _PAIR.match(text, at)
        if match is None:
            raise UsageError(f"{text[:200]!r} cannot be read", _HINT)
        at = match.end()
        name, value = match.groups()
        if name in _NAMES:
            yield name, _typed(_BY_NAME[name], value)
        elif name not in _WITHOUT_EFFECT:
            raise UsageError(f"{CONF} has no setting {name!r}", f"Known are: {', '.join(_NAMES)}.")
        elif name == "backend" and value != "native":
            raise UsageError(f"the backend {value!r} is another allocator", "Only the native one is modelled.")


def _typed(setting: AllocatorSetting, text: str) -> Value:
    """Return the value that a text sets; the text itself where it is nothing that the setting takes, which is then refused."""
    with suppress(ValueError):
        if setting.kind == "switch":
            return {"True": True, "False": False}.get(text, text)
        if setting.kind == "mebibytes":
            return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
        if setting.kind == "number":
            return float(text)
    return text


def divisions_of(text: str) -> NDArray[np.int64]:
    """Steps between two powers of two by interval, from ``4``, from ``[256:1,512:2,>:4]`` (sizes in MiB), or from nothing.

    The first entry holds for all sizes below it, too; sizes between two entries that are no neighbours are left as they are; ``>`` is
    for all above the last one (in PyTorch 2.6 for that one, too).
    """
    found = np.zeros(INTERVALS, np.int64)
    if text.startswith("[") and text.endswith("]"):
        last = -1
        for part in text[1:-1].split(","):
            size, _, count = part.partition(":")
            steps = _power(count.strip(), "steps", zero=True)
            if size.strip() == ">":
                found[max(last, 0) + 1 :] = steps
                continue
            interval = min(_power(size.strip(), "sizes").bit_length() - 1, INTERVALS - 1)
            if last < 0:
                found[:interval] = steps
            found[interval] = steps
            last = interval
    elif text:
        found[:] = _power(text, "steps")
    return found


def _power(text: str, what: str, *, zero: bool = False) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
    if number < 0 or number & (number - 1) or (number == 0 and not zero):
        raise UsageError(
            f"roundup_power2_divisions: the {what} have to be powers of two, not {text[:200]!r}",
            "Write it as 4, or as [256:1,512:2,>:4].",
        )
    return number


def conf_line(values: Values) -> str:
    """The line that sets these: ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``; nothing behind the ``=`` where all are defaults."""
    whole = whole_values(values)
    parts = [
        f"{name}:{whole[name]}"
        for name in _NAMES
        if name in whole and f"{whole[name]}" not in (f"{_BY_NAME[name].default}", "")
    ]
    value = ",".join(parts)
    return f"{CONF}='{value}'" if ">" in value else f"{CONF}={value}"  # a shell would write a file


def recorded_values(settings: Mapping[str, str]) -> dict[str, Value]:
    """The settings of a run by what its snapshot says of the allocator; what it cannot have said has its default.

    The figures are believed before the text: what ``torch.cuda.memory._set_allocator_settings`` set later is in them.
    """
    values: dict[str, Value] = {}
    with suppress(UsageError):  # of a version with other settings, or not written by PyTorch
        values |= whole_values({CONF: settings.get(CONF, "")})
    if settings.get("oldest_segment_first") == "True":
        values["oldest_segment_first"] = True
    if settings.get("expandable_segments") in ("True", "False"):
        values["expandable_segments"] = settings["expandable_segments"] == "True"
    most = settings.get("max_split_size", "")
    if most.isascii() and most.isdigit() and len(most) < 19:
        values["max_split_size_mb"] = int(most) // MEBIBYTE
    share = settings.get("garbage_collection_threshold", "")
    if re.fullmatch(r"0\.\d{1,30}", share):
        values["garbage_collection_threshold"] = float(share)
    steps = [settings.get(f"roundup_power2_divisions.{1 << k}", "") for k in range(INTERVALS)]
    if all(text.isascii() and text.isdigit() and len(text) < 10 for text in steps):
        values["roundup_power2_divisions"] = _as_text([int(text) for text in steps])
    values = {name: value for name, value in values.items() if f"{value}" != f"{_BY_NAME[name].default}"}
    try:
        Configuration.of(values)
    except UsageError:
        return {}
    return values


def _as_text(steps: list[int]) -> str:
    """The text of steps by interval."""
    if len(set(steps)) == 1:
        return f"{steps[0]}" if steps[0] > 1 else ""
    return f"[{','.join(f'{1 << k}:{count}' for k, count in enumerate(steps))}]"


#: Rules 1 to 3: what blocks are multiples of, the largest one of the small pool, its segments, the first size with a segment of its own, what that is a multiple of.
BLOCK, SMALL, SMALL_SEGMENT, OWN_SEGMENT, MULTIPLE = 512, MEBIBYTE, 2 * MEBIBYTE, 10 * MEBIBYTE, 2 * MEBIBYTE
#: Rule 5: the smallest rest that is split off.
SMALL_REST, LARGE_REST = BLOCK, SMALL + 1


def rounded(size: Ints, divisions: Ints) -> Ints:
    """Rule 1: bytes of the blocks for requests of so many bytes, int64.

    Args:
        size: What was asked for, at least 0 and below 2**48.
        divisions: Steps by interval.
    """
    plain = np.maximum(-(-size // BLOCK), 1) * BLOCK
    exponent = power_of_two(np.maximum(size, 1)) - 1
    steps = divisions[np.clip(exponent - 20, 0, len(divisions) - 1)]
    divided = (steps > 1) & (size > BLOCK * steps)
    if not divided.any():
        return plain
    step = np.maximum(np.left_shift(np.int64(1), exponent) // np.maximum(steps, 1), 1)
    return np.where(divided, -(-size // step) * step, plain)


def segment_bytes(block: Ints, large_segment: int) -> Ints:
    """Rule 3: bytes of the segments that are asked for, for blocks of so many bytes, int64."""
    own = -(-block // MULTIPLE) * MULTIPLE
    return np.where(block <= SMALL, SMALL_SEGMENT, np.where(block < OWN_SEGMENT, large_segment, own))
