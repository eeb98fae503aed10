#!/usr/bin/env python3
"""Write ``logs/case1_pt.log`` and ``logs/case1_pir.log``: one small subgraph in which one run frees a tensor and the other keeps it.

The pair retells Paddle pull request 66278 in one training step.  A vision transformer runs forward in compiled
subgraphs, with anchors ``START SOT_CALL_n`` in the log.  Subgraph 0 adds two tensors of shape [1, 9216, 96] (3,538,944 bytes
in float32) into a third.  Both runs drop the first summand after the addition.  The PT run drops the second one on leaving the
subgraph's scope; the PIR run keeps it until the backward pass.  Nothing leaks in the end, and yet the peak is higher.

The lines have the shapes of Paddle 3.0 at ``GLOG_v=6`` with ``GLOG_vmodule='auto_g*=10'``, but for the one that names the scope
on leaving it.  Sizes, addresses and chunks are kept by the small allocator below, so they are consistent; times and thread
ids are invented.  Same script, same bytes.

usage: make_examples.py [FOLDER]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

ALIGNMENT = 256
TOKENS = 3_538_944  # [1, 9216, 96] in float32: 96 x 96 patches of 96 channels
HIDDEN = 4 * TOKENS  # the wide layer of the MLP
ATTENTION = 2 * TOKENS  # [192, 96, 96]: 96 stripes x 2 heads


@dataclass
class Clock:
    """Time of day for the line headers, in microseconds, a little later at each line."""

    now_us: int
    step: int = 0

    def tick(self) -> str:
        """The next time stamp, ``hh:mm:ss.uuuuuu``."""
        self.step += 1
        self.now_us += 3 + self.step * 7 % 11
        return f"{self.second()}.{self.now_us % 1_000_000:06d}"

    def second(self) -> str:
        """Where it stands, ``hh:mm:ss``."""
        seconds = self.now_us // 1_000_000
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


@dataclass
class Run:
    """One recorded run: the text of its log so far, and Paddle's auto-growth best-fit allocator behind it.

    Best fit takes the smallest free piece that is large enough, carves the block from its high end, and joins free
    neighbours of one chunk when a block comes back.
    """

    pir: bool
    thread: int
    next_chunk: int
    clock: Clock
    lines: list[str] = field(default_factory=list)
    live: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # name: chunk, address, size
    idle: list[tuple[int, int, int]] = field(default_factory=list)  # size, address, chunk
    allocated: int = 0
    allocated_peak: int = 0
    reserved: int = 0

    def say(self, text: str) -> None:
        """A line that Python prints: no header; what follows comes a little later."""
        self.lines.append(text)
        self.clock.now_us += 1873

    def log(self, place: str, text: str) -> None:
        """A line that Paddle writes through glog."""
        self.lines.append(f"I0710 {self.clock.tick()} {self.thread:5d} {place}] {text}")

    def allocator(self, line: int, text: str) -> None:
        """A line of the allocator."""
        self.log(f"auto_growth_best_fit_allocator.cc:{line}", text)

    def alloc(self, name: str, requested: int) -> None:
        """Give a block to the tensor ``name``."""
        size = -(-requested // ALIGNMENT) * ALIGNMENT
        self.allocator(96, f"Allocate {requested} bytes, aligned to {size}, extra size 0")
        fitting = sorted(piece for piece in self.idle if piece[0] >= size)
        if fitting:
            have, low, chunk = fitting[0]
            self.idle.remove(fitting[0])
            rest = have - size
            if rest:
                self.idle.append((rest, low, chunk))
            self.allocator(107, f"Allocate {size} bytes from chunk size {have}, remaining {rest}")
            address = low + rest
        else:
            granule = 2 << 20 if size >= 1 << 20 else 512  # the device places its chunks at multiples of this
            chunk = address = -(-self.next_chunk // granule) * granule
            self.next_chunk = chunk + size
            self.reserved += size
            self.allocator(159, f"Not found and reallocate {size}({address:#x}), and remaining 0")
        self.live[name] = (chunk, address, size)
        self.allocated += size
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        self.allocator(169, f"Alloc {size} bytes, ptr = {address:#x}")

    def free(self, name: str) -> None:
        """Take the block of the tensor ``name`` back."""
        chunk, address, size = self.live.pop(name)
        self.allocated -= size
        self.allocator(177, f"Free {size} bytes, ptr = {address:#x}")
        low, high = address, address + size
        for piece in list(self.idle):
            if piece[2] == chunk and (piece[1] == high or piece[1] + piece[0] == low):
                self.idle.remove(piece)
                low, high = min(low, piece[1]), max(high, piece[1] + piece[0])
        self.idle.append((high - low, low, chunk))

    def op(self, number: int, kind: str, out: str, size: int, *, drop: tuple[str, ...] = ()) -> None:
        """One operator of a subgraph: it allocates its output, and then the executor drops what nobody needs any more."""
        if self.pir:
            what = f"OP id:{number} name:pd_op.{kind} type:kGpuAsync runs on MainThread"
            self.log("pir_interpreter.cc:1893", f"begin: RunInstructionBase {what}")
            self.alloc(out, size)
            self.log("pir_interpreter.cc:1955", f"done: RunInstructionBase {what}")
        else:
            self.log(
                "program_interpreter.cc:1187",
                f"RunInstruction OP id:{number} name:{kind} type:kGpuAsync runs on MainThread",
            )
            self.log(
                "program_interpreter.cc:931", f"Start run Place(gpu:0) Op({kind}), outputs:{{Out[{out}:[]({{}})()]}}."
            )
            self.alloc(out, size)
            self.log(
                "program_interpreter.cc:1076",
                f"End run Place(gpu:0) Op({kind}), outputs:{{Out[{out}:float({{}})(Place(gpu:0))]}}.",
            )
        interpreter = "pir_interpreter.cc:1811" if self.pir else "program_interpreter.cc:1538"
        for name in drop:
            self.log(interpreter, f"Async delete variable with name : {name}")
            self.free(name)

    def enter(self, call: int) -> None:
        """The anchor that Python prints before a compiled subgraph, and what the framework says on entering it."""
        self.say(f"START SOT_CALL_{call}")
        self.log("run_program_op_func.h:204", "start run run_program ad function.")
        self.log("run_program_op_node.h:601", f"global_inner_scope:{self.scope(call)}")
        if self.pir:
            self.log("pir_interpreter.cc:1418", "New Executor is Running ...")

    def leave(self, call: int, out: str, *, drop: tuple[str, ...] = ()) -> None:
        """The end of a compiled subgraph; ``drop`` goes with the scope."""
        self.log("run_program_op_node.h:302", f"share {out} from scope")
        self.log("run_program_op_node.h:764", "not test, set this scope can not reused")
        for name in drop:
            self.log("scope.cc:202", f"Leave scope {self.scope(call)}, erase variable {name}")
            self.free(name)
        self.log("run_program_op_node.h:1108", "GradNodeRunProgram")

    def scope(self, call: int) -> str:
        """The address of a subgraph's scope, on the host."""
        return f"{0x55D0C3B2A140 + self.thread * 4096 + call * 736:#x}"

    def api(self, name: str) -> None:
        """An operator called from Python outside a subgraph."""
        self.log("dygraph_functions.cc:94539" if self.pir else "dygraph_functions.cc:94533", f"Running AD API: {name}")


