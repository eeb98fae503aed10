"""The model against PyTorch's own allocator, on programs of requests by chance."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from torch_allocator import TorchAllocator, folders, snapshot_of, write_snapshot
from torch_allocator.programs import EDGES, MEBIBYTE, mixed

import memlens
from memlens.allocators.engine import prove, replay
from memlens.allocators.history import RequestHistory
from memlens.allocators.torch.caching import CACHING
from memlens.allocators.torch.settings import CONF, Configuration, divisions_of, rounded, whole_values
from memlens.errors import UsageError

pytestmark = pytest.mark.torch

#: With 2.12 the age of segments counts otherwise than before and after.
NOT_MODELLED = ("2.12",)
CONFS = (
    "",
    "expandable_segments:True",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:2,16:8,64:1]",
    "max_split_size_mb:32",
    "max_split_size_mb:64,max_non_split_rounding_mb:30",
    "expandable_segments:True,roundup_power2_divisions:2",
)
POLICIES = ("ascending", "descending", "reuse", "shuffled")


VERSIONS: list[Path | None] = [*folders()]


@pytest.fixture(scope="module", params=VERSIONS or [None], ids=lambda folder: folder.name if folder else "none")
def torch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TorchAllocator:
    """PyTorch's allocator, of each version that there is."""
    if request.param is None:
        pytest.skip("needs PyTorch's allocator for CUDA: MEMLENS_TORCH_CUDA names none")
    if request.param.name.startswith(NOT_MODELLED):
        pytest.skip("a version that is not modelled")
    return TorchAllocator.build(request.param, tmp_path_factory.mktemp("torch") / "built")


def read(output: str, folder: Path, *, stacks: bool = True) -> RequestHistory:
    found = CACHING.history(memlens.read(write_snapshot(folder / "run.pickle", snapshot_of(output, stacks=stacks))))
    assert isinstance(found, RequestHistory)
    return found


def test_programs_are_replayed_to_the_byte(
    torch: TorchAllocator, rounds: Callable[[int], range], tmp_path: Path
) -> None:
    """Recorded from the beginning or later, on several streams, with and without call stacks, wherever segments lie."""
    for seed in rounds(40):
        chance = random.Random(seed)
        lines = mixed(seed, chance.choice((60, 300)), streams=chance.choice((1, 1, 2, 4)), uses=chance.random() < 0.5)
        lines.insert(chance.choice((0, 0, len(lines) // 3)), "h")
        conf, policy = chance.choice(CONFS), chance.choice(POLICIES)
        history = read(torch.run(lines, conf=conf, policy=policy), tmp_path, stacks=chance.random() < 0.7)
        proof = prove(history, CACHING.rules(history, CACHING.recorded(history)))
        assert proof.exact, (seed, conf, policy, proof)


def test_what_a_device_refuses_is_replayed_to_the_byte(
    torch: TorchAllocator, rounds: Callable[[int], range], tmp_path: Path
) -> None:
    for seed in rounds(30):
        chance = random.Random(seed)
        total = chance.choice((300, 500, 900)) * MEBIBYTE
        conf = chance.choice([conf for conf in CONFS if "expandable" not in conf])
        history = read(torch.run(["h", *mixed(seed, 300)], conf=conf, total=total), tmp_path)
        rules = CACHING.rules(history, CACHING.recorded(history))
        assert prove(history, rules).exact, (seed, conf)
        assert prove(replace(history, limit_bytes=total), rules).exact, (seed, conf)


def test_other_settings_are_predicted(torch: TorchAllocator, rounds: Callable[[int], range], tmp_path: Path) -> None:
    """From a run that was recorded from its beginning; new segments lie one above the other in both."""
    for seed in rounds(8):
        lines = ["h", *mixed(seed, 300, streams=2)]
        history = read(torch.run(lines), tmp_path)
        own = {name: value for name, value in CACHING.recorded(history).items() if name == "oldest_segment_first"}
        for conf in CONFS:
            real = read(torch.run(lines, conf=conf), tmp_path)
            got = replay(real, CACHING.rules(real, CACHING.recorded(real)))
            values = {**CACHING.recorded(real), **own, **whole_values({CONF: conf})}
            assert replay(history, CACHING.rules(history, values)).reserved_peak == got.reserved_peak, (seed, conf)


@pytest.mark.parametrize(
    "conf", ["2", "8", "[256:1,512:2,1024:4,2048:8]", "[64:8]", "[1:4,2:8]", "[16:4,4:8]", "[65536:8]", "[1:0,2:1]"]
)
def test_sizes_are_rounded_as_pytorch_rounds_them(conf: str, torch: TorchAllocator) -> None:
    chance = random.Random(conf)
    sizes = sorted({*EDGES, *(int(2 ** chance.uniform(0, 37)) for _ in range(200)), *(1 << k for k in range(37))})
    lines = ["h", *(f"a {number} {size} 0" for number, size in enumerate(sizes))]
    snapshot = snapshot_of(torch.run(lines, conf=f"roundup_power2_divisions:{conf}", total=1 << 46))
    blocks = {block["address"]: block["size"] for segment in snapshot["segments"] for block in segment["blocks"]}
    asked = {entry["addr"]: entry["size"] for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"}
    assert len(asked) == len(sizes)
    want = rounded(np.array(list(asked.values()), np.int64), divisions_of(conf))
    for (addr, size), least in zip(asked.items(), want.tolist(), strict=True):
        # A large block may keep up to 1 MiB.
        assert least <= blocks[addr] <= least + (MEBIBYTE if least > MEBIBYTE else 0), (size, conf)


@pytest.mark.parametrize(
    "conf",
    [
        "expandable_segments:True,max_split_size_mb:21",
        "max_split_size_mb:19",
        "max_split_size_mb:0",
        "garbage_collection_threshold:0.5",
        "garbage_collection_threshold:1.5",
        "expandable_segments:true",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:1",
        "roundup_power2_divisions:[100:2]",
        "roundup_power2_divisions:[128:2,>:1]",
        "no_such_setting:1",
        " expandable_segments : False ,",
    ],
)
def test_what_pytorch_refuses_is_refused(conf: str, torch: TorchAllocator) -> None:
    try:
        torch.run(["a 1 1000 0"], conf=conf)
        taken = True
    except RuntimeError:
        taken = False
    try:
        Configuration.of({CONF: conf})
        ours = True
    except UsageError:
        ours = False
    # For want of a limit 0 is written here.
    assert ours == taken or conf == "max_split_size_mb:0"
