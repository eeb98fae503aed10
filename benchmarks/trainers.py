"""Seven small training and serving programs of PaddlePaddle, as people write them, and 29 regressions that can be put into them.

    python trainers.py gpt --bad keep_attention --truth truth.json > run.log 2>&1

Each has a fixed seed and prints its steps as common trainers do.  ``REGRESSIONS`` says what each regression is.  The truth
is written beside the log: Paddle's own counters at the peak and at the end of each step, and for each run of the lines that
``at`` encloses, from which byte of the log to which it went and what Paddle counted before and after.  Needs a log that is a
file, not a pipe; prints nothing that a program would not print.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

paddle: Any = importlib.import_module(
    "paddle"
)  # not imported by name: the type checker knows another module of this name
nn, F = paddle.nn, paddle.nn.functional


class Regression(NamedTuple):
    """A change for the worse.

    Attributes:
        kind: ``kept``: blocks that a good run frees, and this one never; ``late``: frees later; ``more``: allocations that
            a good run has not; ``larger``: it has them, smaller.
        spans: The lines that allocate the blocks, as ``at`` names them.
        what: What was done, in a reviewer's words.
    """

    kind: str
    spans: str
    what: str


REGRESSIONS = {
    "mlp:keep_outputs": Regression("kept", "scores", "appends each validation's outputs to a list that nobody reads"),
    "mlp:keep_graph": Regression(
        "kept", "scores loss", "validates without no_grad and keeps the losses with their graphs"
    ),
    "mlp:keep_previous": Regression("late", "hidden", "keeps the hidden layer of the step before: freed one step late"),
    "mlp:best_weights": Regression("more", "copy", "copies all weights after the second epoch and keeps the copy"),
    "conv:keep_features": Regression("kept", "features", "a list keeps the feature maps of each step"),
    "conv:big_batch": Regression("larger", "step9", "step 9 has twice the batch"),
    "conv:retain_graph": Regression("late", "forward", "retain_graph: activations live until the loss is bound anew"),
    "conv:normalise": Regression("more", "normalise", "normalises the images on the device: temporaries in each step"),
    "gpt:keep_attention": Regression("kept", "block", "keeps the attention of the last layer of each step"),
    "gpt:wide_mask": Regression("larger", "mask", "builds the causal mask for each head and row, not once"),
    "gpt:double_logits": Regression("more", "loss", "casts the logits to float64 before the loss"),
    "gpt:average": Regression("more", "average", "keeps an average of the weights from step 6 on"),
    "gpt:keep_evaluation": Regression(
        "kept", "evaluation", "evaluates without no_grad and keeps the losses with their graphs"
    ),
    "gan:no_detach": Regression(
        "late", "fake scores", "the critic sees images that are not detached, and the graph is retained"
    ),
    "gan:keep_samples": Regression(
        "kept", "samples", "keeps the samples that every fourth step draws, with their graphs"
    ),
    "gan:pool": Regression("late", "fake", "a pool of generated images that fills until it has ten batches"),
    "gan:retain_graph": Regression("late", "scores", "retains the critic's graph until the generator's step is over"),
    "lstm:keep_states": Regression("kept", "states", "appends the states of each batch to a list"),
    "lstm:cache": Regression(
        "more", "cache", "caches embedded batches by their length: fills until all lengths were seen"
    ),
    "lstm:pad_to_longest": Regression("larger", "text states", "pads to the longest sentence of all, not of the batch"),
    "lstm:keep_loss": Regression("kept", "loss", "appends the loss tensor, not its value"),
    "serve:keep_sessions": Regression("kept", "concat", "every fourth session is never closed"),
    "serve:prompt_cache": Regression("kept", "prompt", "keeps the first layer's keys of each prompt, without a bound"),
    "serve:all_logits": Regression(
        "larger", "logits", "computes logits for each position of the prompt, not for the last"
    ),
    "serve:keep_old_keys": Regression(
        "late", "prompt concat", "holds the keys of the token before until the next is done"
    ),
    "accumulate:keep_outputs": Regression(
        "late", "out", "collects the outputs of the micro-batches until the optimizer's step"
    ),
    "accumulate:keep_gradients": Regression("late", "backward", "clears gradients to zero instead of freeing them"),
    "accumulate:new_optimizer": Regression(
        "more", "optimizer", "makes a new optimizer at step 6, and the old one stays"
    ),
    "accumulate:long_batch": Regression("larger", "step7", "the third micro-batch of step 7 is three times as large"),
}
core = paddle.base.core
bad: set[str] = set()
chance = np.random.default_rng(11)
#: When the step began and whether it has names, where these are switched on and off; and the seconds of steps with names and without.
switched: list[float] = []
stepped: dict[bool, list[float]] = {True: [], False: []}
switches = np.random.default_rng(5)
spans: dict[str, list[list[int]]] = defaultdict(list)
ends: list[tuple[int, int]] = []
kept: list[Any] = []


def allocated() -> int:
    """Bytes that Paddle counts as allocated."""
    return int(core.device_memory_stat_current_value("Allocated", 0))


@contextlib.contextmanager
def at(name: str) -> Iterator[None]:
    """Write down which bytes of the log the lines within made, and what was allocated before and after."""
    span = [os.lseek(2, 0, os.SEEK_CUR), 0, allocated(), 0]
    yield
    span[1], span[3] = os.lseek(2, 0, os.SEEK_CUR), allocated()
    spans[name].append(span)


def step_ends(line: str) -> None:
    """Print what a trainer prints of a step that is over."""
    ends.append((os.lseek(2, 0, os.SEEK_CUR), allocated()))
    print(line, flush=True)
    if switched:
        switch()


@cache
def operators() -> list[tuple[Any, str, Any, Any]]:
    """Where operators of Paddle stand: a module or a class, a name, what memlens has put there, compiled, and the operator itself."""
    owners = [paddle.Tensor, *(module for name, module in sys.modules.items() if name.startswith("paddle") and module)]
    return [
        (owner, name, value, value.__call__.__self__)
        for owner in owners
        for name, value in list(vars(owner).items())
        if type(value).__module__ == "memlens"
    ]


def switch() -> None:
    """Write down how long the step took this thread, and have the next one with names, or with operators as they were, by chance."""
    stepped[bool(switched[1])].append(time.thread_time() - switched[0])
    switched[1] = on = switches.random() < 0.5
    for owner, name, named, operator in operators():
        setattr(owner, name, named if on else operator)
    for walks in vars(sys.modules["_memlens.program_lines"])["_walks"]:
        walks.on = on
    switched[0] = time.thread_time()


def tensor(*shape: int) -> Any:
    """Noise, on the device."""
    return paddle.to_tensor(chance.standard_normal(shape, dtype="float32"))


def labels(classes: int, *shape: int) -> Any:
    """Class numbers, on the device."""
    return paddle.to_tensor(chance.integers(0, classes, shape))


def mlp(steps: int) -> None:
    """A classifier: epochs of five steps, each followed by a validation; PaddlePaddle's high-level loop prints so."""
    first, rest = nn.Linear(256, 768), nn.Sequential(nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 100))
    weights = [*first.parameters(), *rest.parameters()]
    optimizer = paddle.optimizer.Momentum(1e-2, parameters=weights)
    previous: list[Any] = []
    for epoch in range(steps // 5):
        print(f"Epoch {epoch + 1}/{steps // 5}", flush=True)
        for step in range(5):
            images, classes = tensor(160, 256), labels(100, 160)
            with at("hidden"):
                hidden = first(images)
            loss = F.cross_entropy(rest(hidden), classes)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad(set_to_zero=False)
            if "keep_previous" in bad:
                previous = [hidden]
            value = float(loss)
            del images, classes, hidden, loss
            step_ends(f"step {step + 1:>2}/5 - loss: {value:.4f} - {37 + step}ms/step")
        previous.clear()
        print("Eval begin...", flush=True)
        right = 0.0
        for _ in range(3):
            with contextlib.nullcontext() if "keep_graph" in bad else paddle.no_grad():
                images, classes = tensor(160, 256), labels(100, 160)
                with at("scores"):
                    scores = rest(first(images))
                with at("loss"):
                    loss = F.cross_entropy(scores, classes)
            right += float((scores.argmax(axis=1) == classes).astype("float32").mean()) / 3
            if "keep_outputs" in bad:
                kept.append(scores)
            if "keep_graph" in bad:
                kept.append(loss)
            del images, classes, scores, loss
        if "best_weights" in bad and epoch == 1:
            with at("copy"):
                kept.extend(one.clone() for one in weights)
        print(f"Eval samples: 480 - acc: {right:.4f}", flush=True)


class Pictures(paddle.io.Dataset):  # type: ignore[misc]
    """Images by number."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        one = np.random.default_rng(number)
        return one.standard_normal((3, 32, 32), dtype="float32"), one.integers(0, 10, 1)


def conv(steps: int) -> None:
    """A convolutional net; the loader's own thread puts batches on the device; a line begins each step."""
    width, batch = 24, 16
    stem = nn.Sequential(nn.Conv2D(3, width, 3, padding=1), nn.BatchNorm2D(width), nn.ReLU())
    body = nn.Sequential(
        nn.Conv2D(width, 2 * width, 3, stride=2, padding=1),
        nn.BatchNorm2D(2 * width),
        nn.ReLU(),
        nn.Conv2D(2 * width, 4 * width, 3, stride=2, padding=1),
        nn.BatchNorm2D(4 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2D(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=[*stem.parameters(), *body.parameters()])
    loader = paddle.io.DataLoader(Pictures(steps * batch), batch_size=batch, shuffle=False, num_workers=0)
    for step, batch_of in enumerate(loader):
        images, classes = batch_of
        print(f"[Train][Epoch 1/1][Iter: {step}/{steps}]", flush=True)
        if "big_batch" in bad and step == 9:
            with at("step9"):
                images, classes = paddle.concat([images, images]), paddle.concat([classes, classes])
        if "normalise" in bad:
            with at("normalise"):
                images = (images - images.mean(axis=[0, 2, 3], keepdim=True)) / images.std(axis=[0, 2, 3], keepdim=True)
        with at("forward"), at("step9") if step == 9 else contextlib.nullcontext():
            with at("features"):
                features = stem(images)
            loss = F.cross_entropy(body(features), classes)
        if "keep_features" in bad:
            kept.append(features)
        loss.backward(retain_graph="retain_graph" in bad)
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
        del batch_of, images, classes, features
        step_ends(f"loss: {float(loss):.5f}, lr: 0.001, ips: {900 + step} images/s")


class Block(nn.Layer):  # type: ignore[misc, name-defined]
    """A transformer's block, causal."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.one, self.two = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any, mask: Any) -> tuple[Any, Any]:
        rows, length, width = x.shape
        shape = [rows, length, 3, self.heads, width // self.heads]
        query, key, value = self.qkv(self.one(x)).reshape(shape).transpose([2, 0, 3, 1, 4])
        scores = paddle.matmul(query, key, transpose_y=True) * (width // self.heads) ** -0.5 + mask
        attention = F.softmax(scores)
        mixed = paddle.matmul(attention, value).transpose([0, 2, 1, 3]).reshape([rows, length, width])
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.two(x)))), attention


def gpt(steps: int) -> None:
    """A small language model with an evaluation every sixth step; prints as PaddleNLP does."""
    rows, length, width, heads, words = 4, 64, 96, 4, 2000
    embed, place = nn.Embedding(words, width), nn.Embedding(length, width)
    blocks, head = nn.LayerList([Block(width, heads) for _ in range(2)]), nn.Linear(width, words)
    weights = [one for part in (embed, place, blocks, head) for one in part.parameters()]
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=weights)
    average: list[Any] = []

    def loss_of(text: Any, keep: bool = False) -> Any:
        with at("mask"):
            wide = [rows, heads, length, length] if "wide_mask" in bad else [length, length]
            mask = paddle.triu(paddle.full(wide, -1e4), 1)
        x = embed(text[:, :-1]) + place(paddle.arange(length))
        for block in blocks:
            with at("block"):
                x, attention = block(x, mask)
        if keep:
            kept.append(attention)
        logits = head(x)
        with at("loss"):
            if "double_logits" in bad:
                logits = logits.astype("float64")
            return F.cross_entropy(logits.reshape([-1, words]), text[:, 1:].reshape([-1]))

    for step in range(steps):
        text = labels(words, rows, length + 1)
        loss = loss_of(text, "keep_attention" in bad)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
        if "average" in bad and step >= 6:
            with at("average"), paddle.no_grad():
                average = [old * 0.9 + new * 0.1 for old, new in zip(average or weights, weights, strict=True)]
        value = float(loss)
        del text, loss
        step_ends(
            f"global step {step + 1}, epoch: 0, batch: {step}, loss: {value:.6f}, speed: {4 + step % 3:.2f} step/s"
        )
        if step % 6 == 5:
            with contextlib.nullcontext() if "keep_evaluation" in bad else paddle.no_grad(), at("evaluation"):
                text = labels(words, rows, length + 1)
                loss = loss_of(text)
            print(f"eval loss: {float(loss):.6f}", flush=True)
            if "keep_evaluation" in bad:
                kept.append(loss)
            del text, loss


def gan(steps: int) -> None:
    """Two nets with an optimizer each; prints as the DCGAN example does."""
    rows = 12
    generator = nn.Sequential(
        nn.Conv2DTranspose(32, 48, 4), nn.BatchNorm2D(48), nn.ReLU(),
        nn.Conv2DTranspose(48, 24, 4, stride=2, padding=1), nn.BatchNorm2D(24), nn.ReLU(),
        nn.Conv2DTranspose(24, 3, 4, stride=4), nn.Tanh(),
    )  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2D(3, 24, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
        nn.Conv2D(24, 48, 4, stride=2, padding=1), nn.BatchNorm2D(48), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.Linear(48 * 64, 1),
    )  # fmt: skip
    makes = paddle.optimizer.Adam(2e-4, beta1=0.5, parameters=generator.parameters())
    judges = paddle.optimizer.Adam(2e-4, beta1=0.5, parameters=critic.parameters())
    ones, zeros, fixed = paddle.ones([rows, 1]), paddle.zeros([rows, 1]), tensor(rows, 32, 1, 1)
    pool: deque[Any] = deque(maxlen=10)
    for step in range(steps):
        real = tensor(rows, 3, 32, 32)
        with at("fake"):
            fake = generator(tensor(rows, 32, 1, 1))
        with at("scores"):
            scores = critic(real), critic(fake if "no_detach" in bad else fake.detach())
        losses = [F.binary_cross_entropy_with_logits(*pair) for pair in zip(scores, (ones, zeros), strict=True)]
        loss_d = losses[0] + losses[1]
        loss_d.backward(retain_graph=bool(bad & {"no_detach", "retain_graph"}))
        judges.step()
        judges.clear_grad(set_to_zero=False)
        value_d = float(loss_d)
        if "retain_graph" not in bad:
            del scores, losses, loss_d
        if "no_detach" in bad:
            makes.clear_grad(set_to_zero=False)
        loss_g = F.binary_cross_entropy_with_logits(critic(fake), ones)
        loss_g.backward()
        makes.step()
        makes.clear_grad(set_to_zero=False)
        judges.clear_grad(set_to_zero=False)
        if "retain_graph" in bad:
            del scores, losses, loss_d
        if "pool" in bad:
            pool.append(fake.detach())
        if step % 4 == 3:
            with contextlib.nullcontext() if "keep_samples" in bad else paddle.no_grad(), at("samples"):
                samples = generator(fixed)
            if "keep_samples" in bad:
                kept.append(samples)
            del samples
        value_g = float(loss_g)
        del real, fake, loss_g
        step_ends(f"[0/1][{step}/{steps}]\tLoss_D: {value_d:.4f}\tLoss_G: {value_g:.4f}\tD(x): 0.5")


def lstm(steps: int) -> None:
    """A tagger of sentences of different lengths, a batch as long as its longest sentence."""
    rows, width, words, tags = 12, 64, 1500, 40
    embed, net, head = nn.Embedding(words, width), nn.LSTM(width, 96), nn.Linear(96, tags)
    weights = [one for part in (embed, net, head) for one in part.parameters()]
    optimizer = paddle.optimizer.Adam(1e-3, parameters=weights)
    cache: dict[int, Any] = {}
    for step in range(steps):
        length = int(chance.integers(3, 13)) * 4
        with at("text"):
            text = labels(words, rows, 56 if "pad_to_longest" in bad else length)
        if "cache" in bad:
            with at("cache"):
                cache.setdefault(length, embed(text).detach())
        with at("states"):
            states, _ = net(embed(text))
        with at("loss"):
            loss = F.cross_entropy(head(states).reshape([-1, tags]), (text % tags).reshape([-1]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
        if "keep_states" in bad:
            kept.append(states.detach())
        if "keep_loss" in bad:
            kept.append(loss)
        value = float(loss)
        del text, states, loss
        step_ends(
            f"epoch 0 | {step + 1:>3}/{steps} batches | ms/batch {20 + step % 5}.31 | loss {value:5.2f} | ppl 99.0"
        )


def serve(steps: int) -> None:
    """Sessions with keys and values of their own: a prompt, then token after token; one line a request."""
    width, words, layers = 128, 2000, 3
    embed, head = nn.Embedding(words, width), nn.Linear(width, words)
    keys, values = (nn.LayerList([nn.Linear(width, width) for _ in range(layers)]) for _ in range(2))
    sessions: dict[int, list[Any]] = {}

    def attend(x: Any, key: Any, value: Any) -> Any:
        return x + paddle.matmul(F.softmax(paddle.matmul(x, key, transpose_y=True)), value)

    with paddle.no_grad():
        for number in range(steps):
            length = int(chance.integers(8, 25)) * 8
            x = embed(labels(words, 1, length))
            with at("prompt"):
                state = []
                for layer in range(layers):
                    key, value = keys[layer](x), values[layer](x)
                    state += [key, value]
                    x = attend(x, key, value)
            sessions[number] = state
            if "prompt_cache" in bad:
                kept.append(state[0])
            with at("logits"):
                logits = head(x if "all_logits" in bad else x[:, -1:])
            token = logits[:, -1].argmax(axis=-1)
            old: list[Any] = []
            del key, value, state, logits, x
            for _ in range(3):
                x = embed(token).unsqueeze(1)
                state, fresh = sessions[number], []
                for layer in range(layers):
                    with at("concat"):
                        key = paddle.concat([state[2 * layer], keys[layer](x)], axis=1)
                        value = paddle.concat([state[2 * layer + 1], values[layer](x)], axis=1)
                    if "keep_old_keys" not in bad:
                        state[2 * layer] = state[2 * layer + 1] = None
                    fresh += [key, value]
                    x = attend(x, key, value)
                old = state
                sessions[number] = fresh
                token = head(x)[:, -1].argmax(axis=-1)
            if not ("keep_sessions" in bad and number % 4 == 1):
                del sessions[number]
            del old, state, fresh, key, value, x, token
            step_ends(
                f"INFO: 127.0.0.1 request {number} done: {length} prompt tokens, 3 new tokens, {80 + number % 7} ms"
            )


def accumulate(steps: int) -> None:
    """Gradients of four micro-batches a step; prints as Megatron does."""
    width, words = 128, 1200
    net = nn.Sequential(
        nn.Linear(width, 4 * width),
        nn.GELU(),
        nn.Linear(4 * width, width),
        nn.LayerNorm(width),
        nn.Linear(width, words),
    )
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=net.parameters())
    for step in range(steps):
        total, outputs = 0.0, []
        for micro in range(4):
            rows = 3 * 96 if "long_batch" in bad and (step, micro) == (7, 2) else 96
            x, classes = tensor(rows, width), labels(words, rows)
            with at("out"), at("step7") if (step, micro) == (7, 2) else contextlib.nullcontext():
                out = net(x)
            loss = F.cross_entropy(out, classes) / 4
            with at("backward"):
                loss.backward()
            total += float(loss)
            if "keep_outputs" in bad:
                outputs.append(out)
            del x, classes, out, loss
        if "new_optimizer" in bad and step == 6:
            kept.append(optimizer)
            optimizer = paddle.optimizer.AdamW(1e-4, parameters=net.parameters())
        with at("optimizer"):
            optimizer.step()
        optimizer.clear_grad(set_to_zero="keep_gradients" in bad)
        del outputs
        step_ends(
            f" iteration {step + 1:>8}/{steps:>8} | consumed samples: {384 * (step + 1):>12} | "
            f"elapsed time per iteration (ms): {30 + step % 4}.1 | lm loss: {total:.6E} |"
        )


PROGRAMS = {one.__name__: one for one in (mlp, conv, gpt, gan, lstm, serve, accumulate)}


def main() -> None:
    """Train, and write the truth."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--bad", default="")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument(
        "--switch", action="store_true", help="names of memlens on and off from step to step, by chance"
    )
    given = parser.parse_args()
    if given.switch:
        switched.extend((time.thread_time(), True))
    if given.bad:
        if f"{given.program}:{given.bad}" not in REGRESSIONS:
            parser.error(f"no regression {given.bad} in {given.program}")
        bad.add(given.bad)
    paddle.set_device("hostdev")
    paddle.seed(11)
    begin, worked = time.monotonic(), time.process_time()
    PROGRAMS[given.program](given.steps)
    figures = {
        "program": given.program,
        "bad": given.bad,
        "seconds": round(time.monotonic() - begin, 2),
        "processor_seconds": round(time.process_time() - worked, 3),
        "peak": int(core.device_memory_stat_peak_value("Allocated", 0)),
        "reserved_peak": int(core.device_memory_stat_peak_value("Reserved", 0)),
        "allocated": allocated(),
        "ends": ends,
        "spans": spans,
        "seconds_with_names": stepped[True],
        "seconds_without": stepped[False],
    }
    given.truth.write_text(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
