"""Context lines: the lines that say which operator runs, and so what the allocations after them are blamed on.

The regular expressions are the definition, seen in real logs of Paddle 2.6 to 3.3; ``owner`` is the operator as the framework
names it.  The lines of the C++ API are left out: they stand inside those read here and only add a counter to the name.  So are
lines that come after the work (``Finish_AD_API``, ``done: RunInstructionBase``, ``After launching op_name``).

A context line belongs to the thread of the nearest glog header before it.  As a rule that one stands right before the text; where
the message begins with a line break, it ends the line above.
"""

from __future__ import annotations

from memlens.scanner.formats import LineFormat

#: Looked ahead at, so that a line torn in the middle of a name does not hide the text that another one begins there.
_OWNER = r"(?=(?P<owner>[A-Za-z0-9_.<>]{1,64}))"
_MEANS = {"owner": "the operator that runs from here on"}
_BANNER = "=" * 26

CALL = LineFormat(
    name="api_call",
    layer="eager",
    literal=b"Running",
    regex=rf"(?:={{26}})?Running(?:_AD_API(?:_GRAD|_Grad)?| AD API(?: GRAD| Grad)?): {_OWNER}",
    means=_MEANS,
    samples=(
        f"{_BANNER}Running_AD_API: <owner=conv2d>{_BANNER}",
        f"{_BANNER}Running_AD_API_GRAD: <owner=reshape_grad>{_BANNER}",
        f"{_BANNER}Running_AD_API_Grad: <owner=GradNodeAccumulation>{_BANNER}",
        "I1120 10:54:54.176385 14189 dygraph_functions.cc:1775] Running AD API: <owner=adamw_>",
        "nodes.cc:29774] Running AD API GRAD: <owner=mean_all_grad>",
        "accumulation_node.cc:157] Running AD API Grad: GradNodeAccumulation",
    ),
    traps=(
        f"{_BANNER}Finish_AD_API: conv2d{_BANNER}",
        f"{_BANNER}Running_C++_API: conv2d8{_BANNER}",
        "dygraph_functions.cc:1893] Finish AD API: adamw_",
        "dygraph_functions.cc:1833] Running C++ API: adamw_",
        "eager_op_function.cc:955] Running Eager Final State API: adamw_",
        "Running AD API: ",
    ),
)

NODE = LineFormat(
    name="backward_node",
    layer="eager",
    literal=b"Running Eager Backward Node: ",
    regex=rf"Running Eager Backward Node: {_OWNER}",
    means=_MEANS,
    samples=(
        (
            "I1120 10:54:54.205667 14189 run_program_op_node.h:1131] Running Eager Backward Node:"
            " <owner=GradNodeRunProgram>"
        ),
    ),
    traps=(
        "run_program_op_node.h:1179] End Eager Backward Node: GradNodeRunProgram: Ptr 0x5619134aaac0",
        "backward.cc:164] Node: GradNodeBase addr:0x5619, Found pending node: GradNodeRunProgram",
    ),
)

INSTRUCTION = LineFormat(
    name="instruction",
    layer="executor",
    literal=b" OP id:",
    # The executor of the old representation says so before the work; that of the new one, from 3.0 on, with "begin: ".
    regex=rf"(?:RunInstruction|begin: RunInstructionBase) OP id:[0-9]{{1,15}} name:{_OWNER}",
    means=_MEANS,
    samples=(
        (
            "I1120 10:54:54.189160 14189 program_interpreter.cc:1187] RunInstruction OP id:0 name:<owner=conv2d>"
            " type:kGpuAsync runs on MainThread"
        ),
        "begin: RunInstructionBase OP id:12 name:<owner=pd_op.batch_norm_> type:kGpuAsync runs on MainThread",
    ),
    traps=(
        "done: RunInstructionBase OP id:12 name:pd_op.relu type:kGpuAsync runs on MainThread",
        "new_ir_interpreter.cc:1200] RunInstructionBase OP id:12 name:pd_op.relu type:kGpuAsync runs on MainThread",
        "program_interpreter.cc:1187] RunInstruction OP id: name:conv2d",
    ),
)