def add_branches(run: Run, call: int, block: int) -> None:
    """The subgraph of the case: attention and position branch are summed.  Three blocks of 3,538,944 bytes.

    The summand ``lepe`` is what the two runs treat differently.
    """
    attended, lepe, out = f"matmul_{block}.tmp_0", f"transpose_{block}.tmp_0", f"add_{block}.tmp_0"
    run.enter(call)
    run.op(0, "matmul", attended, TOKENS)
    run.op(1, "transpose", lepe, TOKENS)
    run.op(2, "add", out, TOKENS, drop=(attended,))
    run.leave(call, out, drop=() if run.pir else (lepe,))


def mlp(run: Run, call: int, block: int) -> None:
    """The subgraph after it: both runs do the same."""
    wide, gelu, narrow, out = (f"{name}_{block}.tmp_1" for name in ("linear", "gelu", "linear_out", "residual"))
    run.enter(call)
    run.op(0, "matmul", wide, HIDDEN)
    run.op(1, "gelu", gelu, HIDDEN)
    run.op(2, "matmul", narrow, TOKENS)
    run.op(3, "add", out, TOKENS, drop=(narrow,))
    run.leave(call, out)


def head(run: Run, call: int) -> None:
    """The last subgraph: mean over the patches and the classifier."""
    run.enter(call)
    run.op(0, "mean", "mean_0.tmp_0", 384)
    run.op(1, "matmul", "logits", 4000)
    run.leave(call, "logits")


