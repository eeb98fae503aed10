"""A training loop on Paddle's host-memory device: its steps are marked with memlens, and Paddle's own counters stand before each mark.

Each counter's peak starts anew at a mark, so that the peaks before the next mark are those of the window between the two.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

import memlens

paddle = importlib.import_module("paddle")  # not imported by name: the type checker knows another module of this name
core = importlib.import_module("paddle.base.core")


def say_counters() -> None:
    """Print allocated and reserved bytes, now and at most since the last mark, as Paddle counts them; the peaks begin anew."""
    figures = []
    for kind in ("Allocated", "Reserved"):
        figures += [core.device_memory_stat_current_value(kind, 0), core.device_memory_stat_peak_value(kind, 0)]
        core.device_memory_stat_reset_peak_value(kind, 0)
    sys.stderr.write(f"COUNTERS {' '.join(map(str, figures))}\n")
    sys.stderr.flush()


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    steps = parser.parse_args().steps
    sys.stdout.write(f"PROCESS {os.getpid()}\n")
    paddle.set_device("hostdev")
    paddle.seed(7)
    width = 64
    net = paddle.nn.Sequential(paddle.nn.Linear(width, 4 * width), paddle.nn.ReLU(), paddle.nn.Linear(4 * width, 8))
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=net.parameters())
    kept = []
    for step in range(steps):
        say_counters()
        memlens.mark(f"STEP {step}")
        rows = 16 * (step + 1)  # so that no two steps have one figure
        images, labels = paddle.ones([rows, width]), paddle.zeros([rows], dtype="int64")
        say_counters()
        with memlens.window("forward"):
            scores = net(images)
            loss = paddle.nn.functional.cross_entropy(scores, labels)
            say_counters()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        kept.append(scores.detach().clone())  # a leak, so that the ends of the steps differ
        del images, labels, scores, loss
    say_counters()
    memlens.mark("TRAINED")


if __name__ == "__main__":
    main()