KERNEL = LineFormat(
    name="kernel_run",
    layer="executor",
    literal=b"Start run Place(",
    # The executor of the old representation says this of every run, also of the first, which it does while it builds its list.
    regex=r"Start run Place\([A-Za-z0-9_:]{1,24}\) Op\((?=(?P<owner>[A-Za-z0-9_.<>]{1,64})\), inputs)",
    means=_MEANS,
    samples=(
        (
            "I1120 10:54:54.120337 14189 interpreter_util.cc:731] Start run Place(hostdev:0) Op(<owner=conv2d>),"
            " inputs:{Filter[conv2d_0.w_0:float[16]]}"
        ),
        "Start run Place(gpu_pinned) Op(<owner=matmul_v2_grad>), inputs:{}",
    ),
    traps=(
        "interpreter_util.cc:1088] End run Place(hostdev:0) Op(conv2d), inputs:{Filter[conv2d_0.w_0:float[16]]}",
        "Start run Place(hostdev:0) Op(), inputs:{}",
    ),
)

PREPARING = LineFormat(
    name="backward_operator",
    layer="eager",
    literal=b") Preparing",
    # What GLOG_vmodule='b*=3' says of each operator of the backward pass.
    regex=r"\b(?=(?P<owner>[A-Za-z0-9_.<>]{1,64})\(0x)[A-Za-z0-9_.<>]{1,64}\(0x[0-9a-f]{1,16}\) Preparing",
    means=_MEANS,
    samples=("I1120 10:54:54.205667 14189 backward.cc:459] <owner=MatmulGradNode>(0x5619134aaac0) Preparing ",),
    traps=(
        "backward.cc:459] MatmulGradNode(0x) Preparing",
        "backward.cc:459] (0x5619134aaac0) Preparing",
        "backward.cc:444] RunBackward: Start_up_ops's size is 1",
    ),
)

PREPARING_30 = LineFormat(
    name="backward_operator_30",
    layer="eager",
    literal=b"Preparing GradNode:",
    # The same up to PaddlePaddle 3.0.
    regex=r"Preparing GradNode:(?=(?P<owner>[A-Za-z0-9_.<>]{1,64}) addr:0x)",
    means=_MEANS,
    samples=(
        "I1126 03:12:13.612586 23316 backward.cc:257] Preparing GradNode:<owner=MeanAllGradNode> addr:0x5579cdee0500",
    ),
    traps=("Preparing GradNode: addr:0x5579cdee0500", "Preparing GradNode:MeanAllGradNode addr:"),
)

#: What a program line says after a call: what is allocated from here on is not its own.
NOBODY = "-"
#: The call of a backward pass: the operator of the program's line, and a frame of the lines that hooks call within it.
BACKWARD = "run_backward"
PROGRAM = LineFormat(
    name="program_line",
    layer="program",
    literal=b"memlens calls ",
    # Written by memlens.recording.inside.program_lines.
    regex=r"\bmemlens calls (?P<owner>[^\r\n]{1,240})",
    means={"owner": "the operator that is called, and the lines of the program that call it; - after the call"},
    samples=(
        "I1120 10:54:54.176385 14189 line.py:0] memlens calls <owner=matmul < mlp.py:25 forward < train.py:13 main>",
        "I1120 10:54:54.176411 14189 line.py:0] memlens calls <owner=->",
    ),
    traps=("line.py:0] memlens calls ", "I1120 10:54:54.176411 14189 line.py:0] memlens called -"),
)

HOLDER = LineFormat(
    name="holder",
    layer="program",
    literal=b"memlens holds 0x",
    # Written by memlens.recording.inside.program_lines, too.
    regex=r"\bmemlens holds (?P<addr>0x[0-9a-f]{1,16}) (?P<holder>[^\r\n]{1,240})",
    means={
        "addr": "the address of a block that is live here",
        "holder": "the role of its tensor, and the variable that holds it",
    },
    samples=(
        (
            "I1120 10:54:54.176411 14189 line.py:0] memlens holds <addr=0x5606f8aeb000> <holder=variable feats[*] (main,"
            " train.py)>"
        ),
        # After a walk that saw all.
        "I1120 10:54:54.176411 14189 line.py:0] memlens holds <addr=0x0> <holder=->",
    ),
    traps=("memlens holds 0x5606f8aeb000", "memlens holds 0x variable feats[*] (main, train.py)"),
)

#: Everything read as a context line without being asked for.
FORMATS = (CALL, NODE, PREPARING, PREPARING_30, INSTRUCTION, KERNEL, PROGRAM)