def setup(run: Run) -> None:
    """Parameters and the input batch."""
    run.log("init.cc:243", "Before Parse: argc is 1, Init commandline: dummy ")
    run.log("auto_growth_best_fit_allocator.cc:64", f"chunk_size_:{ALIGNMENT}")
    parameters = {"patch.w": 56448, "patch.b": 384, "norm.w": 384, "norm.b": 384, "qkv.w": 110592, "proj.w": 36864}
    parameters |= {"fc1.w": 147456, "fc1.b": 1536, "fc2.w": 147456, "fc2.b": 384, "head.w": 384000}
    for name, size in parameters.items():
        run.alloc(name, size)
    run.say("EPOCH START")
    run.alloc("image", 1_769_472)  # [1, 3, 384, 384]
    run.api("conv2d")
    run.alloc("x", TOKENS)


def forward_of_block(run: Run, block: int) -> None:
    """One transformer block: attention by single operators, then two compiled subgraphs."""
    run.api("matmul")
    run.alloc(f"qkv_{block}", 3 * TOKENS)
    run.api("softmax")
    run.alloc(f"attention_{block}", ATTENTION)
    add_branches(run, 2 * block, block)
    mlp(run, 2 * block + 1, block)


def backward(run: Run) -> None:
    """Gradients come, activations go: in the end both runs hold the parameters and the optimizer's state only."""
    run.say("START BACKWARD")
    run.alloc("x@GRAD", TOKENS)
    for name in reversed([name for name in run.live if "_" in name and name != "logits"]):
        if name.startswith("residual"):
            run.log("run_program_op_node.h:1020", "after backward gc all vars")
        run.free(name)
    run.free("logits")
    for name in ("x@GRAD", "x", "image"):
        run.free(name)
    run.say("START OPT")
    run.api("adamw_")
    for name in [name for name in run.live if name.endswith(".w")]:
        _, _, size = run.live[name]
        run.alloc(f"{name} moment1", size)
        run.alloc(f"{name} moment2", size)


def record(*, pir: bool) -> str:
    """The log of one training step, in one of the two modes."""
    run = (
        Run(pir, 4711, 0x7F61D4000000, Clock(36_142_208_117))
        if pir
        else Run(pir, 28846, 0x7FA26A000000, Clock(35_791_904_331))
    )
    setup(run)
    for block in range(2):
        forward_of_block(run, block)
    head(run, 4)
    backward(run)
    mib = 1 << 20
    run.say(
        f"[2024/07/10 {run.clock.second()}] ppcls INFO: [Train][Epoch 1/1][Iter: 0/1]lr(AdamW): 0.00100000, loss: 6.97104, "
        f"max_mem_reserved: {run.reserved // mib} MB, max_mem_allocated: {run.allocated_peak // mib} MB"
    )
    run.say("EPOCH END")
    return "\n".join(run.lines) + "\n"


def main() -> None:
    """Write both logs."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "logs"
    for name, pir in (("case1_pt.log", False), ("case1_pir.log", True)):
        (folder / name).write_bytes(record(pir=pir).encode())


if __name__ == "__main__":
    main()
