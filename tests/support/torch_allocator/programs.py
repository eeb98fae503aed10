"""Programs of requests, as ``program.cpp`` reads them."""

from __future__ import annotations

import random

MEBIBYTE = 1 << 20
#: Sizes at the edges of what the allocator tells apart.
EDGES = (
    1,
    512,
    513,
    70_000,
    600_000,
    MEBIBYTE,
    MEBIBYTE + 1,
    *(size * MEBIBYTE for size in (2, 3, 9, 10, 11, 19, 20, 33, 64, 65, 150)),
)
EDGES = (*EDGES, 5 * MEBIBYTE + 17, 21 * MEBIBYTE + 5, 50_000_000, 100_000_000)


def mixed(seed: int, steps: int, *, streams: int = 1, uses: bool = False, pools: bool = False) -> list[str]:
    """Requests and frees by chance, the cache emptied now and then.

    Args:
        seed: What chance draws by.
        steps: How many lines.
        streams: On so many streams.
        uses: Blocks are used on other streams, so that their frees complete later.
        pools: Requests go to private pools now and then.
    """
    chance = random.Random(seed)
    sizes = chance.sample(EDGES, chance.randrange(4, len(EDGES)))
    sizes += [chance.randrange(1, 40 * MEBIBYTE) for _ in range(5)]
    most = chance.choice((10, 30, 60))
    lines: list[str] = []
    live: list[int] = []
    while len(lines) < steps:
        what = chance.random()
        if not live or (what < 0.5 and (len(live) <= most or what > 0.4)):
            live.append(len(lines) + 1)
            lines.append(f"a {live[-1]} {chance.choice(sizes)} {8192 * chance.randrange(streams)}")
        elif what < 0.96:
            lines.append(f"f {live.pop(chance.randrange(len(live)))}")
        elif what < 0.97:
            lines.append("e")
        elif pools and what < 0.98:
            lines.append(f"p {chance.randrange(3)}")
        elif uses:
            lines.append(f"u {chance.choice(live)} {8192 * 5}" if what < 0.99 else f"d {chance.randrange(2)}")
    return lines


def training(seed: int, *, layers: int = 6, steps: int = 6) -> list[str]:
    """The training of a model of some layers: weights, in each step what the layers keep for a batch of another length, their gradients, and an optimizer's state."""
    chance = random.Random(seed)
    lines: list[str] = []

    def ask(size: int) -> int:
        lines.append(f"a {len(lines) + 1} {size} 0")
        return len(lines)

    def free(*blocks: int) -> None:
        lines.extend(f"f {block}" for block in blocks)

    widths = [chance.randrange(200, 2000) for _ in range(layers)]
    weights = [ask(4 * width * width) for width in widths]
    moments: list[int] = []
    for step in range(steps):
        length = chance.randrange(100, 1000)
        kept = []
        for width in widths:
            temporary = ask(4 * length * 4 * width)
            kept.append((ask(4 * length * width), ask(length * width)))
            free(temporary)
        loss = ask(4)
        gradients = []
        for width, (activation, mask) in zip(widths[::-1], kept[::-1], strict=True):
            temporary = ask(4 * length * width)
            gradients.append(ask(4 * width * width))
            free(activation, mask, temporary)
        if not step:
            moments = [ask(4 * width * width) for width in widths for _ in range(2)]
        free(loss, *gradients)
    free(*moments, *weights)
    return lines
